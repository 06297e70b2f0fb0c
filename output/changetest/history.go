// Package changetest makes change histories for tests: commits of a source table,
// and the windows and parts of record batches that an input would cut them into.
// It is for tests only.
package changetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Row is one change row.
type Row struct {
	Position mssqlcdc.Position
	Time     time.Time
	ID       int64
	Name     string // "" is NULL
	Amount   int64  // cents of a decimal(18,2)
	Extra    int64  // of the column that a later capture instance has; 0 is NULL

	// Of a row of a snapshot, whose Position has no SeqVal and no CommandID.
	Snapshot mssqlcdc.LSN
	Chunk    int64
}

// String is everything that must survive the way into a table.
func (r Row) String() string {
	if r.Position.Operation == mssqlcdc.Read {
		return fmt.Sprintf("snapshot %s chunk %d %s %s id=%d name=%q amount=%d", r.Snapshot, r.Chunk, r.Position.StartLSN, r.Time.Format(time.RFC3339Nano), r.ID, r.Name, r.Amount)
	}
	return fmt.Sprintf("%s %s id=%d name=%q amount=%d extra=%d", r.Position, r.Time.Format(time.RFC3339Nano), r.ID, r.Name, r.Amount, r.Extra)
}

// Commit is one transaction.
type Commit struct {
	LSN  mssqlcdc.LSN
	Time time.Time
	Rows []Row
}

// History is what a source table went through.
type History struct {
	Table    mssqlcdc.TableID
	Instance string
	Commits  []Commit
	// ExtraFrom is the first commit that is read with the column extra; -1 is
	// none.
	ExtraFrom int
}

// LSN is the n-th LSN of a test; n must be positive.
func LSN(n int) mssqlcdc.LSN {
	// Numbers far enough apart that both halves of the LSN move.
	lsn, err := mssqlcdc.LSNFromParts(int64(42+n/100), int64(n%100)<<16|3)
	if err != nil {
		panic(err) // only numbers of a test come here
	}
	return lsn
}

// Random makes a history of that many commits with up to maxRows rows each.
func Random(rng *rand.Rand, commits, maxRows int) History {
	h := History{Table: mssqlcdc.TableID{Schema: "dbo", Name: "orders"}, Instance: "dbo_orders", ExtraFrom: -1}
	at := time.Date(2026, 3, 29, 0, 30, 0, 0, time.UTC)
	lsn := 0
	for range commits {
		lsn += 1 + rng.IntN(70)
		at = at.Add(time.Duration(rng.IntN(int(time.Minute))).Round(time.Microsecond))
		c := Commit{LSN: LSN(lsn), Time: at}
		for i := range 1 + rng.IntN(maxRows) {
			c.Rows = append(c.Rows, randomRow(rng, c, i))
		}
		h.Commits = append(h.Commits, c)
	}
	return h
}

func randomRow(rng *rand.Rand, c Commit, i int) Row {
	_, lo := c.LSN.Parts()
	hi, _ := c.LSN.Parts()
	seq, err := mssqlcdc.LSNFromParts(hi, lo+int64(i)+1)
	if err != nil {
		panic(err) // only numbers of a test come here
	}
	r := Row{
		Position: mssqlcdc.Position{StartLSN: c.LSN, CommandID: int32(i + 1), SeqVal: seq, Operation: mssqlcdc.Operation(1 + rng.IntN(4))},
		Time:     c.Time, ID: rng.Int64N(1000), Amount: rng.Int64N(1_000_000) - 500_000,
	}
	if rng.IntN(4) > 0 {
		r.Name = fmt.Sprintf("name %d", rng.IntN(50))
	}
	return r
}

// Rows are all rows in their order.
func (h History) Rows() []Row {
	var rows []Row
	for _, c := range h.Commits {
		rows = append(rows, c.Rows...)
	}
	return rows
}

// End is the LSN of the last commit.
func (h History) End() mssqlcdc.LSN { return h.Commits[len(h.Commits)-1].LSN }

// Columns are the captured columns.
func Columns(extra bool) []mssqlcdc.Column {
	columns := []mssqlcdc.Column{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint", Key: true},
		{Name: "name", Type: arrow.BinaryTypes.String, SourceType: "nvarchar(50)"},
		{Name: "amount", Type: &arrow.Decimal128Type{Precision: 18, Scale: 2}, SourceType: "decimal(18,2)"},
	}
	if extra {
		columns = append(columns, mssqlcdc.Column{Name: "extra", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint"})
	}
	return columns
}

// Record is the Arrow record of rows.
func Record(rows []Row, extra bool) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, mssqlcdc.RecordSchema(Columns(extra)))
	defer b.Release()
	for _, r := range rows {
		b.Field(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinaryBuilder).Append(r.Position.StartLSN[:])
		b.Field(mssqlcdc.IdxOperation).(*array.Int32Builder).Append(int32(r.Position.Operation))
		if r.Position.Operation == mssqlcdc.Read {
			b.Field(mssqlcdc.IdxSeqVal).AppendNull()
			b.Field(mssqlcdc.IdxCommandID).AppendNull()
		} else {
			b.Field(mssqlcdc.IdxSeqVal).(*array.FixedSizeBinaryBuilder).Append(r.Position.SeqVal[:])
			b.Field(mssqlcdc.IdxCommandID).(*array.Int32Builder).Append(r.Position.CommandID)
		}
		b.Field(mssqlcdc.IdxCommitTime).(*array.TimestampBuilder).Append(arrow.Timestamp(r.Time.UnixMicro()))
		b.Field(mssqlcdc.FirstCaptured).(*array.Int64Builder).Append(r.ID)
		if name := b.Field(mssqlcdc.FirstCaptured + 1).(*array.StringBuilder); r.Name == "" {
			name.AppendNull()
		} else {
			name.Append(r.Name)
		}
		b.Field(mssqlcdc.FirstCaptured + 2).(*array.Decimal128Builder).Append(decimal128.FromI64(r.Amount))
		if extra {
			b.Field(mssqlcdc.FirstCaptured + 3).(*array.Int64Builder).Append(r.Extra)
		}
	}
	return b.NewRecordBatch()
}
