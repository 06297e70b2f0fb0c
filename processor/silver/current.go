package silver

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
)

// current keeps the latest image of each key.
//
// What is read of bronze is always a whole end of it: every row from the lowest new commit
// LSN on, also those that were applied before. A chunk may come to bronze after the
// deletion of a key that it has, and the table does not remember deletions.
type current struct {
	*call
	compared bool     // versions is known
	versions []string // of the merges
}

// from skips what a snapshot that is complete now stands for: its rows and the changes
// after it make all of the table.
func (m *current) from() string { return max(m.plan.base, m.plan.completed) }

func (m *current) wants(*changes, int) bool { return true }

func (m *current) pile(ctx context.Context, rows iter.Seq2[arrow.RecordBatch, error], last bool) error {
	latest, err := m.latest(ctx, rows)
	defer release(latest)
	if err != nil {
		return err
	}
	slices, err := m.slices(ctx, latest)
	defer func() {
		for _, s := range slices {
			release(s.Upserts)
			release(s.Deletes)
		}
	}()
	if err != nil {
		return err
	}
	if err := m.compare(ctx); err != nil {
		return err
	}
	for i, s := range slices {
		if err := m.merge(ctx, s, m.versions, last && i == len(slices)-1); err != nil {
			return err
		}
	}
	return nil
}

// compare finds out, before the first merge of the call, whether a merge has to compare the
// rows to come with those in the table. Where statistics say that all of these are older, as
// they are while a stream goes on, the column need not be read. Merges of this call do not
// change that: a key is in one slice.
func (m *current) compare(ctx context.Context) error {
	if m.compared {
		return nil
	}
	m.versions, m.compared = nil, true
	since := []prune.Condition{condition(mssqlcdc.ColStartLSN, prune.GreaterOrEqual, m.from())}
	for _, err := range m.target.Snapshot().PrunedFiles(ctx, since) {
		if err != nil {
			return fmt.Errorf("looking for rows of %s and after in table %s: %w", m.from(), m.cfg.TargetName, err)
		}
		m.versions = []string{mssqlcdc.ColStartLSN}
		break
	}
	return nil
}

// latest are the newest rows of each key.
func (m *current) latest(ctx context.Context, rows iter.Seq2[arrow.RecordBatch, error]) (latest []arrow.RecordBatch, err error) {
	var count int64
	for rec, err := range rows {
		if err != nil {
			return latest, err
		}
		rec.Retain()
		latest = append(latest, rec)
		// A key that changes all the time must not fill the memory.
		if count += rec.NumRows(); count < 2*m.cfg.SliceRows {
			continue
		}
		if latest, err = m.reduce(ctx, latest); err != nil {
			return latest, err
		}
		count = 0
	}
	return m.reduce(ctx, latest)
}

// place is a row among batches.
type place struct {
	batch int
	row   int
}

// reduce drops all but the newest row of each key. The batches that come in are released.
func (m *current) reduce(ctx context.Context, batches []arrow.RecordBatch) ([]arrow.RecordBatch, error) {
	defer release(batches)
	all := make([]*changes, len(batches))
	best := map[string]int{} // index into places
	var places []place
	var key []byte
	for b, rec := range batches {
		var err error
		if all[b], err = newChanges(rec); err != nil {
			return nil, err
		}
		keys, err := newKeyReader(rec, m.layout.bronze)
		if err != nil {
			return nil, err
		}
		for row := range int(rec.NumRows()) {
			key = keys.of(key[:0], row)
			at, ok := best[string(key)]
			if !ok {
				best[string(key)] = len(places)
				places = append(places, place{b, row})
				continue
			}
			if have := places[at]; all[b].compare(row, all[have.batch], have.row) > 0 {
				places[at] = place{b, row}
			}
		}
	}
	chosen := make([][]int64, len(batches))
	for _, p := range places {
		chosen[p.batch] = append(chosen[p.batch], int64(p.row))
	}
	var out []arrow.RecordBatch
	for b, rows := range chosen {
		if len(rows) == 0 {
			continue
		}
		part, err := take(ctx, batches[b], rows)
		if err != nil {
			release(out)
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

// slices are the merges that bring the rows, of at most about SliceRows keys each.
func (m *current) slices(ctx context.Context, latest []arrow.RecordBatch) (slices []merge.Source, err error) {
	var rows int64
	for _, rec := range latest {
		changes, err := newChanges(rec)
		if err != nil {
			return slices, err
		}
		var upserts, deletes []int64
		for row := range int(rec.NumRows()) {
			if isRemoval(changes.op(row)) {
				deletes = append(deletes, int64(row))
			} else {
				upserts = append(upserts, int64(row))
			}
		}
		if len(slices) == 0 || rows > 0 && rows+rec.NumRows() > 2*m.cfg.SliceRows {
			slices, rows = append(slices, merge.Source{}), 0
		}
		rows += rec.NumRows()
		m.result.Rows += rec.NumRows()
		s := &slices[len(slices)-1]
		if err := m.addRows(ctx, s, rec, upserts, false); err != nil {
			return slices, err
		}
		if err := m.addRows(ctx, s, rec, deletes, true); err != nil {
			return slices, err
		}
	}
	return slices, nil
}

// isRemoval tells whether a row says that its key is gone. The image before an update is
// the latest of a key only if the update moved the row to another key.
func isRemoval(op mssqlcdc.Operation) bool {
	return op == mssqlcdc.Delete || op == mssqlcdc.UpdateBefore
}

// addRows puts rows of bronze into a slice in the form of the table.
func (m *current) addRows(ctx context.Context, s *merge.Source, rec arrow.RecordBatch, rows []int64, removed bool) error {
	if len(rows) == 0 || removed && m.fresh && m.cfg.Deletes == Hard {
		return nil
	}
	part, err := take(ctx, rec, rows)
	if err != nil {
		return err
	}
	defer part.Release()
	fields := []arrow.Field{{Name: mssqlcdc.ColStartLSN, Type: arrow.BinaryTypes.String, Nullable: true}}
	columns := []arrow.Array{part.Column(columnOf(part.Schema(), mssqlcdc.ColStartLSN))}
	if removed && m.cfg.Deletes == Hard {
		s.Deletes = append(s.Deletes, m.layout.project(part, fields, columns))
		return nil
	}
	at := part.Column(columnOf(part.Schema(), mssqlcdc.ColCommitTime))
	fields = append(fields, arrow.Field{Name: mssqlcdc.ColCommitTime, Type: at.DataType(), Nullable: true})
	columns = append(columns, at)
	if m.cfg.Deletes == Soft {
		mark := constant(removed, len(rows))
		defer mark.Release()
		fields, columns = append(fields, boolField(ColDeleted)), append(columns, mark)
	}
	s.Upserts = append(s.Upserts, m.layout.project(part, fields, columns))
	return nil
}

func boolField(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.FixedWidthTypes.Boolean, Nullable: true}
}

func constant(value bool, n int) arrow.Array {
	b := array.NewBooleanBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(n)
	for range n {
		b.UnsafeAppend(value)
	}
	return b.NewArray()
}

// removeStale deletes the rows that are older than a snapshot that is in the table whole.
// Every key of the snapshot has got a row at or above its LSN, by the snapshot or by a
// change after it, whatever its type and order, so the others were deleted unseen.
func (m *current) removeStale(ctx context.Context) error {
	columns := append(m.layout.keys[:len(m.layout.keys):len(m.layout.keys)], mssqlcdc.ColStartLSN)
	if m.cfg.Deletes == Soft {
		columns = nil
	}
	st := &stale{current: m}
	options := delta.ReadOptions{Columns: columns, Prune: []prune.Condition{condition(mssqlcdc.ColStartLSN, prune.Less, m.plan.completed)}}
	defer func() { st.clear() }()
	for rec, err := range m.target.Read(ctx, m.target.Snapshot(), options) {
		if err != nil {
			return err
		}
		if err := st.add(ctx, rec); err != nil {
			return err
		}
	}
	return st.flush(ctx, true)
}

// stale gathers rows to be deleted.
type stale struct {
	*current
	slice merge.Source
	rows  int64
}

func (st *stale) clear() {
	release(st.slice.Upserts)
	release(st.slice.Deletes)
	st.slice, st.rows = merge.Source{}, 0
}

func (st *stale) add(ctx context.Context, rec arrow.RecordBatch) error {
	start, ok := named[*array.String](rec, mssqlcdc.ColStartLSN, true)
	deleted, isBool := named[*array.Boolean](rec, ColDeleted, st.cfg.Deletes == Soft)
	if !ok || !isBool {
		return &ConfigError{Target: st.cfg.TargetName, Reason: "its own columns are of other types than apply_changes makes them"}
	}
	var rows []int64
	for row := range int(rec.NumRows()) {
		if text(start, row) < st.plan.completed && (st.cfg.Deletes == Hard || !deleted.Value(row)) {
			rows = append(rows, int64(row))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	part, err := take(ctx, rec, rows)
	if err != nil {
		return err
	}
	defer part.Release()
	st.rows += part.NumRows()
	version := repeated(st.plan.completed, len(rows))
	defer version.Release()
	replaced := map[string]arrow.Array{mssqlcdc.ColStartLSN: version}
	if st.cfg.Deletes == Soft {
		mark, at := constant(true, len(rows)), times(st.plan.snapshotTime, len(rows))
		defer mark.Release()
		defer at.Release()
		replaced[ColDeleted], replaced[mssqlcdc.ColCommitTime] = mark, at
		st.slice.Upserts = append(st.slice.Upserts, replace(part, replaced))
	} else {
		st.slice.Deletes = append(st.slice.Deletes, replace(part, replaced))
	}
	if st.rows >= st.cfg.SliceRows {
		return st.flush(ctx, false)
	}
	return nil
}

func (st *stale) flush(ctx context.Context, last bool) error {
	err := st.merge(ctx, st.slice, []string{mssqlcdc.ColStartLSN}, last)
	st.clear()
	return err
}

// replace is a batch with some columns replaced.
func replace(rec arrow.RecordBatch, by map[string]arrow.Array) arrow.RecordBatch {
	columns := make([]arrow.Array, rec.NumCols())
	for i, column := range rec.Columns() {
		columns[i] = column
		for name, arr := range by {
			if strings.EqualFold(name, rec.ColumnName(i)) {
				columns[i] = arr
			}
		}
	}
	return array.NewRecordBatch(rec.Schema(), columns, rec.NumRows())
}

func repeated(value string, n int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for range n {
		b.Append(value)
	}
	return b.NewArray()
}

// times are n times a time in microseconds since 1970 UTC, NULL for 0.
func times(value int64, n int) arrow.Array {
	b := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond})
	defer b.Release()
	for range n {
		if value == 0 {
			b.AppendNull()
			continue
		}
		b.Append(arrow.Timestamp(value))
	}
	return b.NewArray()
}

func release(batches []arrow.RecordBatch) {
	for _, rec := range batches {
		rec.Release()
	}
}
