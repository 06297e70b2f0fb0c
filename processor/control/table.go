package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// ErrUnknownTarget is returned for a target without a row.
var ErrUnknownTarget = errors.New("the control table has no such target")

// Table is an opened control table. It is safe for concurrent use, also from
// several processes.
type Table struct {
	delta *delta.Table
	now   func() time.Time

	mu    sync.Mutex
	files map[string][]row // rows of each live file, by path; files never change
}

// Options are the choices of a control table. The zero value is ready to use.
type Options struct {
	Now    func() time.Time // default time.Now
	Engine string           // program and version for the table's history
	Upkeep maintain.Auto    // keeps the table in shape after commits
}

func (o Options) delta() delta.Options {
	return delta.Options{Now: o.Now, Engine: o.Engine, Upkeep: o.Upkeep.Upkeep}
}

// properties keep a table small whose only file per target is replaced with every
// verdict: tombstones for a week would sit in each Delta checkpoint.
func properties() map[string]string {
	return map[string]string{
		SchemaVersionProperty:                schemaVersion,
		"delta.deletedFileRetentionDuration": "interval 1 hours",
		"delta.logRetentionDuration":         "interval 2 days",
		"delta.checkpointInterval":           "100",
	}
}

// Open opens a control table to read it. The error is delta.ErrNotTable if there
// is none.
func Open(ctx context.Context, st store.Store, o Options) (*Table, error) {
	t, err := delta.Open(ctx, st, o.delta())
	if err != nil {
		return nil, fmt.Errorf("opening the control table: %w", err)
	}
	return newTable(t, o), nil
}

// Create opens a control table to write to it. It makes the table if there is
// none, and adds our columns to one of mssql-cdc-pyspark.
func Create(ctx context.Context, st store.Store, o Options) (*Table, error) {
	t, err := delta.Create(ctx, st, delta.Spec{
		Schema: tableSchema(), Properties: properties(),
		Comment: "Completeness verdicts: every period before finalized_until is complete in the target",
	}, o.delta())
	if err != nil {
		return nil, fmt.Errorf("opening the control table: %w", err)
	}
	table := newTable(t, o)
	if err := table.migrate(ctx); err != nil {
		return nil, errors.Join(err, table.Close(ctx))
	}
	return table, nil
}

func newTable(t *delta.Table, o Options) *Table {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Table{delta: t, now: o.Now, files: map[string][]row{}}
}

// Close waits for work in the background.
func (t *Table) Close(ctx context.Context) error { return t.delta.Close(ctx) }

// migrate adds columns that an older table lacks.
func (t *Table) migrate(ctx context.Context) error {
	snapshot := t.delta.Snapshot()
	if text, ok := snapshot.Property(minVersionProperty); ok {
		if version, err := strconv.Atoi(text); err != nil || version > 4 {
			return fmt.Errorf("the control table %s needs a newer release: its property %s is %q", t.delta.Store().URL(), minVersionProperty, text)
		}
	}
	change, err := migration(snapshot)
	if err != nil || change == nil {
		return err
	}
	change.Rebase = func(_ context.Context, s *delta.Snapshot) (delta.Change, error) {
		again, err := migration(s)
		if err != nil || again == nil {
			return delta.Change{Operation: delta.OpSetProperties, ReadVersion: s.Version()}, err
		}
		return *again, nil
	}
	if _, err := t.delta.Commit(ctx, *change); err != nil {
		return fmt.Errorf("adding columns to the control table: %w", err)
	}
	return nil
}

// migration is nil for a table that has all columns.
func migration(s *delta.Snapshot) (*delta.Change, error) {
	merged, changed, err := schema.Merge(s.Schema(), tableSchema())
	if err != nil {
		return nil, fmt.Errorf("the control table has another schema: %w", err)
	}
	if !changed {
		return nil, nil
	}
	metadata := s.Metadata()
	metadata.SchemaString = merged.JSON()
	metadata.Configuration = maps.Clone(metadata.Configuration)
	if metadata.Configuration == nil {
		metadata.Configuration = map[string]string{}
	}
	metadata.Configuration[SchemaVersionProperty] = schemaVersion
	return &delta.Change{Operation: delta.OpAddColumns, Metadata: &metadata, ReadVersion: s.Version()}, nil
}

// Get reads a target's verdict from the newest version of the table;
// ErrUnknownTarget if it has none.
func (t *Table) Get(ctx context.Context, target string) (Verdict, error) {
	snapshot, err := t.delta.Refresh(ctx)
	if err != nil {
		return Verdict{}, fmt.Errorf("reading the control table: %w", err)
	}
	found, err := t.find(ctx, snapshot, target)
	if err != nil {
		return Verdict{}, err
	}
	if found.row == nil {
		return Verdict{}, fmt.Errorf("%w: %q", ErrUnknownTarget, target)
	}
	return found.row.verdict()
}

// All reads every verdict, ordered by target.
func (t *Table) All(ctx context.Context) ([]Verdict, error) {
	snapshot, err := t.delta.Refresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the control table: %w", err)
	}
	var all []Verdict
	for add, err := range snapshot.Files(ctx) {
		if err != nil {
			return nil, fmt.Errorf("listing the control table: %w", err)
		}
		rows, err := t.rows(ctx, snapshot, add)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			v, err := r.verdict()
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b Verdict) int { return strings.Compare(a.Target, b.Target) })
	return all, nil
}

// found is where a target's row lies.
type found struct {
	add  action.Add
	rows []row // all rows of that file
	row  row   // nil if the target has none
}

func (t *Table) find(ctx context.Context, s *delta.Snapshot, target string) (found, error) {
	live := map[string]bool{}
	var result found
	for add, err := range s.Files(ctx) {
		if err != nil {
			return found{}, fmt.Errorf("listing the control table: %w", err)
		}
		live[add.Path] = true
		rows, err := t.rows(ctx, s, add)
		if err != nil {
			return found{}, err
		}
		for _, r := range rows {
			if r.text(colTarget) == target {
				result = found{add: add, rows: rows, row: r}
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.files, func(path string, _ []row) bool { return !live[path] })
	return result, nil
}

// rows reads a data file once: it holds a row or a few, and never changes.
func (t *Table) rows(ctx context.Context, s *delta.Snapshot, add action.Add) ([]row, error) {
	t.mu.Lock()
	rows, ok := t.files[add.Path]
	t.mu.Unlock()
	if ok {
		return rows, nil
	}
	for rec, err := range t.delta.ReadFile(ctx, s, add, delta.ReadOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("reading the control table: %w", err)
		}
		rows = append(rows, rowsOf(rec)...)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files[add.Path] = rows
	return rows, nil
}

// Advance moves a target's verdict to what the candidate brings, if that is
// later. It tells the verdict after the call and whether the table changed. A
// race with another writer is computed again until it is won.
func (t *Table) Advance(ctx context.Context, c Candidate) (Verdict, bool, error) {
	v, changed, err := t.move(ctx, c.Target, func(before Verdict, now time.Time) (Verdict, bool, error) { return before.advance(c, now) })
	if err != nil {
		return v, false, fmt.Errorf("moving the verdict of %q: %w", c.Target, err)
	}
	return v, changed, nil
}

// move replaces the row of a target by what advance makes of it.
func (t *Table) move(ctx context.Context, target string, advance func(Verdict, time.Time) (Verdict, bool, error)) (Verdict, bool, error) {
	snapshot, err := t.delta.Refresh(ctx)
	if err != nil {
		return Verdict{}, false, fmt.Errorf("reading the control table: %w", err)
	}
	step := &step{table: t, target: target, advance: advance}
	change, err := step.change(ctx, snapshot)
	if err != nil || !step.changed {
		return step.verdict, false, err
	}
	change.Rebase = step.change
	if _, err := t.delta.Commit(ctx, change); err != nil {
		return Verdict{}, false, err
	}
	return step.verdict, step.changed, nil
}

// step is one move, computed as often as races ask for it.
type step struct {
	table   *Table
	target  string
	advance func(Verdict, time.Time) (Verdict, bool, error)
	verdict Verdict
	changed bool
	written []action.Add // files of the computation before, if any
}

// change replaces the file that holds the target's row. When a winner has moved the
// verdict past the candidate meanwhile, it commits nothing of consequence: a
// change without actions.
func (s *step) change(ctx context.Context, snapshot *delta.Snapshot) (delta.Change, error) {
	// Being asked again means that the commit before certainly did not land.
	if err := s.table.delta.Discard(ctx, s.written); err != nil {
		return delta.Change{}, err
	}
	s.written = nil
	found, err := s.table.find(ctx, snapshot, s.target)
	if err != nil {
		return delta.Change{}, err
	}
	before := Verdict{Target: s.target}
	if found.row != nil {
		if before, err = found.row.verdict(); err != nil {
			return delta.Change{}, err
		}
	}
	s.verdict, s.changed, err = s.advance(before, s.table.now())
	change := delta.Change{
		Operation:           delta.OpMerge,
		OperationParameters: map[string]string{"predicate": "\"table_name = target\""},
		ReadVersion:         snapshot.Version(),
	}
	if err != nil || !s.changed {
		return change, err
	}
	updated := row{}
	rows := []row{updated}
	if found.row != nil {
		rows = nil
		for _, r := range found.rows {
			if r.text(colTarget) == s.target {
				maps.Copy(updated, r)
				r = updated
			}
			rows = append(rows, r)
		}
		change.Remove = []action.Remove{found.add.Remove(s.table.now().UnixMilli(), true)}
	}
	if err := updated.set(s.verdict); err != nil {
		return delta.Change{}, err
	}
	s.written, err = s.table.write(ctx, snapshot, rows)
	change.Add = s.written
	return change, err
}

func (t *Table) write(ctx context.Context, s *delta.Snapshot, rows []row) ([]action.Add, error) {
	rec, err := record(s.Schema().Arrow(), rows)
	if err != nil {
		return nil, err
	}
	defer rec.Release()
	writer, err := t.delta.NewWriter(ctx, data.WriterOptions{})
	if err != nil {
		return nil, err
	}
	if err := writer.Write(rec); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the control table: %w", err), writer.Abort())
	}
	adds, err := writer.Close()
	if err != nil {
		return nil, fmt.Errorf("writing the control table: %w", err)
	}
	return adds, nil
}
