package bronze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// prepared is the commit of a window whose files are complete.
type prepared struct {
	change delta.Change
	adds   []action.Add
	fact   *mssqlcdc.Fact
	events []mssqlcdc.Fact
	// unknown says that an attempt may have landed, or may still.
	unknown bool
}

// prepare finishes the window's files, makes the table if need be, and puts the
// commit together.
func (t *Table) prepare(ctx context.Context) error {
	w := t.win
	adds, err := w.encoder.finish(ctx)
	if err != nil {
		if w.encoder.failure() == nil {
			return err // still encoding; the same part may ask again
		}
		return t.lost(ctx, err)
	}
	if err := t.create(ctx); err != nil {
		return err
	}
	p := &prepared{adds: adds}
	p.fact, p.events = t.facts(new(t.batchID + 1))
	text, err := encodeFacts(*p.fact, p.events)
	if err != nil {
		return err
	}
	if p.change, err = t.change(adds); err != nil {
		var moved *target.LayoutError
		if errors.As(err, &moved) {
			return t.lost(ctx, err)
		}
		return err
	}
	p.change.UserMetadata = text
	w.prepared = p
	return nil
}

// create makes the table for the window. If somebody made it meanwhile, what it
// has is looked at like that of any table that was there.
func (t *Table) create(ctx context.Context) error {
	w := t.win
	if t.target.Table() != nil {
		return nil
	}
	if w.fit == nil {
		return &StagingError{Window: w.env.Window, Err: errors.New("there is no table and no row to make it for")}
	}
	properties := sourceProperties(w.env)
	properties[PropSchemaVersion] = strconv.Itoa(schemaVersion)
	t.keyProperty(properties)
	comment := fmt.Sprintf("Changes of %s, one row per change, read by SQL Server change data capture", w.env.Table)
	if err := t.target.Create(ctx, w.fit, properties, comment); err != nil {
		return err
	}
	s := t.target.Snapshot()
	if s.Version() == 0 && s.NumFiles() == 0 {
		return nil
	}
	if err := t.load(); err != nil {
		return err
	}
	return t.lost(ctx, fmt.Errorf("somebody else made table %s", t.target.Name()))
}

// change is the commit of the window onto the newest snapshot.
func (t *Table) change(adds []action.Add) (delta.Change, error) {
	w, s := t.win, t.target.Snapshot()
	// The table may have moved on since the first part, by other writers or by its upkeep.
	fit, err := t.target.Rebase(s, w.fit)
	if err != nil {
		return delta.Change{}, err
	}
	metadata := t.metadata(s, fit)
	if metadata != nil && fit != nil {
		w.columns = addedColumns(s, fit)
	}
	var bytes int64
	for _, a := range adds {
		bytes += a.Size
	}
	batchID := t.batchID + 1
	return delta.Change{
		ID:        t.attemptID(),
		Operation: delta.OpStreamingWrite,
		OperationParameters: map[string]string{
			"outputMode": "Append", "queryId": t.cfg.AppID, "epochId": strconv.FormatInt(batchID, 10),
		},
		Metrics: map[string]int64{
			"numAddedFiles": int64(len(adds)), "numRemovedFiles": 0, "numOutputRows": w.tally.rows, "numOutputBytes": bytes,
		},
		Fenced:      &delta.Txn{AppID: t.cfg.AppID, Version: batchID},
		Marks:       t.marksOf(w.env),
		Add:         adds,
		Metadata:    metadata,
		BlindAppend: true,
		ReadVersion: s.Version(),
		Rebase:      t.rebase,
	}, nil
}

// attemptID keeps the identity of an attempt over its repetitions.
func (t *Table) attemptID() string {
	if id := t.cfg.Table.Delta.NewID; id != nil {
		return id()
	}
	return newID()
}

// metadata is what the window changes in the table's metadata, nil for nothing.
func (t *Table) metadata(s *delta.Snapshot, fit *target.Fitted) *action.Metadata {
	properties := map[string]string{}
	for property, value := range sourceProperties(t.win.env) {
		if _, ok := s.Property(property); !ok {
			properties[property] = value
		}
	}
	if have, ok := s.Property(PropSchemaVersion); !ok || olderVersion(have) {
		properties[PropSchemaVersion] = strconv.Itoa(schemaVersion)
	}
	t.keyProperty(properties)
	return target.Metadata(s, fit, properties)
}

func olderVersion(text string) bool {
	version, err := strconv.Atoi(text)
	return err != nil || version < schemaVersion
}

func addedColumns(s *delta.Snapshot, fit *target.Fitted) []string {
	var names []string
	for _, f := range fit.Schema.Fields {
		if s.Schema().Index(f.Name) < 0 {
			names = append(names, f.Name)
		}
	}
	return names
}

// rebase merges the window's columns into what another writer made of the table.
func (t *Table) rebase(_ context.Context, s *delta.Snapshot) (delta.Change, error) {
	change := t.win.prepared.change
	fit, err := t.target.Rebase(s, t.win.fit)
	if err != nil {
		return delta.Change{}, err
	}
	change.Metadata = t.metadata(s, fit)
	return change, nil
}

// commit commits the prepared window. It can be repeated after any error.
func (t *Table) commit(ctx context.Context) (Result, error) {
	w, p := t.win, t.win.prepared
	if err := t.checkStaged(ctx); err != nil {
		return Result{}, err
	}
	done, err := t.target.Table().Commit(ctx, p.change)
	if err != nil {
		return Result{}, t.failed(ctx, err)
	}
	now := t.cfg.Now()
	p.fact.DurationMS = new(now.Sub(w.begun).Milliseconds())
	result := Result{
		Mark: mssqlcdc.Committed, Version: done.Version, Took: done.Took,
		Window: p.fact, Events: p.events, Columns: w.columns, Types: w.types(),
		Rows: w.tally.rows, Files: int64(len(p.adds)), Bytes: p.change.Metrics["numOutputBytes"], Trimmed: w.trimmed(),
	}
	t.position, t.hasPosition = t.reached(w.env), true
	t.batchID++
	t.win, t.adopted = nil, nil
	return result, nil
}

// checkStaged looks for the files of a window that took long.
func (t *Table) checkStaged(ctx context.Context) error {
	w := t.win
	if t.cfg.Now().Sub(w.begun) < t.cfg.StaleAfter || w.prepared.unknown {
		return nil
	}
	missing, err := t.target.Table().MissingFiles(ctx, w.prepared.adds)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return t.lost(ctx, fmt.Errorf("%d staged files are gone, somebody's vacuum has deleted them: %s", len(missing), strings.Join(missing, ", ")))
	}
	return nil
}

// failed keeps what a failed commit leaves behind.
func (t *Table) failed(ctx context.Context, err error) error {
	var unknown *delta.UnknownOutcomeError
	var fenced *delta.FencedError
	var moved *target.LayoutError
	switch {
	case errors.As(err, &moved):
		return t.lost(ctx, err)
	case errors.As(err, &unknown):
		t.win.prepared.unknown = true
		t.win.prepared.change.ID = unknown.ID
	case errors.As(err, &fenced) && fenced.Own:
		t.win.prepared.unknown = false
		if loadErr := errors.Join(t.Discard(context.WithoutCancel(ctx)), t.load()); loadErr != nil {
			return errors.Join(err, loadErr)
		}
	}
	return err
}

// commitFacts is the userMetadata of a data commit: the fields of the window's
// fact, and its events beside them.
type commitFacts struct {
	mssqlcdc.Fact
	Events []mssqlcdc.Fact `json:"events,omitempty"`
}

func encodeFacts(fact mssqlcdc.Fact, events []mssqlcdc.Fact) (string, error) {
	text, err := json.Marshal(commitFacts{Fact: fact, Events: events})
	if err != nil {
		return "", fmt.Errorf("writing the facts of a commit: %w", err)
	}
	return string(text), nil
}
