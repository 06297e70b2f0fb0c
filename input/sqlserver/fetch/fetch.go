// Package fetch runs one statement and gives its rows as Arrow records. It is the seam between what a reader asks for and
// how rows come off the wire: [Driver] takes the driver's rows and is the oracle for any faster way.
//
// Values are exact. Where the driver is not (a real arrives as float64, a decimal as text, a uniqueidentifier in mixed
// byte order, a datetimeoffset with its offset), the column buffers here undo it; see [Kind].
package fetch

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
)

// Kind is what a result column holds and how it lies in the record.
type Kind int

// The kinds.
const (
	Bool      Kind = iota + 1 // bit → bool
	Int16                     // tinyint, smallint → int16
	Int32                     // int → int32
	Int64                     // bigint → int64
	Float32                   // real → float32
	Float64                   // float → float64
	Decimal                   // decimal, numeric, money, smallmoney → decimal128
	Date                      // date → date32
	Timestamp                 // datetime, datetime2, smalldatetime → timestamp[us] without zone, as stored, 100 ns cut
	Instant                   // datetimeoffset → timestamp[us, UTC], 100 ns cut
	TimeOfDay                 // time → utf8 "hh:mm:ss.nnnnnnnnn"
	GUID                      // uniqueidentifier → utf8, 36 characters, upper case
	Text                      // character types → utf8
	XML                       // xml → utf8, the byte order mark that every value carries cut off
	Binary                    // binary types → binary
	LSN                       // binary(10) → fixed_size_binary(10)
)

// Column is one column of a result.
type Column struct {
	Name             string
	Kind             Kind
	Precision, Scale int32 // of Decimal
}

// Type is the Arrow type of the column.
func (c Column) Type() arrow.DataType {
	switch c.Kind {
	case Bool:
		return arrow.FixedWidthTypes.Boolean
	case Int16:
		return arrow.PrimitiveTypes.Int16
	case Int32:
		return arrow.PrimitiveTypes.Int32
	case Int64:
		return arrow.PrimitiveTypes.Int64
	case Float32:
		return arrow.PrimitiveTypes.Float32
	case Float64:
		return arrow.PrimitiveTypes.Float64
	case Decimal:
		return &arrow.Decimal128Type{Precision: c.Precision, Scale: c.Scale}
	case Date:
		return arrow.FixedWidthTypes.Date32
	case Timestamp:
		return &arrow.TimestampType{Unit: arrow.Microsecond}
	case Instant:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	case TimeOfDay, GUID, Text, XML:
		return arrow.BinaryTypes.String
	case Binary:
		return arrow.BinaryTypes.Binary
	case LSN:
		return &arrow.FixedSizeBinaryType{ByteWidth: lsnWidth}
	}
	return arrow.Null
}

const lsnWidth = 10

// Statement is one SELECT with the shape of its result.
type Statement struct {
	Text    string
	Args    []sql.NamedArg
	Columns []Column      // in the order of the result
	Schema  *arrow.Schema // of the records: one field per column, same types

	// A record is closed at the row that reaches one of these. Both are positive.
	MaxRows, MaxBytes int64
}

// Batch is some rows of a result, in order.
type Batch struct {
	Record arrow.RecordBatch // lies in memory of the garbage collector, nobody needs to release it
	Bytes  int64             // of its buffers
}

// Fetcher runs statements. Implementations are safe for concurrent use on different connections.
type Fetcher interface {
	// Fetch runs the statement on a connection that nobody else uses meanwhile and yields its rows; a result without
	// rows yields nothing. Rows are provisional until the sequence has ended without an error. After an error nothing
	// follows; whether the connection is still good is then unknown. When the consumer stops, or the context ends, the
	// statement is cancelled before Fetch returns.
	Fetch(ctx context.Context, conn *sql.Conn, statement Statement) iter.Seq2[Batch, error]
}

// ValueError says that a result did not have the shape that the statement promised.
type ValueError struct {
	Column string
	Reason string // never a value
}

// Error names the column.
func (e *ValueError) Error() string { return fmt.Sprintf("column %q: %s", e.Column, e.Reason) }
