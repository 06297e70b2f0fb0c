package bronze

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// window is a window on its way into the table.
type window struct {
	env     mssqlcdc.Envelope // of the part that came last
	next    int               // number of the part that must come next
	begun   time.Time
	encoder *encoder

	tally    tally
	arrived  int64 // rows that came, before trimming
	filtered int64
	fit      *target.Fitted // of the table with the window, nil while no row was kept
	layout   *schema.Struct // of the rows that were fitted last
	columns  []string       // that the table gains

	prepared *prepared
}

// same tells whether a part belongs to the window.
func (w *window) same(env mssqlcdc.Envelope) bool {
	return w.env.Attempt == env.Attempt && w.env.Window.Start == env.Window.Start && w.env.Generation == env.Generation && w.env.Table == env.Table
}

// ends tells whether a part is the window's last and was taken before: it comes
// again because what follows has failed.
func (w *window) ends(env mssqlcdc.Envelope) bool {
	return env.Last && w.env.Last && w.same(env) && w.env.Window.End == env.Window.End && w.env.Part == env.Part && w.next == env.Part+1
}

// types are the columns whose types the window changes.
func (w *window) types() []target.TypeChange {
	if w.fit == nil {
		return nil
	}
	return w.fit.Changes
}

// trimmed is how many rows were left out because the table has them.
func (w *window) trimmed() int64 { return w.arrived - w.tally.rows }

// take checks a part and hands its rows to the encoder. The part is not taken if
// there is an error, and an error of the encoder loses the window.
func (t *Table) take(ctx context.Context, record arrow.RecordBatch, env mssqlcdc.Envelope) error {
	w := t.win
	if err := checkRows(record, env); err != nil {
		return err
	}
	kept := []arrow.RecordBatch{record}
	if env.Chunk == nil && t.hasPosition && env.Window.Start.Less(t.position) {
		kept = above(record, t.position)
	}
	if record.NumRows() == 0 {
		kept = nil
	}
	fit, layout := w.fit, w.layout
	if len(kept) > 0 {
		var err error
		if fit, layout, err = t.fit(record.Schema()); err != nil {
			return err
		}
		if err := w.encoder.put(ctx, piece{records: kept, instance: env.Instance, chunk: env.Chunk, fit: fit}); err != nil {
			if w.encoder.failure() == nil {
				return err // the context ended before the part was taken
			}
			return t.lost(ctx, err)
		}
	}
	for _, rows := range kept {
		w.tally.add(rows)
	}
	w.fit, w.layout = fit, layout
	w.env, w.next = env, env.Part+1
	w.arrived += record.NumRows()
	w.filtered += env.Filtered
	return nil
}

// fit says how rows of one more layout go into the table with the window.
func (t *Table) fit(record *arrow.Schema) (*target.Fitted, *schema.Struct, error) {
	incoming, err := t.bronzeSchema(record)
	if err != nil {
		return nil, nil, err
	}
	if t.win.fit != nil && t.win.layout == incoming {
		return t.win.fit, incoming, nil
	}
	s := t.target.Snapshot()
	if t.win.fit == nil && s != nil && t.steady.layout == incoming && t.steady.fit.Steady(s) {
		return t.steady.fit, incoming, nil
	}
	if err := t.checkMetadataColumns(); err != nil {
		return nil, nil, err
	}
	fit, err := t.target.Fit(t.win.fit, incoming)
	if err == nil && t.win.fit == nil && s != nil && fit.Steady(s) {
		t.steady = steady{layout: incoming, fit: fit}
	}
	return fit, incoming, err
}

// steady is the last fit that left the table as it is: most windows have the same.
type steady struct {
	layout *schema.Struct
	fit    *target.Fitted
}

// checkMetadataColumns refuses a table whose metadata columns have other types than ours,
// whatever on_type_change says: what is in them could not be read back.
func (t *Table) checkMetadataColumns() error {
	s := t.target.Snapshot()
	if s == nil {
		return nil
	}
	for _, c := range slices.Concat(before(), after(t.convert.byDate)) {
		if f, ok := s.Schema().Field(c.name); ok && f.Type != c.typ {
			return &target.SchemaConflictError{Table: t.target.Name(), Err: &schema.SchemaError{Column: f.Name, Have: c.typ.String(), Want: f.Type.String()}}
		}
	}
	return nil
}

// lost gives up the window after an error of its encoder. Whether the part at hand
// was taken is not known then, so the window starts anew.
func (t *Table) lost(ctx context.Context, cause error) error {
	lost := &StagingError{Window: t.win.env.Window, Err: cause}
	if err := t.Discard(context.WithoutCancel(ctx)); err != nil {
		return errors.Join(lost, err)
	}
	return lost
}

// end is the end of a window: its last part is taken.
func (t *Table) end(ctx context.Context) (Result, error) {
	w := t.win
	switch {
	case w.prepared != nil:
		return t.commit(ctx)
	case t.hasChunk(), w.env.Chunk == nil && t.hasPosition && !t.position.Less(w.env.Window.End):
		return t.skip(ctx)
	case w.arrived == 0 && w.filtered == 0 && !t.completes(w.env.Chunk):
		result := Result{Mark: mssqlcdc.Committed, Idle: true, Version: -1}
		result.Window, result.Events = t.facts(nil)
		return t.handOut(ctx, result)
	}
	if err := t.prepare(ctx); err != nil {
		return Result{}, err
	}
	return t.commit(ctx)
}

// skip is the end of a window that the table has already.
func (t *Table) skip(ctx context.Context) (Result, error) {
	result := Result{Mark: mssqlcdc.Skipped, Version: -1, Trimmed: t.win.trimmed()}
	result.Window, result.Events = t.facts(nil)
	result.Window.Event = mssqlcdc.EventPositionPassed
	return t.handOut(ctx, result)
}

// handOut ends a window that made no commit.
func (t *Table) handOut(ctx context.Context, result Result) (Result, error) {
	if err := t.Discard(ctx); err != nil {
		return Result{}, err
	}
	t.adopted = nil
	return result, nil
}
