package data

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// limits are the sizes of pages and dictionaries. Small pages keep the writer's memory
// small; the figures were chosen by measuring.
type limits struct {
	pageRows  int // a page has at most that many rows
	pageBytes int // and about that many bytes
	dictBytes int // of a dictionary in plain encoding; then the rest of the chunk is plain
	sample    int // values after which a dictionary must be worthwhile

	parallelBytes int // of values, from which on several goroutines encode them
}

func defaultLimits() limits {
	return limits{pageRows: 20_000, pageBytes: 256 << 10, dictBytes: 1 << 20, sample: 4096, parallelBytes: 64 << 10}
}

// column encodes one leaf of one open file: values into the current page, full pages
// into the current chunk.
type column struct {
	leaf
	order  orderKind
	enc    *encoder
	source source
	shred  shredded

	// The current page: its levels, and its values either as dictionary ids or plain.
	levels levels
	ids    []uint32
	plain  []byte
	bits   int // of booleans: bits used in plain

	// The dictionary of the current chunk. Every chunk begins with one as long as
	// wantsDict; useDict ends when it is not worthwhile or has grown too large.
	dict        *dictionary
	wantsDict   bool
	useDict     bool
	decided     bool // the dictionary was found worthwhile, or not
	samples     int  // values that came while it was not decided,
	sampleBytes int  // and what they take in plain encoding
	dictPages   int  // pages of the chunk that use it

	// The Arrow dictionary that came last, with what its entries are here: their id
	// plus 1, or 1 if they were seen while the column is plain, or 0.
	mapped     arrow.ArrayData
	mapping    []uint32
	dictSource source

	chunk  []byte // compressed pages of the chunk
	pages  []pageInfo
	page   []byte // the compressed dictionary page, once the chunk has ended
	bounds bounds // of the chunk
	total  bounds // of the file's finished chunks
}

type pageInfo struct {
	size, uncompressed int
	levels             int
	encoding           parquet.Encoding
}

func newColumn(l leaf, enc *encoder) *column {
	c := &column{leaf: l, enc: enc, order: orderOf(l.typ, l.phys)}
	c.levels.maxDef, c.levels.maxRep, c.levels.flat = l.maxDef, l.maxRep, len(l.steps) == 1
	if l.phys != asBits {
		c.wantsDict, c.useDict, c.dict = true, true, newDictionary(l.width)
	}
	return c
}

// append adds the rows of the table's column that holds this leaf.
func (c *column) append(arr arrow.Array, l *lane) error {
	for from := 0; from < arr.Len(); {
		n := min(arr.Len()-from, c.rowsPerStep(arr))
		piece := arr
		if n < arr.Len() {
			piece = array.NewSlice(arr, int64(from), int64(from+n))
		} else {
			piece.Retain()
		}
		err := c.appendPiece(piece, l)
		piece.Release()
		if err != nil {
			return err
		}
		from += n
	}
	return nil
}

// rowsPerStep is how many rows are added before the page is looked at again.
func (c *column) rowsPerStep(arr arrow.Array) int {
	bytesEach := 1 + sizeOf(arr)/arr.Len()
	rows := min(c.enc.limits.pageRows-c.levels.n, (c.enc.limits.pageBytes-len(c.plain))/bytesEach)
	if !c.levels.flat {
		rows = min(rows, 1024)
	}
	if c.useDict && !c.decided {
		rows = min(rows, c.enc.limits.sample-c.samples) // more would only make a larger dictionary to throw away
	}
	return max(1, rows)
}

// sizeOf is about how many bytes the values of an array take.
func sizeOf(arr arrow.Array) int {
	switch a := arr.(type) {
	case *array.Dictionary:
		entries := a.Dictionary()
		return arr.Len() * (4 + sizeOf(entries)/max(1, entries.Len()))
	case interface{ ValueBytes() []byte }: // text and binary
		return len(a.ValueBytes())
	case *array.Struct:
		n := 0
		for i := range a.NumField() {
			n += sizeOf(a.Field(i))
		}
		return n
	case array.ListLike:
		if arr.Len() == 0 {
			return 0
		}
		start, _ := a.ValueOffsets(0)
		_, end := a.ValueOffsets(arr.Len() - 1)
		values := a.ListValues()
		return int(end-start) * (1 + sizeOf(values)/max(1, values.Len()))
	}
	if fixed, ok := arr.DataType().(arrow.FixedWidthDataType); ok {
		return arr.Len() * fixed.BitWidth() / 8
	}
	return 0
}

func (c *column) appendPiece(arr arrow.Array, l *lane) error {
	if c.levels.flat {
		c.levels.appendFlat(arr, &c.shred)
	} else {
		c.levels.appendNested(&c.leaf, arr, &c.shred)
	}
	c.bounds.levels += int64(c.shred.levels)
	c.bounds.values += int64(c.shred.n)
	c.bounds.nulls += int64(c.shred.nulls)
	if c.shred.n > 0 {
		if err := c.source.load(&c.leaf, c.shred.values); err != nil {
			return fmt.Errorf("column %s: %w", c.desc.Path(), err)
		}
		if err := c.appendValues(); err != nil {
			return err
		}
	}
	full := c.useDict && len(c.dict.plain) >= c.enc.limits.dictBytes
	if c.useDict && !c.decided && (full || c.samples >= c.enc.limits.sample) {
		c.decideDictionary()
	}
	if c.levels.n >= c.enc.limits.pageRows || len(c.plain) >= c.enc.limits.pageBytes-c.enc.limits.pageBytes/8 || full {
		if err := c.flushPage(l); err != nil {
			return err
		}
	}
	if full && c.useDict {
		c.useDict, c.wantsDict, c.mapped = false, false, nil
	}
	return nil
}

// decideDictionary goes on without the dictionary, in this file, if it is of no use.
func (c *column) decideDictionary() {
	c.decided = true
	if c.dictPages > 0 || c.dict.worthwhile(c.samples, c.sampleBytes) {
		return
	}
	c.plain = c.dict.expand(c.plain, c.ids)
	c.ids, c.mapped = c.ids[:0], nil
	c.useDict, c.wantsDict = false, false
	c.dict = newDictionary(c.width)
}

// flushPage compresses the current page into the chunk.
func (c *column) flushPage(l *lane) error {
	if c.levels.n == 0 {
		return nil
	}
	body := c.levels.appendRepetition(l.scratch[:0])
	body = c.levels.appendDefinition(body)
	page := pageInfo{levels: c.levels.n, encoding: parquet.Encodings.Plain}
	switch {
	case c.useDict && c.dict.len() > 0:
		width := max(1, bitWidth(uint32(c.dict.len()-1)))
		body = append(body, byte(width))
		body = appendHybrid(body, c.ids, width)
		page.encoding = parquet.Encodings.RLEDict
		c.dictPages++
	case len(c.plain) > 0:
		page.encoding = c.enc.encodingOf(&c.leaf)
		body = l.delta.append(body, c.plain, page.encoding, c.width)
	}
	if len(body) > maxPage {
		return fmt.Errorf("column %s: a page of %d bytes is too large: no value may have more than %d", c.desc.Path(), len(body), maxPage)
	}
	before := len(c.chunk)
	c.chunk = l.compress(c.chunk, body)
	page.size, page.uncompressed = len(c.chunk)-before, len(body)
	c.pages = append(c.pages, page)
	l.scratch = body
	c.levels.reset()
	c.ids, c.plain, c.bits = c.ids[:0], c.plain[:0], 0
	return nil
}

// memory is how many bytes the column holds.
func (c *column) memory() int64 {
	n := len(c.chunk) + len(c.plain) + 4*(len(c.ids)+len(c.levels.defs)+len(c.levels.reps))
	if c.useDict || c.dictPages > 0 {
		n += c.dict.memory()
	}
	return int64(n)
}

// open is about how many bytes of values are in no page yet.
func (c *column) open() int { return len(c.plain) + 4*len(c.ids) }

// endChunk makes the last pages of the chunk.
func (c *column) endChunk(l *lane) error {
	if c.useDict && !c.decided && c.samples > 0 {
		c.decideDictionary()
	}
	if err := c.flushPage(l); err != nil {
		return err
	}
	if c.dictPages > 0 {
		c.page = l.compress(c.page[:0], c.dict.plain)
	}
	return nil
}

// writeChunk writes the chunk that has ended to the file and makes the column ready for
// the next.
func (c *column) writeChunk(meta *metadata.ColumnChunkMetaDataBuilder, sink *fileSink) error {
	w := newChunkWriter(sink)
	if c.dictPages > 0 {
		if err := w.dictionary(c.page, c.dict.len(), len(c.dict.plain)); err != nil {
			return err
		}
	}
	at := 0
	for _, p := range c.pages {
		if err := w.data(c.chunk[at:at+p.size], p); err != nil {
			return err
		}
		at += p.size
	}
	meta.SetStats(c.bounds.parquet(c.order, c.width))
	if err := w.finish(meta, c.dictPages > 0 && c.dictPages < len(c.pages)); err != nil {
		return err
	}
	c.nextChunk()
	return nil
}

func (c *column) nextChunk() {
	c.total.merge(&c.bounds, c.order)
	c.bounds.reset()
	c.chunk, c.pages = c.chunk[:0], c.pages[:0]
	c.useDict, c.dictPages, c.mapped = c.wantsDict, 0, nil
	switch {
	case c.enc.manyFiles:
		c.chunk, c.page, c.plain, c.ids, c.mapping = nil, nil, nil, nil, nil
		c.dict = newDictionary(c.width)
	case c.wantsDict:
		c.dict.reset()
	}
}
