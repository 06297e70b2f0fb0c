package silver

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// changes are rows of bronze with the columns that order them. Its strings refer to the
// record's memory.
type changes struct {
	rec       arrow.RecordBatch
	start     *array.String
	seq       *array.String
	operation *array.Int32
	at        *array.Timestamp
	command   *array.Int32  // nil if bronze has no command ids
	snapshot  *array.String // nil if bronze has none
	chunk     *array.Int32  // nil if bronze has none
}

// newChanges finds the columns. They are of the types of bronze tables, or an error.
func newChanges(rec arrow.RecordBatch) (*changes, error) {
	c := &changes{rec: rec}
	ok := [7]bool{}
	c.start, ok[0] = named[*array.String](rec, mssqlcdc.ColStartLSN, true)
	c.seq, ok[1] = named[*array.String](rec, mssqlcdc.ColSeqVal, true)
	c.operation, ok[2] = named[*array.Int32](rec, mssqlcdc.ColOperation, true)
	c.at, ok[3] = named[*array.Timestamp](rec, mssqlcdc.ColCommitTime, true)
	c.command, ok[4] = named[*array.Int32](rec, mssqlcdc.ColCommandID, false)
	c.snapshot, ok[5] = named[*array.String](rec, mssqlcdc.ColSnapshot, false)
	c.chunk, ok[6] = named[*array.Int32](rec, mssqlcdc.ColChunk, false)
	if ok != [7]bool{true, true, true, true, true, true, true} {
		return nil, fmt.Errorf("reading bronze: the metadata columns are of other types than those of a bronze table: %s", rec.Schema())
	}
	if c.start.NullN() > 0 || c.operation.NullN() > 0 {
		return nil, fmt.Errorf("reading bronze: %s or %s is NULL in some rows", mssqlcdc.ColStartLSN, mssqlcdc.ColOperation)
	}
	return c, nil
}

// named is a column of a type; none and true where a column that need not be there is not.
func named[T arrow.Array](rec arrow.RecordBatch, name string, needed bool) (column T, ok bool) {
	at := columnOf(rec.Schema(), name)
	if at < 0 {
		return column, !needed
	}
	column, ok = rec.Column(at).(T)
	return column, ok
}

func (c *changes) op(row int) mssqlcdc.Operation { return mssqlcdc.Operation(c.operation.Value(row)) }

// snapshotOf is the S of a row of a snapshot. Rows from before the column was there are of
// snapshots that were read at S.
func (c *changes) snapshotOf(row int) string {
	if c.snapshot != nil && c.snapshot.IsValid(row) {
		return c.snapshot.Value(row)
	}
	return c.start.Value(row)
}

// chunkOf is the chunk of a row of a snapshot, -1 for one that came as a whole.
func (c *changes) chunkOf(row int) int64 {
	if c.chunk != nil && c.chunk.IsValid(row) {
		return int64(c.chunk.Value(row))
	}
	return -1
}

// compare orders two rows as their changes happened: by commit, command, seqval, operation.
// Rows of snapshots have neither command nor seqval and come before the changes of the
// commit that they were read at.
func (c *changes) compare(row int, o *changes, other int) int {
	if r := strings.Compare(c.start.Value(row), o.start.Value(other)); r != 0 {
		return r
	}
	if r := c.commandOf(row) - o.commandOf(other); r != 0 {
		return cmp.Compare(r, 0)
	}
	return cmp.Or(strings.Compare(text(c.seq, row), text(o.seq, other)), cmp.Compare(c.operation.Value(row), o.operation.Value(other)))
}

func (c *changes) commandOf(row int) int64 {
	if c.command == nil || c.command.IsNull(row) {
		return -1
	}
	return int64(c.command.Value(row))
}

// text is a value, "" for NULL.
func text(a *array.String, row int) string {
	if a.IsNull(row) {
		return ""
	}
	return a.Value(row)
}
