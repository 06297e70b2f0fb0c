package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// storeSlot is a slot whose rows are kept: the width of its rows, and its source, which knows
// the columns that are read; without one all are kept.
type storeSlot struct {
	slot, width int
	src         *source
}

// storeSlots lists the slots of a node.
func storeSlots(n fromNode) []storeSlot {
	switch x := n.(type) {
	case *leafNode:
		return []storeSlot{{slot: x.src.slot, width: len(x.src.cols), src: x.src}}
	case *joinNode:
		return append(storeSlots(x.l), storeSlots(x.r)...)
	}
	return nil
}

// chunkRows is how many combinations a chunk of a rowStore holds.
const chunkRows = 1024

// rowStore keeps combinations of rows: of each slot only the columns that expressions read.
type rowStore struct {
	slots   []storeSlot
	cols    [][]int // kept columns of each slot
	width   int     // values of one combination
	n       int
	chunks  [][]sqltype.Value
	scratch []sqltype.Row
}

// reset empties the store and settles which columns are kept: by now every
// expression is compiled.
func (s *rowStore) reset() {
	s.cols, s.scratch, s.width, s.n, s.chunks = nil, nil, 0, 0, nil
	for _, sl := range s.slots {
		var cols []int
		if sl.src != nil {
			cols = sl.src.neededColumns()
		} else {
			for i := range sl.width {
				cols = append(cols, i)
			}
		}
		s.cols = append(s.cols, cols)
		s.width += len(cols)
		s.scratch = append(s.scratch, make(sqltype.Row, sl.width))
	}
}

// add keeps the combination that is in the frame.
func (s *rowStore) add(f *frame) {
	if s.n%chunkRows == 0 {
		s.chunks = append(s.chunks, make([]sqltype.Value, 0, s.width*min(chunkRows, 16<<min(s.n, 6))))
	}
	last := &s.chunks[len(s.chunks)-1]
	for i, sl := range s.slots {
		row := f.rows[sl.slot]
		for _, c := range s.cols[i] {
			*last = append(*last, row[c])
		}
	}
	s.n++
}

// bind puts combination i into the frame. Its rows stay until the next bind.
func (s *rowStore) bind(f *frame, i int) {
	if s.n == 0 {
		return
	}
	vals := s.chunks[i/chunkRows][i%chunkRows*s.width:]
	for j, sl := range s.slots {
		row := s.scratch[j]
		for k, c := range s.cols[j] {
			row[c] = vals[k]
		}
		vals = vals[len(s.cols[j]):]
		f.rows[sl.slot] = row
	}
}
