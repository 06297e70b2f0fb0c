package data

import (
	"encoding/binary"
	"math/bits"
)

// appendHybrid appends the values in Parquet's RLE and bit-packing hybrid with the
// given width in bits (the section "Run Length Encoding / Bit-Packing Hybrid" of the
// format): runs of eight and more equal values as a run, the others packed in groups of
// eight. Each value must fit the width.
func appendHybrid(dst []byte, values []uint32, width int) []byte {
	packedFrom := 0 // values before i that still have to be packed begin here
	for i := 0; i < len(values); {
		run := 1
		for i+run < len(values) && values[i+run] == values[i] {
			run++
		}
		// A packed group has eight values, so the run first fills the open group.
		fill := -(i - packedFrom) & 7
		if run-fill < 8 {
			i += run
			continue
		}
		i += fill
		dst = appendPacked(dst, values[packedFrom:i], width)
		dst = appendRun(dst, values[i], run-fill, width)
		i += run - fill
		packedFrom = i
	}
	return appendPacked(dst, values[packedFrom:], width)
}

// appendRun appends n times one value.
func appendRun(dst []byte, value uint32, n, width int) []byte {
	dst = binary.AppendUvarint(dst, uint64(n)<<1)
	for shift := 0; shift < width; shift += 8 {
		dst = append(dst, byte(value>>shift))
	}
	return dst
}

// appendPacked appends the values bit by bit, filled up with zeros to a multiple of
// eight values.
func appendPacked(dst []byte, values []uint32, width int) []byte {
	if len(values) == 0 {
		return dst
	}
	groups := (len(values) + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
	end := len(dst) + groups*width
	var pending uint64
	var n int
	for _, v := range values {
		pending |= uint64(v) << n
		n += width
		if n >= 32 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(pending))
			pending >>= 32
			n -= 32
		}
	}
	for ; n > 0; n -= 8 {
		dst = append(dst, byte(pending))
		pending >>= 8
	}
	for len(dst) < end {
		dst = append(dst, 0)
	}
	return dst
}

// bitWidth is how many bits hold every number up to most.
func bitWidth(most uint32) int { return bits.Len32(most) }
