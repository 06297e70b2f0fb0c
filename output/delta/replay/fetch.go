package replay

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// parallelReads is how many commits are read at once. Object stores answer one
// request in tens of milliseconds but many at the same time.
const parallelReads = 16

// commit is a decoded commit.
type commit[T any] struct {
	version int64
	content T
}

// ReadCommit reads one version's commit. store.ErrNotFound is in the chain if
// there is none.
func ReadCommit(ctx context.Context, st store.Store, version int64) (action.Commit, error) {
	return readCommit(ctx, st, version, action.DecodeCommit)
}

// ReadSummary is ReadCommit for the summary only.
func ReadSummary(ctx context.Context, st store.Store, version int64) (action.Summary, error) {
	return readCommit(ctx, st, version, action.DecodeSummary)
}

func readCommit[T any](ctx context.Context, st store.Store, version int64, decode func([]byte) (T, error)) (T, error) {
	var none T
	data, err := st.Get(ctx, CommitPath(version))
	if err != nil {
		return none, fmt.Errorf("reading commit %d: %w", version, err)
	}
	content, err := decode(data)
	if err != nil {
		return none, fmt.Errorf("reading commit %d: %w", version, err)
	}
	return content, nil
}

// Entry is one version's commit.
type Entry struct {
	Version int64
	Commit  action.Commit
}

// Commits yields the commits from one version to another, both included, in
// order. On an error it yields that once and ends.
func Commits(ctx context.Context, st store.Store, from, to int64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for c, err := range fetch(ctx, st, from, to, action.DecodeCommit) {
			if !yield(Entry{Version: c.version, Commit: c.content}, err) {
				return
			}
		}
	}
}

// fetch reads and decodes the commits from one version to another in parallel
// and yields them in order. On an error it yields that once and ends.
func fetch[T any](ctx context.Context, st store.Store, from, to int64, decode func([]byte) (T, error)) iter.Seq2[commit[T], error] {
	type result struct {
		content T
		err     error
	}
	return func(yield func(commit[T], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()

		pending := make(chan chan result, parallelReads)
		wg.Go(func() {
			defer close(pending)
			for version := from; version <= to; version++ {
				answer := make(chan result, 1)
				select {
				case pending <- answer:
				case <-ctx.Done():
					return
				}
				wg.Go(func() {
					content, err := readCommit(ctx, st, version, decode)
					answer <- result{content, err}
				})
			}
		})
		version := from
		for answer := range pending {
			r := <-answer
			if r.err != nil {
				yield(commit[T]{}, r.err)
				return
			}
			if !yield(commit[T]{version, r.content}, nil) {
				return
			}
			version++
		}
		if err := ctx.Err(); err != nil && version <= to {
			yield(commit[T]{}, err)
		}
	}
}
