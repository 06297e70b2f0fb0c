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
	_, err := t.WriteCheckpoint(ctx)
	return err
}

// WriteCheckpoint is Checkpoint and tells what it wrote: no actions if there was a
// checkpoint of the version.
func (t *Table) WriteCheckpoint(ctx context.Context) (CheckpointResult, error) {
	// One of the very version that we do not know of is written again: its pointer
	// may be missing.
	if err := t.findCheckpoint(ctx, t.Snapshot().Version()-1); err != nil {
		return CheckpointResult{Version: t.Snapshot().Version()}, err
	}
	return t.checkpoint(ctx)
}

// findCheckpoint looks for a checkpoint, of a version or older, that another
// writer of the table has written: the one we know may be old, or cleaned up by
// now.
func (t *Table) findCheckpoint(ctx context.Context, highest int64) error {
	seg, err := replay.Load(ctx, t.st, t.Snapshot().Version())
	if err != nil {
		return fmt.Errorf("checkpointing table %s: %w", t.st.URL(), err)
	}
	if seg.Checkpoint != nil && seg.Checkpoint.Version <= highest {
		t.useCheckpoint(*seg.Checkpoint)
	}
	return nil
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
	expiry := tombstoneExpiry(s.state.Metadata.Configuration, t.o.Now())
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
	return s.Version()-s.checkpointVersion() >= max(interval, extraCommits(s))
}

// dueAtClose is due for the last checkpoint of a Table: the next one to open the
// table should not have to read many commits.
func (t *Table) dueAtClose(s *Snapshot) bool {
	if t.o.CheckpointInterval < 0 {
		return false
	}
	interval := min(commitsAtClose, checkpointInterval(s.state.Metadata.Configuration, t.o.CheckpointInterval))
	return s.Version()-s.checkpointVersion() >= max(interval, extraCommits(s))
}

// extraCommits is how many commits between checkpoints the size of a table asks
// for.
func extraCommits(s *Snapshot) int64 {
	return (s.NumFiles() + s.state.Tombstones) / actionsPerExtraCheckpoint
}

const (
	// commitsAtClose is from how many commits on a checkpoint is written at closing.
	commitsAtClose = 10
	// retryAfterCommits is how many commits a failed checkpoint waits.
	retryAfterCommits = 10
)

// backgroundCheckpoint writes a checkpoint if one is wanted still: another writer
// of the table may have written one lately.
func (t *Table) backgroundCheckpoint(ctx context.Context, due func(*Snapshot) bool) (CheckpointResult, error) {
	if err := t.findCheckpoint(ctx, t.Snapshot().Version()); err != nil || !due(t.Snapshot()) {
		return CheckpointResult{Version: t.Snapshot().Version()}, err
	}
	return t.checkpoint(ctx)
}
