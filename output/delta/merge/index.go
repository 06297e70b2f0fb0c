package merge

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
)

// index finds the entries of a source by their keys. It is built once and then read from many
// goroutines.
type index struct {
	kinds []kind

	arena []byte // the encoded keys, one after the other
	ends  []int  // where the key of each entry ends

	// Of a single column of integers or floats the keys are here, too, but for NULL.
	single bool
	nums   []uint64
	null   int32 // the entry with the key NULL, -1 for none
	lowest uint64
	most   uint64 // the highest of nums

	slots []slot // open addressing; the number is a power of two
	seed  maphash.Seed
}

// slot is an entry and a part of its hash; entry 0 is an empty slot, others are one too high.
type slot struct {
	hash  uint32
	entry int32
}

func newIndex(kinds []kind) *index {
	single := len(kinds) == 1 && (kinds[0] == kindInt || kinds[0] == kindFloat)
	return &index{kinds: kinds, single: single, null: -1, seed: maphash.MakeSeed()}
}

func (x *index) len() int { return len(x.ends) }

// key is the encoded key of an entry.
func (x *index) key(entry int32) []byte {
	from := 0
	if entry > 0 {
		from = x.ends[entry-1]
	}
	return x.arena[from:x.ends[entry]]
}

// add appends the rows of a batch as entries. It returns the first row whose key is there
// before, -1 for none; with again, such a row is no entry and there is no return.
func (x *index) add(keys *keyReader, rows int, again bool) int {
	x.grow(rows)
	for i := range rows {
		from := len(x.arena)
		x.arena = keys.append(x.arena, i)
		if x.insert(x.arena[from:]) {
			continue
		}
		x.arena = x.arena[:from]
		if !again {
			return i
		}
	}
	return -1
}

// insert makes the key at the arena's end an entry, if it is not one before.
func (x *index) insert(key []byte) bool {
	if x.single {
		return x.insertNum(key)
	}
	hash := x.hash(key)
	for at := hash & uint64(len(x.slots)-1); ; at = (at + 1) & uint64(len(x.slots)-1) {
		s := &x.slots[at]
		if s.entry == 0 {
			x.ends = append(x.ends, len(x.arena))
			*s = slot{uint32(hash >> 32), int32(len(x.ends))}
			return true
		}
		if s.hash == uint32(hash>>32) && bytes.Equal(x.key(s.entry-1), key) {
			return false
		}
	}
}

func (x *index) insertNum(key []byte) bool {
	entry := int32(len(x.ends))
	if key[0] == tagNull {
		if x.null >= 0 {
			return false
		}
		x.null = entry
		x.ends, x.nums = append(x.ends, len(x.arena)), append(x.nums, 0)
		return true
	}
	num := numOf(key)
	at := x.place(num)
	for ; x.slots[at].entry != 0; at = (at + 1) & uint64(len(x.slots)-1) {
		if x.nums[x.slots[at].entry-1] == num {
			return false
		}
	}
	x.ends, x.nums = append(x.ends, len(x.arena)), append(x.nums, num)
	x.slots[at].entry = entry + 1
	first := entry == 0 || entry == 1 && x.null >= 0
	if first || num < x.lowest {
		x.lowest = num
	}
	if first || num > x.most {
		x.most = num
	}
	return true
}

// numOf is the value of an encoded column of 8 bytes that is not NULL.
func numOf(key []byte) uint64 {
	var n uint64
	for _, b := range key[1:9] {
		n = n<<8 | uint64(b)
	}
	return n
}

func (x *index) hash(key []byte) uint64 { return maphash.Bytes(x.seed, key) }

// place is the first slot of a number: multiplication spreads neighbours.
func (x *index) place(num uint64) uint64 {
	return (num * 0x9E3779B97F4A7C15) >> (64 - bits.Len64(uint64(len(x.slots)-1)))
}

// grow makes room for more entries, such that at most half of the slots are taken.
func (x *index) grow(rows int) {
	n := 16
	for n < 2*(x.len()+rows) {
		n *= 2
	}
	if n <= len(x.slots) {
		return
	}
	x.slots = make([]slot, n)
	for i := range int32(x.len()) {
		if i == x.null {
			continue
		}
		var s slot
		var at uint64
		if x.single {
			at = x.place(x.nums[i])
		} else {
			hash := x.hash(x.key(i))
			s.hash, at = uint32(hash>>32), hash&uint64(n-1)
		}
		for x.slots[at].entry != 0 {
			at = (at + 1) & uint64(n-1)
		}
		s.entry = i + 1
		x.slots[at] = s
	}
}

// find is the entry of an encoded key, -1 for none. It is for keys that are not single.
func (x *index) find(key []byte) int32 {
	if len(x.slots) == 0 {
		return -1
	}
	hash := x.hash(key)
	for at := hash & uint64(len(x.slots)-1); ; at = (at + 1) & uint64(len(x.slots)-1) {
		s := x.slots[at]
		if s.entry == 0 {
			return -1
		}
		if s.hash == uint32(hash>>32) && bytes.Equal(x.key(s.entry-1), key) {
			return s.entry - 1
		}
	}
}

// findNum is find for single keys that are not NULL.
func (x *index) findNum(num uint64) int32 {
	if num < x.lowest || num > x.most || len(x.slots) == 0 {
		return -1
	}
	for at := x.place(num); ; at = (at + 1) & uint64(len(x.slots)-1) {
		entry := x.slots[at].entry - 1
		if entry < 0 || x.nums[entry] == num {
			return entry
		}
	}
}

// sorted are all entries in the order of their keys.
func (x *index) sorted() []int32 {
	order := make([]int32, x.len())
	for i := range order {
		order[i] = int32(i)
	}
	if x.single {
		slices.SortFunc(order, func(a, b int32) int {
			if a == x.null || b == x.null {
				return bytes.Compare(x.key(a), x.key(b))
			}
			return cmp.Compare(x.nums[a], x.nums[b])
		})
		return order
	}
	slices.SortFunc(order, func(a, b int32) int { return bytes.Compare(x.key(a), x.key(b)) })
	return order
}
