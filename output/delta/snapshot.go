package delta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Snapshot is one version of a table. It is immutable and may be used from many
// goroutines. It holds no list of files: Files reads that from the log, so a
// snapshot of a table with millions of files is as small as one of an empty
// table.
type Snapshot struct {
	st     store.Store
	seg    replay.Segment
	state  replay.State
	schema *schema.Struct
	// mapping is by what the table's files are found to have its columns.
	mapping schema.Mapping
	// readOnly says why the table must not be written to, nil if it may.
	readOnly error
}

// newSnapshot makes the snapshot of a state. The schema of before is taken over
// where the metadata are the same. The table's features are checked here, so
// that no Snapshot exists of a table that must not be read.
func newSnapshot(st store.Store, seg replay.Segment, state replay.State, before *Snapshot) (*Snapshot, error) {
	s := &Snapshot{st: st, seg: seg, state: state}
	if before != nil && before.state.Metadata == state.Metadata && before.state.Protocol == state.Protocol {
		s.schema, s.mapping, s.readOnly = before.schema, before.mapping, before.readOnly
		return s, nil
	}
	if err := canRead(*state.Protocol, *state.Metadata, nil); err != nil {
		return nil, err
	}
	sc, err := schema.Parse(state.Metadata.SchemaString)
	if err != nil {
		return nil, fmt.Errorf("reading the table's schema: %w", err)
	}
	s.schema = sc
	if err := canRead(*state.Protocol, *state.Metadata, sc); err != nil {
		return nil, err
	}
	if s.mapping, err = mappingOf(*state.Metadata, sc); err != nil {
		return nil, fmt.Errorf("reading the table's schema: %w", err)
	}
	s.readOnly = canWrite(*state.Protocol, *state.Metadata, sc)
	return s, nil
}

// mappingOf is the table's column mapping, checked against its schema.
func mappingOf(m action.Metadata, sc *schema.Struct) (schema.Mapping, error) {
	mapping, err := schema.ParseMapping(m.Configuration[PropColumnMappingMode])
	if err != nil {
		return "", err
	}
	return mapping, mapping.Check(sc)
}

// loadSnapshot reads a version, or replay.Latest, from the log.
func loadSnapshot(ctx context.Context, st store.Store, version int64) (*Snapshot, error) {
	seg, err := replay.Load(ctx, st, version)
	if err != nil {
		return nil, err
	}
	state, err := replay.Replay(ctx, st, seg)
	if err != nil {
		return nil, err
	}
	if state.Timestamp == nil && isTrue(state.Metadata.Configuration, PropInCommitTimestamps) {
		// A checkpoint does not have it; its commit may be there still.
		c, err := replay.ReadSummary(ctx, st, state.Version)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		state.Timestamp = c.InCommitTimestamp
	}
	return newSnapshot(st, seg, state, nil)
}

// next returns the snapshot after the commit of the next version.
func (s *Snapshot) next(c action.Summary) (*Snapshot, error) {
	version := s.Version() + 1
	seg := replay.Segment{Version: version, Checkpoint: s.seg.Checkpoint}
	return newSnapshot(s.st, seg, s.state.Apply(version, c), s)
}

// withCheckpoint returns the same version reading from another checkpoint.
func (s *Snapshot) withCheckpoint(c *replay.Checkpoint) *Snapshot {
	out := *s
	out.seg.Checkpoint = c
	return &out
}

// checkpointVersion is the version of the snapshot's checkpoint, -1 for none.
func (s *Snapshot) checkpointVersion() int64 { return s.seg.FirstCommit() - 1 }

// Version is the version of the table, counted from 0.
func (s *Snapshot) Version() int64 { return s.state.Version }

// Schema is the table's schema, partition columns included. It is shared: do not
// change it.
func (s *Snapshot) Schema() *schema.Struct { return s.schema }

// Mapping is by what columns are found in the table's data files.
func (s *Snapshot) Mapping() schema.Mapping { return s.mapping }

// Metadata is the table's metadata, as a copy of the caller's own.
func (s *Snapshot) Metadata() action.Metadata { return s.state.Metadata.Clone() }

// Protocol is the table's protocol, as a copy of the caller's own.
func (s *Snapshot) Protocol() action.Protocol { return s.state.Protocol.Clone() }

// AppVersion is the version that the application's last txn action set.
func (s *Snapshot) AppVersion(appID string) (version int64, ok bool) {
	txn, ok := s.state.Txns.Get(appID)
	return txn.Version, ok
}

// AppVersions yields the txn actions of all applications, in no order.
func (s *Snapshot) AppVersions() iter.Seq[action.Txn] {
	return func(yield func(action.Txn) bool) {
		for _, txn := range s.state.Txns.All() {
			if !yield(txn) {
				return
			}
		}
	}
}

// Property is a property of the table.
func (s *Snapshot) Property(name string) (value string, ok bool) {
	value, ok = s.state.Metadata.Configuration[name]
	return value, ok
}

// PartitionColumns are the names of the partition columns in their order; empty
// if the table is not partitioned.
func (s *Snapshot) PartitionColumns() []string {
	return slices.Clone(s.state.Metadata.PartitionColumns)
}

// NumFiles is the number of live files, counted up and down along the log. It is
// exact for tables whose writers never add a file twice nor remove one twice.
func (s *Snapshot) NumFiles() int64 { return max(0, s.state.NumFiles) }

// NumRecords adds up the rows that the live files say they have, without those
// that deletion vectors delete. It reads the log like Files. ErrNoStatistics if
// a file does not say.
func (s *Snapshot) NumRecords(ctx context.Context) (int64, error) {
	var total int64
	for add, err := range s.Files(ctx) {
		if err != nil {
			return 0, err
		}
		n, ok := numRecords(add)
		if !ok {
			return 0, fmt.Errorf("counting rows of version %d: file %s: %w", s.Version(), add.Path, ErrNoStatistics)
		}
		total += n
	}
	return total, nil
}

func numRecords(add action.Add) (int64, bool) {
	var stats struct {
		NumRecords *int64 `json:"numRecords"`
	}
	if json.Unmarshal([]byte(add.Stats), &stats) != nil || stats.NumRecords == nil {
		return 0, false
	}
	n := *stats.NumRecords
	if add.DeletionVector != nil {
		n -= add.DeletionVector.Cardinality
	}
	return n, true
}

// Files yields the live files: first those of the last checkpoint, then those
// added since, in the order of the log. It reads the log again, as a stream:
// memory is bounded by the commits since the checkpoint. On an error the
// sequence yields that once and ends.
func (s *Snapshot) Files(ctx context.Context) iter.Seq2[action.Add, error] {
	return func(yield func(action.Add, error) bool) {
		for f, err := range s.fileActions(ctx) {
			if err != nil {
				yield(action.Add{}, fmt.Errorf("listing the files of version %d: %w", s.Version(), err))
				return
			}
			if f.Add != nil && !yield(*f.Add, nil) {
				return
			}
		}
	}
}

// fileActions yields live files and tombstones. Where a clean-up has deleted the
// segment this snapshot was made from, a newer checkpoint at or below the
// version is looked for.
func (s *Snapshot) fileActions(ctx context.Context) iter.Seq2[replay.FileAction, error] {
	return func(yield func(replay.FileAction, error) bool) {
		root := plainRoot(s.st)
		begun := false
		for f, err := range replay.Files(ctx, s.st, s.seg, root) {
			if err != nil && !begun && errors.Is(err, store.ErrNotFound) {
				seg, loadErr := replay.Load(ctx, s.st, s.Version())
				if loadErr != nil {
					yield(replay.FileAction{}, errors.Join(err, loadErr))
					return
				}
				replay.Files(ctx, s.st, seg, root)(yield)
				return
			}
			begun = true
			if !yield(f, err) {
				return
			}
		}
	}
}

// plainRoot is the table's place as absolute paths in the log would have it, decoded: a path
// for a local directory, a URL for an object store, "" where paths cannot be absolute.
func plainRoot(st store.Store) string {
	u, err := url.Parse(st.URL())
	switch {
	case err != nil || u.Host+u.Path == "":
		return ""
	case u.Scheme == "file":
		return strings.TrimRight(u.Path, "/")
	default:
		return strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/")
	}
}
