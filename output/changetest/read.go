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
	if s.Schema().Index("extra") >= 0 {
		names = append(names, "extra")
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
	if r.Position.SeqVal, err = mssqlcdc.ParseLSN(rec.Column(1).(*array.String).Value(i)); err != nil {
		return r, err
	}
	r.Position.Operation = mssqlcdc.Operation(rec.Column(2).(*array.Int32).Value(i))
	r.Position.CommandID = rec.Column(3).(*array.Int32).Value(i)
	r.Time = time.UnixMicro(int64(rec.Column(4).(*array.Timestamp).Value(i))).UTC()
	r.ID = rec.Column(5).(*array.Int64).Value(i)
	if name := rec.Column(6).(*array.String); name.IsValid(i) {
		r.Name = string([]byte(name.Value(i)))
	}
	r.Amount = int64(rec.Column(7).(*array.Decimal128).Value(i).LowBits())
	if rec.NumCols() > 8 {
		r.Extra = rec.Column(8).(*array.Int64).Value(i)
	}
	return r, nil
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
