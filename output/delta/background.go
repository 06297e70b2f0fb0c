package delta

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Upkeep is work that keeps a table in shape, beside checkpoints: package
// maintain has one. It belongs to one Table, which runs it on its one background
// goroutine after commits, never while a checkpoint is being written.
type Upkeep interface {
	// Due reports whether Run has something to do at a version. It is asked after
	// every commit, while others wait, possibly by several goroutines at a time: it
	// must not do any input or output, nor call the Table. It must be false after
	// Run until something new has come up, whether Run succeeded or not.
	Due(s *Snapshot) bool

	// Run does the work. The context ends as soon as the Table is closed. Commits
	// are allowed, closing the Table is not. What goes wrong is Run's to tell.
	Run(ctx context.Context)
}

// background is the one goroutine that a Table may have.
type background struct {
	ctx    context.Context // the table's life: checkpoints
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// upkeep may be nil; open is its context, which ends with closing.
	upkeep Upkeep
	open   context.Context
	stop   context.CancelFunc

	mu      sync.Mutex
	closed  bool
	running bool
	// notBefore is the version below which no checkpoint is tried: a failed one
	// is not repeated with every commit.
	notBefore int64
}

// start prepares the background of a table; nothing runs yet.
func (b *background) start(ctx context.Context, t *Table) {
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.open, b.stop = context.WithCancel(b.ctx)
	if t.o.Upkeep != nil {
		b.upkeep = t.o.Upkeep(t)
	}
}

// task is what the background does next.
type task int

const (
	nothing task = iota
	writeCheckpoint
	doUpkeep
)

// task is what is due at a version. The caller holds mu.
func (b *background) task(t *Table, s *Snapshot) task {
	switch {
	case b.closed:
		return nothing
	case t.due(s) && s.Version() >= b.notBefore:
		return writeCheckpoint
	case b.upkeep != nil && b.upkeep.Due(s):
		return doUpkeep
	default:
		return nothing
	}
}

// afterCommit starts what is due in the background, unless something runs there
// already: that looks again when it has finished.
func (t *Table) afterCommit() {
	b := &t.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return
	}
	next := b.task(t, t.Snapshot())
	if next == nothing {
		return
	}
	b.running = true
	b.wg.Go(func() {
		for next != nothing {
			t.do(next)
			next = b.next(t)
		}
	})
}

// next says what is due after a task: commits that came meanwhile found the
// goroutine running.
func (b *background) next(t *Table) task {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := b.task(t, t.Snapshot())
	b.running = next != nothing
	return next
}

func (t *Table) do(next task) {
	b := &t.background
	if next == doUpkeep {
		b.upkeep.Run(b.open)
		return
	}
	result, err := t.backgroundCheckpoint(b.ctx, t.due)
	t.tell(result, err)
	if err != nil {
		b.mu.Lock()
		b.notBefore = result.Version + retryAfterCommits
		b.mu.Unlock()
	}
}

// tell reports a checkpoint that was written, or was not for an error.
func (t *Table) tell(result CheckpointResult, err error) {
	if t.o.OnCheckpoint != nil && (err != nil || result.Actions > 0) {
		result.Err = err
		t.o.OnCheckpoint(result)
	}
}

// Close stops the upkeep, waits until a checkpoint that is being written is done,
// and writes one if this Table has committed and opening the table would take
// reading ten commits or more otherwise. It gives that up when the context ends.
// Snapshots stay usable, and so do commits. Close may be called again.
func (t *Table) Close(ctx context.Context) error {
	b := &t.background
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	b.stop()

	done := make(chan struct{})
	go func() { // ends with the background goroutine, which is told to stop below
		b.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		b.cancel()
		<-done
		return fmt.Errorf("closing table %s: background work given up: %w", t.st.URL(), ctx.Err())
	}
	b.cancel()
	if !again && t.committed.Load() && t.dueAtClose(t.Snapshot()) {
		t.tell(t.backgroundCheckpoint(ctx, t.dueAtClose))
	}
	return nil
}

// Now is the time by the table's clock.
func (t *Table) Now() time.Time { return t.o.Now() }
