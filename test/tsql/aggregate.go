package tsql

import (
	"math"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func isAggregate(upper string) bool {
	switch upper {
	case "COUNT", "COUNT_BIG", "SUM", "AVG", "MIN", "MAX", "STRING_AGG", "STDEV", "STDEVP", "VAR", "VARP":
		return true
	}
	return false
}

// aggregate is a compiled aggregate function.
type aggregate struct {
	name     string
	typ      sqltype.Type
	arg      *expr // nil for COUNT(*)
	distinct bool
	sep      *expr // of STRING_AGG
	within   []sortKey
	order    []*expr // expressions of within
}

func (a *aggregate) counts() bool { return a.name == "COUNT" || a.name == "COUNT_BIG" }

// accumulator is the state of one aggregate over one group.
type accumulator struct {
	n    int64 // values that were not NULL
	i    int64
	f    float64
	sq   float64
	num  sqltype.Number
	best sqltype.Value
	seen map[string]struct{}
	rows []sqltype.Row // of STRING_AGG: value, then the sort keys
	sep  string
}

// aggregate compiles the call of an aggregate function.
func (c *compiler) aggregate(name string, x *ast.Call) (*aggregate, error) {
	a := &aggregate{name: name, distinct: x.Distinct}
	want := 1
	if name == "STRING_AGG" {
		want = 2
	}
	if x.Star {
		if !a.counts() {
			return nil, sqlerr.Syntax("*")
		}
		a.typ = sqltype.Type{Kind: sqltype.KindInt}
		if name == "COUNT_BIG" {
			a.typ.Kind = sqltype.KindBigInt
		}
		return a, nil
	}
	if err := argCount(name, len(x.Args), want, want); err != nil {
		return nil, err
	}
	arg, err := c.expr(x.Args[0])
	if err != nil {
		return nil, err
	}
	if name == "STRING_AGG" {
		return a, c.stringAgg(a, arg, x)
	}
	return a, c.aggregateType(a, arg)
}

// aggregateType decides the result type and converts the argument.
func (c *compiler) aggregateType(a *aggregate, arg *expr) error {
	t := arg.typ
	if t.Kind == sqltype.KindNull {
		if !a.counts() {
			return sqlerr.Make(8117, "NULL", strings.ToLower(a.name))
		}
	}
	bad := sqlerr.Make(8117, t.Kind.ErrorName(), strings.ToLower(a.name))
	switch a.name {
	case "COUNT":
		a.typ = sqltype.Type{Kind: sqltype.KindInt}
	case "COUNT_BIG":
		a.typ = sqltype.Type{Kind: sqltype.KindBigInt}
	case "MIN", "MAX":
		if t.Kind == sqltype.KindBit || sortable(t) != nil {
			return bad
		}
		a.typ = t
	default:
		if !t.Kind.IsNumeric() || t.Kind == sqltype.KindBit {
			return bad
		}
		a.typ = sumType(a.name, t)
	}
	var err error
	a.arg = arg
	if a.name != "MIN" && a.name != "MAX" && !a.counts() {
		to := a.typ
		if to.Kind == sqltype.KindDecimal {
			to.Scale = t.Scale
		}
		a.arg, err = c.convertTo(arg, to, false)
	}
	return err
}

func sumType(name string, t sqltype.Type) sqltype.Type {
	switch k := t.Kind; {
	case strings.HasPrefix(name, "STDEV"), strings.HasPrefix(name, "VAR"), k.IsFloat():
		return sqltype.Type{Kind: sqltype.KindFloat}
	case k == sqltype.KindDecimal:
		s := t.Scale
		if name == "AVG" {
			s = max(s, 6)
		}
		return sqltype.DecimalType(38, s)
	case k.IsMoney():
		return sqltype.Type{Kind: sqltype.KindMoney}
	case k == sqltype.KindBigInt:
		return t
	}
	return sqltype.Type{Kind: sqltype.KindInt}
}

func (c *compiler) stringAgg(a *aggregate, arg *expr, x *ast.Call) error {
	a.typ = sqltype.VarCharType(8000)
	if arg.typ.Kind.IsUnicode() {
		a.typ = sqltype.NVarCharType(4000)
	}
	if arg.typ.Length == sqltype.Max {
		a.typ.Length = sqltype.Max
	}
	var err error
	if !arg.typ.Kind.IsText() {
		if arg, err = c.convertTo(arg, sqltype.NVarCharType(4000), true); err != nil {
			return err
		}
		a.typ = sqltype.NVarCharType(4000)
	}
	a.arg = arg
	if a.sep, err = c.expr(x.Args[1]); err != nil {
		return err
	}
	for i, o := range x.Within {
		k, err := c.expr(o.X)
		if err != nil {
			return err
		}
		a.order = append(a.order, k)
		a.within = append(a.within, sortKey{x: k, output: i + 1, desc: o.Desc, coll: k.coll})
	}
	return nil
}

// add takes the present row into account.
func (a *aggregate) add(f *frame, s *accumulator) error {
	if a.arg == nil {
		s.n++
		return nil
	}
	v, err := a.arg.eval(f)
	if err != nil || v.IsNull() {
		return err
	}
	if a.distinct {
		if s.seen == nil {
			s.seen = make(map[string]struct{})
		}
		k := string(appendKey(nil, v, a.arg.coll))
		if _, dup := s.seen[k]; dup {
			return nil
		}
		s.seen[k] = struct{}{}
	}
	s.n++
	switch a.name {
	case "COUNT", "COUNT_BIG":
	case "MIN":
		if s.n == 1 || sqltype.Compare(v, s.best, a.arg.coll) < 0 {
			s.best = v
		}
	case "MAX":
		if s.n == 1 || sqltype.Compare(v, s.best, a.arg.coll) > 0 {
			s.best = v
		}
	case "STRING_AGG":
		return a.addText(f, s, v)
	default:
		return a.addNumber(s, v)
	}
	return nil
}

func (a *aggregate) addText(f *frame, s *accumulator, v sqltype.Value) error {
	row := sqltype.Row{v}
	for _, k := range a.order {
		kv, err := k.eval(f)
		if err != nil {
			return err
		}
		row = append(row, kv)
	}
	s.rows = append(s.rows, row)
	sep, err := a.sep.eval(f)
	s.sep = sep.Str()
	return err
}

func (a *aggregate) addNumber(s *accumulator, v sqltype.Value) error {
	switch k := a.arg.typ.Kind; {
	case k == sqltype.KindDecimal:
		n := v.Number()
		s.num.Scale = n.Scale
		sum, err := s.num.Add(n, n.Scale)
		if err != nil {
			return sqlerr.Make(8115, "expression", "numeric")
		}
		s.num = sum
	case k.IsFloat():
		s.f += v.Float64()
		s.sq += v.Float64() * v.Float64()
	default:
		sum := s.i + v.Int64()
		if (sum > s.i) != (v.Int64() > 0) && v.Int64() != 0 {
			return sqlerr.Make(8115, "expression", a.typ.Kind.String())
		}
		s.i = sum
		if a.name == "SUM" && k == sqltype.KindInt && (sum > math.MaxInt32 || sum < math.MinInt32) {
			return sqlerr.Make(8115, "expression", "int")
		}
	}
	return nil
}

// result is the value of the aggregate.
func (a *aggregate) result(s *accumulator) (sqltype.Value, error) {
	switch {
	case a.counts():
		return sqltype.Integer(a.typ.Kind, s.n), nil
	case s.n == 0:
		return sqltype.Null(), nil
	}
	switch a.name {
	case "MIN", "MAX":
		return s.best, nil
	case "SUM":
		return a.sum(s), nil
	case "AVG":
		return a.average(s)
	case "STRING_AGG":
		return a.joined(s)
	}
	n := float64(s.n)
	sample := !strings.HasSuffix(a.name, "P")
	if sample && s.n == 1 {
		return sqltype.Null(), nil
	}
	div := n
	if sample {
		div = n - 1
	}
	variance := math.Max(0, (s.sq-s.f*s.f/n)/div)
	if strings.HasPrefix(a.name, "STDEV") {
		return sqltype.Float(math.Sqrt(variance)), nil
	}
	return sqltype.Float(variance), nil
}

func (a *aggregate) sum(s *accumulator) sqltype.Value {
	switch k := a.typ.Kind; {
	case k == sqltype.KindDecimal:
		return sqltype.Decimal(s.num)
	case k.IsFloat():
		return sqltype.Float(s.f)
	case k.IsMoney():
		return sqltype.Money(s.i)
	}
	return sqltype.Integer(a.typ.Kind, s.i)
}

func (a *aggregate) average(s *accumulator) (sqltype.Value, error) {
	switch k := a.typ.Kind; {
	case k == sqltype.KindDecimal:
		n, err := s.num.Div(sqltype.NumberFromInt64(s.n), a.typ.Scale)
		if err != nil {
			return sqltype.Value{}, numberError(err, k)
		}
		return sqltype.Decimal(n), nil
	case k.IsFloat():
		return sqltype.Float(s.f / float64(s.n)), nil
	case k.IsMoney():
		return sqltype.Money(s.i / s.n), nil
	}
	return sqltype.Integer(a.typ.Kind, s.i/s.n), nil
}

func (a *aggregate) joined(s *accumulator) (sqltype.Value, error) {
	if len(a.within) > 0 {
		slices.SortStableFunc(s.rows, func(x, y sqltype.Row) int { return compareRows(a.within, x, y) })
	}
	parts := make([]string, len(s.rows))
	for i, r := range s.rows {
		parts[i] = r[0].Str()
	}
	text := strings.Join(parts, s.sep)
	if a.typ.Length != sqltype.Max && len(text) > a.typ.Length {
		return sqltype.Value{}, sqlerr.New(9829, 16, 1, "STRING_AGG aggregation result exceeded the limit of 8000 bytes. Use LOB types to avoid result truncation.")
	}
	return sqltype.Text(a.typ.Kind, text), nil
}
