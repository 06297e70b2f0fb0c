package engine

import (
	"slices"
	"sort"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

const (
	segmentRows      = 16384    // rows of a full segment
	segmentHeapBytes = 64 << 20 // a segment also closes when one of its heaps gets this large
	firstCapacity    = 64
)

// layout says how the captured columns of a change table are stored. It is immutable; ALTER COLUMN makes a new one.
type layout struct {
	cells    []cellType // per captured column
	maskLen  int        // bytes of an update mask
	nullsLen int        // bytes of a row's NULL bits
	fullMask []byte     // all defined bits
}

func newLayout(columns []CapturedColumn) *layout {
	l := &layout{cells: make([]cellType, len(columns))}
	for i, c := range columns {
		l.cells[i] = cellTypeOf(c.Type)
	}
	l.maskLen = (len(columns) + 7) / 8
	l.nullsLen = l.maskLen
	l.fullMask = make([]byte, l.maskLen)
	for i := range columns {
		setMaskBit(l.fullMask, i)
	}
	return l
}

// setMaskBit sets the bit of the captured column with ordinal i+1: counted from the low bit of the last byte, as
// sys.fn_cdc_is_bit_set reads the mask as a big-endian number [K; one byte M25].
func setMaskBit(mask []byte, i int) { mask[len(mask)-1-i/8] |= 1 << (i % 8) }

// maskBit reads the bit that setMaskBit sets.
func maskBit(mask []byte, i int) bool { return mask[len(mask)-1-i/8]>>(i%8)&1 == 1 }

// run is the part of a transaction that lies in one segment: rows from start up to the next run.
type run struct {
	lsn   LSN
	start uint32
}

// segment holds up to segmentRows change rows column by column, ordered by (start_lsn, command_id, seqval, operation). A
// published segment never changes below n; the writer's copy of the last one shares its vectors and appends behind n.
type segment struct {
	first   int64 // absolute number of row 0
	n       int
	room    int // rows that the vectors have been grown for
	runs    []run
	seq     []byte // 10 a row
	command []int32
	op      []uint8
	mask    []byte
	nulls   []byte
	hasNull []bool // per column: some row is NULL
	cols    []vector
	lob     int // largest heap
}

func newSegment(l *layout, first int64) *segment {
	return &segment{first: first, hasNull: make([]bool, len(l.cells)), cols: make([]vector, len(l.cells))}
}

// publishable is a copy that later appends do not touch.
func (s *segment) publishable() *segment {
	c := *s
	c.hasNull = slices.Clone(s.hasNull)
	c.cols = slices.Clone(s.cols)
	return &c
}

// changeRow is a change on its way into a segment.
type changeRow struct {
	seq     LSN
	command int32
	op      uint8
	mask    []byte
	values  []sqltype.Value // of the captured columns
}

func (s *segment) full() bool { return s.n == segmentRows || s.lob >= segmentHeapBytes }

// add appends a row of the transaction start; rows come in order.
func (s *segment) add(l *layout, start LSN, r *changeRow) {
	if s.n == s.room {
		s.grow(l)
	}
	if k := len(s.runs); k == 0 || s.runs[k-1].lsn != start {
		s.runs = append(s.runs, run{lsn: start, start: uint32(s.n)})
	}
	s.seq = append(s.seq, r.seq[:]...)
	s.command = append(s.command, r.command)
	s.op = append(s.op, r.op)
	s.mask = append(s.mask, r.mask...)
	base := len(s.nulls)
	s.nulls = s.nulls[:base+l.nullsLen]
	clear(s.nulls[base:])
	for i, v := range r.values {
		if v.IsNull() {
			s.nulls[base+i/8] |= 1 << (i % 8)
			s.hasNull[i] = true
		}
		s.cols[i].add(l.cells[i], v)
		s.lob = max(s.lob, len(s.cols[i].heap))
	}
	s.n++
}

func (s *segment) grow(l *layout) {
	target := firstCapacity
	if s.room > 0 {
		target = min(s.room*4, segmentRows)
	}
	more := target - s.n
	s.seq = slices.Grow(s.seq, more*len(LSN{}))
	s.command = slices.Grow(s.command, more)
	s.op = slices.Grow(s.op, more)
	s.mask = slices.Grow(s.mask, more*l.maskLen)
	s.nulls = slices.Grow(s.nulls, more*l.nullsLen)
	for i := range s.cols {
		s.cols[i].grow(l.cells[i], more)
	}
	s.room = target
}

// seal gives back what a full segment does not need.
func (s *segment) seal() {
	for i := range s.cols {
		s.cols[i].seal()
	}
	s.runs = slices.Clip(s.runs)
}

// runAt gives the index of the run that row i belongs to.
func (s *segment) runAt(i int) int {
	return sort.Search(len(s.runs), func(r int) bool { return int(s.runs[r].start) > i }) - 1
}

// runEnd is the row after the last of run r, within the segment's published length.
func (s *segment) runEnd(r int) int {
	if r+1 < len(s.runs) {
		return int(s.runs[r+1].start)
	}
	return s.n
}

// position is the sort key of a change row.
type position struct {
	start   LSN
	command int32
	seq     LSN
	op      int32
}

func (s *segment) position(i int) position {
	return position{start: s.runs[s.runAt(i)].lsn, command: s.command[i], seq: s.seqval(i), op: int32(s.op[i])}
}

func (s *segment) seqval(i int) LSN { return LSN(s.seq[i*10 : i*10+10]) }

// changeStore is an immutable snapshot of a change table's rows: segments, of which rows below base are cleaned up. Rows have
// absolute numbers that never change, so that a snapshot of before and one of after a clean-up can be told apart by base.
type changeStore struct {
	layout   *layout
	segments []*segment
	base     int64 // first row still there
	end      int64 // one after the last row
	sealed   bool  // the last segment must not be appended to: another history does
}

func (c *changeStore) rows() int64 { return c.end - c.base }

// at finds the segment of an absolute row number, base <= row < end, and its index.
func (c *changeStore) at(row int64) (*segment, int) {
	k := c.segmentOf(row)
	return c.segments[k], int(row - c.segments[k].first)
}

func (c *changeStore) segmentOf(row int64) int {
	return sort.Search(len(c.segments), func(i int) bool { return c.segments[i].first > row }) - 1
}

// search finds the first row for which after is true of its position; after must be false, then true along the order.
func (c *changeStore) search(after func(position) bool) int64 {
	n := sort.Search(int(c.rows()), func(i int) bool {
		s, at := c.at(c.base + int64(i))
		return after(s.position(at))
	})
	return c.base + int64(n)
}

// searchLSN finds the first row whose start_lsn is lsn or larger.
func (c *changeStore) searchLSN(lsn LSN) int64 {
	k := sort.Search(len(c.segments), func(i int) bool {
		s := c.segments[i]
		return s.n > 0 && !s.runs[len(s.runs)-1].lsn.Less(lsn)
	})
	if k == len(c.segments) {
		return c.end
	}
	s := c.segments[k]
	r := sort.Search(len(s.runs), func(i int) bool { return !s.runs[i].lsn.Less(lsn) })
	return max(c.base, s.first+int64(s.runs[r].start))
}

// trim drops rows below the absolute row number to.
func (c *changeStore) trim(to int64) *changeStore {
	next := *c
	next.base = max(c.base, min(to, c.end))
	for len(next.segments) > 0 && next.segments[0].first+int64(next.segments[0].n) <= next.base {
		if len(next.segments) == 1 && next.segments[0].n < segmentRows {
			break // the writer goes on in it
		}
		next.segments = next.segments[1:]
	}
	return &next
}

// size is the memory of the rows, in bytes.
func (c *changeStore) size() int {
	total := 0
	for _, s := range c.segments {
		total += cap(s.runs)*16 + cap(s.seq) + 4*cap(s.command) + cap(s.op) + cap(s.mask) + cap(s.nulls)
		for i := range s.cols {
			total += s.cols[i].size()
		}
	}
	return total
}

// changeAppender builds the next snapshot of a change table. One at a time works on a history of snapshots; one that is given
// up leaves no trace, since what it wrote lies behind the length of every published segment.
type changeAppender struct {
	base     *changeStore
	layout   *layout
	segments []*segment // sealed or published ones
	tail     *segment   // nil: none yet
	end      int64
}

func (c *changeStore) appender() *changeAppender {
	a := &changeAppender{base: c, layout: c.layout, end: c.end, segments: c.segments[:len(c.segments):len(c.segments)]}
	if n := len(a.segments); n > 0 && !c.sealed && !a.segments[n-1].full() {
		a.tail = a.segments[n-1].publishable()
		a.segments = a.segments[: n-1 : n-1]
	}
	return a
}

// add appends a row.
func (a *changeAppender) add(start LSN, r *changeRow) {
	if a.tail == nil {
		a.tail = newSegment(a.layout, a.end)
	}
	a.tail.add(a.layout, start, r)
	a.end++
	if a.tail.full() {
		a.tail.seal()
		a.segments = append(a.segments, a.tail)
		a.tail = nil
	}
}

// finish makes the snapshot. current is the newest published one, which clean-up may have trimmed meanwhile.
func (a *changeAppender) finish(current *changeStore) *changeStore {
	next := &changeStore{layout: a.layout, segments: a.segments, base: current.base, end: a.end}
	if a.tail != nil {
		next.segments = append(next.segments, a.tail.publishable())
	}
	return next.trim(current.base)
}

// convert rewrites one column of all rows under a new layout, as the capture job does after ALTER COLUMN [M22, M25].
func (a *changeAppender) convert(to *layout, column int, change func(sqltype.Value) (sqltype.Value, error)) error {
	all := a.segments
	if a.tail != nil {
		all = append(all[:len(all):len(all)], a.tail)
	}
	out := make([]*segment, 0, len(all))
	for _, s := range all {
		c := s.publishable()
		values := make([]sqltype.Value, s.n)
		s.cols[column].decode(a.layout.cells[column], 0, s.n, values, 1)
		x := vector{}
		x.grow(to.cells[column], s.n)
		for i, v := range values {
			// Rows that clean-up has taken are converted too, but only live ones may fail.
			if s.null(a.layout, i, column) || s.first+int64(i) < a.base.base {
				v = sqltype.Null()
			}
			v, err := change(v)
			if err != nil {
				return err
			}
			x.add(to.cells[column], v)
		}
		x.seal()
		c.cols[column] = x
		c.room = c.n // the other vectors keep their room, this one has none
		out = append(out, c)
	}
	a.layout, a.segments, a.tail = to, out, nil
	if n := len(out); n > 0 && !out[n-1].full() {
		a.tail, a.segments = out[n-1].detached(to), out[:n-1]
	}
	return nil
}

// detached copies a segment's vectors so that appending to the copy cannot meet the other history's rows.
func (s *segment) detached(l *layout) *segment {
	c := s.publishable()
	c.runs, c.seq, c.command = slices.Clone(s.runs), slices.Clone(s.seq), slices.Clone(s.command)
	c.op, c.mask, c.nulls = slices.Clone(s.op), slices.Clone(s.mask), slices.Clone(s.nulls)
	for i := range c.cols {
		x := &c.cols[i]
		x.b1, x.b2, x.b4, x.b8 = slices.Clone(x.b1), slices.Clone(x.b2), slices.Clone(x.b4), slices.Clone(x.b8)
		x.b16, x.ends, x.heap, x.vals = slices.Clone(x.b16), slices.Clone(x.ends), slices.Clone(x.heap), slices.Clone(x.vals)
	}
	c.room = c.n
	return c
}

// null tells whether a cell is NULL.
func (s *segment) null(l *layout, row, column int) bool {
	return s.nulls[row*l.nullsLen+column/8]>>(column%8)&1 == 1
}
