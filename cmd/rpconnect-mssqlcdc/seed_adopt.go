package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// adopt goes on where mssql-cdc-pyspark ended: bronze gets our position by a commit
// without rows, and the resume position is written behind it. A crash between the two is
// repaired by the same command again.
func (s *seeding) adopt(ctx context.Context) (string, error) {
	state, stored, err := s.store.Load(ctx, s.table)
	if err != nil {
		return "", err
	}
	if stored {
		return "", fmt.Errorf("it has a resume position in %s already, %s: the pipeline goes on there", s.flags.String("position"), state.LSN)
	}
	// Before the writer of facts opens it, which would make the table.
	theirs, err := s.lake.open(ctx, s.flags.String("facts"))
	if err != nil {
		return "", fmt.Errorf("--facts: %w", err)
	}
	story, err := readStory(ctx, theirs, s.flags.String("delta"), s.flags.String("app-id"))
	if err != nil {
		return "", fmt.Errorf("reading the facts in %s: %w", s.flags.String("facts"), err)
	}
	if err := s.openLake(ctx, bronze.Adoption{Mode: bronze.AdoptFound}); err != nil {
		return "", err
	}
	table := s.bronze.Target().Table()
	if table == nil {
		return "", fmt.Errorf("there is no table at %s: check --delta", s.flags.String("delta"))
	}
	first, firstTime, err := firstOf(ctx, table)
	if err != nil {
		return "", err
	}
	server := s.client.Server()
	position, event, err := s.bronze.Adopt(ctx, mssqlcdc.Envelope{Server: server.Name, Database: server.Database, Table: s.table})
	if err != nil {
		return "", err
	}
	if position.IsZero() {
		return "", fmt.Errorf("table %s has no rows: there is nothing to go on with", s.flags.String("delta"))
	}
	if event != nil {
		if err := s.record(ctx, nil, []mssqlcdc.Fact{*event}); err != nil {
			return "", err
		}
	}
	return s.storeAdopted(ctx, story, position, first, firstTime)
}

// storeAdopted writes the resume position of a table that was taken over.
func (s *seeding) storeAdopted(ctx context.Context, story story, position, first mssqlcdc.LSN, firstTime time.Time) (string, error) {
	head, err := s.client.MaxLSN(ctx)
	if err != nil {
		return "", err
	}
	if head.LSN.Less(position) {
		return "", fmt.Errorf("bronze has changes up to %s, and the newest that was captured is %s: is this another database, or was it restored?", position, head.LSN)
	}
	instance, err := s.instanceAfter(ctx, position)
	var lost *sqlserver.DataLossError
	if err != nil && !errors.As(err, &lost) {
		return "", err
	}
	if lost != nil { // the input finds it again, and does what on_data_loss says
		s.warn("changes after the end of bronze are lost: %v. The pipeline ends with that error, unless on_data_loss is resnapshot or skip", lost)
	}
	if position.Less(first) { // nothing but rows of a snapshot that lie above it
		first, firstTime = position, time.Time{}
	}
	state := stateAt(instance, position, first, firstTime)
	said := fmt.Sprintf("%s goes on at %s", s.table, position)
	if open := story.open(); !open.IsZero() {
		if state.Snapshot, err = s.openAgain(ctx, instance); err != nil {
			return "", fmt.Errorf("opening a snapshot in the place of %s: %w", open, err)
		}
		s.warn("snapshot %s was not complete: snapshot %s takes its place, and reads the table whole. Rows of the old one stay in bronze, and whoever reads the newest snapshot leaves them out; the verdict stands still until it is complete", open, state.Snapshot.LSN)
		said += fmt.Sprintf(", and takes the snapshot again as %s", state.Snapshot.LSN)
	}
	for _, gap := range story.gaps {
		s.warn("the facts record that changes between %s and %s were lost, which the old control table does not show: reconcile tells what is missing", gap[0], gap[1])
	}
	return said, s.store.Save(ctx, s.table, state)
}

// openAgain opens a snapshot. Every change up to its S comes in windows before its rows.
func (s *seeding) openAgain(ctx context.Context, instance mssqlcdc.CaptureInstance) (*checkpoint.Snapshot, error) {
	layout, err := s.layout(ctx, instance)
	if err != nil {
		return nil, err
	}
	stamp, err := s.client.SnapshotStamp(ctx, instance)
	if err != nil {
		return nil, err
	}
	key, err := s.client.SnapshotKey(ctx, layout, s.flags.StringSlice("snapshot-key"))
	if err != nil {
		return nil, err
	}
	var names []string
	var last sqlserver.Bound
	for _, c := range key.Columns {
		names = append(names, c.Name)
	}
	if len(names) > 0 {
		if last, err = s.client.MaxKey(ctx, layout, key); err != nil {
			return nil, err
		}
	}
	return checkpoint.NewSnapshot(stamp.LSN, stamp.Time, time.Now(), names, last), nil
}

// story is what the facts of mssql-cdc-pyspark tell of a table beside its windows.
type story struct {
	opened, completed mssqlcdc.LSN // the newest snapshot, the newest that is complete
	gaps              [][2]string  // of changes that were skipped
}

// open is the snapshot that is not complete, zero if none is. One that completed later
// than it was opened closes every one before it.
func (s story) open() mssqlcdc.LSN {
	if s.completed.Less(s.opened) {
		return s.opened
	}
	return mssqlcdc.LSN{}
}

// readStory reads the events of a target; those of an application id and its generations
// where no row names the target, as of a table that was given by its name there.
// The details of events hold the keys of chunks before 0.7.0 and not since; neither form is
// needed, as a snapshot that is open is taken again.
func readStory(ctx context.Context, facts *delta.Table, target, appID string) (story, error) {
	var told, ofTarget, ofApp story
	named := false
	names := []string{"app_id", "target", "event", "max_lsn", "detail"}
	s := facts.Snapshot()
	for _, name := range names {
		if s.Schema().Index(name) < 0 {
			return told, fmt.Errorf("it has no column %s, so it is no facts table", name)
		}
	}
	for record, err := range facts.Read(ctx, s, delta.ReadOptions{Columns: names}) {
		if err != nil {
			return told, err
		}
		for i := range int(record.NumRows()) {
			text := func(column int) string { return textAt(record, column, i) }
			event, at, detail := mssqlcdc.Event(text(2)), text(3), text(4)
			var errs []error
			if strings.TrimRight(text(1), "/") == strings.TrimRight(target, "/") {
				named = true
				errs = append(errs, ofTarget.take(event, at, detail))
			}
			if text(0) == appID || strings.HasPrefix(text(0), appID+".g") {
				errs = append(errs, ofApp.take(event, at, detail))
			}
			if err := errors.Join(errs...); err != nil {
				return told, err
			}
		}
	}
	if named {
		return ofTarget, nil
	}
	return ofApp, nil
}

func (s *story) take(event mssqlcdc.Event, at, detail string) error {
	var newest *mssqlcdc.LSN
	switch event {
	case mssqlcdc.EventSnapshotOpen:
		newest = &s.opened
	case mssqlcdc.EventBootstrap, mssqlcdc.EventResnapshot:
		newest = &s.completed
	case mssqlcdc.EventDataSkipped:
		var gap struct{ From, To string }
		if err := json.Unmarshal([]byte(detail), &gap); err != nil {
			gap.From, gap.To = "a commit", at
		}
		s.gaps = append(s.gaps, [2]string{gap.From, gap.To})
		return nil
	default:
		return nil
	}
	lsn, err := mssqlcdc.ParseLSN(at)
	if err != nil {
		return fmt.Errorf("event %s: %w", event, err)
	}
	if newest.Less(lsn) {
		*newest = lsn
	}
	return nil
}

// textAt is a text of a record, "" for NULL. It is good as long as one likes.
func textAt(record arrow.RecordBatch, column, row int) string {
	texts, ok := record.Column(column).(*array.String)
	if !ok || texts.IsNull(row) {
		return ""
	}
	return strings.Clone(texts.Value(row))
}

// firstOf is the first commit, or the first snapshot, that bronze has rows of: it is
// complete from there on.
func firstOf(ctx context.Context, table *delta.Table) (first mssqlcdc.LSN, at time.Time, err error) {
	lowest := ""
	for record, err := range table.Read(ctx, table.Snapshot(), delta.ReadOptions{Columns: []string{mssqlcdc.ColStartLSN, mssqlcdc.ColCommitTime}}) {
		if err != nil {
			return first, at, fmt.Errorf("looking for the first commit in bronze: %w", err)
		}
		lsns, ok := record.Column(0).(*array.String)
		times, okTime := record.Column(1).(*array.Timestamp)
		if !ok || !okTime {
			return first, at, fmt.Errorf("columns %s and %s of bronze are not those of a log of changes", mssqlcdc.ColStartLSN, mssqlcdc.ColCommitTime)
		}
		unit := times.DataType().(*arrow.TimestampType).Unit
		for i := range lsns.Len() {
			if lsns.IsNull(i) || lowest != "" && lsns.Value(i) >= lowest {
				continue
			}
			if lowest, at = strings.Clone(lsns.Value(i)), (time.Time{}); times.IsValid(i) {
				at = times.Value(i).ToTime(unit).UTC()
			}
		}
	}
	if lowest == "" {
		return first, at, nil
	}
	first, err = mssqlcdc.ParseLSN(lowest)
	return first, at, err
}
