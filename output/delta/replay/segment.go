package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

var (
	// ErrNotTable reports that a place holds no Delta table.
	ErrNotTable = errors.New("not a Delta table")

	// ErrNoVersion reports that a table does not have a version, or no longer.
	ErrNoVersion = errors.New("no such version")
)

// Latest asks Load for the newest version.
const Latest = -1

// listTries is how often the log is listed when there is a gap in it. A listing
// is not one moment: a commit may appear behind the point that was read already,
// and the next one before the end. So a gap counts only if it is still there in
// a listing that began after it was seen.
const listTries = 3

// Checkpoint is a complete checkpoint.
type Checkpoint struct {
	Version int64
	// Files are its parts in order: one, except for multi-part checkpoints.
	Files []store.Info
}

// Segment is the part of a log that makes up one version: a checkpoint, or none,
// and every commit after it.
type Segment struct {
	Version int64
	// Checkpoint is nil if the commits from 0 on make up the version.
	Checkpoint *Checkpoint
}

// FirstCommit is the version of the first commit of the segment; it is above
// Version if there is none.
func (s Segment) FirstCommit() int64 {
	if s.Checkpoint == nil {
		return 0
	}
	return s.Checkpoint.Version + 1
}

// Load finds the segment of a version, or of the newest one if version is
// Latest. It lists the log once from the last checkpoint on, and again from its
// beginning if the pointer to the last checkpoint turns out not to be true. The
// error is ErrNotTable if there is no log, ErrNoVersion if the log does not
// reach to the version from either side.
func Load(ctx context.Context, st store.Store, version int64) (Segment, error) {
	if hint, ok := readLastCheckpoint(ctx, st); ok && (version == Latest || hint.Version <= version) {
		l, err := list(ctx, st, hint.Version, version)
		if err != nil {
			return Segment{}, err
		}
		if len(l.checkpoints) > 0 {
			if seg, err := l.segment(version); err == nil {
				return seg, nil
			}
		}
	}
	for try := 1; ; try++ {
		l, err := list(ctx, st, 0, version)
		if err != nil {
			return Segment{}, err
		}
		seg, err := l.segment(version)
		if err == nil || try == listTries || !errors.As(err, new(*gapError)) {
			return seg, err
		}
	}
}

// gapError reports a missing commit.
type gapError struct{ missing, before int64 }

func (e *gapError) Error() string {
	return fmt.Sprintf("versions of the log are not contiguous: %d is missing before %d", e.missing, e.before)
}

// listing is what a listing of the log has found.
type listing struct {
	commits     []int64     // ascending
	times       []time.Time // when each was written
	checkpoints map[int64][]found
	// beyond says that the log has files of versions above the wanted one.
	beyond bool
}

// found is one checkpoint file.
type found struct {
	name
	info store.Info
}

// list reads the names of the log from a version on, up to the wanted one.
func list(ctx context.Context, st store.Store, from, version int64) (listing, error) {
	l := listing{checkpoints: map[int64][]found{}}
	startAfter := ""
	if from > 0 {
		startAfter = versionPrefix(from)
	}
	for info, err := range st.List(ctx, LogDir, startAfter) {
		if err != nil {
			return listing{}, fmt.Errorf("listing the log: %w", err)
		}
		n := parseName(info.Path)
		if n.kind == otherFile {
			continue
		}
		if version != Latest && n.version > version {
			l.beyond = true
			break
		}
		if n.kind == commitFile {
			l.commits = append(l.commits, n.version)
			l.times = append(l.times, info.ModTime)
			continue
		}
		l.checkpoints[n.version] = append(l.checkpoints[n.version], found{n, info})
	}
	return l, nil
}

// segment puts the newest complete checkpoint and the commits after it together.
func (l listing) segment(version int64) (Segment, error) {
	checkpoint := l.newestCheckpoint()
	seg := Segment{Version: -1, Checkpoint: checkpoint}
	if checkpoint != nil {
		seg.Version = checkpoint.Version
	}
	for _, v := range l.commits {
		if v <= seg.Version {
			continue
		}
		if v != seg.Version+1 && version != Latest && seg.Version < 0 {
			return Segment{}, fmt.Errorf("%w: %d, its log was cleaned up to %d", ErrNoVersion, version, v-1)
		}
		if v != seg.Version+1 {
			return Segment{}, &gapError{missing: seg.Version + 1, before: v}
		}
		seg.Version = v
	}
	switch {
	case seg.Version < 0 && l.beyond:
		return Segment{}, fmt.Errorf("%w: %d, its log was cleaned", ErrNoVersion, version)
	case seg.Version < 0:
		return Segment{}, fmt.Errorf("%w: its log has no commit", ErrNotTable)
	case version != Latest && seg.Version != version:
		return Segment{}, fmt.Errorf("%w: %d, the newest is %d", ErrNoVersion, version, seg.Version)
	}
	return seg, nil
}

func (l listing) newestCheckpoint() *Checkpoint {
	versions := slices.Sorted(maps.Keys(l.checkpoints))
	for _, v := range slices.Backward(versions) {
		if files := complete(l.checkpoints[v]); files != nil {
			return &Checkpoint{Version: v, Files: files}
		}
	}
	return nil
}

// complete picks one complete checkpoint out of the files of a version, or nil.
// Several can exist side by side with the same content; the one with the fewest
// files is the cheapest to read. An empty file is what a crash of some writers
// leaves.
func complete(files []found) []store.Info {
	files = slices.DeleteFunc(slices.Clone(files), func(f found) bool { return f.info.Size == 0 })
	for _, want := range []kind{classicCheckpoint, uuidCheckpoint} {
		for _, f := range files {
			if f.kind == want {
				return []store.Info{f.info}
			}
		}
	}
	byParts := map[int][]found{}
	for _, f := range files {
		byParts[f.parts] = append(byParts[f.parts], f)
	}
	for _, parts := range slices.Sorted(maps.Keys(byParts)) {
		group := byParts[parts]
		if len(group) != parts {
			continue
		}
		slices.SortFunc(group, func(a, b found) int { return strings.Compare(a.info.Path, b.info.Path) })
		infos := make([]store.Info, parts)
		for i, f := range group {
			infos[i] = f.info
		}
		return infos
	}
	return nil
}

// CommitRange finds the commits in the log from a version on, the first and the
// last of them; last < first if there are none. A gap between them is an error.
func CommitRange(ctx context.Context, st store.Store, from int64) (first, last int64, err error) {
	for try := 1; ; try++ {
		l, err := list(ctx, st, max(0, from), Latest)
		if err != nil {
			return 0, 0, err
		}
		if len(l.commits) == 0 {
			return 0, -1, nil
		}
		if err = l.contiguous(); err == nil {
			return l.commits[0], l.commits[len(l.commits)-1], nil
		}
		if try == listTries {
			return 0, 0, err
		}
	}
}

// CommitTime is when a commit's file was written, by the store's clock.
type CommitTime struct {
	Version int64
	Written time.Time
}

// CommitTimes are the commits in the log up to a version, in order and without a gap.
func CommitTimes(ctx context.Context, st store.Store, version int64) ([]CommitTime, error) {
	for try := 1; ; try++ {
		l, err := list(ctx, st, 0, version)
		if err != nil {
			return nil, err
		}
		if err := l.contiguous(); err != nil {
			if try == listTries {
				return nil, err
			}
			continue
		}
		out := make([]CommitTime, len(l.commits))
		for i, v := range l.commits {
			out[i] = CommitTime{Version: v, Written: l.times[i]}
		}
		return out, nil
	}
}

// contiguous reports the first gap between the commits.
func (l listing) contiguous() error {
	for i := 1; i < len(l.commits); i++ {
		if l.commits[i] != l.commits[i-1]+1 {
			return &gapError{missing: l.commits[i-1] + 1, before: l.commits[i]}
		}
	}
	return nil
}
