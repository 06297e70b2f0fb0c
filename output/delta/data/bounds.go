package data

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// bounds are the smallest and the largest value of a leaf, and how many values and
// NULLs it has. The zero value has seen nothing.
type bounds struct {
	levels int64 // values and NULLs; rows if the leaf is not repeated
	values int64
	nulls  int64 // rows in which the leaf, or the list above it, is NULL

	any                bool // the minimum and maximum are of at least one value
	nan                bool // a NaN came; it is in neither of them
	minInt, maxInt     int64
	minFloat, maxFloat float64
	minDec, maxDec     decimal128.Num
	minText, maxText   []byte
}

type number interface{ ~int32 | ~int64 }

func addInts[T number](b *bounds, values []T) {
	if len(values) == 0 {
		return
	}
	lo, hi := values[0], values[0]
	for _, v := range values[1:] {
		lo, hi = min(lo, v), max(hi, v)
	}
	b.addInt(int64(lo), int64(hi))
}

func (b *bounds) addInt(lo, hi int64) {
	if !b.any {
		b.any, b.minInt, b.maxInt = true, lo, hi
		return
	}
	b.minInt, b.maxInt = min(b.minInt, lo), max(b.maxInt, hi)
}

func addFloats[T float32 | float64](b *bounds, values []T) {
	for _, v := range values {
		if v != v {
			b.nan = true
			continue
		}
		b.addFloat(float64(v), float64(v))
	}
}

func (b *bounds) addFloat(lo, hi float64) {
	if !b.any {
		b.any, b.minFloat, b.maxFloat = true, lo, hi
		return
	}
	if lo < b.minFloat {
		b.minFloat = lo
	}
	if hi > b.maxFloat {
		b.maxFloat = hi
	}
}

func (b *bounds) addDecimal(lo, hi decimal128.Num) {
	if !b.any {
		b.any, b.minDec, b.maxDec = true, lo, hi
		return
	}
	if lo.Less(b.minDec) {
		b.minDec = lo
	}
	if hi.Greater(b.maxDec) {
		b.maxDec = hi
	}
}

// addText keeps copies: the values lie in memory of a batch or a dictionary.
func (b *bounds) addText(lo, hi []byte) {
	first := !b.any
	b.any = true
	if first || bytes.Compare(lo, b.minText) < 0 {
		b.minText = append(b.minText[:0], lo...)
	}
	if first || bytes.Compare(hi, b.maxText) > 0 {
		b.maxText = append(b.maxText[:0], hi...)
	}
}

// merge adds what another has seen of the same leaf.
func (b *bounds) merge(other *bounds, kind orderKind) {
	b.levels += other.levels
	b.values += other.values
	b.nulls += other.nulls
	b.nan = b.nan || other.nan
	if !other.any {
		return
	}
	switch kind {
	case orderInt:
		b.addInt(other.minInt, other.maxInt)
	case orderFloat:
		b.addFloat(other.minFloat, other.maxFloat)
	case orderDecimal:
		b.addDecimal(other.minDec, other.maxDec)
	case orderText:
		b.addText(other.minText, other.maxText)
	}
}

// reset forgets everything but the memory of the texts.
func (b *bounds) reset() {
	*b = bounds{minText: b.minText[:0], maxText: b.maxText[:0]}
}

// orderKind says which of the bounds a leaf keeps.
type orderKind int

const (
	orderNone orderKind = iota // boolean and binary: Delta has no order for them
	orderInt
	orderFloat
	orderDecimal
	orderText
)

// maxParquetStats is the length up to which a text goes into the statistics of a
// Parquet column chunk; they are never cut, so longer ones are left out.
const maxParquetStats = 512

// parquet is the bounds as the statistics of a column chunk. NaN leaves them out, zeros
// get the sign that makes them bounds of both zeros: the rules of parquet.thrift.
func (b *bounds) parquet(kind orderKind, width int) metadata.EncodedStatistics {
	var out metadata.EncodedStatistics
	out.SetNullCount(b.levels - b.values)
	if !b.any || b.nan {
		return out
	}
	switch kind {
	case orderInt:
		out.Signed = true
		out.SetMin(littleEndian(uint64(b.minInt), width)).SetMax(littleEndian(uint64(b.maxInt), width))
	case orderFloat:
		out.Signed = true
		lo, hi := zeroBounds(b.minFloat, b.maxFloat)
		out.SetMin(floatBytes(lo, width)).SetMax(floatBytes(hi, width))
	case orderDecimal:
		out.SetMin(appendDecimal(nil, b.minDec, width)).SetMax(appendDecimal(nil, b.maxDec, width))
	case orderText:
		if len(b.minText) <= maxParquetStats && len(b.maxText) <= maxParquetStats {
			out.SetMin(bytes.Clone(b.minText)).SetMax(bytes.Clone(b.maxText))
		}
	}
	return out
}

// zeroBounds makes a minimum of zero negative and a maximum of zero positive.
func zeroBounds(lo, hi float64) (float64, float64) {
	if lo == 0 {
		lo = math.Copysign(0, -1)
	}
	if hi == 0 {
		hi = 0
	}
	return lo, hi
}

func littleEndian(v uint64, width int) []byte {
	return binary.LittleEndian.AppendUint64(nil, v)[:width]
}

func floatBytes(f float64, width int) []byte {
	if width == 4 {
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(f)))
	}
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
}
