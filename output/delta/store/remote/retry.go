package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// effect is what a failed request can have done.
type effect int

const (
	// none: the service refused, and would again.
	none effect = iota
	// again: the service did nothing, and may do it when asked again.
	again
	// unknown: nobody knows. The request may have been done, or may still be.
	unknown
)

// effectOf is the one place that decides about errors of requests.
func effectOf(err error) effect {
	var response *ResponseError
	if !errors.As(err, &response) {
		return unknown // no answer, or half of one
	}
	switch response.Kind {
	case Busy:
		return again
	case Absent, Present:
		return none
	}
	switch response.Code {
	case "RequestTimeout", "IncompleteBody", "BadDigest":
		return again // the service did not receive all of the request
	case "RequestTimeTooSkewed":
		return again // the client has learned the service's clock from this answer
	}
	switch response.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return unknown // throttled; most likely nothing was done, but who knows
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return none
	}
	if response.Status >= 500 {
		return unknown
	}
	return none
}

// Options are the choices of a Bucket. The zero value is ready to use.
type Options struct {
	// Attempts is how often a request is made at most; default 6.
	Attempts int
	// Pause is the pause after the first attempt; it doubles up to 40 times
	// itself, and a random half of it is left out. Default 50 ms.
	Pause time.Duration
	// Timeout bounds one request with its answer, of at most 16 MiB; default 2 min.
	Timeout time.Duration
	// PartBytes is the size of the parts of an upload, and twice that the memory
	// that a Writer takes. A multiple of 256 KiB, and 5 MiB at least for S3;
	// default 8 MiB.
	PartBytes int
	// Unordered says that the service does not list in byte order.
	Unordered bool
	// NewID makes marks, no two the same; default random UUIDs.
	NewID func() string
}

const (
	defaultAttempts = 6
	defaultPause    = 50 * time.Millisecond
	longestPause    = 40
	defaultTimeout  = 2 * time.Minute
	defaultPart     = 8 << 20
)

// retry makes a request until it succeeds, is refused for good, or was made often
// enough. do reads the answer to its end.
func (b *Bucket) retry(ctx context.Context, do func(context.Context) error) error {
	for n := 1; ; n++ {
		err := b.once(ctx, do)
		if err == nil || effectOf(err) == none || n >= b.o.Attempts {
			return err
		}
		if waitErr := b.pause(ctx, n); waitErr != nil {
			return waitErr
		}
	}
}

// once makes one attempt, with a time of its own.
func (b *Bucket) once(ctx context.Context, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	attempt, cancel := context.WithTimeout(ctx, b.o.Timeout)
	defer cancel()
	err := do(attempt)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w (%w)", ctx.Err(), clean(err))
	case attempt.Err() != nil:
		return fmt.Errorf("no answer within %s", b.o.Timeout)
	}
	return clean(err)
}

// clean takes the URL out of an error: it can hold a signature.
func clean(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return fmt.Errorf("%s request: %w", failed.Op, failed.Err)
	}
	return err
}

// pause waits after the nth attempt, counted from 1.
func (b *Bucket) pause(ctx context.Context, n int) error {
	longest := b.o.Pause * time.Duration(min(longestPause, 1<<min(n-1, 10)))
	timer := time.NewTimer(longest/2 + rand.N(longest/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explain adds what was being done, and turns absence into store.ErrNotFound.
func explain(doing, path string, err error) error {
	var response *ResponseError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &response) && response.Kind == Absent:
		return fmt.Errorf("%s %s: %w", doing, path, store.ErrNotFound)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}
