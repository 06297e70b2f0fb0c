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
	return func(yield func(commit[T], error) bool) {
		if from > to {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()

		read := func(version int64) answer[T] {
			content, err := readCommit(ctx, st, version, decode)
			return answer[T]{content, err}
		}
		version := from
		for c := range inOrder(ctx, &wg, from, to, read) {
			a := <-c
			if a.err != nil {
				yield(commit[T]{}, a.err)
				return
			}
			if !yield(commit[T]{version, a.content}, nil) {
				return
			}
			version++
		}
		if err := ctx.Err(); err != nil && version <= to {
			yield(commit[T]{}, err)
		}
	}
}

// answer is what reading a commit gave.
type answer[T any] struct {
	content T
	err     error
}

// question is a version to be read and where its answer goes.
type question[T any] struct {
	version int64
	to      chan answer[T]
}

// inOrder reads versions with a fixed number of goroutines, which keep their stacks, and returns the channels of the
// answers in the order of the versions. The goroutines are in wg and end with the context or the last version.
func inOrder[T any](ctx context.Context, wg *sync.WaitGroup, from, to int64, read func(version int64) answer[T]) <-chan chan answer[T] {
	questions := make(chan question[T])
	pending := make(chan chan answer[T], parallelReads)
	for range min(parallelReads, to-from+1) {
		wg.Go(func() {
			for q := range questions {
				q.to <- read(q.version)
			}
		})
	}
	wg.Go(func() {
		defer close(pending)
		defer close(questions)
		for version := from; version <= to; version++ {
			q := question[T]{version, make(chan answer[T], 1)}
			select {
			case questions <- q:
			case <-ctx.Done():
				return
			}
			select {
			case pending <- q.to:
			case <-ctx.Done():
				return
			}
		}
	})
	return pending
}
