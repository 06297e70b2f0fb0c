package merge

import (
	"bytes"
	"math"
	"slices"
	"sort"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/scalar"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// filter tells which files and row groups certainly have no row that a source asks for. It is
// immutable.
type filter struct {
	columns []filterColumn
	bounds  *prune.Columns
	ranges  []keyRange
}

// filterColumn is what the source has in one key column.
type filterColumn struct {
	name    string // in the files
	typ     schema.Type
	kind    kind
	byID    bool // files are found by field ids, which row groups are not looked up by
	hasNull bool
	hasNaN  bool
	// values are the encoded values, ascending, each once.
	values [][]byte
}

func newFilter(s *delta.Snapshot, keys []schema.Field, x *index, order []int32, rs ranges) *filter {
	mapping := s.Mapping()
	f := &filter{bounds: prune.NewColumns(keys, mapping, s.PartitionColumns()), ranges: rs.all}
	for i, field := range keys {
		c := filterColumn{name: mapping.PhysicalName(field), typ: field.Type, kind: x.kinds[i], byID: mapping == schema.MapByID}
		for _, entry := range order {
			value := columnAt(x.key(entry), x.kinds, i)
			if n := len(c.values); i > 0 || n == 0 || !bytes.Equal(value, c.values[n-1]) {
				c.values = append(c.values, value)
			}
		}
		if i > 0 {
			slices.SortFunc(c.values, bytes.Compare)
			c.values = slices.CompactFunc(c.values, bytes.Equal)
		}
		if n := len(c.values); n > 0 {
			c.hasNull = c.values[0][0] == tagNull
			c.hasNaN = c.kind == kindFloat && bytes.Equal(c.values[n-1], nan())
		}
		f.columns = append(f.columns, c)
	}
	return f
}

func nan() []byte { return appendFixed(nil, sortableFloat(math.NaN())) }

// columnAt is the part of an encoded key that is column i.
func columnAt(key []byte, kinds []kind, i int) []byte {
	for _, k := range kinds[:i] {
		key = key[columnLen(key, k):]
	}
	return key[:columnLen(key, kinds[i])]
}

// columnLen is how many bytes the first column of an encoded key takes.
func columnLen(key []byte, k kind) int {
	switch {
	case key[0] == tagNull:
		return 1
	case k == kindDecimal:
		return 17
	case k != kindText:
		return 9
	}
	for at := 1; ; at++ {
		if key[at] == 0 {
			if key[at+1] == textEnd {
				return at + 2
			}
			at++
		}
	}
}

// keeps reports whether a file may have rows that the source asks for.
func (f *filter) keeps(add action.Add) bool {
	return f.keepsBounds(f.bounds.Of(make([]prune.Bounds, 0, len(f.columns)), add))
}

func (f *filter) keepsBounds(bounds []prune.Bounds) bool {
	keys := true
	for i := range f.columns {
		keys = keys && f.columns[i].may(&bounds[i])
	}
	if keys {
		return true
	}
	for i := range f.ranges {
		if f.columns[0].mayRange(&bounds[0], &f.ranges[i]) {
			return true
		}
	}
	return false
}

// may reports whether one of the column's values may be in a file with such bounds.
func (c *filterColumn) may(b *prune.Bounds) bool {
	if c.hasNull && !b.NoNull || c.hasNaN && !b.OnlyNull {
		return true
	}
	if b.OnlyNull {
		return false
	}
	from := 0
	if b.HasLower {
		lower := appendScalar(nil, c.typ, c.kind, b.Lower)
		from = sort.Search(len(c.values), func(i int) bool { return bytes.Compare(c.values[i], lower) >= 0 })
	} else if c.hasNull {
		from = 1
	}
	if from == len(c.values) {
		return false
	}
	return !b.HasUpper || bytes.Compare(c.values[from], appendScalar(nil, c.typ, c.kind, b.Upper)) <= 0
}

// mayRange reports whether a file with such bounds may have rows of a range.
func (c *filterColumn) mayRange(b *prune.Bounds, r *keyRange) bool {
	null := []byte{tagNull}
	fromNull := r.after0 == nil || bytes.Compare(r.after0, null) <= 0
	if fromNull && !b.NoNull {
		return true
	}
	if b.OnlyNull {
		return false
	}
	if c.kind == kindFloat && (r.upTo0 == nil || bytes.Compare(r.upTo0, nan()) >= 0) {
		return true // NaN is in no bounds
	}
	if b.HasUpper && r.after0 != nil && bytes.Compare(appendScalar(nil, c.typ, c.kind, b.Upper), r.after0) < 0 {
		return false
	}
	return !b.HasLower || r.upTo0 == nil || bytes.Compare(appendScalar(nil, c.typ, c.kind, b.Lower), r.upTo0) <= 0
}

// keepsGroup reports whether a row group may have rows that the source asks for.
func (f *filter) keepsGroup(add action.Add, group *metadata.RowGroupMetaData) bool {
	bounds := f.bounds.Of(make([]prune.Bounds, 0, len(f.columns)), add)
	for i := range f.columns {
		f.columns[i].narrow(&bounds[i], group)
	}
	return f.keepsBounds(bounds)
}

// narrow takes the bounds of a row group for those of its file, where they are known.
func (c *filterColumn) narrow(b *prune.Bounds, group *metadata.RowGroupMetaData) {
	at := group.Schema.ColumnIndexByName(c.name)
	if c.byID || at < 0 || len(group.Schema.Column(at).ColumnPath()) != 1 || group.Schema.Column(at).MaxRepetitionLevel() > 0 {
		return
	}
	chunk, err := group.ColumnChunk(at)
	if err != nil {
		return
	}
	stats, err := chunk.Statistics()
	if err != nil || stats == nil {
		return
	}
	if stats.HasNullCount() {
		b.NoNull = b.NoNull || stats.NullCount() == 0
		b.OnlyNull = b.OnlyNull || stats.NullCount() == group.NumRows()
	}
	if !stats.HasMinMax() {
		return
	}
	column := group.Schema.Column(at)
	lower, ok := c.statistic(column, stats.EncodeMin())
	upper, okUpper := c.statistic(column, stats.EncodeMax())
	if ok && okUpper {
		b.Lower, b.Upper, b.HasLower, b.HasUpper = lower, upper, true, true
	}
}

// statistic reads a bound of a column chunk, where the file stores the column's type as we do.
func (c *filterColumn) statistic(column *pqschema.Column, raw []byte) (scalar.Value, bool) {
	var n int64
	physical := column.PhysicalType()
	if physical == parquet.Types.ByteArray {
		return scalar.Value{Text: string(raw)}, c.typ == schema.String && column.SortOrder() == pqschema.SortUNSIGNED
	}
	if column.SortOrder() != pqschema.SortSIGNED {
		return scalar.Value{}, false
	}
	switch physical {
	case parquet.Types.Int32:
		if len(raw) != 4 {
			return scalar.Value{}, false
		}
		n = int64(int32(uint32(raw[0]) | uint32(raw[1])<<8 | uint32(raw[2])<<16 | uint32(raw[3])<<24))
	case parquet.Types.Int64:
		if len(raw) != 8 {
			return scalar.Value{}, false
		}
		for i, b := range raw {
			n |= int64(b) << (8 * i)
		}
	default:
		return scalar.Value{}, false
	}
	switch c.typ {
	case schema.Long, schema.Integer, schema.Short, schema.Byte:
		return scalar.Value{Int: n}, true
	case schema.Date:
		return scalar.Value{Int: n}, physical == parquet.Types.Int32
	}
	// The unit of a time and the scale of a decimal may be others in the file.
	return scalar.Value{}, false
}
