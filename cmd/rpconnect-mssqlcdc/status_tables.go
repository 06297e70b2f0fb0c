package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
)

// lastFact is the newest row of a table in the facts.
type lastFact struct {
	WrittenAt    time.Time `json:"written_at"`
	EndLSN       string    `json:"end_lsn"`
	CaptureLag   *float64  `json:"capture_lag_seconds"`
	IngestionLag *float64  `json:"ingestion_lag_seconds"`
	Headroom     *float64  `json:"retention_headroom_hours"`
}

// lastRun is the newest comparison of a table.
type lastRun struct {
	RunID    string           `json:"run_id"`
	At       time.Time        `json:"run_at"`
	Status   reconcile.Status `json:"status"`
	Failures int64            `json:"failures"` // listed keys and chunks
}

// recentFacts is how far back facts are looked for first: a running pipeline writes some every few minutes, and a facts table is long.
const recentFacts = 7 * 24 * time.Hour

// addFacts finds the newest facts of each table. The facts name the Delta table as configured and the table of the source; the control table
// has one of both.
func (o *opened) addFacts(ctx context.Context, path string, tables []tableStatus) error {
	table, err := o.open(ctx, path)
	if err != nil {
		return err
	}
	since := []prune.Condition{{Column: "written_at", Op: prune.GreaterOrEqual, Value: time.Now().Add(-recentFacts).UTC().Truncate(time.Microsecond)}}
	found, err := newestFacts(ctx, table, since)
	if err == nil && len(found) == 0 {
		found, err = newestFacts(ctx, table, nil)
	}
	if err != nil {
		return fmt.Errorf("reading the facts table %s: %w", path, err)
	}
	for i := range tables {
		if fact, ok := found[strings.TrimRight(tables[i].Table, "/")]; ok {
			tables[i].Facts = &fact
		}
	}
	return nil
}

// newestFacts are the newest windows by Delta table and by source table.
func newestFacts(ctx context.Context, table *delta.Table, since []prune.Condition) (map[string]lastFact, error) {
	s := table.Snapshot()
	columns := []string{"target", "event", "written_at", "end_lsn", "capture_lag_seconds", "ingestion_lag_seconds", "retention_headroom_hours"}
	if s.Schema().Index("source_table") >= 0 {
		columns = append(columns, "source_table")
	}
	found := map[string]lastFact{}
	for rec, err := range table.Read(ctx, s, delta.ReadOptions{Columns: columns, Prune: since}) {
		if err != nil {
			return nil, err
		}
		for row := range mssqlcdc.Rows(rec, 0) {
			at, ok := row["written_at"].(time.Time)
			if !ok || row["event"] != nil {
				continue
			}
			text := func(name string) string { s, _ := row[name].(string); return strings.Clone(s) }
			fact := lastFact{
				WrittenAt: at, EndLSN: text("end_lsn"), CaptureLag: real(row["capture_lag_seconds"]),
				IngestionLag: real(row["ingestion_lag_seconds"]), Headroom: real(row["retention_headroom_hours"]),
			}
			for _, name := range []string{strings.TrimRight(text("target"), "/"), text("source_table")} {
				if have, ok := found[name]; name != "" && (!ok || have.before(fact)) {
					found[name] = fact
				}
			}
		}
	}
	return found, nil
}

// before orders facts: rows of one moment by the end of their window.
func (f lastFact) before(other lastFact) bool {
	return cmp.Or(f.WrittenAt.Compare(other.WrittenAt), cmp.Compare(f.EndLSN, other.EndLSN)) < 0
}

func real(v any) *float64 {
	if f, ok := v.(float64); ok {
		return &f
	}
	return nil
}

// addRuns finds the newest comparison of each table.
func (o *opened) addRuns(ctx context.Context, path string, tables []tableStatus) error {
	table, err := o.open(ctx, path)
	if err != nil {
		return err
	}
	found := map[string]lastRun{}
	columns := []string{reconcile.ColRunID, reconcile.ColRunAt, reconcile.ColTarget, reconcile.ColStatus, reconcile.ColFailureType}
	for rec, err := range table.Read(ctx, table.Snapshot(), delta.ReadOptions{Columns: columns}) {
		if err != nil {
			return fmt.Errorf("reading the report table %s: %w", path, err)
		}
		for row := range mssqlcdc.Rows(rec, 0) {
			text := func(name string) string { s, _ := row[name].(string); return strings.Clone(s) }
			at, _ := row[reconcile.ColRunAt].(time.Time)
			name, id := text(reconcile.ColTarget), text(reconcile.ColRunID)
			run, ok := found[name]
			if ok && (at.Before(run.At) || at.Equal(run.At) && id < run.RunID) {
				continue
			}
			if run.RunID != id {
				run = lastRun{RunID: id, At: at, Status: reconcile.Match}
			}
			run.add(reconcile.Status(text(reconcile.ColStatus)), reconcile.FailureType(text(reconcile.ColFailureType)))
			found[name] = run
		}
	}
	for i := range tables {
		if run, ok := found[tables[i].Table]; ok {
			tables[i].Reconcile = &run
		}
	}
	return nil
}

// add takes in a row: a run is as bad as its worst bucket, and wrong with any key or chunk that is.
func (r *lastRun) add(status reconcile.Status, failure reconcile.FailureType) {
	wrong := failure != "" && failure != reconcile.InFlight
	if wrong {
		r.Failures++
	}
	switch {
	case wrong || status == reconcile.Mismatch:
		r.Status = reconcile.Mismatch
	case status == reconcile.Flying && r.Status == reconcile.Match:
		r.Status = reconcile.Flying
	}
}
