package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// PutIfAbsent implements store.Store. The first call on a bucket proves that its
// service has conditional writes.
func (s *Store) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	key, err := s.key(path)
	if err != nil {
		return store.NotDone(err)
	}
	if err := s.Probe(ctx); err != nil {
		return store.NotDone(err)
	}
	if err := s.create(ctx, key, data); err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	return nil
}

// create makes the object. The error is store.ErrExists if somebody else's is
// there, has store.ErrNotDone in its chain if certainly nothing was written, and
// leaves it open otherwise.
func (b *Bucket) create(ctx context.Context, key string, data []byte) error {
	mark := b.o.NewID()
	open := false // an earlier attempt may have been done, or may still be
	for n := 1; ; n++ {
		if err := ctx.Err(); err != nil {
			return notDone(open, err)
		}
		err := b.once(ctx, func(ctx context.Context) error {
			return b.b.Put(ctx, key, data, PutOptions{IfAbsent: true, Mark: mark})
		})
		var response *ResponseError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &response) && response.Kind == Present:
			return b.whose(ctx, key, mark, open)
		}
		effect := effectOf(err)
		open = open || effect == unknown
		if effect == none || n >= b.o.Attempts {
			return notDone(open, err)
		}
		if waitErr := b.pause(ctx, n); waitErr != nil {
			return notDone(open, errors.Join(waitErr, err))
		}
	}
}

func notDone(open bool, err error) error {
	if open {
		return err
	}
	return store.NotDone(err)
}

// whose decides whether an object that is in the way is our own. It can be only if
// an earlier attempt was left open.
func (b *Bucket) whose(ctx context.Context, key, mark string, open bool) error {
	if !open {
		return store.ErrExists
	}
	var found string
	err := b.retry(ctx, func(ctx context.Context) (err error) {
		found, err = b.b.Mark(ctx, key)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("reading back whose object it is: %w", err)
	case found == mark:
		return nil
	}
	return store.ErrExists
}

// proof is what is known of conditional writes: err is nil or a
// *store.ConditionalPutError.
type proof struct{ err error }

// probePrefix begins the names of the objects that Probe writes. Readers of a
// table's log ignore them.
const probePrefix = "_delta_log/.probe-"

// Probe implements store.Prober. One proof holds for all stores in the bucket.
func (s *Store) Probe(ctx context.Context) error {
	select {
	case s.probing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.probing }()
	if s.proof == nil {
		err := s.probe(ctx)
		var refused *store.ConditionalPutError
		if err != nil && !errors.As(err, &refused) {
			return fmt.Errorf("finding out whether %s has conditional writes: %w", s.url, err)
		}
		s.proof = &proof{err}
	}
	return s.proof.err
}

func (s *Store) probe(ctx context.Context) error {
	path := probePrefix + s.o.NewID()
	key := s.root + path
	without := func(err error) error { return &store.ConditionalPutError{URL: s.url, Err: err} }

	var response *ResponseError
	err := s.create(ctx, key, []byte("1"))
	switch {
	case errors.Is(err, store.ErrExists):
		return without(errors.New("the condition was taken the other way round: a new object was refused"))
	case errors.As(err, &response) && response.Status == http.StatusNotImplemented:
		return without(err)
	case err != nil:
		return err
	}
	err = s.create(ctx, key, []byte("2"))
	switch {
	case err == nil:
		err = without(errors.New("the condition was ignored: a second write replaced the first"))
	case errors.Is(err, store.ErrExists):
		err = nil
	}
	// What was found out stands, whether the object can be deleted or not: a
	// listing of the log ignores it.
	_ = s.delete(context.WithoutCancel(ctx), path)
	return err
}
