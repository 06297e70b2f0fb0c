package data

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// dictionary is the set of distinct values of one column chunk, numbered in the order
// in which they came.
type dictionary struct {
	width int      // bytes of a fixed value, 0 for byte arrays
	plain []byte   // the values in plain encoding: the content of the dictionary page
	ends  []uint32 // of byte arrays: where value i ends in plain
	keys  []key
	slots []uint32 // hash table of a power of two: number of the value plus 1, or 0
	seed  maphash.Seed
}

// key tells values apart: values of up to 16 bytes with equal keys are equal, longer
// ones have equal hashes.
type key struct {
	first, last uint64
	size        int
}

func newDictionary(width int) *dictionary {
	return &dictionary{width: width, seed: maphash.MakeSeed(), slots: make([]uint32, 256)}
}

func (d *dictionary) reset() {
	d.plain, d.ends, d.keys = d.plain[:0], d.ends[:0], d.keys[:0]
	clear(d.slots)
}

// len is the number of values.
func (d *dictionary) len() int { return len(d.keys) }

// intKey is the key of an integer.
func intKey[T int32 | int64](v T, width int) key {
	if width == 4 {
		return key{first: uint64(uint32(v)), size: width}
	}
	return key{first: uint64(v), size: width}
}

// keyOf is the key of a value that is no integer.
func (d *dictionary) keyOf(v []byte) key {
	k := key{size: len(v)}
	switch {
	case len(v) > 16:
		k.first = maphash.Bytes(d.seed, v)
		k.last = binary.LittleEndian.Uint64(v[len(v)-8:])
	case len(v) >= 8:
		k.first = binary.LittleEndian.Uint64(v)
		k.last = binary.LittleEndian.Uint64(v[len(v)-8:])
	case len(v) >= 4:
		k.first = uint64(binary.LittleEndian.Uint32(v))
		k.last = uint64(binary.LittleEndian.Uint32(v[len(v)-4:]))
	default:
		for _, b := range v {
			k.first = k.first<<8 | uint64(b)
		}
	}
	return k
}

func (k key) hash() uint32 {
	h := (k.first ^ uint64(k.size)) * 0x9e3779b97f4a7c15
	h = (h ^ h>>29 ^ k.last) * 0xbf58476d1ce4e5b9
	return uint32(h >> 32)
}

// id is the number of a value with its key, and whether it is a new one. The value may
// be nil for integers.
func (d *dictionary) id(k key, v []byte) (id uint32, isNew bool) {
	mask := uint32(len(d.slots) - 1)
	at := k.hash() & mask
	for ; d.slots[at] != 0; at = (at + 1) & mask {
		id := d.slots[at] - 1
		if d.keys[id] == k && (k.size <= 16 || bytes.Equal(d.value(id), v)) {
			return id, false
		}
	}
	d.slots[at] = uint32(d.len() + 1)
	return d.add(k, v), true
}

func (d *dictionary) add(k key, v []byte) uint32 {
	if d.width == 0 {
		d.plain = binary.LittleEndian.AppendUint32(d.plain, uint32(len(v)))
	}
	if v == nil && d.width > 0 {
		v = littleEndian(k.first, d.width)
	}
	d.plain = append(d.plain, v...)
	if d.width == 0 {
		d.ends = append(d.ends, uint32(len(d.plain)))
	}
	d.keys = append(d.keys, k)
	if 2*d.len() > len(d.slots) {
		d.grow()
	}
	return uint32(d.len() - 1)
}

func (d *dictionary) grow() {
	d.slots = make([]uint32, 4*len(d.slots))
	mask := uint32(len(d.slots) - 1)
	for id, k := range d.keys {
		at := k.hash() & mask
		for d.slots[at] != 0 {
			at = (at + 1) & mask
		}
		d.slots[at] = uint32(id + 1)
	}
}

// value is value number id without its length.
func (d *dictionary) value(id uint32) []byte {
	if d.width > 0 {
		return d.plain[int(id)*d.width:][:d.width]
	}
	from := 4
	if id > 0 {
		from += int(d.ends[id-1])
	}
	return d.plain[from:d.ends[id]]
}

// expand appends the values of the given numbers in plain encoding.
func (d *dictionary) expand(dst []byte, ids []uint32) []byte {
	for _, id := range ids {
		v := d.value(id)
		if d.width == 0 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(len(v)))
		}
		dst = append(dst, v...)
	}
	return dst
}

// memory is how many bytes its values take.
func (d *dictionary) memory() int {
	if d.len() == 0 {
		return 0
	}
	return len(d.plain) + 4*(len(d.ends)+len(d.slots)) + 24*len(d.keys)
}

// worthwhile tells from the first values of a chunk whether the dictionary makes it
// clearly smaller: values came that take plain bytes without it. Readers pay for a
// dictionary too, so half the size is asked for.
func (d *dictionary) worthwhile(values, plain int) bool {
	const growth = 3 // bits by which the numbers may still grow within the chunk
	indices := values * (bitWidth(uint32(d.len())) + growth) / 8
	return 2*(len(d.plain)+indices) < plain
}
