package rowfilter

import (
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// op is how a value is decoded.
type op uint8

const (
	opNothing       op = iota // a column that holds NULL only
	opBool                    //
	opCopy2                   // 2 bytes as they are
	opCopy4                   // 4 bytes as they are
	opCopy8                   // 8 bytes as they are
	opInteger                 // an integer that becomes a wider one
	opWiden                   // real → float64
	opDecimal                 // sign and magnitude
	opSmallMoney              // 4 bytes
	opMoney                   // 8 bytes, the higher half first
	opDate                    // days since 0001-01-01
	opTime                    // parts of a second since midnight → text
	opDateTime2               // such parts, and days since 0001-01-01
	opOffset                  // the same with an offset, which the time is without
	opDateTime                // days since 1900-01-01, 1/300 s
	opSmallDateTime           // days since 1900-01-01, minutes
	opGUID                    // → text
	opChar                    // a code page
	opUTF16                   //
	opXML                     // UTF-16 with a byte order mark
	opBytes                   //
	opLSN                     // 10 bytes
)

// match decides how a column of the rowset is decoded into the column that was asked for, or why it is not.
func match(w wireColumn, want fetch.Column) (column, *Refusal) {
	c := column{form: w.form, size: w.size, scale: int64(w.scale), name: want.Name, typ: want.Type(), guessRows: firstRows}
	ok, page := true, 0
	switch want.Kind {
	case fetch.Bool:
		c.op, ok = opBool, w.typ == typeBit || w.typ == typeBitN
	case fetch.Int16:
		ok = c.integer(w, 2)
	case fetch.Int32:
		ok = c.integer(w, 4)
	case fetch.Int64:
		ok = c.integer(w, 8)
	case fetch.Float32:
		c.op, c.width, ok = opCopy4, 4, (w.typ == typeReal || w.typ == typeFloatN) && w.size == 4
	case fetch.Float64:
		c.op, c.width, ok = opCopy8, 8, w.typ == typeReal || w.typ == typeFloatN || w.typ == typeFloat
		if w.size == 4 {
			c.op = opWiden
		}
	case fetch.Decimal:
		ok = c.decimal(w, want)
	case fetch.Date:
		c.op, c.width, ok = opDate, 4, w.typ == typeDate
	case fetch.Timestamp:
		ok = c.timestamp(w)
	case fetch.Instant:
		c.op, c.width, ok = opOffset, 8, w.typ == typeDateTimeOffset
	case fetch.TimeOfDay:
		c.op, ok = opTime, w.typ == typeTime
	case fetch.GUID:
		c.op, ok = opGUID, w.typ == typeGUID
	case fetch.Text, fetch.XML:
		ok, page = c.text(w, want.Kind)
	case fetch.Binary:
		c.op, ok = opBytes, w.typ == typeBigVarBinary || w.typ == typeBigBinary || w.typ == typeImage
	case fetch.LSN:
		c.op, c.width, ok = opLSN, lsnWidth, (w.typ == typeBigVarBinary || w.typ == typeBigBinary) && w.form == shortForm
	default:
		ok = false
	}
	switch {
	case page < 0:
		return c, &Refusal{Reason: WantedPage, Detail: fmt.Sprintf("column %q: the code page of collation 0x%08X, sort order %d, is left to the driver", want.Name, w.lcid, w.sortID)}
	case !ok && w.typ == typeIntN && w.size == 4:
		// The type of a bare NULL, which stands for a column that a table no longer has.
		return c.nothing(want), nil
	case !ok:
		return c, &Refusal{Reason: WantedType, Detail: fmt.Sprintf("column %q: type 0x%02X of %d bytes is left to the driver", want.Name, w.typ, w.size)}
	}
	return c, nil
}

const lsnWidth = 10

// nothing is a column that may hold NULL only, laid out as its type wants it.
func (c column) nothing(want fetch.Column) column {
	switch want.Kind {
	case fetch.Float32, fetch.Date:
		c.width = 4
	case fetch.Float64, fetch.Timestamp, fetch.Instant:
		c.width = 8
	case fetch.Decimal:
		c.width = 16
	case fetch.LSN:
		c.width = lsnWidth
	default:
		c.width = 0
	}
	if c.op = opNothing; want.Kind == fetch.Bool {
		c.op = opBool // whose values are bits; an integer of 4 bytes is refused by its length
	}
	return c
}

func (c *column) integer(w wireColumn, width int) bool {
	switch w.typ {
	case typeInt1, typeInt2, typeInt4, typeInt8, typeIntN:
	default:
		return false
	}
	c.width, c.from = width, w.size
	switch {
	case w.size > width:
		return false
	case w.size < width:
		c.op = opInteger
	case width == 2:
		c.op = opCopy2
	case width == 4:
		c.op = opCopy4
	default:
		c.op = opCopy8
	}
	return true
}

func (c *column) decimal(w wireColumn, want fetch.Column) bool {
	if want.Precision < 1 || want.Precision > maxDigits {
		return false
	}
	c.width, c.limit = 16, powers[want.Precision]
	switch w.typ {
	case typeDecimal, typeNumeric, typeDecimalN, typeNumericN:
		c.op = opDecimal
		return w.scale == int(want.Scale)
	case typeMoney, typeSmallMoney, typeMoneyN:
		c.op = opMoney
		if w.size == 4 {
			c.op = opSmallMoney
		}
		return want.Scale == 4
	}
	return false
}

func (c *column) timestamp(w wireColumn) bool {
	c.width = 8
	switch w.typ {
	case typeDateTime2:
		c.op = opDateTime2
	case typeDateTime, typeSmallDateTime, typeDateTimeN:
		c.op = opDateTime
		if w.size == 4 {
			c.op = opSmallDateTime
		}
	default:
		return false
	}
	return true
}

// text decides about character types; page is negative if the code page is not known.
func (c *column) text(w wireColumn, kind fetch.Kind) (ok bool, page int) {
	switch w.typ {
	case typeNVarChar, typeNChar, typeNText, typeXML:
		c.op = opUTF16
		if kind == fetch.XML {
			c.op = opXML
		}
		return true, 0
	case typeBigVarChar, typeBigChar, typeText:
		if kind == fetch.XML {
			return false, 0
		}
		if page = codePage(w.lcid, w.sortID); page == 0 {
			return false, -1
		}
		c.op, c.chars = opChar, newCharset(page)
		return c.chars != nil, page
	}
	return false, 0
}
