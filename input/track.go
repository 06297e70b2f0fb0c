package input

import (
	"sync"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
)

// tracker follows the windows of one table from the first message to the last
// acknowledgement. Windows resolve in any order; the acknowledged state moves
// over them in order only. It is safe for concurrent use.
type tracker struct {
	mu    sync.Mutex
	state checkpoint.State // acknowledged
	queue []*pending       // windows on their way, in order

	snapshotOnSwitch bool
}

// pending is a window on its way.
type pending struct {
	window    mssqlcdc.Window
	rows      int64
	instance  mssqlcdc.CaptureInstance
	messages  int          // handed out
	acked     int          // acknowledged of those
	snapshot  mssqlcdc.LSN // of which it is a chunk; zero for a window
	through   mssqlcdc.LSN // of a chunk: max_lsn after it was read
	clock     time.Time    // and the server's clock
	complete  bool         // the last part was handed out
	abandoned bool         // a read error or a nack ended it: its acknowledgements mean nothing
}

func (p *pending) resolved() bool { return p.complete && p.acked == p.messages }

func newTracker(state checkpoint.State) *tracker { return &tracker{state: state} }

// acknowledged returns the resume position.
func (t *tracker) acknowledged() checkpoint.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// open starts a window, or a chunk of the snapshot, behind what is on its way.
func (t *tracker) open(window mssqlcdc.Window, instance mssqlcdc.CaptureInstance, snapshot mssqlcdc.LSN) *pending {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &pending{window: window, instance: instance, snapshot: snapshot}
	t.queue = append(t.queue, p)
	return p
}

// handOut counts a message of the window. The last one brings the exact end. A
// window without messages (rows of a quiet table) is complete with zero of them.
func (t *tracker) handOut(p *pending, messages int, rows int64, last bool, window mssqlcdc.Window) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.messages += messages
	p.rows += rows
	if last {
		p.window, p.complete = window, true
	}
}

// through records max_lsn and the server's clock as they were after a chunk was read.
func (t *tracker) through(p *pending, lsn mssqlcdc.LSN, clock time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.through, p.clock = lsn, clock
}

// abandon takes a window out whose read failed: it will be read again.
func (t *tracker) abandon(p *pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.abandoned = true
	for i, q := range t.queue {
		if q == p {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			return
		}
	}
}

// rewind forgets every window on its way and returns the state to go on from.
func (t *tracker) rewind() checkpoint.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.queue {
		p.abandoned = true
	}
	t.queue = nil
	return t.state
}

// ack counts one acknowledged message (none for settle alone) and moves the state
// over every window that is resolved. It tells whether the state moved.
func (t *tracker) ack(p *pending, messages int) (checkpoint.State, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.abandoned {
		return t.state, false
	}
	p.acked += messages
	moved := false
	for len(t.queue) > 0 && t.queue[0].resolved() {
		t.advance(t.queue[0])
		t.queue = t.queue[1:]
		moved = true
	}
	return t.state, moved
}

func (t *tracker) advance(p *pending) {
	if !p.snapshot.IsZero() {
		if open := t.state.Snapshot; open.LSN == p.snapshot { // and not one that was given up
			t.state.Snapshot = open.Advance(p.rows, p.through, p.clock)
		}
		return
	}
	if p.window.Start != p.window.End { // otherwise its time may be that of a commit before
		t.state.LSN, t.state.CommitTime = p.window.End, p.window.EndTime
	}
	if open := t.state.Snapshot; open != nil && !open.Holds(p.window.End, p.window.EndTime) {
		t.state.Snapshot = open.Cover()
	}
	if p.rows > 0 {
		t.state.DataLSN = p.window.End
	}
	if t.snapshotOnSwitch && t.state.Instance != p.instance.Name {
		t.state.SnapshotDue = true
	}
	t.state.Instance = p.instance.Name
	t.state.InstanceCreated = p.instance.CreateDate
	t.state.InstanceStart = p.instance.StartLSN
}

// openSnapshot begins a snapshot. One that a loss asks for begins the table's next
// generation.
func (t *tracker) openSnapshot(open *checkpoint.Snapshot) checkpoint.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !open.OnSwitch {
		t.state.Generation++
	}
	t.state.Snapshot, t.state.SnapshotDue = open, false
	return t.state
}

// plan records where the next chunk of the snapshot ends, before it is read.
func (t *tracker) plan(to []*string, final bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state.Snapshot = t.state.Snapshot.Plan(to, final)
}

// flight counts what is on its way to the output and blocks the stream at the
// limit. It is safe for concurrent use.
type flight struct {
	mu      sync.Mutex
	count   int
	limit   int
	changed chan struct{} // closed and replaced when count falls
}

func newFlight(limit int) *flight { return &flight{limit: limit, changed: make(chan struct{})} }

// tryAdd takes n places, or says what to wait for. One batch always goes.
func (f *flight) tryAdd(n int) (wait <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count > 0 && f.count+n > f.limit {
		return f.changed, false
	}
	f.count += n
	return nil, true
}

func (f *flight) done(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count -= n
	close(f.changed)
	f.changed = make(chan struct{})
}

// empty says whether nothing is on its way, or what to wait for.
func (f *flight) empty() (wait <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed, f.count == 0
}

// backoff grows from first to most by doubling.
type backoff struct {
	first, most time.Duration
	next        time.Duration
}

func (b *backoff) step() time.Duration {
	wait := max(b.next, b.first)
	b.next = min(2*wait, b.most)
	return wait
}

func (b *backoff) reset() { b.next = 0 }
