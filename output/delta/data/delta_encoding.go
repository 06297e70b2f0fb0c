package data

import (
	"encoding/binary"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet"
)

// The delta encodings of Parquet (Encodings.md of the format), from values in plain
// encoding.

// deltaEncoder is scratch memory for the delta encodings.
type deltaEncoder struct {
	ints, prefixes, lengths []int64
	suffixes                []byte
}

// append appends plain values in one of the encodings of encodingOf.
func (e *deltaEncoder) append(dst, plain []byte, encoding parquet.Encoding, width int) []byte {
	switch encoding {
	case parquet.Encodings.DeltaBinaryPacked:
		return e.appendInts(dst, plain, width)
	case parquet.Encodings.DeltaByteArray:
		return e.appendBytes(dst, plain)
	default:
		return append(dst, plain...)
	}
}

const (
	deltaBlock     = 128 // values a block
	deltaMinis     = 4   // miniblocks a block
	deltaMiniblock = deltaBlock / deltaMinis
)

// appendInts appends integers of width 4 or 8 as DELTA_BINARY_PACKED.
func (e *deltaEncoder) appendInts(dst, plain []byte, width int) []byte {
	values := e.ints[:0]
	for ; len(plain) >= width; plain = plain[width:] {
		if width == 4 {
			values = append(values, int64(int32(binary.LittleEndian.Uint32(plain))))
		} else {
			values = append(values, int64(binary.LittleEndian.Uint64(plain)))
		}
	}
	e.ints = values
	return appendDeltaPacked(dst, values, width)
}

// appendDeltaPacked computes modulo 2^(8*width), so that no difference needs more bits
// than a value.
func appendDeltaPacked(dst []byte, values []int64, width int) []byte {
	dst = binary.AppendUvarint(dst, deltaBlock)
	dst = binary.AppendUvarint(dst, deltaMinis)
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	if len(values) == 0 {
		return binary.AppendVarint(dst, 0)
	}
	dst = binary.AppendVarint(dst, values[0])
	var deltas [deltaBlock]int64
	for from := 1; from < len(values); from += deltaBlock {
		n := min(deltaBlock, len(values)-from)
		for i := range n {
			deltas[i] = values[from+i] - values[from+i-1]
			if width == 4 {
				deltas[i] = int64(int32(deltas[i]))
			}
		}
		dst = appendDeltaBlock(dst, deltas[:n], width)
	}
	return dst
}

func appendDeltaBlock(dst []byte, deltas []int64, width int) []byte {
	least := deltas[0]
	for _, d := range deltas[1:] {
		least = min(least, d)
	}
	dst = binary.AppendVarint(dst, least)
	widthsAt := len(dst)
	dst = append(dst, make([]byte, deltaMinis)...)
	for mini := 0; mini*deltaMiniblock < len(deltas); mini++ {
		part := deltas[mini*deltaMiniblock : min((mini+1)*deltaMiniblock, len(deltas))]
		var all uint64
		var offsets [deltaMiniblock]uint64
		for i, d := range part {
			offsets[i] = uint64(d - least)
			if width == 4 {
				offsets[i] = uint64(uint32(offsets[i]))
			}
			all |= offsets[i]
		}
		dst[widthsAt+mini] = byte(bits.Len64(all))
		dst = appendPacked64(dst, &offsets, bits.Len64(all))
	}
	return dst
}

// appendPacked64 packs a miniblock of values of up to 64 bits.
func appendPacked64(dst []byte, values *[deltaMiniblock]uint64, width int) []byte {
	var pending uint64
	var used int
	for _, v := range values {
		pending |= v << used
		if used+width < 64 {
			used += width
			continue
		}
		dst = binary.LittleEndian.AppendUint64(dst, pending)
		pending = v >> (64 - used) // 0 if used is 0: Go shifts all bits out
		used += width - 64
	}
	for ; used > 0; used -= 8 {
		dst = append(dst, byte(pending))
		pending >>= 8
	}
	return dst
}

// appendBytes appends byte arrays as DELTA_BYTE_ARRAY: the length that each value
// has in common with the one before, and what follows.
func (e *deltaEncoder) appendBytes(dst, plain []byte) []byte {
	prefixes, lengths, suffixes := e.prefixes[:0], e.lengths[:0], e.suffixes[:0]
	var last []byte
	for len(plain) > 0 {
		n := binary.LittleEndian.Uint32(plain)
		v := plain[4:][:n]
		plain = plain[4+n:]
		common := commonPrefix(last, v)
		prefixes = append(prefixes, int64(common))
		lengths = append(lengths, int64(len(v)-common))
		suffixes = append(suffixes, v[common:]...)
		last = v
	}
	e.prefixes, e.lengths, e.suffixes = prefixes, lengths, suffixes
	dst = appendDeltaPacked(dst, prefixes, 4)
	dst = appendDeltaPacked(dst, lengths, 4)
	return append(dst, suffixes...)
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n+8 <= len(a) && n+8 <= len(b) {
		if diff := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); diff != 0 {
			return n + bits.TrailingZeros64(diff)/8
		}
		n += 8
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
