package engine

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// A vector holds one column of a segment in the narrowest form that loses nothing:
//
//	class     bytes a row  kinds
//	class1    1            bit, tinyint
//	class2    2            smallint
//	class4    4            int, smallmoney, date, real (float32 bits), smalldatetime (days 16 | minutes 16)
//	class8    8            bigint, float, money, time, datetime (days 32 | ticks 32), datetime2 (days << 40 | ticks),
//	                       decimal up to 18 digits (signed)
//	class10   8 + 2        datetimeoffset (as datetime2, and the offset)
//	class16   16           uniqueidentifier, decimal above 18 digits (sign in the top bit)
//	classText 4 + content  text and binary: the end of each value in the heap
//	classAny  40           sql_variant, and whatever does not fit the others
//
// Vectors are append-only below the length that a published segment names. That is what lets readers go on while capture
// appends, and what makes the unsafe strings over the heap immutable.
type vector struct {
	b1   []uint8
	b2   []uint16
	b4   []uint32
	b8   []uint64
	b16  [][2]uint64
	ends []uint32
	heap []byte
	vals []sqltype.Value
}

type vectorClass uint8

const (
	class1 vectorClass = iota
	class2
	class4
	class8
	class10
	class16
	classText
	classAny
)

// cellType is how one column is stored and read.
type cellType struct {
	class vectorClass
	kind  sqltype.Kind
	scale uint8
}

func cellTypeOf(t sqltype.Type) cellType {
	c := cellType{kind: t.Kind, scale: t.Scale}
	switch t.Kind {
	case sqltype.KindBit, sqltype.KindTinyInt:
		c.class = class1
	case sqltype.KindSmallInt:
		c.class = class2
	case sqltype.KindInt, sqltype.KindSmallMoney, sqltype.KindDate, sqltype.KindReal, sqltype.KindSmallDateTime:
		c.class = class4
	case sqltype.KindBigInt, sqltype.KindFloat, sqltype.KindMoney, sqltype.KindTime, sqltype.KindDateTime,
		sqltype.KindDateTime2:
		c.class = class8
	case sqltype.KindDateTimeOffset:
		c.class = class10
	case sqltype.KindUniqueIdentifier:
		c.class = class16
	case sqltype.KindDecimal:
		c.class = class16
		if t.Precision <= 18 {
			c.class = class8
		}
	case sqltype.KindVariant, sqltype.KindNull:
		c.class = classAny
	default:
		c.class = classText
	}
	return c
}

const signBit = 1 << 63

// checkCell tells whether a value can be stored in a column of that type. Text and binary kinds mix freely: the column's kind
// is what is read back.
func (c cellType) checkCell(v sqltype.Value) error {
	if v.IsNull() || c.class == classAny || v.Kind() == c.kind || c.class == classText && (v.Kind().IsText() || v.Kind().IsBinary()) {
		if c.kind == sqltype.KindDecimal && !v.IsNull() && v.Scale() != c.scale {
			return fmt.Errorf("storing a decimal of scale %d in a column of scale %d: convert it first", v.Scale(), c.scale)
		}
		return nil
	}
	return fmt.Errorf("storing a value of kind %s in a column of kind %s: convert it first", v.Kind(), c.kind)
}

// add appends a value, or the filler of a NULL.
func (x *vector) add(c cellType, v sqltype.Value) {
	switch c.class {
	case class1:
		x.b1 = append(x.b1, uint8(v.Int64()))
	case class2:
		x.b2 = append(x.b2, uint16(v.Int64()))
	case class4:
		x.b4 = append(x.b4, word4(c.kind, v))
	case class8:
		x.b8 = append(x.b8, word8(c.kind, v))
	case class10:
		x.b8 = append(x.b8, uint64(v.Days())<<40|uint64(v.Ticks()))
		x.b2 = append(x.b2, uint16(v.Offset()))
	case class16:
		x.b16 = append(x.b16, word16(c.kind, v))
	case classText:
		x.heap = append(x.heap, v.Str()...)
		x.ends = append(x.ends, uint32(len(x.heap)))
	case classAny:
		x.vals = append(x.vals, v)
	}
}

func word4(k sqltype.Kind, v sqltype.Value) uint32 {
	switch k {
	case sqltype.KindDate:
		return uint32(v.Days())
	case sqltype.KindReal:
		return math.Float32bits(float32(v.Float64()))
	case sqltype.KindSmallDateTime:
		return uint32(v.Days())<<16 | uint32(v.Ticks())
	}
	return uint32(v.Int64())
}

func word8(k sqltype.Kind, v sqltype.Value) uint64 {
	switch k {
	case sqltype.KindTime:
		return uint64(v.Ticks())
	case sqltype.KindDateTime:
		return uint64(uint32(v.Days()))<<32 | uint64(v.Ticks())
	case sqltype.KindDateTime2:
		return uint64(v.Days())<<40 | uint64(v.Ticks())
	case sqltype.KindFloat:
		return math.Float64bits(v.Float64())
	case sqltype.KindDecimal:
		n := v.Number()
		if n.Neg {
			return -n.Lo
		}
		return n.Lo
	}
	return uint64(v.Int64())
}

func word16(k sqltype.Kind, v sqltype.Value) [2]uint64 {
	if k == sqltype.KindDecimal {
		n := v.Number()
		if n.Neg {
			n.Hi |= signBit
		}
		return [2]uint64{n.Hi, n.Lo}
	}
	u := v.UUID()
	var w [2]uint64
	for i := range 8 {
		w[0] = w[0]<<8 | uint64(u[i])
		w[1] = w[1]<<8 | uint64(u[8+i])
	}
	return w
}

// decode writes rows [from, from+n) of the column into the cells at out[0], out[stride], …, NULLs not considered.
func (x *vector) decode(c cellType, from, n int, out []sqltype.Value, stride int) {
	switch c.class {
	case class1:
		for i, w := range x.b1[from : from+n] {
			out[i*stride] = sqltype.Integer(c.kind, int64(w))
		}
	case class2:
		for i, w := range x.b2[from : from+n] {
			out[i*stride] = sqltype.Integer(c.kind, int64(int16(w)))
		}
	case class4:
		x.decode4(c, from, n, out, stride)
	case class8:
		x.decode8(c, from, n, out, stride)
	case class10:
		for i, w := range x.b8[from : from+n] {
			out[i*stride] = sqltype.DateTimeOffset(int32(w>>40), int64(w&(1<<40-1)), int16(x.b2[from+i]), c.scale)
		}
	case class16:
		x.decode16(c, from, n, out, stride)
	case classText:
		x.decodeText(c, from, n, out, stride)
	case classAny:
		for i, v := range x.vals[from : from+n] {
			out[i*stride] = v
		}
	}
}

func (x *vector) decode4(c cellType, from, n int, out []sqltype.Value, stride int) {
	words := x.b4[from : from+n]
	switch c.kind {
	case sqltype.KindDate:
		for i, w := range words {
			out[i*stride] = sqltype.Date(int32(w))
		}
	case sqltype.KindReal:
		for i, w := range words {
			out[i*stride] = sqltype.Real(math.Float32frombits(w))
		}
	case sqltype.KindSmallDateTime:
		for i, w := range words {
			out[i*stride] = sqltype.SmallDateTime(uint16(w>>16), uint16(w))
		}
	case sqltype.KindSmallMoney:
		for i, w := range words {
			out[i*stride] = sqltype.SmallMoney(int32(w))
		}
	default:
		for i, w := range words {
			out[i*stride] = sqltype.Int(int32(w))
		}
	}
}

func (x *vector) decode8(c cellType, from, n int, out []sqltype.Value, stride int) {
	words := x.b8[from : from+n]
	switch c.kind {
	case sqltype.KindTime:
		for i, w := range words {
			out[i*stride] = sqltype.Time(int64(w), c.scale)
		}
	case sqltype.KindDateTime:
		for i, w := range words {
			out[i*stride] = sqltype.DateTime(int32(w>>32), int32(uint32(w)))
		}
	case sqltype.KindDateTime2:
		for i, w := range words {
			out[i*stride] = sqltype.DateTime2(int32(w>>40), int64(w&(1<<40-1)), c.scale)
		}
	case sqltype.KindFloat:
		for i, w := range words {
			out[i*stride] = sqltype.Float(math.Float64frombits(w))
		}
	case sqltype.KindMoney:
		for i, w := range words {
			out[i*stride] = sqltype.Money(int64(w))
		}
	case sqltype.KindDecimal:
		for i, w := range words {
			num := sqltype.Number{Lo: w, Scale: c.scale}
			if int64(w) < 0 {
				num.Neg, num.Lo = true, -w
			}
			out[i*stride] = sqltype.Decimal(num)
		}
	default:
		for i, w := range words {
			out[i*stride] = sqltype.BigInt(int64(w))
		}
	}
}

func (x *vector) decode16(c cellType, from, n int, out []sqltype.Value, stride int) {
	for i, w := range x.b16[from : from+n] {
		if c.kind == sqltype.KindDecimal {
			out[i*stride] = sqltype.Decimal(sqltype.Number{Neg: w[0]&signBit != 0, Hi: w[0] &^ signBit, Lo: w[1], Scale: c.scale})
			continue
		}
		var u [16]byte
		for b := range 8 {
			u[b] = byte(w[0] >> (56 - 8*b))
			u[8+b] = byte(w[1] >> (56 - 8*b))
		}
		out[i*stride] = sqltype.UniqueIdentifier(u)
	}
}

func (x *vector) decodeText(c cellType, from, n int, out []sqltype.Value, stride int) {
	start := uint32(0)
	if from > 0 {
		start = x.ends[from-1]
	}
	text := c.kind.IsText()
	for i, end := range x.ends[from : from+n] {
		s := frozen(x.heap[start:end])
		if text {
			out[i*stride] = sqltype.Text(c.kind, s)
		} else {
			out[i*stride] = sqltype.Bytes(c.kind, s)
		}
		start = end
	}
}

// frozen is a string over bytes that never change again (published rows of a segment), so no copy is needed.
func frozen(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// grow makes room for n rows in one step.
func (x *vector) grow(c cellType, n int) {
	switch c.class {
	case class1:
		x.b1 = slices.Grow(x.b1, n)
	case class2:
		x.b2 = slices.Grow(x.b2, n)
	case class4:
		x.b4 = slices.Grow(x.b4, n)
	case class8:
		x.b8 = slices.Grow(x.b8, n)
	case class10:
		x.b8, x.b2 = slices.Grow(x.b8, n), slices.Grow(x.b2, n)
	case class16:
		x.b16 = slices.Grow(x.b16, n)
	case classText:
		x.ends = slices.Grow(x.ends, n)
	case classAny:
		x.vals = slices.Grow(x.vals, n)
	}
}

// seal gives back unused room of a full segment's heap.
func (x *vector) seal() {
	if cap(x.heap)-len(x.heap) > len(x.heap)/16 {
		x.heap = append(make([]byte, 0, len(x.heap)), x.heap...)
	}
}

// size is the memory held, for tests of the bytes a row costs.
func (x *vector) size() int {
	return cap(x.b1) + 2*cap(x.b2) + 4*cap(x.b4) + 8*cap(x.b8) + 16*cap(x.b16) + 4*cap(x.ends) + cap(x.heap) + 40*cap(x.vals)
}
