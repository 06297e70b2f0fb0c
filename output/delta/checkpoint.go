package delta

import (
	"context"
	"fmt"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
)

// Checkpoint writes a checkpoint of the newest version seen, unless there is one.
// Checkpoints are only for speed: opening the table then reads the checkpoint
// and the commits after it, instead of all commits. Normally they are written in
// the background, after every so many commits; see Options.CheckpointInterval.
func (t *Table) Checkpoint(ctx context.Context) error {
	_, err := t.checkpoint(ctx)
	return err
}

func (t *Table) checkpoint(ctx context.Context) (CheckpointResult, error) {
	start := time.Now()
	s := t.Snapshot()
	result := CheckpointResult{Version: s.Version()}
	if s.checkpointVersion() == s.Version() {
		return result, nil
	}
	if s.readOnly != nil {
		return result, fmt.Errorf("checkpointing table %s: %w", t.st.URL(), s.readOnly)
	}
	expiry := t.o.Now().Add(-fileRetention(s.state.Metadata.Configuration)).UnixMilli()
	last, err := replay.WriteCheckpoint(ctx, t.st, s.state, s.seg, plainRoot(t.st), expiry)
	result.Took = time.Since(start)
	if err != nil {
		return result, fmt.Errorf("checkpointing table %s: %w", t.st.URL(), err)
	}
	result.Actions = last.Size
	t.useCheckpoint(last.CheckpointInfo())
	return result, nil
}

// useCheckpoint makes the newest snapshot read from a checkpoint.
func (t *Table) useCheckpoint(c replay.Checkpoint) {
	for {
		s := t.Snapshot()
		if c.Version > s.Version() || c.Version <= s.checkpointVersion() {
			return
		}
		if t.snap.CompareAndSwap(s, s.withCheckpoint(&c)) {
			return
		}
	}
}

// due reports whether the commits since the last checkpoint are enough for a new
// one. A large table waits longer: its checkpoints cost more, and a commit more
// to read costs less in comparison.
func (t *Table) due(s *Snapshot) bool {
	if t.o.CheckpointInterval < 0 {
		return false
	}
	interval := checkpointInterval(s.state.Metadata.Configuration, t.o.CheckpointInterval)
	interval = max(interval, (s.NumFiles()+s.state.Tombstones)/actionsPerExtraCheckpoint)
	return s.Version()-s.checkpointVersion() >= interval
}

// maybeCheckpoint starts a checkpoint in the background if it is due and none is
// running.
func (t *Table) maybeCheckpoint() {
	s := t.Snapshot()
	if !t.due(s) {
		return
	}
	b := &t.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.running || s.Version() < b.notBefore {
		return
	}
	b.running = true
	b.wg.Go(func() {
		for more := true; more; {
			result, err := t.backgroundCheckpoint(b.ctx)
			if t.o.OnCheckpoint != nil && (err != nil || result.Actions > 0) {
				result.Err = err
				t.o.OnCheckpoint(result)
			}
			more = b.next(result.Version, err, func() bool { return t.due(t.Snapshot()) })
		}
	})
}

// next says, after a checkpoint, whether another is due already: commits that
// came while it was written found it running.
func (b *background) next(version int64, err error, due func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.notBefore = version + retryAfterCommits
	}
	b.running = err == nil && !b.closed && due()
	return b.running
}

// retryAfterCommits is how many commits a failed checkpoint waits.
const retryAfterCommits = 10

// backgroundCheckpoint writes a checkpoint, unless another writer of the table
// has written one lately.
func (t *Table) backgroundCheckpoint(ctx context.Context) (CheckpointResult, error) {
	s := t.Snapshot()
	seg, err := replay.Load(ctx, t.st, s.Version())
	if err != nil {
		return CheckpointResult{Version: s.Version()}, fmt.Errorf("checkpointing table %s: %w", t.st.URL(), err)
	}
	if seg.Checkpoint != nil {
		t.useCheckpoint(*seg.Checkpoint)
		if !t.due(t.Snapshot()) {
			return CheckpointResult{Version: s.Version()}, nil
		}
	}
	return t.checkpoint(ctx)
}
