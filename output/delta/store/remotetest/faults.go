package remotetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

// Opener makes an empty place in a service and returns a function that opens a
// store there; every call is a program of its own, with its own connections. The
// requests go through the client, and the choices are to be used.
type Opener func(t *testing.T) (open func(client *http.Client, o remote.Options) store.Store)

// PartBytes is the size of parts in tests, where the service takes so small ones.
const PartBytes = 256 << 10

// Options are choices for tests: quick, and with small parts.
func Options() remote.Options {
	return remote.Options{Pause: time.Millisecond, PartBytes: PartBytes, Timeout: 20 * time.Second}
}

// Contract is the Opener for storetest.Run.
func Contract(opener Opener) storetest.Opener {
	return func(t *testing.T) func() store.Store {
		open := opener(t)
		return func() store.Store { return open(&http.Client{}, Options()) }
	}
}

// client has a transport that fails.
func client(decide func(*http.Request, int) Fault) *http.Client {
	return &http.Client{Transport: NewTransport(decide)}
}

// isPut tells a conditional write of a commit from what else goes to the service.
func isPut(req *http.Request, part string) bool {
	if req.Method != http.MethodPut && req.Method != http.MethodPost {
		return false
	}
	text := req.URL.String()
	return strings.Contains(text, part) || req.Method == http.MethodPost && strings.Contains(text, "ifGenerationMatch=0")
}

// Service is in what services differ.
type Service struct {
	// Busy is the answer that says that a conditional write was in another's way and
	// not done; nil if there is none.
	Busy *Fault
	// PartBytes is the size of parts if the service wants more than PartBytes; 0 if
	// not.
	PartBytes int
	// Signed says that the condition is signed, and that the service looks: nobody on
	// the way can drop it.
	Signed bool
}

// RunFaults runs the faults.
func RunFaults(t *testing.T, opener Opener, service Service) {
	for _, c := range createCases(service.Busy) {
		t.Run("create: "+c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, opener(t))
		})
	}
	t.Run("writers of the same bytes", func(t *testing.T) { t.Parallel(); sameBytes(t, opener(t)) })
	t.Run("torn answers", func(t *testing.T) { t.Parallel(); tornReads(t, opener(t)) })
	t.Run("failing reads are not absence", func(t *testing.T) { t.Parallel(); notAbsence(t, opener(t)) })
	t.Run("an upload whose answers are lost", func(t *testing.T) { t.Parallel(); uploads(t, opener(t), cmp.Or(service.PartBytes, PartBytes)) })
	if !service.Signed {
		t.Run("an ignored condition is found out", func(t *testing.T) { t.Parallel(); ignored(t, opener(t)) })
	}
}

// createCase is a conditional write with faults. The commit is made by a client
// whose requests for it meet the faults in turn; when they are used up, requests
// pass.
type createCase struct {
	name   string
	faults []Fault
	// other is written by somebody else before the request of that number; 0 never.
	other int
	// limit is the time of a request; 0 for that of Options.
	limit time.Duration
	want  func(t *testing.T, err error)
	// object is what is there in the end, "" for nothing.
	object string
}

const (
	mine   = "mine"
	others = "somebody else's"
	commit = "_delta_log/00000000000000000001.json"
)

func createCases(busy *Fault) []createCase {
	won := func(t *testing.T, err error) { require.NoError(t, err) }
	lost := func(t *testing.T, err error) { require.ErrorIs(t, err, store.ErrExists) }
	unknown := func(t *testing.T, err error) {
		require.Error(t, err)
		require.NotErrorIs(t, err, store.ErrExists)
		require.NotErrorIs(t, err, store.ErrNotDone)
	}
	refused := func(t *testing.T, err error) { require.ErrorIs(t, err, store.ErrNotDone) }
	const limit = time.Second
	dropped, gone := Fault{Err: ErrInjected}, Fault{Err: ErrInjected, Done: true}
	always := func(f Fault) []Fault { return []Fault{f, f, f, f, f, f} } // as often as is tried
	cases := []createCase{
		{name: "the answer is lost", faults: []Fault{gone}, want: won, object: mine},
		{name: "the answer is lost twice", faults: []Fault{gone, gone}, want: won, object: mine},
		{name: "the request is lost", faults: []Fault{dropped}, want: won, object: mine},
		{name: "the request is lost and somebody else wins", faults: []Fault{dropped}, other: 2, want: lost, object: others},
		{name: "the answer is lost after somebody else won", faults: []Fault{gone}, other: 1, want: lost, object: others},
		{name: "500 though it was done", faults: []Fault{{Status: 500, Done: true}}, want: won, object: mine},
		{name: "500 and 503", faults: []Fault{{Status: 500}, {Status: 503}, {Status: 503}}, want: won, object: mine},
		{name: "429", faults: []Fault{{Status: 429}, {Status: 429}}, want: won, object: mine},
		{name: "a late answer", faults: []Fault{{Delay: 3 * limit}}, limit: limit, want: won, object: mine},
		{name: "403", faults: []Fault{{Status: 403}}, want: refused},
		{name: "403 after a lost answer", faults: []Fault{gone, {Status: 403}}, want: unknown, object: mine},
		{name: "no request arrives", faults: always(dropped), want: unknown},
		{name: "no answer arrives", faults: always(gone), want: unknown, object: mine},
		{name: "somebody else has it", other: 1, want: lost, object: others},
	}
	if busy != nil {
		cases = append(cases,
			createCase{name: "busy", faults: []Fault{*busy, *busy}, want: won, object: mine},
			createCase{name: "busy and somebody else wins", faults: []Fault{*busy}, other: 2, want: lost, object: others},
			createCase{name: "busy all the time", faults: always(*busy), want: refused},
		)
	}
	return cases
}

func (c createCase) run(t *testing.T, open func(*http.Client, remote.Options) store.Store) {
	plain := open(&http.Client{}, Options())
	var n int
	armed := false // the proof comes first
	o := Options()
	o.Timeout = cmp.Or(c.limit, o.Timeout)
	s := open(client(func(req *http.Request, _ int) Fault {
		if !armed || !isPut(req, ".json") {
			return Fault{}
		}
		n++
		f := Fault{}
		if n <= len(c.faults) {
			f = c.faults[n-1]
		}
		if n == c.other {
			f.Run = func() { require.NoError(t, plain.Put(t.Context(), commit, []byte(others))) }
		}
		return f
	}), o)
	require.NoError(t, store.Probe(t.Context(), s))
	armed = true
	c.want(t, s.PutIfAbsent(t.Context(), commit, []byte(mine)))
	got, err := plain.Get(t.Context(), commit)
	if c.object == "" {
		require.ErrorIs(t, err, store.ErrNotFound)
		return
	}
	require.NoError(t, err)
	require.Equal(t, c.object, string(got))
}

// sameBytes: the content does not tell whose an object is.
func sameBytes(t *testing.T, open func(*http.Client, remote.Options) store.Store) {
	const writers = 4
	for round := range 10 {
		path := fmt.Sprintf("_delta_log/%020d.json", round)
		var wg sync.WaitGroup
		errs := make([]error, writers)
		for w := range writers {
			s := open(client(func(req *http.Request, _ int) Fault {
				if isPut(req, ".json") && w%2 == 0 {
					return Fault{Err: ErrInjected, Done: round%2 == 0}
				}
				return Fault{}
			}), Options())
			wg.Go(func() { errs[w] = s.PutIfAbsent(t.Context(), path, []byte("the same")) })
		}
		wg.Wait()
		won := 0
		for w, err := range errs {
			switch {
			case err == nil:
				won++
			case w%2 != 0: // those that never fail know
				require.ErrorIs(t, err, store.ErrExists)
			}
		}
		require.LessOrEqual(t, won, 1)
	}
}

func tornReads(t *testing.T, open func(*http.Client, remote.Options) store.Store) {
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	require.NoError(t, open(&http.Client{}, Options()).Put(t.Context(), "data", data))
	s := open(client(func(_ *http.Request, n int) Fault { return Fault{Tear: n%2 == 1} }), Options())
	got, err := s.Get(t.Context(), "data")
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	o, err := s.Open(t.Context(), "data")
	require.NoError(t, err)
	require.EqualValues(t, len(data), o.Size())
	for _, at := range []int64{0, 5, 100_000, o.Size() - 10, o.Size() - 70_000} {
		part := make([]byte, 1000)
		n, err := o.ReadAt(part, at)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
		}
		require.Equal(t, string(data[at:min(int(at)+1000, len(data))]), string(part[:n]))
	}
	require.NoError(t, o.Close())
	for info, err := range s.List(t.Context(), "", "") {
		require.NoError(t, err)
		require.Equal(t, "data", info.Path)
	}
	torn := open(client(func(*http.Request, int) Fault { return Fault{Tear: true} }), Options())
	_, err = torn.Get(t.Context(), "data")
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotFound)
}

// notAbsence: absence of the next commit means that a table has no newer version.
func notAbsence(t *testing.T, open func(*http.Client, remote.Options) store.Store) {
	for _, f := range []Fault{{Status: 500}, {Status: 503}, {Status: 403}, {Status: 400}, {Err: ErrInjected}, {Err: ErrInjected, Done: true}} {
		s := open(client(func(*http.Request, int) Fault { return f }), Options())
		_, err := s.Get(t.Context(), commit)
		require.Error(t, err)
		require.NotErrorIs(t, err, store.ErrNotFound, "%+v", f)
		_, err = s.Open(t.Context(), commit)
		require.NotErrorIs(t, err, store.ErrNotFound, "%+v", f)
		for _, err := range s.List(t.Context(), "_delta_log/", "") {
			require.Error(t, err)
		}
		require.Error(t, s.Delete(t.Context(), commit))
	}
}

// uploads sends an object in parts while one request after the other, or its
// answer, is lost.
func uploads(t *testing.T, open func(*http.Client, remote.Options) store.Store, partBytes int) {
	o := Options()
	o.PartBytes = partBytes
	plain := open(&http.Client{}, o)
	data := bytes.Repeat([]byte("abcdefghijklmnop"), (2*partBytes+partBytes/2)/16)
	for _, f := range []Fault{{Err: ErrInjected, Done: true}, {Err: ErrInjected}, {Status: 503}, {Status: 500, Done: true}} {
		for k := 1; ; k++ {
			var reached bool
			s := open(client(func(_ *http.Request, n int) Fault {
				if n == k {
					reached = true
					return f
				}
				return Fault{}
			}), o)
			path := fmt.Sprintf("data/%d", k)
			require.NoError(t, write(t, s, path, data), "request %d: %+v", k, f)
			got, err := plain.Get(t.Context(), path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, got), "request %d", k)
			if !reached {
				require.Greater(t, k, 3)
				break
			}
		}
	}
	broken := open(client(func(req *http.Request, _ int) Fault {
		return Fault{Err: errIf(req.Method != http.MethodDelete)}
	}), o)
	require.Error(t, write(t, broken, "never", data))
	_, err := plain.Get(t.Context(), "never")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func errIf(failing bool) error {
	if failing {
		return ErrInjected
	}
	return nil
}

func write(t *testing.T, s store.Store, path string, data []byte) error {
	w, err := s.Create(t.Context(), path)
	require.NoError(t, err)
	for chunk := range chunks(data, 100_000) {
		if _, err := w.Write(chunk); err != nil {
			return errors.Join(err, w.Abort())
		}
	}
	return w.Close()
}

func chunks(data []byte, size int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(size, len(data))
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

// ignored: behind a proxy that drops the condition nothing is written.
func ignored(t *testing.T, open func(*http.Client, remote.Options) store.Store) {
	s := open(&http.Client{Transport: dropCondition{}}, Options())
	err := s.PutIfAbsent(t.Context(), commit, []byte(mine))
	var refused *store.ConditionalPutError
	require.ErrorAs(t, err, &refused)
	require.ErrorIs(t, err, store.ErrNotDone)
	require.ErrorContains(t, err, "If-None-Match")
	require.ErrorAs(t, store.Probe(t.Context(), s), &refused)
	for info, err := range open(&http.Client{}, Options()).List(t.Context(), "", "") {
		require.NoError(t, err)
		t.Errorf("%s was left", info.Path)
	}
}

type dropCondition struct{}

func (dropCondition) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("If-None-Match")
	query := req.URL.Query()
	if query.Has("ifGenerationMatch") {
		query.Del("ifGenerationMatch")
		req.URL.RawQuery = query.Encode()
	}
	return http.DefaultTransport.RoundTrip(req)
}
