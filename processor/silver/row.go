package silver

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// row is a row of a batch that has the captured columns by their names in the table. The
// zero row is none.
type row struct {
	rec    arrow.RecordBatch
	at     int
	layout *layout
}

// column is a value's array, by the number of the captured column.
func (r row) column(i int) arrow.Array {
	return r.rec.Column(columnOf(r.rec.Schema(), r.layout.captured[i].to))
}

// sameRow tells whether an image has the values of a row.
func sameRow(i *image, r row) bool { return same(i, r, false) }

// sameBefore is sameRow for an image before a change, which leaves out large values that
// the change did not touch.
func sameBefore(i *image, r row) bool { return same(i, r, true) }

func same(i *image, r row, before bool) bool {
	for n, c := range r.layout.captured {
		have, at := i.value(n)
		other := r.column(n)
		if before && r.layout.large[c.to] && other.IsNull(r.at) {
			continue
		}
		if !sameValue(have, at, other, r.at) {
			return false
		}
	}
	return true
}

// value is the array and the index of one captured column of an image.
func (i *image) value(n int) (arrow.Array, int) {
	arr := i.values.column(n)
	if i.large.rec != nil && i.values.layout.large[i.values.layout.captured[n].to] && arr.IsNull(i.values.at) {
		return i.large.column(n), i.large.at
	}
	return arr, i.values.at
}

// largeRow is where large values are that an image before a change leaves out.
func (i *image) largeRow() row {
	if i.large.rec != nil {
		return i.large
	}
	return i.values
}

func sameValue(a arrow.Array, i int, b arrow.Array, j int) bool {
	if a.IsNull(i) || b.IsNull(j) {
		return a.IsNull(i) && b.IsNull(j)
	}
	if !arrow.TypeEqual(a.DataType(), b.DataType()) {
		return a.ValueStr(i) == b.ValueStr(j)
	}
	return array.SliceEqual(a, int64(i), int64(i+1), b, int64(j), int64(j+1))
}
