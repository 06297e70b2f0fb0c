package maintain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
)

// logBatch is how many files of the log one request deletes. Requests follow each
// other, from the oldest file on, so that what is left never has a hole.
const logBatch = 100

// LogOptions are the choices of [CleanLog]. The zero value is a good one.
type LogOptions struct {
	// Retention is how long commits are kept; nil is the table's property
	// delta.logRetentionDuration, or 30 days without it.
	Retention *time.Duration
	// Floor, if not nil, is asked before anything is deleted: whoever reads the
	// history of the table returns the version below which it may go, at most the
	// given one.
	Floor func(ctx context.Context, below int64) (int64, error)
	// DryRun deletes nothing.
	DryRun bool
}

// LogResult is what [CleanLog] did, or what it would do.
type LogResult struct {
	// Oldest is the oldest version that can still be read afterwards; -1 if no version
	// was to be deleted.
	Oldest int64 `json:"oldestVersion"`
	// Cutoff is the time up to which versions may go.
	Cutoff time.Time `json:"cutoff"`
	// Files and Bytes are to be deleted, Commits, Checkpoints and Sidecars among them
	// counted.
	Files       int64 `json:"files"`
	Bytes       int64 `json:"bytes"`
	Commits     int64 `json:"commits"`
	Checkpoints int64 `json:"checkpoints"`
	Sidecars    int64 `json:"sidecars"`
	Deleted     int64 `json:"deleted"`
	// Kept says why nothing is to be deleted.
	Kept string        `json:"kept,omitempty"`
	Took time.Duration `json:"-"`
}

// CleanLog deletes the files of the log that only versions older than the
// retention need ("Metadata Cleanup" in PROTOCOL.md). The retention counts from the
// last midnight UTC. The version that was the newest then can be read afterwards,
// and all that came after it: the newest checkpoint at or below that version stays,
// with its commit, and so do all later files. Without such a checkpoint, or if it
// cannot be read, nothing is deleted.
//
// Then go the sidecars of v2 checkpoints, written by others, that no checkpoint that
// stays names and that are older than the retention and a day.
//
// The oldest files go first, so that it can be stopped at any time.
func CleanLog(ctx context.Context, t *delta.Table, o LogOptions) (LogResult, error) {
	begun := time.Now()
	c := &cleaner{t: t, o: o, result: LogResult{Oldest: -1}}
	err := c.run(ctx)
	c.result.Took = time.Since(begun)
	if err != nil {
		return c.result, fmt.Errorf("cleaning the log of table %s: %w", t.Store().URL(), err)
	}
	return c.result, nil
}

// cleaner is one call of CleanLog.
type cleaner struct {
	t      *delta.Table
	o      LogOptions
	result LogResult
}

func (c *cleaner) run(ctx context.Context) error {
	s, err := c.t.Refresh(ctx)
	if err != nil {
		return err
	}
	if err := c.t.CheckWritable(); err != nil {
		return err
	}
	if slices.Contains(s.Protocol().WriterFeatures, featureCheckpointProtection) {
		return &delta.FeatureError{Name: featureCheckpointProtection, Op: "clean the log of", Why: "which checkpoints it protects is not known"}
	}
	retention, err := delta.LogRetention(s.Metadata().Configuration)
	if err != nil {
		return err
	}
	if c.o.Retention != nil {
		retention = *c.o.Retention
	}
	if retention < 0 {
		return fmt.Errorf("a retention of %v is negative", retention)
	}
	c.result.Cutoff = c.t.Now().UTC().Add(-retention).Truncate(24 * time.Hour)

	old, err := c.old(ctx)
	if err != nil {
		return err
	}
	from, err := c.commits(ctx, old)
	if err != nil {
		return err
	}
	if err := c.cleanSidecars(ctx, from); err != nil {
		return err
	}
	if c.result.Files > 0 {
		c.result.Kept = ""
	}
	return nil
}

// commits deletes what belongs to versions that are too old, and returns the version
// from which on checkpoints stay.
func (c *cleaner) commits(ctx context.Context, old history) (from int64, err error) {
	below, err := c.below(ctx, old)
	if err != nil || below < 0 {
		return 0, err
	}
	gone := c.choose(old.files, below)
	if len(gone) == 0 {
		c.result.Kept = "nothing is that old"
		return 0, nil
	}
	c.result.Oldest = below
	if err := c.stands(ctx, below); err != nil || c.o.DryRun {
		return below, err
	}
	return below, c.delete(ctx, gone)
}

const featureCheckpointProtection = "checkpointProtection"

// history is the old part of a log.
type history struct {
	files []logFile
	// newest is the newest commit that is not younger than the cutoff, -1 for none.
	newest int64
	// moved are commits whose time is not that of their file, since that is not later
	// than the commit before. Without that one their time would be another, and what
	// was the newest version at some time, too.
	moved map[int64]bool
	// commits are the versions that there are, ascending.
	commits []int64
}

// old reads the log from its beginning to the first commit that is younger than
// the cutoff.
func (c *cleaner) old(ctx context.Context) (history, error) {
	h := history{newest: -1, moved: map[int64]bool{}}
	var last time.Time
	for f, err := range logFiles(ctx, c.t.Store()) {
		if err != nil {
			return history{}, err
		}
		if f.kind == commitFile {
			at := f.info.ModTime
			if !at.After(last) {
				at, h.moved[f.version] = last.Add(time.Millisecond), true
			}
			if at.After(c.result.Cutoff) {
				break
			}
			last, h.newest = at, f.version
			h.commits = append(h.commits, f.version)
		}
		h.files = append(h.files, f)
	}
	return h, c.byCommitTime(ctx, &h)
}

// byCommitTime lowers the newest commit to one that is not younger than the cutoff
// by the time that it says itself, if the table has such times.
func (c *cleaner) byCommitTime(ctx context.Context, h *history) error {
	if text, _ := c.t.Snapshot().Property(delta.PropInCommitTimestamps); !strings.EqualFold(text, "true") {
		return nil
	}
	// The times rise, so the first that is too young is found by halves. Commits from
	// before the table had them are older than all others.
	var failed error
	at, _ := slices.BinarySearchFunc(h.commits, c.result.Cutoff.UnixMilli(), func(version, cutoff int64) int {
		commit, err := replay.ReadSummary(ctx, c.t.Store(), version)
		if err != nil {
			failed = errors.Join(failed, err)
		}
		if commit.InCommitTimestamp == nil || *commit.InCommitTimestamp <= cutoff {
			return -1
		}
		return 1
	})
	h.newest = -1
	if at > 0 {
		h.newest = h.commits[at-1]
	}
	return failed
}

// below is the version whose checkpoint and commit stay while older files go, or
// -1 if none can go.
func (c *cleaner) below(ctx context.Context, h history) (int64, error) {
	below, err := c.anchor(ctx, h, h.newest)
	if err != nil || below < 0 {
		c.result.Kept = "no checkpoint is that old"
		return -1, err
	}
	if c.o.Floor == nil {
		return below, nil
	}
	floor, err := c.o.Floor(ctx, below)
	if err != nil || floor >= below {
		return below, err
	}
	c.result.Kept = "the older versions are still wanted"
	return c.anchor(ctx, h, floor)
}

// anchor is the newest version up to a limit that can become the oldest one: it has
// a complete checkpoint and a commit that keeps its time. It is -1 for none.
func (c *cleaner) anchor(ctx context.Context, h history, limit int64) (int64, error) {
	for limit >= 0 {
		seg, err := replay.Load(ctx, c.t.Store(), limit)
		if errors.Is(err, replay.ErrNoVersion) {
			return -1, nil
		}
		if err != nil || seg.Checkpoint == nil {
			return -1, err
		}
		version := seg.Checkpoint.Version
		if _, ok := slices.BinarySearch(h.commits, version); ok && !h.moved[version] {
			return version, nil
		}
		limit = version - 1
	}
	return -1, nil
}

// choose counts and returns what goes when a version becomes the oldest one, oldest
// first.
func (c *cleaner) choose(files []logFile, below int64) []logFile {
	var gone []logFile
	for _, f := range files {
		// A compaction that begins with the version goes as well: it may go on to a
		// version that has a checkpoint of its own.
		if f.version > below || f.version == below && f.kind != compactedFile {
			continue
		}
		gone = append(gone, f)
		c.result.Files++
		c.result.Bytes += f.info.Size
		switch f.kind {
		case commitFile:
			c.result.Commits++
		case checkpointFile:
			c.result.Checkpoints++
		}
	}
	slices.SortStableFunc(gone, func(a, b logFile) int { return cmp.Compare(a.version, b.version) })
	return gone
}

// stands reads the checkpoint of a version whole: from then on nothing else tells
// what the table was.
func (c *cleaner) stands(ctx context.Context, version int64) error {
	seg, err := replay.Load(ctx, c.t.Store(), version)
	if err == nil && (seg.Checkpoint == nil || seg.Checkpoint.Version != version) {
		err = errors.New("it is gone")
	}
	if err == nil {
		_, err = replay.Replay(ctx, c.t.Store(), seg)
	}
	if err == nil {
		for _, fileErr := range replay.Files(ctx, c.t.Store(), seg, "") {
			err = fileErr
		}
	}
	if err != nil {
		return fmt.Errorf("nothing is deleted, since the checkpoint of version %d cannot be read: %w", version, err)
	}
	return nil
}

// delete deletes the files in their order.
func (c *cleaner) delete(ctx context.Context, files []logFile) error {
	for batch := range slices.Chunk(files, logBatch) {
		paths := make([]string, len(batch))
		for i, f := range batch {
			paths[i] = f.info.Path
		}
		if err := c.t.Store().Delete(ctx, paths...); err != nil {
			return err
		}
		c.result.Deleted += int64(len(paths))
	}
	return nil
}
