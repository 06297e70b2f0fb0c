package delta

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// errAlreadyApplied says that a commit carries the batch key of our change. It
// does not leave the package.
var errAlreadyApplied = errors.New("already applied")

// changesRows reports whether the change adds or deletes rows, as opposed to
// moving them between files.
func (c *Change) changesRows() bool { return c.addsRows() || c.removesRows() }

func (c *Change) addsRows() bool {
	return slices.ContainsFunc(c.Add, func(a action.Add) bool { return a.DataChange })
}

func (c *Change) removesRows() bool {
	return slices.ContainsFunc(c.Remove, func(r action.Remove) bool { return r.DataChange })
}

// readsRows reports whether concurrent changes of rows matter to the change. One that says
// what it has read depends on that even if it changes nothing: its transactions may stand for
// a decision.
func (c *Change) readsRows() bool { return !c.BlindAppend && (c.changesRows() || c.Reads != nil) }

// against says what it means for the change that another commit came first: nil
// if both can stand, errAlreadyApplied, a FencedError or a ConflictError. The
// commit is w, which turned the table from before into after.
//
// The rules are those of optimistic concurrency in the Delta documentation
// ("Concurrency control"), for a change that is blind, has read the whole table, or
// says what it has read; for that and for application transactions stricter: see
// Reads and Change.
func (c *Change) against(w action.Commit, before, after *Snapshot) error {
	if err := c.againstTxns(w, after.Version()); err != nil {
		return err
	}
	return c.againstTable(w, before, after)
}

// againstTable is against without the application transactions.
func (c *Change) againstTable(w action.Commit, before, after *Snapshot) error {
	if err := c.againstProtocol(w, before, after); err != nil {
		return err
	}
	if err := c.againstMetadata(w, before, after); err != nil {
		return err
	}
	return c.againstFiles(w, before, after.Version())
}

func (c *Change) againstTxns(w action.Commit, version int64) error {
	for _, txn := range w.Txns {
		if c.Fenced != nil && txn.AppID == c.Fenced.AppID {
			// Two writers with one identity may have taken the same number, or
			// different ones, for different rows: the numbers prove nothing.
			return &FencedError{AppID: txn.AppID, Version: version, Have: txn.Version, Want: c.Fenced.Version, TxnID: txnID(w)}
		}
		if c.Keyed != nil && txn.AppID == c.Keyed.AppID && txn.Version >= c.Keyed.Version {
			return errAlreadyApplied
		}
	}
	return nil
}

func (c *Change) againstProtocol(w action.Commit, before, after *Snapshot) error {
	if w.Protocol == nil {
		return nil
	}
	conflict := &ConflictError{Kind: ConflictProtocol, Version: after.Version()}
	if c.Protocol != nil {
		conflict.Detail = "both change the protocol"
		return conflict
	}
	if f, ok := removedFeature(*before.state.Protocol, *after.state.Protocol); ok {
		conflict.Detail = "the feature " + f + " was dropped"
		return conflict
	}
	// Whether we may still write is asked again before the next attempt.
	return nil
}

func (c *Change) againstMetadata(w action.Commit, before, after *Snapshot) error {
	if w.Metadata == nil {
		return nil
	}
	conflict := &ConflictError{Kind: ConflictMetadata, Version: after.Version()}
	switch {
	case c.Metadata != nil:
		conflict.Detail = "both change the metadata"
	case !schema.Equal(before.schema, after.schema), schema.SamePlaces(before.schema, before.mapping, after.schema, after.mapping) != nil:
		conflict.Detail = "the schema is another"
	case !slices.Equal(before.state.Metadata.PartitionColumns, after.state.Metadata.PartitionColumns):
		conflict.Detail = "the partition columns are others"
	default:
		// Only names and properties changed: the files fit as they did.
		return nil
	}
	return conflict
}

func (c *Change) againstFiles(w action.Commit, before *Snapshot, version int64) error {
	ours := make(map[string]bool, len(c.Remove))
	for _, r := range c.Remove {
		ours[action.CanonicalPath(r.Path)] = true
	}
	for _, r := range w.Removes {
		// By path, not by path and deletion vector: a new vector for a file makes
		// our picture of it old, too.
		if ours[action.CanonicalPath(r.Path)] {
			return &ConflictError{Kind: ConflictDeleteDelete, Version: version, Detail: r.Path}
		}
	}
	if !c.readsRows() {
		return nil
	}
	for _, r := range w.Removes {
		if r.DataChange && c.Reads.removed(r) {
			return &ConflictError{Kind: ConflictDeleteRead, Version: version, Detail: r.Path}
		}
	}
	blind := w.Info != nil && w.Info.IsBlindAppend != nil && *w.Info.IsBlindAppend
	if blind && c.Reads == nil && !serializable(before) {
		return nil // as if it had come after us
	}
	for _, a := range w.Adds {
		if a.DataChange && c.Reads.added(a) {
			return &ConflictError{Kind: ConflictAppend, Version: version, Detail: a.Path}
		}
	}
	return nil
}

func serializable(s *Snapshot) bool {
	return strings.EqualFold(s.state.Metadata.Configuration[PropIsolationLevel], isolationSerializable)
}

// isolation names the level at which the change is checked, as Spark does.
func (c *Change) isolation(s *Snapshot) string {
	switch {
	case !c.changesRows() && c.Metadata == nil && c.Protocol == nil:
		return isolationSnapshot
	case serializable(s):
		return isolationSerializable
	default:
		return isolationWriteSerializ
	}
}

func txnID(c action.Commit) string {
	if c.Info == nil {
		return ""
	}
	return c.Info.TxnID
}

// check reports what is wrong with a change whatever the table.
func (c *Change) check() error {
	seen := map[string]bool{}
	txns := slices.Clone(c.Marks)
	for _, t := range []*Txn{c.Fenced, c.Keyed} {
		if t != nil {
			txns = append(txns, *t)
		}
	}
	for _, t := range txns {
		switch {
		case t.AppID == "":
			return &ChangeError{Reason: "a transaction without application id"}
		case seen[t.AppID]:
			return &ChangeError{Reason: fmt.Sprintf("two transactions of application id %q", t.AppID)}
		}
		seen[t.AppID] = true
	}
	if c.BlindAppend && c.Reads != nil {
		return &ChangeError{Reason: "a blind append that says what it has read"}
	}
	if c.BlindAppend && len(c.Remove) > 0 {
		return &ChangeError{Reason: "a blind append that removes files"}
	}
	if c.ReadVersion < 0 {
		return &ChangeError{Reason: fmt.Sprintf("read version %d", c.ReadVersion)}
	}
	return c.checkFiles()
}

func (c *Change) checkFiles() error {
	adds, removes := map[action.Key]bool{}, map[action.Key]bool{}
	for _, r := range c.Remove {
		if r.Path == "" || removes[r.Key()] {
			return &ChangeError{Reason: fmt.Sprintf("file %q is removed twice or has no path", r.Path)}
		}
		removes[r.Key()] = true
	}
	for _, a := range c.Add {
		key := a.Key()
		switch {
		case a.Path == "" || adds[key]:
			return &ChangeError{Reason: fmt.Sprintf("file %q is added twice or has no path", a.Path)}
		case removes[key]:
			return &ChangeError{Reason: fmt.Sprintf("file %q is added and removed", a.Path)}
		case a.Size <= 0:
			return &ChangeError{Reason: fmt.Sprintf("file %q has size %d", a.Path, a.Size)}
		}
		adds[key] = true
	}
	if moves := len(c.Add) + len(c.Remove); moves > 0 && c.changesRows() {
		mixed := slices.ContainsFunc(c.Add, func(a action.Add) bool { return !a.DataChange }) ||
			slices.ContainsFunc(c.Remove, func(r action.Remove) bool { return !r.DataChange })
		if mixed {
			return &ChangeError{Reason: "some files change rows and some only move them: use two commits"}
		}
	}
	return nil
}
