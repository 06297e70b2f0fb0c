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
	return func(yield func(int, Change) bool) {
		read := ChangeReader(record)
		for i := range int(record.NumRows()) {
			if !yield(i, read(i)) {
				return
			}
		}
	}
}

// ChangeReader gives the function that reads the metadata of one row, as [Changes]
// does for all.
func ChangeReader(record arrow.RecordBatch) func(row int) Change {
	start := record.Column(IdxStartLSN).(*array.FixedSizeBinary)
	seqval := record.Column(IdxSeqVal).(*array.FixedSizeBinary)
	operation := record.Column(IdxOperation).(*array.Int32)
	command := record.Column(IdxCommandID).(*array.Int32)
	commit := record.Column(IdxCommitTime).(*array.Timestamp)
	return func(i int) Change {
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
		return c
	}
}

// SharedMeta calls set with the metadata that all rows of one transaction and
// operation have in common. A value of nil says that they do not have the key, which
// matters where the metadata of another transaction is written over. All other values
// are strings.
func (c Change) SharedMeta(set func(key string, value any)) {
	var lsn, ms any = c.Position.StartLSN.String(), nil
	if !c.CommitTime.IsZero() {
		ms = strconv.FormatInt(c.CommitTime.UnixMilli(), 10)
	}
	set(MetaFormat, FormatRows)
	set(MetaOperation, c.Position.Operation.String())
	set(MetaLSN, lsn)
	set(MetaTransactionID, lsn)
	set(MetaCommitMS, ms)
	set(MetaSourceMS, ms)
}

// PositionMeta calls set with the metadata that is the row's own. The values are
// strings.
func (c Change) PositionMeta(set func(key string, value any)) {
	if c.HasSeqVal {
		set(MetaSeqVal, c.Position.SeqVal.String())
	}
	if c.HasCommandID {
		set(MetaCommandID, strconv.FormatInt(int64(c.Position.CommandID), 10))
	}
}
