package data

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// appendValues adds the values of the shredded piece to the page and to the bounds.
func (c *column) appendValues() error {
	switch {
	case c.phys == asBits:
		c.appendBits()
	case c.source.dictionary != nil:
		return c.appendMapped()
	case c.useDict:
		c.appendIDs()
	case c.phys == asBytes:
		c.appendText()
	default:
		c.appendFixed()
	}
	return nil
}

func (c *column) appendBits() {
	for _, s := range c.shred.spans {
		for i := s.start; i < s.end; i++ {
			if c.bits&7 == 0 {
				c.plain = append(c.plain, 0)
			}
			at := c.source.bitOffset + i
			c.plain[c.bits/8] |= c.source.bits[at/8] >> (at & 7) & 1 << (c.bits & 7)
			c.bits++
		}
	}
}

func (c *column) appendFixed() {
	src, b := &c.source, &c.bounds
	for _, s := range c.shred.spans {
		c.plain = append(c.plain, src.fixed[s.start*c.width:s.end*c.width]...)
		switch {
		case src.i32 != nil:
			addInts(b, src.i32[s.start:s.end])
		case src.i64 != nil:
			addInts(b, src.i64[s.start:s.end])
		case src.f32 != nil:
			addFloats(b, src.f32[s.start:s.end])
		case src.f64 != nil:
			addFloats(b, src.f64[s.start:s.end])
		default:
			for _, v := range src.dec[s.start:s.end] {
				b.addDecimal(v, v)
			}
		}
	}
}

// appendText adds byte arrays in plain encoding: each with its length before it.
func (c *column) appendText() {
	var lo, hi []byte
	data, first := c.source.data, true
	for _, s := range c.shred.spans {
		offsets := c.source.offsets[s.start : s.end+1]
		n := int(offsets[len(offsets)-1]-offsets[0]) + 4*(s.end-s.start)
		at := len(c.plain)
		c.plain = slices.Grow(c.plain, n)[:at+n]
		dst, from := c.plain[at:], offsets[0]
		for _, to := range offsets[1:] {
			v := data[from:to]
			binary.LittleEndian.PutUint32(dst, uint32(len(v)))
			copy(dst[4:], v)
			dst, from = dst[4+len(v):], to
			if c.order == orderNone {
				continue
			}
			switch {
			case first:
				lo, hi, first = v, v, false
			case bytes.Compare(v, hi) > 0:
				hi = v
			case bytes.Compare(v, lo) < 0:
				lo = v
			}
		}
	}
	if !first {
		c.bounds.addText(lo, hi)
	}
}

// appendIDs adds values by their ids in the dictionary. What is in the dictionary is
// in the bounds. A run of one value, as the columns of a commit have them, is looked up
// once.
func (c *column) appendIDs() {
	c.ids = slices.Grow(c.ids, c.shred.n)
	switch src := &c.source; {
	case src.i32 != nil:
		appendIntIDs(c, src.i32)
	case src.i64 != nil:
		appendIntIDs(c, src.i64)
	default:
		c.appendByteIDs()
	}
	if !c.decided {
		for _, s := range c.shred.spans {
			c.sample(&c.source, s)
		}
	}
}

func appendIntIDs[T int32 | int64](c *column, values []T) {
	var id uint32
	var last T
	known := false
	for _, s := range c.shred.spans {
		for _, v := range values[s.start:s.end] {
			if v != last || !known {
				var isNew bool
				if id, isNew = c.dict.id(intKey(v, c.width), nil); isNew {
					c.bounds.addInt(int64(v), int64(v))
				}
				last, known = v, true
			}
			c.ids = append(c.ids, id)
		}
	}
}

func (c *column) appendByteIDs() {
	var id uint32
	var last []byte
	for _, s := range c.shred.spans {
		for i := s.start; i < s.end; i++ {
			v := c.source.value(&c.leaf, i)
			if last == nil || len(v) != len(last) || !bytes.Equal(v, last) {
				var isNew bool
				if id, isNew = c.dict.id(c.dict.keyOf(v), v); isNew {
					c.addBound(&c.source, i)
				}
				last = v
			}
			c.ids = append(c.ids, id)
		}
	}
}

func (c *column) sample(src *source, s span) {
	n := s.end - s.start
	c.samples += n
	if c.width > 0 {
		c.sampleBytes += n * c.width
		return
	}
	c.sampleBytes += 4*n + int(src.offsets[s.end]-src.offsets[s.start])
}

// appendMapped adds values of an Arrow dictionary: each entry is looked at once.
func (c *column) appendMapped() error {
	entries := c.source.dictionary
	if c.mapped != entries.Data() {
		if err := c.dictSource.load(&c.leaf, entries); err != nil {
			return err
		}
		c.mapped = entries.Data()
		c.mapping = resize(&c.mapping, entries.Len())
		clear(c.mapping)
	}
	for _, s := range c.shred.spans {
		for _, entry := range c.source.index[s.start:s.end] {
			if c.mapping[entry] == 0 {
				c.mapEntry(entry)
			}
			if c.useDict {
				c.ids = append(c.ids, c.mapping[entry]-1)
			} else {
				c.appendEntry(entry)
			}
		}
		if !c.decided && c.useDict {
			c.sampleEntries(s)
		}
	}
	return nil
}

func (c *column) sampleEntries(s span) {
	for _, entry := range c.source.index[s.start:s.end] {
		c.sample(&c.dictSource, span{int(entry), int(entry) + 1})
	}
}

func (c *column) mapEntry(entry int32) {
	if !c.useDict {
		c.mapping[entry] = 1
		c.addBound(&c.dictSource, int(entry))
		return
	}
	id, isNew := c.dict.id(c.keyAt(&c.dictSource, int(entry)))
	if isNew {
		c.addBound(&c.dictSource, int(entry))
	}
	c.mapping[entry] = id + 1
}

// keyAt is the key of a value, and the value where the dictionary needs it.
func (c *column) keyAt(src *source, i int) (key, []byte) {
	switch {
	case src.i32 != nil:
		return intKey(src.i32[i], c.width), nil
	case src.i64 != nil:
		return intKey(src.i64[i], c.width), nil
	default:
		v := src.value(&c.leaf, i)
		return c.dict.keyOf(v), v
	}
}

func (c *column) appendEntry(entry int32) {
	v := c.dictSource.value(&c.leaf, int(entry))
	if c.width == 0 {
		c.plain = binary.LittleEndian.AppendUint32(c.plain, uint32(len(v)))
	}
	c.plain = append(c.plain, v...)
}

// addBound takes one value into the bounds.
func (c *column) addBound(src *source, i int) {
	b := &c.bounds
	switch {
	case c.order == orderNone:
	case src.i32 != nil:
		b.addInt(int64(src.i32[i]), int64(src.i32[i]))
	case src.i64 != nil:
		b.addInt(src.i64[i], src.i64[i])
	case src.f32 != nil:
		addFloats(b, src.f32[i:i+1])
	case src.f64 != nil:
		addFloats(b, src.f64[i:i+1])
	case src.dec != nil:
		b.addDecimal(src.dec[i], src.dec[i])
	default:
		v := src.value(&c.leaf, i)
		b.addText(v, v)
	}
}
