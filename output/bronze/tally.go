package bronze

import (
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// tally is what the rows of a window add up to.
type tally struct {
	rows, commits             int64
	deletes, inserts, updates int64
	minLSN, maxLSN, lastLSN   mssqlcdc.LSN
	minTime, maxTime          int64 // microseconds, valid if timed
	timed                     bool
}

// add counts the rows of a record.
func (t *tally) add(record arrow.RecordBatch) {
	t.rows += record.NumRows()
	t.addOperations(record.Column(mssqlcdc.IdxOperation).(*array.Int32))
	t.addLSNs(record.Column(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinary))
	t.addTimes(record.Column(mssqlcdc.IdxCommitTime).(*array.Timestamp))
}

func (t *tally) addOperations(operations *array.Int32) {
	var counts [8]int64
	for _, op := range operations.Int32Values() {
		counts[op&7]++
	}
	t.deletes += counts[mssqlcdc.Delete]
	t.inserts += counts[mssqlcdc.Insert]
	t.updates += counts[mssqlcdc.UpdateAfter]
}

func (t *tally) addLSNs(lsns *array.FixedSizeBinary) {
	raw := lsnBytes(lsns)
	for i := range lsns.Len() {
		if i > 0 && sameLSN(raw, i-1, i) {
			continue
		}
		lsn := mssqlcdc.LSN(raw[i*mssqlcdc.LSNSize:][:mssqlcdc.LSNSize])
		if lsn == t.lastLSN {
			continue // the commit goes on from the part before
		}
		t.lastLSN = lsn
		t.commits++
		if t.minLSN.IsZero() || lsn.Less(t.minLSN) {
			t.minLSN = lsn
		}
		if t.maxLSN.Less(lsn) {
			t.maxLSN = lsn
		}
	}
}

func (t *tally) addTimes(times *array.Timestamp) {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for i, v := range times.TimestampValues() {
		if times.NullN() > 0 && times.IsNull(i) {
			continue
		}
		low, high = min(low, int64(v)), max(high, int64(v))
	}
	if low > high {
		return
	}
	if !t.timed {
		t.minTime, t.maxTime, t.timed = low, high, true
		return
	}
	t.minTime, t.maxTime = min(t.minTime, low), max(t.maxTime, high)
}

// times are the first and the last commit time, nil if no row has one.
func (t *tally) times() (first, last *time.Time) {
	if !t.timed {
		return nil, nil
	}
	return new(time.UnixMicro(t.minTime).UTC()), new(time.UnixMicro(t.maxTime).UTC())
}

// checkRows reports rows of a part that lie outside of its window. They would be
// committed under a position that does not cover them.
func checkRows(record arrow.RecordBatch, env mssqlcdc.Envelope) error {
	lsns := record.Column(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinary)
	if lsns.NullN() > 0 || record.Column(mssqlcdc.IdxOperation).NullN() > 0 {
		return &BatchError{Reason: fmt.Sprintf("%s or %s is NULL in %d rows",
			mssqlcdc.ColStartLSN, mssqlcdc.ColOperation, max(lsns.NullN(), record.Column(mssqlcdc.IdxOperation).NullN()))}
	}
	raw := lsnBytes(lsns)
	for i := range lsns.Len() {
		if i > 0 && sameLSN(raw, i-1, i) {
			continue
		}
		lsn := mssqlcdc.LSN(raw[i*mssqlcdc.LSNSize:][:mssqlcdc.LSNSize])
		if env.Chunk != nil && lsn != env.Chunk.Stamp {
			return &BatchError{Reason: fmt.Sprintf("row %d of part %d has the commit LSN %s, want that of its chunk, %s", i, env.Part, lsn, env.Chunk.Stamp)}
		}
		if env.Chunk == nil && !env.Window.Contains(lsn) {
			return &BatchError{Reason: fmt.Sprintf("row %d of part %d has the commit LSN %s, outside of its window %s", i, env.Part, lsn, env.Window)}
		}
	}
	return nil
}

// above are the rows of a record whose commit LSN is above the position: the
// record itself, slices of it, or nothing.
func above(record arrow.RecordBatch, position mssqlcdc.LSN) []arrow.RecordBatch {
	lsns := record.Column(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinary)
	raw, rows := lsnBytes(lsns), lsns.Len()
	var kept []arrow.RecordBatch
	from := -1
	for i := range rows {
		if mssqlcdc.LSN(raw[i*mssqlcdc.LSNSize:][:mssqlcdc.LSNSize]).Compare(position) > 0 {
			if from < 0 {
				from = i
			}
			continue
		}
		if from >= 0 {
			kept, from = append(kept, record.NewSlice(int64(from), int64(i))), -1
		}
	}
	switch {
	case from == 0:
		return append(kept, record)
	case from > 0:
		kept = append(kept, record.NewSlice(int64(from), int64(rows)))
	}
	return kept
}
