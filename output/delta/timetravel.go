package delta

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
)

// Since when a table's commits have in-commit timestamps, if they were turned on later than
// at its creation ("In-Commit Timestamps" in PROTOCOL.md).
const (
	propInCommitSinceVersion = "delta.inCommitTimestampEnablementVersion"
	propInCommitSinceTime    = "delta.inCommitTimestampEnablementTimestamp"
)

// AtTime is the table as it was at a time: the newest version that was committed no later.
// A commit's time is its in-commit timestamp where the table has them, and otherwise the
// time when its file was written, by the store's clock; a file that seems older than the one
// before it counts as one millisecond younger than that, as in Spark. A time before the
// oldest commit in the log is ErrNoVersion, one after the newest gives the newest.
func (t *Table) AtTime(ctx context.Context, at time.Time) (*Snapshot, error) {
	version, err := t.versionAt(ctx, at.UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("reading table %s as of %s: %w", t.st.URL(), at.UTC().Format(time.RFC3339Nano), err)
	}
	return t.At(ctx, version)
}

func (t *Table) versionAt(ctx context.Context, millis int64) (int64, error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return 0, err
	}
	times, err := replay.CommitTimes(ctx, t.st, s.Version())
	if err != nil {
		return 0, err
	}
	if len(times) == 0 {
		return 0, fmt.Errorf("%w: its log has no commits any more", ErrNoVersion)
	}
	since, sinceMillis, err := s.inCommitSince()
	if err != nil {
		return 0, err
	}
	// Those from here on have in-commit timestamps.
	stamped := min(max(since-times[0].Version, 0), int64(len(times)))
	if millis >= sinceMillis && stamped < int64(len(times)) {
		n, err := t.countStamped(ctx, times[stamped:], millis)
		if n > 0 || err != nil {
			return times[stamped].Version + int64(n) - 1, err
		}
	}
	n := countWritten(times[:stamped], millis)
	if n == 0 {
		return 0, fmt.Errorf("%w: version %d is the oldest commit of its log, and it is younger", ErrNoVersion, times[0].Version)
	}
	return times[n-1].Version, nil
}

// inCommitSince is the first version that has an in-commit timestamp, and that timestamp as
// far as the table's properties say; the version is above all if none has.
func (s *Snapshot) inCommitSince() (version, millis int64, err error) {
	properties := s.state.Metadata.Configuration
	if !slices.Contains(writerFeatures(*s.state.Protocol), FeatureInCommitTimestamp) || !isTrue(properties, PropInCommitTimestamps) {
		return s.Version() + 1, 0, nil
	}
	for name, into := range map[string]*int64{propInCommitSinceVersion: &version, propInCommitSinceTime: &millis} {
		text, ok := properties[name]
		if !ok {
			continue // since its creation
		}
		if *into, err = strconv.ParseInt(text, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("table property %s is %q, want a number", name, text)
		}
	}
	return version, millis, nil
}

// countStamped is how many of the commits, which ascend in their in-commit timestamps, are
// no later than a time. It reads few of them.
func (t *Table) countStamped(ctx context.Context, commits []replay.CommitTime, millis int64) (int, error) {
	from, to := 0, len(commits)
	for from < to {
		middle := (from + to) / 2
		version := commits[middle].Version
		c, err := replay.ReadSummary(ctx, t.st, version)
		if err != nil {
			return 0, err
		}
		if c.InCommitTimestamp == nil {
			return 0, fmt.Errorf("commit %d has no in-commit timestamp, which the table's properties promise", version)
		}
		if *c.InCommitTimestamp <= millis {
			from = middle + 1
		} else {
			to = middle
		}
	}
	return from, nil
}

// countWritten is how many of the commits were written no later than a time.
func countWritten(commits []replay.CommitTime, millis int64) int {
	var before int64
	for i, c := range commits {
		written := c.Written.UnixMilli()
		if i > 0 {
			written = max(written, before+1)
		}
		if written > millis {
			return i
		}
		before = written
	}
	return len(commits)
}
