package mssqlcdc

import (
	"iter"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Change is what the metadata columns of a record say of one row.
type Change struct {
	Position     Position
	HasSeqVal    bool      // false on rows of a snapshot
	HasCommandID bool      // false where the change table has no command ids
	CommitTime   time.Time // UTC; zero if the source no longer knows it
}

// Changes yields the rows' metadata in order. The record must have the layout of
// [RecordSchema], as the record of a [RecordBatch] has.
func Changes(record arrow.RecordBatch) iter.Seq2[int, Change] {
	start := record.Column(IdxStartLSN).(*array.FixedSizeBinary)
	seqval := record.Column(IdxSeqVal).(*array.FixedSizeBinary)
	operation := record.Column(IdxOperation).(*array.Int32)
	command := record.Column(IdxCommandID).(*array.Int32)
	commit := record.Column(IdxCommitTime).(*array.Timestamp)
	return func(yield func(int, Change) bool) {
		for i := range int(record.NumRows()) {
			c := Change{HasSeqVal: seqval.IsValid(i), HasCommandID: command.IsValid(i)}
			c.Position.StartLSN = LSN(start.Value(i))
			c.Position.Operation = Operation(operation.Value(i))
			if c.HasSeqVal {
				c.Position.SeqVal = LSN(seqval.Value(i))
			}
			if c.HasCommandID {
				c.Position.CommandID = command.Value(i)
			}
			if commit.IsValid(i) {
				c.CommitTime = time.UnixMicro(int64(commit.Value(i))).UTC()
			}
			if !yield(i, c) {
				return
			}
		}
	}
}

// SharedMeta calls set with the metadata that all rows of one transaction and
// operation have in common.
func (c Change) SharedMeta(set func(key, value string)) {
	lsn := c.Position.StartLSN.String()
	set(MetaFormat, FormatRows)
	set(MetaOperation, c.Position.Operation.String())
	set(MetaLSN, lsn)
	set(MetaTransactionID, lsn)
	if !c.CommitTime.IsZero() {
		ms := strconv.FormatInt(c.CommitTime.UnixMilli(), 10)
		set(MetaCommitMS, ms)
		set(MetaSourceMS, ms)
	}
}

// PositionMeta calls set with the metadata that is the row's own.
func (c Change) PositionMeta(set func(key, value string)) {
	if c.HasSeqVal {
		set(MetaSeqVal, c.Position.SeqVal.String())
	}
	if c.HasCommandID {
		set(MetaCommandID, strconv.FormatInt(int64(c.Position.CommandID), 10))
	}
}
