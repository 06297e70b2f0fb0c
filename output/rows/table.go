package rows

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/google/uuid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// Config is what a [Table] is opened with.
type Config struct {
	// AppID names the writer for batch keys; it may be "" without them.
	AppID string
	// Table is the Delta table.
	Table target.Spec
	// Schema is the declared schema; nil infers it from the rows. Columns of rows
	// that a declared schema does not have are an error.
	Schema *schema.Struct
}

// RowError reports a row that cannot be stored.
type RowError struct {
	Row int // index in the batch
	Err error
}

// Error names the row.
func (e *RowError) Error() string { return fmt.Sprintf("row %d: %v", e.Row, e.Err) }

// Unwrap returns the reason.
func (e *RowError) Unwrap() error { return e.Err }

// Result is what became of a batch.
type Result struct {
	// Version is the table's version that the batch became.
	Version int64
	// Skipped says that the table had the batch's key already.
	Skipped            bool
	Rows, Files, Bytes int64
	Columns            []string // that were added to the table
	Types              []target.TypeChange
	Races              int
}

// Table is a table of ordinary rows. It is used from one goroutine at a time.
type Table struct {
	cfg    Config
	target *target.Target
}

// Open opens the table in the store, which may not have it yet.
func Open(ctx context.Context, st store.Store, cfg Config) (*Table, error) {
	opened, err := target.Open(ctx, st, cfg.Table)
	if err != nil {
		return nil, err
	}
	return &Table{cfg: cfg, target: opened}, nil
}

// Target is the Delta table underneath.
func (t *Table) Target() *target.Target { return t.target }

// Batch is rows whose files are complete and wait to be committed. A Batch that
// was not committed is given up by Discard.
type Batch struct {
	table  *Table
	rows   []map[string]any
	key    *int64
	change delta.Change
	adds   []action.Add
	fit    *target.Fitted
	added  []string
	landed bool // may have
}

// Stage writes the rows into files. Rows that cannot be stored are a [*RowError]
// each, joined; nothing is staged then. A nil batch with a nil error is that the
// rows hold nothing to store.
func (t *Table) Stage(ctx context.Context, rows []map[string]any, key *int64) (*Batch, error) {
	incoming, err := t.incoming(rows)
	if err != nil {
		return nil, err
	}
	if len(incoming.Fields) == 0 {
		return nil, &target.SchemaConflictError{Table: t.target.Name(), Err: errors.New("they have no column with a value")}
	}
	fit, err := t.fit(incoming)
	if err != nil {
		return nil, err
	}
	record, err := pack(rows, incoming)
	if err != nil {
		return nil, err
	}
	defer record.Release()
	if t.target.Table() == nil {
		if err := t.target.Create(ctx, fit, nil, ""); err != nil {
			return nil, err
		}
		if fit, err = t.fit(incoming); err != nil { // somebody else may have made it
			return nil, err
		}
	}
	b := &Batch{table: t, rows: rows, key: key, fit: fit}
	if err := b.write(ctx, record); err != nil {
		return nil, fmt.Errorf("writing rows: %w", err)
	}
	b.change = t.change(b, key)
	return b, nil
}

// fit says how the rows go into the table. Types that were inferred are the table's own.
func (t *Table) fit(incoming *schema.Struct) (*target.Fitted, error) {
	if t.cfg.Schema == nil {
		return t.target.FitByName(incoming)
	}
	return t.target.Fit(nil, incoming)
}

// write writes the record into files.
func (b *Batch) write(ctx context.Context, record arrow.RecordBatch) error {
	w, err := b.table.target.NewWriter(ctx, b.fit)
	if err != nil {
		return err
	}
	placed := b.fit.Rename(record)
	defer placed.Release()
	if err := w.Write(placed); err != nil {
		return errors.Join(err, w.Abort())
	}
	if b.adds, err = w.Close(); err != nil {
		return errors.Join(err, w.Abort())
	}
	return nil
}

// incoming is the schema of the rows. Where the table knows a column, values of
// another type are tried in that type, row by row.
func (t *Table) incoming(rows []map[string]any) (*schema.Struct, error) {
	if t.cfg.Schema != nil {
		return t.cfg.Schema, undeclared(rows, t.cfg.Schema)
	}
	s := t.target.Snapshot()
	if s == nil {
		return Infer(rows)
	}
	table := finderOf(s.Schema())
	fresh := make([]map[string]any, len(rows))
	for i, row := range rows {
		for name, v := range row {
			if table.find(name) >= 0 {
				continue
			}
			if fresh[i] == nil {
				fresh[i] = map[string]any{}
			}
			fresh[i][name] = v
		}
	}
	inferred, err := Infer(fresh)
	if err != nil {
		return nil, err
	}
	return &schema.Struct{Fields: append(slices.Clone(s.Schema().Fields), inferred.Fields...)}, nil
}

// finder finds the columns of a schema by name, ignoring case. It remembers how rows
// spell them, which is the same way in most. It is not safe for concurrent use.
type finder struct {
	schema *schema.Struct
	known  map[string]int
}

func finderOf(s *schema.Struct) finder { return finder{schema: s, known: map[string]int{}} }

// find is the index of the column, -1 if there is none.
func (f finder) find(name string) int {
	at, ok := f.known[name]
	if !ok {
		at = f.schema.Index(name)
		f.known[name] = at
	}
	return at
}

func undeclared(rows []map[string]any, declared *schema.Struct) error {
	var errs []error
	columns := finderOf(declared)
	for i, row := range rows {
		for name := range row {
			if columns.find(name) < 0 {
				errs = append(errs, &RowError{Row: i, Err: fmt.Errorf("column %q is not among the declared ones: declare it or take it out with a mapping", name)})
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (t *Table) change(b *Batch, key *int64) delta.Change {
	s := t.target.Snapshot()
	for _, f := range b.fit.Schema.Fields {
		if s.Schema().Index(f.Name) < 0 {
			b.added = append(b.added, f.Name)
		}
	}
	var bytes int64
	for _, a := range b.adds {
		bytes += a.Size
	}
	change := delta.Change{
		ID: uuid.NewString(), Operation: delta.OpWrite, OperationParameters: map[string]string{"mode": "Append"},
		Metrics: map[string]int64{"numFiles": int64(len(b.adds)), "numOutputRows": int64(len(b.rows)), "numOutputBytes": bytes},
		Add:     b.adds, Metadata: target.Metadata(s, b.fit, nil),
		BlindAppend: true, ReadVersion: s.Version(),
		Rebase: func(_ context.Context, s *delta.Snapshot) (delta.Change, error) {
			fit, err := t.target.Rebase(s, b.fit)
			if err != nil {
				return delta.Change{}, err
			}
			next := b.change
			next.Metadata = target.Metadata(s, fit, nil)
			return next, nil
		},
	}
	if key != nil {
		change.Keyed = &delta.Txn{AppID: t.cfg.AppID, Version: *key}
	}
	return change
}

// Commit commits the batch. It can be repeated after any error.
func (b *Batch) Commit(ctx context.Context) (Result, error) {
	done, err := b.table.target.Table().Commit(ctx, b.change)
	var moved *target.LayoutError
	switch {
	case errors.Is(err, delta.ErrUnknownOutcome):
		b.landed = true
	case errors.As(err, &moved):
		return Result{}, errors.Join(err, b.again(ctx))
	}
	if err != nil {
		return Result{}, err
	}
	result := Result{Version: done.Version, Races: done.Races}
	if done.State == delta.AlreadyApplied {
		result.Skipped = true
		return result, b.Discard(ctx)
	}
	result.Rows, result.Files, result.Bytes = int64(len(b.rows)), int64(len(b.adds)), b.change.Metrics["numOutputBytes"]
	result.Columns, result.Types = b.added, b.fit.Changes
	return result, nil
}

// again writes the rows for the table as it is now.
func (b *Batch) again(ctx context.Context) error {
	if err := b.Discard(ctx); err != nil {
		return err
	}
	b.adds = nil
	if err := b.table.target.Refresh(ctx); err != nil {
		return err
	}
	next, err := b.table.Stage(ctx, b.rows, b.key)
	if err != nil {
		return err
	}
	*b = *next
	return nil
}

// Discard deletes the files of a batch that was not committed, unless they may
// have been.
func (b *Batch) Discard(ctx context.Context) error {
	if b.landed {
		return nil
	}
	return b.table.target.Discard(ctx, b.adds)
}

// Close closes the table.
func (t *Table) Close(ctx context.Context) error { return t.target.Close(ctx) }

// pack makes the record of the rows in the columns of a schema. Each row that does
// not fit is a RowError.
func pack(rows []map[string]any, s *schema.Struct) (arrow.RecordBatch, error) {
	record, err := packAll(rows, s)
	if err == nil {
		return record, nil
	}
	// Find out about every row, so that the others can go without these.
	var errs []error
	for i := range rows {
		one, err := packAll(rows[i:i+1], s)
		if err != nil {
			var row *RowError
			if errors.As(err, &row) {
				err = row.Err
			}
			errs = append(errs, &RowError{Row: i, Err: err})
			continue
		}
		one.Release()
	}
	return nil, errors.Join(errs...)
}

// packAll packs the columns of the schema that the rows have. The others are NULL,
// whatever their type.
func packAll(rows []map[string]any, s *schema.Struct) (arrow.RecordBatch, error) {
	s = present(rows, s)
	builder := array.NewRecordBuilder(memory.DefaultAllocator, s.Arrow())
	defer builder.Release()
	packer, err := mssqlcdc.NewRowBuilder(builder.Schema(), builder)
	if err != nil {
		return nil, &RowError{Err: err}
	}
	columns := finderOf(s)
	values := make([]any, len(s.Fields))
	for i, row := range rows {
		if err := packRow(row, columns, values, packer); err != nil {
			return nil, &RowError{Row: i, Err: err}
		}
	}
	return packer.NewRecord(), nil
}

func packRow(row map[string]any, columns finder, values []any, packer *mssqlcdc.RowBuilder) (err error) {
	clear(values)
	for name, v := range row {
		if v == nil {
			continue
		}
		at := columns.find(name)
		if at < 0 {
			continue
		}
		if values[at] != nil {
			return fmt.Errorf("column %q comes twice (names are compared ignoring case)", name)
		}
		if values[at], err = plain(v); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
	}
	for at, v := range values {
		if err := packer.Set(at, v); err != nil {
			return err
		}
	}
	return nil
}

// present is the schema of the columns that some row has a value for, and the
// first column if there is none.
func present(rows []map[string]any, s *schema.Struct) *schema.Struct {
	columns, some := finderOf(s), make([]bool, len(s.Fields))
	for _, row := range rows {
		for name, v := range row {
			if v == nil {
				continue
			}
			if at := columns.find(name); at >= 0 {
				some[at] = true
			}
		}
	}
	out := &schema.Struct{}
	for i, f := range s.Fields {
		if some[i] || !f.Nullable || i == len(s.Fields)-1 && len(out.Fields) == 0 {
			out.Fields = append(out.Fields, f)
		}
	}
	return out
}
