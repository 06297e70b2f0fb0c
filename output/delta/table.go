package delta

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

const (
	// trustFor is how long the newest version seen is taken to be in the log
	// still. After that its successors may have been committed and cleaned up, so
	// that asking for the next commit proves nothing.
	trustFor = 5 * time.Minute

	// maxProbes is how many commits Refresh reads one by one before it lists the
	// log and reads the rest in parallel.
	maxProbes = 8
)

// ErrTableReplaced reports that another table has taken the place of the opened
// one: it was deleted and made anew, or restored from a copy.
var ErrTableReplaced = errors.New("the table was replaced by another")

// Table is an opened table. All methods may be used from many goroutines;
// commits of one Table go one after the other.
type Table struct {
	st store.Store
	o  Options

	snap atomic.Pointer[Snapshot]
	// verified is when the log was last known to hold the newest snapshot's
	// version, in nanoseconds since the epoch by Options.Now.
	verified atomic.Int64

	// commits is the right to commit; a channel, so that waiting for it can end
	// with the context.
	commits chan struct{}
	// unresolved are attempts of this Table whose outcome nobody knows. Guarded
	// by commits.
	unresolved map[string]unresolved
	// fences are the versions that this Table last committed as Change.Fenced, by
	// application id. Guarded by commits.
	fences map[string]int64

	// committed says that this Table has made a commit.
	committed  atomic.Bool
	background background
}

// unresolved is an attempt whose outcome was unknown when Commit returned.
type unresolved struct {
	// version is the one it can have become.
	version int64
	// appID is that of its fenced transaction, "" for none.
	appID string
}

// Open opens the table in a store at its newest version. The error is
// ErrNotTable if there is no table, and a FeatureError if it must not be read.
// Whether it may be written to is checked when that is asked for.
func Open(ctx context.Context, st store.Store, o Options) (*Table, error) {
	t := newTable(ctx, st, o)
	at := t.o.Now()
	s, err := loadSnapshot(ctx, st, replay.Latest)
	if err != nil {
		return nil, fmt.Errorf("opening table %s: %w", st.URL(), err)
	}
	t.publish(s)
	t.verify(at)
	return t, nil
}

func newTable(ctx context.Context, st store.Store, o Options) *Table {
	t := &Table{
		st:         st,
		o:          o.withDefaults(),
		commits:    make(chan struct{}, 1),
		unresolved: map[string]unresolved{},
		fences:     map[string]int64{},
	}
	t.background.start(ctx, t)
	return t
}

// Store is the store the table is in.
func (t *Table) Store() store.Store { return t.st }

// StorePath is where the store has a file that the log names: the path relative to
// the table's root, decoded. A file outside of the root is an error.
func (t *Table) StorePath(logPath string) (string, error) { return t.storePath(logPath) }

// CheckWritable reports why this library must not change the table as it is now,
// or nil.
func (t *Table) CheckWritable() error { return t.Snapshot().readOnly }

// Snapshot is the newest version this Table has seen: by opening, refreshing, or
// committing. It never goes back.
func (t *Table) Snapshot() *Snapshot { return t.snap.Load() }

// publish makes s the newest snapshot unless a newer one is known, and returns
// the newest. The newest checkpoint known is kept, whoever brings it.
func (t *Table) publish(s *Snapshot) *Snapshot {
	for {
		have := t.snap.Load()
		if have != nil {
			switch {
			case s.Version() < have.Version():
				return have
			case have.checkpointVersion() > s.checkpointVersion():
				s = s.withCheckpoint(have.seg.Checkpoint)
			case s.Version() == have.Version() && have.checkpointVersion() == s.checkpointVersion():
				return have
			}
		}
		if t.snap.CompareAndSwap(have, s) {
			return s
		}
	}
}

func (t *Table) verify(at time.Time) { t.verified.Store(at.UnixNano()) }

func (t *Table) trusted() bool {
	return t.o.Now().Sub(time.Unix(0, t.verified.Load())) < trustFor
}

// FileActions yields the live files and the tombstones, which are the removed files
// that the table still remembers, as Files yields the live ones.
func (s *Snapshot) FileActions(ctx context.Context) iter.Seq2[replay.FileAction, error] {
	return s.fileActions(ctx)
}

// CheckpointVersion is the version of the checkpoint that the snapshot is read from;
// false if there is none.
func (s *Snapshot) CheckpointVersion() (int64, bool) {
	version := s.checkpointVersion()
	return version, version >= 0
}

// Refresh reads the commits made since the newest snapshot and returns the
// newest version.
func (t *Table) Refresh(ctx context.Context) (*Snapshot, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("refreshing table %s: %w", t.st.URL(), err)
	}
	return s, nil
}

func (t *Table) refresh(ctx context.Context) (*Snapshot, error) {
	if !t.trusted() {
		return t.reload(ctx)
	}
	s := t.Snapshot()
	for range maxProbes {
		at := t.o.Now()
		c, err := replay.ReadSummary(ctx, t.st, s.Version()+1)
		if errors.Is(err, store.ErrNotFound) {
			t.verify(at)
			return t.publish(s), nil
		}
		if err != nil {
			return nil, err
		}
		if s, err = s.next(c); err != nil {
			return nil, err
		}
		s = t.publish(s)
	}
	return t.reload(ctx)
}

// reload finds the newest version by listing the log, and reads what the newest
// snapshot lacks.
func (t *Table) reload(ctx context.Context) (*Snapshot, error) {
	have, at := t.Snapshot(), t.o.Now()
	seg, err := replay.Load(ctx, t.st, replay.Latest)
	if err != nil {
		return nil, err
	}
	if seg.Version < have.Version() {
		// Another goroutine may have published a commit made after the listing
		// began; have was read before it, so the log did go back.
		return nil, fmt.Errorf("%w: it went back from version %d to %d", ErrTableReplaced, have.Version(), seg.Version)
	}
	state, before := have.state, have
	if same, err := t.stillThere(ctx, seg, have); err != nil {
		return nil, err
	} else if !same {
		state, before = replay.State{}, nil
		if state, err = replay.Replay(ctx, t.st, seg); err != nil {
			return nil, err
		}
	}
	if state, err = replay.Advance(ctx, t.st, state, seg); err != nil {
		return nil, err
	}
	s, err := newSnapshot(t.st, seg, state, before)
	if err != nil {
		return nil, err
	}
	if before, after := have.state.Metadata.ID, s.state.Metadata.ID; before != after {
		return nil, fmt.Errorf("%w: its id changed from %s to %s", ErrTableReplaced, before, after)
	}
	s = t.publish(s)
	t.verify(at)
	return s, nil
}

// stillThere reports whether the log holds the very commit that a snapshot ends
// with, and all after it. Versions alone do not tell: another table may have
// taken the place of ours.
func (t *Table) stillThere(ctx context.Context, seg replay.Segment, s *Snapshot) (bool, error) {
	if seg.FirstCommit() > s.Version()+1 || s.state.TxnID == "" {
		return false, nil
	}
	c, err := replay.ReadSummary(ctx, t.st, s.Version())
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && c.TxnID == s.state.TxnID, err
}

// At is the table at a version. replay.ErrNoVersion if it does not have it, or
// no longer.
func (t *Table) At(ctx context.Context, version int64) (*Snapshot, error) {
	if s := t.Snapshot(); s.Version() == version {
		return s, nil
	}
	if version < 0 {
		return nil, fmt.Errorf("reading version %d of table %s: %w", version, t.st.URL(), ErrNoVersion)
	}
	s, err := loadSnapshot(ctx, t.st, version)
	if err != nil {
		return nil, fmt.Errorf("reading version %d of table %s: %w", version, t.st.URL(), err)
	}
	return s, nil
}

// Commits yields the table's history in ascending order: every version from the
// given one on that is still in the log as a commit, up to the newest when the
// iteration begins. A from below the oldest begins with the oldest. On an error
// the sequence yields that once and ends.
func (t *Table) Commits(ctx context.Context, from int64) iter.Seq2[Commit, error] {
	return func(yield func(Commit, error) bool) {
		first, last, err := replay.CommitRange(ctx, t.st, from)
		if err != nil {
			yield(Commit{}, fmt.Errorf("reading the history of table %s: %w", t.st.URL(), err))
			return
		}
		for e, err := range replay.Commits(ctx, t.st, first, last) {
			if err != nil {
				yield(Commit{}, fmt.Errorf("reading the history of table %s: %w", t.st.URL(), err))
				return
			}
			if !yield(commitOf(e.Version, e.Commit), nil) {
				return
			}
		}
	}
}

func commitOf(version int64, c action.Commit) Commit {
	out := Commit{Version: version, Txns: c.Txns, Adds: len(c.Adds), Removes: len(c.Removes)}
	if c.Info != nil {
		out.Info = *c.Info
	}
	return out
}
