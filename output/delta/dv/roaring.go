package dv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// magic begins a vector in the portable form, the only one that the protocol has.
const magic = 1681511377

// Decode reads the content of a vector: the magic number, the number of 32-bit Roaring
// bitmaps in 8 bytes, and each of them behind its 4-byte key, the upper half of its rows.
// All numbers are little endian. Bytes behind the last bitmap are an error.
func Decode(data []byte) (*Rows, error) {
	in := input{data: data}
	if number := in.u32(); number != magic && in.err == nil {
		return nil, fmt.Errorf("its magic number is %d, want %d", number, magic)
	}
	bitmaps := in.u64()
	rows := &Rows{}
	next := uint64(0) // the lowest key that may come
	for range bitmaps {
		key := in.u32()
		if in.err != nil {
			break
		}
		if uint64(key) < next || key > maxKey {
			return nil, fmt.Errorf("the bitmap with key %d is out of order or too high", key)
		}
		next = uint64(key) + 1
		if err := rows.decodeBitmap(&in, int64(key)<<32); err != nil {
			return nil, err
		}
	}
	if in.err == nil && len(in.data) > 0 {
		return nil, fmt.Errorf("%d bytes follow its end", len(in.data))
	}
	return rows, in.err
}

// maxKey keeps rows below 2^63.
const maxKey = 1<<31 - 1

// The form of one bitmap is the Roaring format specification: a cookie, the number of
// containers, for each its key and cardinality, where they begin, and then themselves.
const (
	cookiePlain    = 12346 // no container is of runs
	cookieRuns     = 12347 // in the lower half; the upper is the number of containers less one
	noOffsetsBelow = 4     // with runs, so few containers have no list of where they begin
	maxContainers  = 1 << 16
	arrayMax       = 4096 // above that many, a container that is not of runs is a bitmap
	bitmapWords    = 1 << 16 / 64
)

func (r *Rows) decodeBitmap(in *input, base int64) error {
	cookie := in.u32()
	var n int
	var isRun []byte
	switch {
	case cookie == cookiePlain:
		n = int(in.u32())
	case cookie&0xffff == cookieRuns:
		n = int(cookie>>16) + 1
		isRun = in.take((n + 7) / 8)
	case in.err == nil:
		return fmt.Errorf("the bitmap's cookie %d is unknown", cookie)
	}
	if n > maxContainers {
		return fmt.Errorf("a bitmap of %d containers", n)
	}
	header := in.take(4 * n)
	if isRun == nil || n >= noOffsetsBelow {
		in.take(4 * n) // where they begin is known: one after the other
	}
	if in.err != nil {
		return in.err
	}
	for i, last := 0, -1; i < n; i++ {
		key := int(binary.LittleEndian.Uint16(header[4*i:]))
		cardinality := int(binary.LittleEndian.Uint16(header[4*i+2:])) + 1
		if key <= last {
			return errors.New("the containers of a bitmap are out of order")
		}
		last = key
		c := container{first: base + int64(key)<<16}
		if err := c.decode(in, cardinality, isRun != nil && isRun[i/8]>>(i%8)&1 == 1); err != nil {
			return err
		}
		r.containers = append(r.containers, c)
		r.n += int64(cardinality)
	}
	return nil
}

// container is the rows of one block of 65,536: exactly one of its forms is set.
type container struct {
	first  int64    // the block's first row
	values []uint16 // ascending
	runs   []run    // ascending, apart
	words  []uint64 // one bit a row
}

// run is the rows from start to end, both included.
type run struct{ start, end uint16 }

func (c *container) decode(in *input, cardinality int, isRun bool) error {
	switch {
	case isRun:
		return c.decodeRuns(in, cardinality)
	case cardinality > arrayMax:
		return c.decodeWords(in, cardinality)
	default:
		return c.decodeValues(in, cardinality)
	}
}

func (c *container) decodeRuns(in *input, cardinality int) error {
	raw := in.take(4 * int(in.u16()))
	if in.err != nil {
		return in.err
	}
	c.runs = make([]run, len(raw)/4)
	total, last := 0, -1
	for i := range c.runs {
		start := int(binary.LittleEndian.Uint16(raw[4*i:]))
		end := start + int(binary.LittleEndian.Uint16(raw[4*i+2:]))
		if start <= last || end > 0xffff {
			return errors.New("the runs of a container are out of order")
		}
		last = end
		total += end - start + 1
		c.runs[i] = run{uint16(start), uint16(end)}
	}
	return sameCardinality(total, cardinality)
}

func (c *container) decodeWords(in *input, cardinality int) error {
	raw := in.take(8 * bitmapWords)
	if in.err != nil {
		return in.err
	}
	c.words = make([]uint64, bitmapWords)
	total := 0
	for i := range c.words {
		c.words[i] = binary.LittleEndian.Uint64(raw[8*i:])
		total += bits.OnesCount64(c.words[i])
	}
	return sameCardinality(total, cardinality)
}

func (c *container) decodeValues(in *input, cardinality int) error {
	raw := in.take(2 * cardinality)
	if in.err != nil {
		return in.err
	}
	c.values = make([]uint16, cardinality)
	for i := range c.values {
		c.values[i] = binary.LittleEndian.Uint16(raw[2*i:])
		if i > 0 && c.values[i] <= c.values[i-1] {
			return errors.New("the values of a container are out of order")
		}
	}
	return nil
}

func sameCardinality(have, want int) error {
	if have != want {
		return fmt.Errorf("a container has %d rows, its header says %d", have, want)
	}
	return nil
}

// last is the highest row of the block. A container has at least one.
func (c *container) last() uint16 {
	switch {
	case c.runs != nil:
		return c.runs[len(c.runs)-1].end
	case c.values != nil:
		return c.values[len(c.values)-1]
	}
	for i := bitmapWords - 1; ; i-- {
		if c.words[i] != 0 {
			return uint16(i*64 + bits.Len64(c.words[i]) - 1)
		}
	}
}

// input is bytes being read; the first lack of them stays its error.
type input struct {
	data []byte
	err  error
}

func (in *input) take(n int) []byte {
	if in.err == nil && (n < 0 || n > len(in.data)) {
		in.err = errors.New("it ends early")
	}
	if in.err != nil {
		return nil
	}
	out := in.data[:n]
	in.data = in.data[n:]
	return out
}

func (in *input) u16() uint16 {
	if b := in.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (in *input) u32() uint32 {
	if b := in.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (in *input) u64() uint64 {
	if b := in.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}
