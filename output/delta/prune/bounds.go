package prune

import (
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/scalar"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Bounds are what a file is known to have in one column: every value that is neither NULL nor
// NaN lies between Lower and Upper, both included.
type Bounds struct {
	Lower, Upper       scalar.Value
	HasLower, HasUpper bool
	// NoNull and OnlyNull say that no row, or every row, is NULL there.
	NoNull, OnlyNull bool
}

// Columns reads the bounds of some columns of a table's files. It is immutable.
type Columns struct {
	columns []check
}

// NewColumns takes columns of a table's top.
func NewColumns(fields []schema.Field, mapping schema.Mapping, partitionColumns []string) *Columns {
	out := &Columns{}
	for _, f := range fields {
		out.columns = append(out.columns, check{
			typ:  f.Type,
			name: mapping.PhysicalName(f),
			partition: slices.ContainsFunc(partitionColumns, func(p string) bool {
				return schema.SameName(p, f.Name)
			}),
		})
	}
	return out
}

// Of appends the bounds of each column in a file, by its partition values and statistics. What
// they do not say, or not such that it can be relied on, is unknown.
func (c *Columns) Of(dst []Bounds, add action.Add) []Bounds {
	var s *stats
	for _, column := range c.columns {
		if column.partition {
			dst = append(dst, column.partitionBounds(add.PartitionValues))
			continue
		}
		if s == nil {
			s = parseStats(add.Stats)
		}
		dst = append(dst, column.statsBounds(s))
	}
	return dst
}

func (c *check) partitionBounds(values map[string]*string) Bounds {
	text, ok := values[c.name]
	switch {
	case !ok:
		return Bounds{}
	case text == nil || *text == "":
		return Bounds{OnlyNull: true}
	case c.typ == schema.Timestamp && !zoned(*text):
		return Bounds{NoNull: true} // in a zone that only its writer knew
	}
	v, err := scalar.Parse(c.typ, *text)
	if err != nil {
		return Bounds{} // reading it says what is wrong
	}
	return Bounds{Lower: v, Upper: v, HasLower: true, HasUpper: true, NoNull: true}
}

func (c *check) statsBounds(s *stats) Bounds {
	var b Bounds
	if nulls, known := s.nulls(c.name); known {
		b.NoNull = nulls == 0
		b.OnlyNull = s.records >= 0 && nulls == s.records
	}
	b.Lower, b.HasLower = s.lower(c.typ, c.name)
	b.Upper, b.HasUpper = s.upper(c.typ, c.name)
	return b
}
