package sqlserversim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// view is one catalogue view, dynamic management view or system table: its columns and how its rows come about. Rows are made
// afresh for every statement that names it.
type view struct {
	schema, name string
	columns      []sqltype.Column
	index        map[string]int
	database     string // "" for every database, else the only one that has it
	rows         func(v *viewCall) error
	needs        permissionRule // nil: public
	keyed        bool           // rows come in the order of object_id, and viewCall.each makes them
}

// viewCall is one reading of a view.
type viewCall struct {
	*view
	session *session
	db      *database // the database whose objects are listed
	out     []sqltype.Row
	// low and high bound the object ids that are wanted, where the view is keyed.
	low, high int64
}

// fields are the values of one row by column name; a column left out is NULL where it may be, else zero or empty.
type fields map[string]any

// add appends a row. A name that the view does not have is an error: a slip in this package.
func (c *viewCall) add(f fields) error {
	row := make(sqltype.Row, len(c.columns))
	for i, col := range c.columns {
		if !col.Nullable {
			row[i] = zeroOf(col.Type)
		}
	}
	for name, x := range f {
		i, ok := c.index[name]
		if !ok {
			return fmt.Errorf("filling %s.%s: it has no column %s", c.schema, c.name, name)
		}
		v, err := toValue(c.columns[i].Type, x)
		if err != nil {
			return fmt.Errorf("filling %s.%s.%s: %w", c.schema, c.name, name, err)
		}
		row[i] = v
	}
	c.out = append(c.out, row)
	return nil
}

// newView makes a view from a list of columns in the form "name type, name type?", where ? marks a nullable column.
func newView(schema, name, columns string, rows func(*viewCall) error) *view {
	v := &view{schema: schema, name: name, rows: rows}
	v.columns = parseColumns(columns)
	v.index = make(map[string]int, len(v.columns))
	for i, c := range v.columns {
		v.index[c.Name] = i
	}
	return v
}

// parseColumns reads "name type?, …". Types are those of typeNamed.
func parseColumns(list string) []sqltype.Column {
	var out []sqltype.Column
	depth, start := 0, 0
	take := func(item string) {
		name, typ, _ := strings.Cut(strings.TrimSpace(item), " ")
		if name == "" {
			return
		}
		typ, nullable := strings.CutSuffix(strings.TrimSpace(typ), "?")
		out = append(out, sqltype.Column{Name: name, Type: typeNamed(typ), Nullable: nullable})
	}
	for i, r := range list {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				take(list[start:i])
				start = i + 1
			}
		}
	}
	take(list[start:])
	return out
}

// typeNamed reads a type as the catalogue definitions write it: int, sysname, nvarchar(60), binary(10), datetime2(3) ….
func typeNamed(s string) sqltype.Type {
	name, args, _ := strings.Cut(strings.TrimSuffix(s, ")"), "(")
	if name == "sysname" {
		return sqltype.SysName()
	}
	t := sqltype.TypeOf(kindNamed(name))
	if args == "" {
		return t
	}
	if args == "max" {
		t.Length = sqltype.Max
		return t
	}
	first, second, _ := strings.Cut(args, ",")
	n, _ := strconv.Atoi(strings.TrimSpace(first))
	switch t.Kind {
	case sqltype.KindDecimal:
		scale, _ := strconv.Atoi(strings.TrimSpace(second))
		t.Precision, t.Scale = uint8(n), uint8(scale)
	case sqltype.KindTime, sqltype.KindDateTime2, sqltype.KindDateTimeOffset:
		t.Scale = uint8(n)
	default:
		t.Length = n
	}
	return t
}

// kindNamed finds a kind by its name in sys.types; unknown names give nvarchar.
func kindNamed(name string) sqltype.Kind {
	switch name {
	case "numeric":
		return sqltype.KindDecimal
	case "rowversion":
		return sqltype.KindRowVersion
	}
	for k := sqltype.KindBit; k <= sqltype.KindVariant; k++ {
		if k.String() == name {
			return k
		}
	}
	return sqltype.KindNVarChar
}

// zeroOf is the value of a column that must not be NULL and was given none.
func zeroOf(t sqltype.Type) sqltype.Value {
	switch {
	case t.Kind.IsInteger():
		return sqltype.Integer(t.Kind, 0)
	case t.Kind.IsText():
		return sqltype.Text(t.Kind, "")
	case t.Kind.IsBinary():
		if t.Kind == sqltype.KindBinary {
			return sqltype.Bytes(t.Kind, strings.Repeat("\x00", t.Length))
		}
		return sqltype.Bytes(t.Kind, "")
	case t.Kind == sqltype.KindDateTime:
		return sqltype.DateTime(0, 0)
	}
	return sqltype.Null()
}

// toValue turns a Go value into a value of the column's type: nil, bool, integers, strings, byte slices and times in the
// server's wall clock.
func toValue(t sqltype.Type, x any) (sqltype.Value, error) {
	switch v := x.(type) {
	case nil:
		return sqltype.Null(), nil
	case sqltype.Value:
		return v, nil
	case bool:
		if t.Kind == sqltype.KindBit {
			return sqltype.Bit(v), nil
		}
		if v {
			return sqltype.Integer(t.Kind, 1), nil
		}
		return sqltype.Integer(t.Kind, 0), nil
	case int:
		return integerValue(t, int64(v))
	case int32:
		return integerValue(t, int64(v))
	case int64:
		return integerValue(t, v)
	case uint8:
		return integerValue(t, int64(v))
	case string:
		if !t.Kind.IsText() {
			return sqltype.Null(), fmt.Errorf("text %q for type %s", v, t)
		}
		if t.Kind == sqltype.KindChar || t.Kind == sqltype.KindNChar {
			v += strings.Repeat(" ", max(0, t.Length-len(v)))
		}
		return sqltype.Text(t.Kind, v), nil
	case []byte:
		if v == nil {
			return sqltype.Null(), nil
		}
		return sqltype.Bytes(t.Kind, string(v)), nil
	case time.Time:
		if v.IsZero() {
			return sqltype.Null(), nil
		}
		switch t.Kind {
		case sqltype.KindDateTime:
			return sqltype.FromTimeDateTime(v), nil
		case sqltype.KindDateTime2:
			return sqltype.FromTime(v), nil
		}
	}
	return sqltype.Null(), fmt.Errorf("no conversion of %T to %s", x, t)
}

func integerValue(t sqltype.Type, v int64) (sqltype.Value, error) {
	switch t.Kind {
	case sqltype.KindBit, sqltype.KindTinyInt, sqltype.KindSmallInt, sqltype.KindInt, sqltype.KindBigInt:
		return sqltype.Integer(t.Kind, v), nil
	case sqltype.KindDecimal:
		return sqltype.Decimal(sqltype.Number{Neg: v < 0, Lo: uint64(max(v, -v))}), nil
	}
	return sqltype.Null(), fmt.Errorf("integer %d for type %s", v, t)
}
