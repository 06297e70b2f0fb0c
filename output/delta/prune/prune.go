// Package prune tells which data files of a table certainly have no row that is asked for,
// by their partition values and their statistics ("Per-file Statistics" in PROTOCOL.md).
//
// It errs on the side of reading: whatever is absent, NULL, unreadable or not exact keeps a
// file. Bounds are taken as no tighter than the loosest writer makes them: timestamps are
// off by a millisecond, decimals by what a float64 loses, floats may hide NaN.
package prune

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/scalar"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Op is what a Condition asks of a column.
type Op string

// The operators, as in SQL: a comparison with NULL does not hold. Floats are ordered with
// NaN above all numbers, strings by their bytes.
const (
	Equal          Op = "="
	Less           Op = "<"
	LessOrEqual    Op = "<="
	Greater        Op = ">"
	GreaterOrEqual Op = ">="
	IsNull         Op = "is null"
	IsNotNull      Op = "is not null"
)

// Condition is what a row must fulfil: column, operator, literal.
type Condition struct {
	// Column is a column of the top, ignoring case. A column of a complex type can be asked
	// about NULL only.
	Column string
	Op     Op
	// Value is the literal: an int or int64 for a number, a float64 for a float or double, a
	// bool, a [time.Time] of whole microseconds for a timestamp (of timestamp_ntz its UTC
	// clock counts), or for any type a string in the form of [scalar.Parse]. It is ignored
	// by IsNull and IsNotNull.
	Value any
}

// Filter is a list of conditions for the files of one table. It is immutable.
type Filter struct {
	checks []check
}

// check is one condition, resolved.
type check struct {
	op        Op
	typ       schema.Type
	name      string // physical
	partition bool
	value     scalar.Value
}

// New resolves conditions for a table. A column that it does not have and a literal that is
// not of the column's type are errors.
func New(table *schema.Struct, mapping schema.Mapping, partitionColumns []string, conditions []Condition) (*Filter, error) {
	f := &Filter{}
	for _, c := range conditions {
		field, ok := table.Field(c.Column)
		if !ok {
			return nil, fmt.Errorf("column %s is not in the table", c.Column)
		}
		r := check{op: c.Op, typ: field.Type, name: mapping.PhysicalName(field)}
		for _, p := range partitionColumns {
			r.partition = r.partition || schema.SameName(p, field.Name)
		}
		switch c.Op {
		case IsNull, IsNotNull:
		case Equal, Less, LessOrEqual, Greater, GreaterOrEqual:
			var err error
			if r.value, err = literal(field.Type, c.Value); err != nil {
				return nil, fmt.Errorf("condition %s %s %v: %w", c.Column, c.Op, c.Value, err)
			}
		default:
			return nil, fmt.Errorf("condition on column %s: operator %q is unknown", c.Column, c.Op)
		}
		f.checks = append(f.checks, r)
	}
	return f, nil
}

// literal is a Go value as one of a column's type.
func literal(t schema.Type, v any) (scalar.Value, error) {
	switch v := v.(type) {
	case string:
		return scalar.Parse(t, v)
	case int:
		return integer(t, int64(v))
	case int64:
		return integer(t, v)
	case float64:
		if t == schema.Double || t == schema.Float {
			return scalar.Value{Float: v}, nil
		}
	case bool:
		if t == schema.Boolean {
			return scalar.Parse(t, strconv.FormatBool(v))
		}
	case time.Time:
		if (t == schema.Timestamp || t == schema.TimestampNTZ) && v.Nanosecond()%1000 == 0 {
			return scalar.Value{Int: v.UnixMicro()}, nil
		}
	}
	return scalar.Value{}, fmt.Errorf("%T cannot be compared with %s", v, t)
}

func integer(t schema.Type, n int64) (scalar.Value, error) {
	switch t {
	case schema.Long, schema.Integer, schema.Short, schema.Byte:
		return scalar.Value{Int: n}, nil // one that is out of range is above or below all
	case schema.Double, schema.Float:
		if n < -1<<53 || n > 1<<53 {
			return scalar.Value{}, fmt.Errorf("%d is not exact as a %s", n, t)
		}
		return scalar.Value{Float: float64(n)}, nil
	}
	if _, ok := t.(schema.Decimal); ok {
		return scalar.Parse(t, strconv.FormatInt(n, 10))
	}
	return scalar.Value{}, fmt.Errorf("a number cannot be compared with %s", t)
}

// Keeps reports whether a file may have a row for which all conditions hold.
func (f *Filter) Keeps(add action.Add) bool {
	var s *stats // read when the first condition wants them
	for _, c := range f.checks {
		if c.partition {
			if !c.keepsPartition(add.PartitionValues) {
				return false
			}
			continue
		}
		if s == nil {
			s = parseStats(add.Stats)
		}
		if !c.keepsStats(s) {
			return false
		}
	}
	return true
}

// keepsPartition judges by the one value that all rows of a file have.
func (c *check) keepsPartition(values map[string]*string) bool {
	text, ok := values[c.name]
	if !ok {
		return true
	}
	isNull := text == nil || *text == ""
	if c.op == IsNull || c.op == IsNotNull || isNull {
		return isNull == (c.op == IsNull)
	}
	if c.typ == schema.Timestamp && !zoned(*text) {
		return true // in a zone that only its writer knew
	}
	v, err := scalar.Parse(c.typ, *text)
	if err != nil {
		return true // reading it says what is wrong
	}
	order := scalar.Compare(c.typ, v, c.value)
	switch c.op {
	case Equal:
		return order == 0
	case Less:
		return order < 0
	case LessOrEqual:
		return order <= 0
	case Greater:
		return order > 0
	default:
		return order >= 0
	}
}

func zoned(text string) bool {
	_, zoned, err := scalar.ParseTimestamp(text)
	return err == nil && zoned
}

// keepsStats judges by the bounds and the number of NULLs.
func (c *check) keepsStats(s *stats) bool {
	nulls, known := s.nulls(c.name)
	allNull := known && s.records >= 0 && nulls == s.records
	switch {
	case c.op == IsNull:
		return !known || nulls > 0
	case allNull:
		return false
	case c.op == IsNotNull:
		return true
	}
	isFloat := c.typ == schema.Float || c.typ == schema.Double
	if isFloat && math.IsNaN(c.value.Float) {
		return true
	}
	lowest, hasLowest := s.lower(c.typ, c.name)
	highest, hasHighest := s.upper(c.typ, c.name)
	below := hasLowest && scalar.Compare(c.typ, c.value, lowest) < 0     // the literal is below all rows
	above := hasHighest && scalar.Compare(c.typ, c.value, highest) > 0   // above all rows
	atLowest := hasLowest && scalar.Compare(c.typ, c.value, lowest) == 0 // or at the bound
	atHighest := hasHighest && scalar.Compare(c.typ, c.value, highest) == 0
	switch c.op {
	case Equal:
		return !below && !above
	case Less:
		return !below && !atLowest
	case LessOrEqual:
		return !below
	case Greater:
		// NaN, which is above all numbers, may not be in the bound.
		return isFloat || !above && !atHighest
	default:
		return isFloat || !above
	}
}
