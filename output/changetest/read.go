package changetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// ReadBack reads the change rows of a bronze table, in their order.
func ReadBack(ctx context.Context, st store.Store) ([]Row, error) {
	table, err := delta.Open(ctx, st, delta.Options{CheckpointInterval: -1})
	if err != nil {
		return nil, err
	}
	s := table.Snapshot()
	names := []string{
		mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation, mssqlcdc.ColCommandID, mssqlcdc.ColCommitTime, "id", "name", "amount",
	}
	for _, name := range []string{mssqlcdc.ColBatchID, mssqlcdc.ColSnapshot, mssqlcdc.ColChunk, "extra"} {
		if s.Schema().Index(name) >= 0 { // tables of other writers may lack them
			names = append(names, name)
		}
	}
	var rows []Row
	for rec, err := range table.Read(ctx, s, delta.ReadOptions{Columns: names}) {
		if err != nil {
			return nil, err
		}
		for i := range int(rec.NumRows()) {
			row, err := rowAt(rec, i)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b Row) int { return a.Position.Compare(b.Position) })
	return rows, table.Close(ctx)
}

func rowAt(rec arrow.RecordBatch, i int) (r Row, err error) {
	if r.Position.StartLSN, err = mssqlcdc.ParseLSN(rec.Column(0).(*array.String).Value(i)); err != nil {
		return r, err
	}
	r.Position.Operation = mssqlcdc.Operation(rec.Column(2).(*array.Int32).Value(i))
	if err := r.readOrigin(rec, i); err != nil {
		return r, err
	}
	r.Time = time.UnixMicro(int64(rec.Column(4).(*array.Timestamp).Value(i))).UTC()
	r.ID = rec.Column(5).(*array.Int64).Value(i)
	if name := rec.Column(6).(*array.String); name.IsValid(i) {
		r.Name = string([]byte(name.Value(i)))
	}
	r.Amount = int64(rec.Column(7).(*array.Decimal128).Value(i).LowBits())
	if extra, ok := columnOf(rec, "extra").(*array.Int64); ok {
		r.Extra = extra.Value(i)
	}
	return r, nil
}

// readOrigin reads the columns that only changes, or only rows of snapshots, have.
func (r *Row) readOrigin(rec arrow.RecordBatch, i int) (err error) {
	change := r.Position.Operation != mssqlcdc.Read
	for name, want := range map[string]bool{
		mssqlcdc.ColSeqVal: change, mssqlcdc.ColBatchID: change, mssqlcdc.ColSnapshot: !change, mssqlcdc.ColChunk: !change,
	} {
		if column := columnOf(rec, name); column != nil && column.IsValid(i) != want {
			return fmt.Errorf("row %d has operation %s, and column %s has a value: %t", i, r.Position.Operation, name, !want)
		}
	}
	if change {
		r.Position.CommandID = rec.Column(3).(*array.Int32).Value(i)
		r.Position.SeqVal, err = mssqlcdc.ParseLSN(rec.Column(1).(*array.String).Value(i))
		return err
	}
	chunk, ok := columnOf(rec, mssqlcdc.ColChunk).(*array.Int32)
	snapshot, ok2 := columnOf(rec, mssqlcdc.ColSnapshot).(*array.String)
	if !ok || !ok2 {
		return fmt.Errorf("row %d is of a snapshot, in a table without its columns", i)
	}
	r.Chunk = int64(chunk.Value(i))
	r.Snapshot, err = mssqlcdc.ParseLSN(snapshot.Value(i))
	return err
}

// columnOf is a column by name, nil if the record has none.
func columnOf(rec arrow.RecordBatch, name string) arrow.Array {
	if at := rec.Schema().FieldIndices(name); len(at) > 0 {
		return rec.Column(at[0])
	}
	return nil
}

// Difference says how rows read back differ from those of the source, "" if they
// do not.
func Difference(want, got []Row) string {
	counts := map[string]int{}
	for _, r := range want {
		counts[r.String()]++
	}
	for _, r := range got {
		counts[r.String()]--
	}
	missing, extra, example := 0, 0, ""
	for text, n := range counts {
		if n > 0 {
			missing += n
			example = "missing " + text
		}
		if n < 0 {
			extra -= n
			example = "too many " + text
		}
	}
	if missing == 0 && extra == 0 {
		return ""
	}
	return fmt.Sprintf("%d rows missing, %d too many, of %d; for example %s", missing, extra, len(want), example)
}
