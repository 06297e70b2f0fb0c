package fetch

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// add makes the buffer of a column and the function that appends one value that is not null. Each function knows the one
// Go type that the driver uses for the column's type, so that there is no switch on types a value.
func (b *Buffers) add(c Column) error {
	switch c.Kind {
	case Bool:
		col := &boolColumn{}
		put(b, col, 1, func(v bool) error { col.add(v); return nil })
	case Int16:
		addInteger(b, c, 2, math.MinInt16, math.MaxInt16, arrow.Int16Traits.CastToBytes)
	case Int32:
		addInteger(b, c, 4, math.MinInt32, math.MaxInt32, arrow.Int32Traits.CastToBytes)
	case Int64:
		addInteger(b, c, 8, math.MinInt64, math.MaxInt64, arrow.Int64Traits.CastToBytes)
	case Float32:
		col := newFixed(c, arrow.Float32Traits.CastToBytes)
		// The driver widens a real; narrowing it again is exact.
		put(b, col, 4, func(v float64) error { col.add(float32(v)); return nil })
	case Float64:
		col := newFixed(c, arrow.Float64Traits.CastToBytes)
		put(b, col, 8, func(v float64) error { col.add(v); return nil })
	case Decimal:
		col := newFixed(c, arrow.Decimal128Traits.CastToBytes)
		put(b, col, 16, func(v []byte) error { return addDecimal(col, v, c) })
	case Date:
		col := newFixed(c, arrow.Date32Traits.CastToBytes)
		put(b, col, 4, func(v time.Time) error { col.add(arrow.Date32(floorDiv(v.Unix(), 24*60*60))); return nil })
	case Timestamp, Instant:
		// UnixMicro of the zone's instant: readings without a zone come as UTC, those with an offset with it. It cuts
		// towards the past, also before 1970.
		col := newFixed(c, arrow.TimestampTraits.CastToBytes)
		put(b, col, 8, func(v time.Time) error { col.add(arrow.Timestamp(v.UnixMicro())); return nil })
	default:
		return b.addBytes(c)
	}
	return nil
}

func (b *Buffers) addBytes(c Column) error {
	col := &bytesColumn{typ: c.Type(), total: &b.bytes}
	switch c.Kind {
	case TimeOfDay:
		put(b, col, 0, func(v time.Time) error {
			col.data = appendTimeOfDay(col.data, v)
			col.close()
			return nil
		})
	case GUID:
		put(b, col, 0, func(v []byte) error { return addGUID(col, v) })
	case Text:
		put(b, col, 0, col.addText)
	case XML:
		put(b, col, 0, func(v string) error { return col.addText(strings.TrimPrefix(v, "\uFEFF")) })
	case Binary:
		put(b, col, 0, func(v []byte) error {
			if err := col.room(len(v)); err != nil {
				return err
			}
			col.data = append(col.data, v...)
			col.close()
			return nil
		})
	case LSN:
		col.width = lsnWidth
		put(b, col, lsnWidth, func(v []byte) error {
			if len(v) != lsnWidth {
				return fmt.Errorf("%d bytes, want %d", len(v), lsnWidth)
			}
			col.data = append(col.data, v...)
			col.close()
			return nil
		})
	default:
		return fmt.Errorf("column %q: unknown kind %d", c.Name, c.Kind)
	}
	return nil
}

// put registers a column whose values arrive as T. width is its fixed bytes a row.
func put[T any](b *Buffers, col column, width int64, add func(T) error) {
	b.columns = append(b.columns, col)
	b.fixed += width
	b.appends = append(b.appends, func(value driver.Value) error {
		v, ok := value.(T)
		if !ok {
			var want T
			return fmt.Errorf("a value of type %T, want %T", value, want)
		}
		return add(v)
	})
}

func newFixed[T any](c Column, bytes func([]T) []byte) *fixedColumn[T] {
	return &fixedColumn[T]{typ: c.Type(), bytes: bytes}
}

func addInteger[T int16 | int32 | int64](b *Buffers, c Column, width, low, high int64, bytes func([]T) []byte) {
	col := newFixed(c, bytes)
	put(b, col, width, func(v int64) error {
		if v < low || v > high {
			return fmt.Errorf("a number outside [%d, %d]", low, high)
		}
		col.add(T(v))
		return nil
	})
}

func addDecimal(col *fixedColumn[decimal128.Num], text []byte, c Column) error {
	n, err := parseDecimal(text, c.Precision, c.Scale)
	if err != nil {
		return err
	}
	col.add(n)
	return nil
}

func (c *bytesColumn) addText(v string) error {
	if err := c.room(len(v)); err != nil {
		return err
	}
	c.data = append(c.data, v...)
	c.close()
	return nil
}

// addGUID writes the canonical text. The wire and the driver have the first three groups in little-endian order.
func addGUID(col *bytesColumn, v []byte) error {
	if len(v) != 16 {
		return fmt.Errorf("a uniqueidentifier of %d bytes", len(v))
	}
	const digits = "0123456789ABCDEF"
	order := [16]int{3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15}
	for i, j := range order {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			col.data = append(col.data, '-')
		}
		col.data = append(col.data, digits[v[j]>>4], digits[v[j]&0x0F])
	}
	col.close()
	return nil
}

// appendTimeOfDay writes hh:mm:ss and nine digits, of which the last two are always 0: 100 ns is the finest that a time
// holds.
func appendTimeOfDay(dst []byte, v time.Time) []byte {
	hour, minute, second := v.Clock()
	dst = append(dst, byte('0'+hour/10), byte('0'+hour%10), ':', byte('0'+minute/10), byte('0'+minute%10), ':',
		byte('0'+second/10), byte('0'+second%10), '.')
	nanos := v.Nanosecond()
	for unit := 100_000_000; unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+nanos/unit%10))
	}
	return dst
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
