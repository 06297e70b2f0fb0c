package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// State is everything about a version but its list of files. It is immutable:
// Apply returns a new one and shares what did not change.
type State struct {
	Version  int64
	Protocol *action.Protocol
	Metadata *action.Metadata
	Txns     Layered[action.Txn]
	Domains  Layered[action.DomainMetadata]

	// NumFiles counts the live files and Tombstones the removed ones, as
	// arithmetic over the log: an add counts one up, a remove one down. It is off
	// where a writer adds a file again that is there, or removes one that is not.
	NumFiles, Tombstones int64

	// MetadataVersion is no lower than the version of the last metaData action;
	// it is exact if that is not in a checkpoint.
	MetadataVersion int64

	// TxnID identifies the commit of the version; "" if it does not say, or was
	// not read because a checkpoint covers it.
	TxnID string

	// Timestamp is the in-commit timestamp of the version, nil if it has none.
	Timestamp *int64
}

// Apply returns the state after the commit of the next version.
func (s State) Apply(version int64, c action.Summary) State {
	s.Version = version
	if c.Protocol != nil {
		s.Protocol = c.Protocol
	}
	if c.Metadata != nil {
		s.Metadata = c.Metadata
		s.MetadataVersion = version
	}
	for _, txn := range c.Txns {
		s.Txns = s.Txns.With(txn.AppID, txn)
	}
	for _, d := range c.Domains {
		if d.Removed {
			s.Domains = s.Domains.Without(d.Domain)
		} else {
			s.Domains = s.Domains.With(d.Domain, d)
		}
	}
	s.NumFiles += int64(c.Adds - c.Removes)
	s.Tombstones += int64(c.Removes)
	s.Timestamp, s.TxnID = c.InCommitTimestamp, c.TxnID
	return s
}

// check reports what a table cannot be without.
func (s State) check() error {
	switch {
	case s.Protocol == nil:
		return errors.New("the log has no protocol action")
	case s.Metadata == nil:
		return errors.New("the log has no metaData action")
	case s.Metadata.SchemaString == "":
		return errors.New("the metaData action has no schemaString")
	}
	return nil
}

// Replay reconstructs the state of a segment.
func Replay(ctx context.Context, st store.Store, seg Segment) (State, error) {
	state := State{Version: -1}
	if seg.Checkpoint != nil {
		var err error
		if state, err = readState(ctx, st, *seg.Checkpoint); err != nil {
			return State{}, err
		}
	}
	return Advance(ctx, st, state, seg)
}

// Advance applies the commits of the segment that come after the state.
func Advance(ctx context.Context, st store.Store, state State, seg Segment) (State, error) {
	for c, err := range fetch(ctx, st, state.Version+1, seg.Version, action.DecodeSummary) {
		if err != nil {
			return State{}, err
		}
		state = state.Apply(c.version, c.content)
	}
	if err := state.check(); err != nil {
		return State{}, fmt.Errorf("reconstructing version %d: %w", seg.Version, err)
	}
	return state, nil
}
