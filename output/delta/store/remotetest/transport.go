// Package remotetest is what every provider of package remote must pass beside
// package storetest: faults of the network and of the service, and a Delta table
// with several writers. It is for tests only.
package remotetest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// ErrInjected is in the chain of errors that a Transport makes up.
var ErrInjected = errors.New("injected fault")

// Fault is what happens to a request. The zero Fault lets it pass.
type Fault struct {
	// Err is returned, and Status answered, instead of what the service says.
	Err    error
	Status int
	// Body is the body of an answer with Status.
	Body string
	// Done lets the service do the request before: its answer is lost.
	Done bool
	// Tear cuts the body of the service's answer after half of it.
	Tear bool
	// Delay is how long the answer takes.
	Delay time.Duration
	// Run, if not nil, is called before everything.
	Run func()
}

// Transport is a network that fails as it is told.
type Transport struct {
	base   http.RoundTripper
	decide func(req *http.Request, n int) Fault

	mu       sync.Mutex
	requests []string // method and path
}

// NewTransport makes a transport that asks decide before each request, with the
// number of the request from 1 on.
func NewTransport(decide func(req *http.Request, n int) Fault) *Transport {
	return &Transport{base: http.DefaultTransport, decide: decide}
}

// Requests are the requests so far, as "METHOD /path".
func (t *Transport) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string{}, t.requests...)
}

// Random fails with a probability: requests are lost before or after they were
// done, are answered 500 or 503, or their answers are torn.
func Random(seed uint64, rate float64) func(*http.Request, int) Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(*http.Request, int) Fault {
		mu.Lock()
		defer mu.Unlock()
		if rng.Float64() >= rate {
			return Fault{}
		}
		faults := []Fault{
			{Err: ErrInjected}, {Err: ErrInjected, Done: true}, {Status: 500, Done: true},
			{Status: 503}, {Tear: true}, {Delay: 5 * time.Millisecond},
		}
		return faults[rng.IntN(len(faults))]
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.mu.Lock()
	t.requests = append(t.requests, req.Method+" "+req.URL.Path)
	n := len(t.requests)
	t.mu.Unlock()
	f := t.decide(req, n)
	if f.Run != nil {
		f.Run()
	}
	made := f.Err != nil || f.Status != 0
	var response *http.Response
	var err error
	if !made || f.Done {
		if response, err = t.base.RoundTrip(req); err != nil {
			return nil, err
		}
	}
	if f.Delay > 0 {
		timer := time.NewTimer(f.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			return nil, errors.Join(req.Context().Err(), drop(response))
		}
	}
	switch {
	case !made && f.Tear:
		return tear(response)
	case !made:
		return response, nil
	case f.Err != nil:
		return nil, errors.Join(f.Err, drop(response))
	}
	if err := drop(response); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(f.Status), StatusCode: f.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/xml"}}, ContentLength: int64(len(f.Body)),
		Body: io.NopCloser(bytes.NewReader([]byte(f.Body))), Request: req,
	}, nil
}

// drop reads an answer and throws it away.
func drop(response *http.Response) error {
	if response == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// tear gives half of the body and then what a broken connection gives.
func tear(response *http.Response) (*http.Response, error) {
	data, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	if len(data) > 0 {
		response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(data[:len(data)/2]), broken{}))
	} else {
		response.Body = io.NopCloser(bytes.NewReader(nil))
	}
	return response, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.Join(ErrInjected, io.ErrUnexpectedEOF) }
