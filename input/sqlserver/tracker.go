package sqlserver

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/zone"
)

// tracker follows the rows of a window in LSN order: it converts commit times, counts, and finds the commit boundary at
// which a limit ends the window.
type tracker struct {
	limits       Limits
	window       mssqlcdc.Window
	withCommand  bool
	schema       *arrow.Schema
	converter    *zone.Converter
	rows, bytes  int64
	commits      int64
	last         mssqlcdc.LSN // commit LSN of the last row taken
	lastTime     int64        // its commit time in microseconds, UTC
	lastTimeless bool         // the mapping has no entry for it
}

// take works on the next rows. It returns them as a record of [mssqlcdc.RecordSchema], and true if the window ends with
// it: a limit was reached, and what follows belongs to the next window.
func (t *tracker) take(batch fetch.Batch) (arrow.RecordBatch, bool, error) {
	record := batch.Record
	rows := int(record.NumRows())
	lsns, ok1 := record.Column(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinary)
	times, ok2 := record.Column(t.timeIndex()).(*array.Timestamp)
	if !ok1 || !ok2 || lsns.NullN() > 0 {
		return nil, false, fmt.Errorf("the metadata columns of the change table are not what they should be")
	}
	// The values are nobody else's yet, so they are converted where they lie.
	values := times.TimestampValues()
	cut := rows
	for i := range rows {
		lsn := lsns.Value(i)
		if !bytes.Equal(lsn, t.last[:]) {
			if t.commits > 0 && t.reached(int64(i), batch.Bytes*int64(i)/int64(rows)) {
				cut = i
				break
			}
			if err := t.begin(mssqlcdc.LSN(lsn), times, i); err != nil {
				return nil, false, err
			}
		}
		if !t.lastTimeless {
			values[i] = arrow.Timestamp(t.lastTime)
		}
	}
	t.rows += int64(cut)
	t.bytes += batch.Bytes * int64(cut) / int64(max(rows, 1))
	if cut < rows {
		record = record.NewSlice(0, int64(cut))
	}
	return t.complete(record), cut < rows, nil
}

func (t *tracker) timeIndex() int {
	if t.withCommand {
		return mssqlcdc.IdxCommitTime
	}
	return mssqlcdc.IdxCommitTime - 1
}

// reached tells whether a limit is reached by what was taken and the rows of this batch before a boundary.
func (t *tracker) reached(rows, size int64) bool {
	return t.commits >= t.limits.Commits || t.rows+rows >= t.limits.Rows || t.bytes+size >= t.limits.Bytes
}

// begin enters the next commit.
func (t *tracker) begin(lsn mssqlcdc.LSN, times *array.Timestamp, i int) error {
	if !t.last.Less(lsn) && t.commits > 0 || !t.window.Contains(lsn) {
		return fmt.Errorf("the change table gave commit %s out of order or outside the window %s", lsn, t.window)
	}
	t.commits++
	t.last, t.lastTimeless = lsn, times.IsNull(i)
	if !t.lastTimeless {
		t.lastTime = t.converter.UTC(lsn, int64(times.Value(i)))
	}
	return nil
}

// complete gives a record without command ids a column of nulls for them.
func (t *tracker) complete(record arrow.RecordBatch) arrow.RecordBatch {
	if t.withCommand {
		return record
	}
	columns := record.Columns()
	filled := make([]arrow.Array, 0, len(columns)+1)
	filled = append(filled, columns[:mssqlcdc.IdxCommandID]...)
	filled = append(filled, array.MakeArrayOfNull(memory.DefaultAllocator, arrow.PrimitiveTypes.Int32, int(record.NumRows())))
	filled = append(filled, columns[mssqlcdc.IdxCommandID:]...)
	return array.NewRecordBatch(t.schema, filled, record.NumRows())
}

// empty is a record without rows.
func emptyRecord(schema *arrow.Schema) arrow.RecordBatch {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	return builder.NewRecordBatch()
}
