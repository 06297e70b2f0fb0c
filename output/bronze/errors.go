package bronze

import (
	"errors"
	"fmt"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// BatchError reports a record batch that is wrong in itself: whoever made it has
// an error, and sending it again does not help.
type BatchError struct{ Reason string }

// Error is the reason.
func (e *BatchError) Error() string { return "invalid record batch: " + e.Reason }

// GapError reports a window that continues from a position which the table has
// not reached: rows between the two are missing. It is transient while an earlier
// window is on its way again, and lasting where the table was dropped, restored or
// replaced by an older copy.
type GapError struct {
	Target string
	AppID  string
	Window mssqlcdc.Window
	// Prev is the end of the window with rows before this one.
	Prev mssqlcdc.LSN
	// Position is what the table holds; zero is nothing.
	Position mssqlcdc.LSN
}

// Error names both positions and the ways out.
func (e *GapError) Error() string {
	have := "holds nothing of application id " + fmt.Sprintf("%q", e.AppID)
	if !e.Position.IsZero() {
		have = fmt.Sprintf("is at %s", e.Position)
	}
	return fmt.Sprintf("window %s continues from %s, but table %s %s: the changes between are missing in it; "+
		"restore the table, or start again from its position (start_from) with a new resume position", e.Window, e.Prev, e.Target, have)
}

// OrderError reports a part that is not the next of the window being staged. The
// window must be sent again from its part 0.
type OrderError struct {
	Window     mssqlcdc.Window
	Part, Want int // Want is -1 if no window is being staged
}

// Error says which part was wanted.
func (e *OrderError) Error() string {
	if e.Want < 0 {
		return fmt.Sprintf("part %d of window %s came without the parts before it: the window must be sent again from part 0", e.Part, e.Window)
	}
	return fmt.Sprintf("part %d of window %s came, want part %d of the window being staged: the window must be sent again from part 0", e.Part, e.Window, e.Want)
}

// StagingError reports that the staged files of a window are lost. The window must
// be sent again from its part 0.
type StagingError struct {
	Window mssqlcdc.Window
	Err    error
}

// Error names the window and the cause.
func (e *StagingError) Error() string {
	return fmt.Sprintf("staging window %s, which must be sent again from part 0: %v", e.Window, e.Err)
}

// Unwrap returns the cause.
func (e *StagingError) Unwrap() error { return e.Err }

// ForeignRowsError reports a table with rows and without our position.
type ForeignRowsError struct {
	Target, AppID string
	Files         int64
}

// Error says how to take the table over.
func (e *ForeignRowsError) Error() string {
	return fmt.Sprintf("table %s has rows (%d files) that application id %q did not write, so nobody knows what they cover: "+
		"use another path, give the application id that wrote them, or set adopt to the LSN up to which they hold every change "+
		"(or to facts, if the facts table tells)", e.Target, e.Files, e.AppID)
}

// SourceError reports rows of another source than the table's.
type SourceError struct {
	Target     string
	Property   string
	Have, Want string
}

// Error names both sources.
func (e *SourceError) Error() string {
	return fmt.Sprintf("table %s holds changes of %s (table property %s), and these are of %s: LSNs of different sources cannot be compared; "+
		"give each source a path of its own, or correct the property if the source was renamed", e.Target, e.Have, e.Property, e.Want)
}

// VersionError reports a table that wants a newer release.
type VersionError struct {
	Target, Property, Want string
	Have                   int
}

// Error names the property and what this release knows.
func (e *VersionError) Error() string {
	return fmt.Sprintf("table %s may be written only by releases that know version %s of its columns (table property %s), and this one knows %d: use a newer release",
		e.Target, e.Want, e.Property, e.Have)
}

// AdoptError reports a table that cannot be taken over as wished.
type AdoptError struct {
	Target, Reason string
}

// Error is the reason.
func (e *AdoptError) Error() string { return fmt.Sprintf("adopting table %s: %s", e.Target, e.Reason) }

// RestoredError reports a table that was restored to an older version after our
// last commit: its rows went back, and the position that it remembers did not.
type RestoredError struct {
	Target, AppID string
	Version       int64 // of the restore
	Position      mssqlcdc.LSN
}

// Error names the version and the ways out.
func (e *RestoredError) Error() string {
	return fmt.Sprintf("table %s was restored to an older version (by version %d), so its rows do not reach up to the position %s of application id %q any more: "+
		"undo the restore, or take the table over under another app_id with adopt set to the LSN up to which it holds every change", e.Target, e.Version, e.Position, e.AppID)
}

// Decision is what to do after an error of [Table.Write].
type Decision int

// The decisions.
const (
	// Retry: write the same part again, after a pause.
	Retry Decision = iota
	// Resend: give the part back. The window must come again from part 0.
	Resend
	// Stop: nothing that this program can do makes it work.
	Stop
)

// Decide is the one place that decides about errors.
func Decide(err error) Decision {
	var fenced *delta.FencedError
	if errors.As(err, &fenced) {
		if fenced.Own {
			return Resend // an attempt of ours landed late: the window is trimmed by its position
		}
		return Stop // two writers with one identity must not go on
	}
	if is[*OrderError](err) || is[*GapError](err) || is[*ChunkGapError](err) || is[*StagingError](err) {
		// A staging error is resent even where its cause would stop us: the resent
		// part meets that cause again, in the foreground.
		if is[*StagingError](err) && lasting(err) {
			return Stop
		}
		return Resend
	}
	if lasting(err) {
		return Stop
	}
	// What is left is the store and the network, and lost races: they pass, or an
	// operator has to look, and until then nothing may be given up.
	return Retry
}

// lasting tells whether an error comes from what the batch and the table are.
func lasting(err error) bool {
	return is[*BatchError](err) || is[*SourceError](err) || is[*ForeignRowsError](err) || is[*AdoptError](err) || is[*VersionError](err) || is[*RestoredError](err) ||
		is[*target.SchemaConflictError](err) || is[*schema.SchemaError](err) ||
		is[*delta.FeatureError](err) || is[*store.ConditionalPutError](err) || is[*delta.ChangeError](err) || errors.Is(err, delta.ErrTableReplaced)
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}
