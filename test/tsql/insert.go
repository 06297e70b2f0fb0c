package tsql

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// insertion is an INSERT on its way.
type insertion struct {
	r        *runner
	c        *compiler
	stmt     *ast.Insert
	t        Table
	into     Inserter
	cols     []int   // given columns
	all      []int   // given columns, then those filled with defaults
	fill     []*expr // defaults, for all[len(cols):]
	byCol    []*expr // default of each given column, for DEFAULT in VALUES
	explicit bool    // identity values are given
	check    *rowCheck
	output   *outputClause
}

func (r *runner) insert(ctx context.Context, x *ast.Insert) error {
	if err := r.doomed(); err != nil {
		return err
	}
	in := &insertion{r: r, c: r.compiler(ctx), stmt: x}
	if err := in.c.addCTEs(x.With); err != nil {
		return err
	}
	if err := in.resolve(); err != nil {
		return err
	}
	source, err := in.source(ctx)
	if err != nil {
		return err
	}
	f := in.c.newFrame()
	spec := InsertSpec{Columns: in.all}
	if in.output != nil {
		spec.Inserted = func(row sqltype.Row) error { return in.output.take(f, nil, row) }
	}
	res, err := in.into.Insert(ctx, spec, in.rows(f, source))
	if err != nil {
		return err
	}
	if !res.Identity.IsNull() {
		id, err := sqltype.Convert(res.Identity, sqltype.DecimalType(38, 0), sqltype.DefaultStyle)
		if err != nil {
			return err
		}
		r.s.identity, r.s.scopeIdentity = id, id
	}
	if err := in.output.send(r, f); err != nil {
		return err
	}
	return r.changed(DoneInsert, res.Count)
}

// changed reports how many rows a statement changed.
func (r *runner) changed(kind DoneKind, n int64) error {
	r.s.rowCount = n
	return r.done(Done{Kind: kind, Count: n, HasCount: true})
}

// resolve finds the table and its columns.
func (in *insertion) resolve() error {
	var err error
	if in.t, err = in.c.targetTable(in.stmt.Target, AccessInsert); err != nil {
		return err
	}
	ok := false
	if in.into, ok = in.t.(Inserter); !ok {
		return sqlerr.Make(270, in.t.Name().String())
	}
	in.explicit = in.r.s.opt.identityInsert == strings.ToLower(in.t.Name().Name)
	if err := in.columns(); err != nil {
		return err
	}
	if err := in.defaults(); err != nil {
		return err
	}
	if in.check, err = in.c.checks(in.t); err != nil {
		return err
	}
	in.output, err = in.c.output(in.stmt.Output, in.t, true, false, nil)
	return err
}

// columns decides which columns the values are for.
func (in *insertion) columns() error {
	cols := in.t.Columns()
	if len(in.stmt.Columns) == 0 {
		for i, col := range cols {
			if col.Computed || col.Identity && !in.explicit {
				continue
			}
			if col.Type.Kind == sqltype.KindRowVersion && (in.stmt.Default || in.width() < in.open()) {
				continue
			}
			in.cols = append(in.cols, i)
		}
		if in.stmt.Default {
			in.cols = nil
		}
		return nil
	}
	seen := make(map[int]bool)
	for _, name := range in.stmt.Columns {
		i, err := columnOf(in.t, name)
		if err != nil {
			return err
		}
		if seen[i] {
			return sqlerr.Make(264, name)
		}
		seen[i] = true
		if cols[i].Identity && !in.explicit {
			return sqlerr.Make(544, in.t.Name().Name)
		}
		if err := writable(cols[i], true); err != nil && cols[i].Computed {
			return err
		}
		in.cols = append(in.cols, i)
	}
	return nil
}

// width is the number of values of the first row, or -1 when it is not known yet.
func (in *insertion) width() int {
	if len(in.stmt.Rows) > 0 {
		return len(in.stmt.Rows[0])
	}
	return -1
}

// open counts the columns that take values, rowversion included.
func (in *insertion) open() int {
	n := 0
	for _, col := range in.t.Columns() {
		if !col.Computed && (!col.Identity || in.explicit) {
			n++
		}
	}
	return n
}

// defaults compiles the defaults of the columns.
func (in *insertion) defaults() error {
	def, _ := in.t.(Definition)
	one := func(i int) (*expr, error) {
		col := in.t.Columns()[i]
		if def == nil || def.Default(i) == nil {
			return constant(sqltype.Null(), col.Type), nil
		}
		return in.c.expr(def.Default(i))
	}
	given := make(map[int]bool)
	for _, i := range in.cols {
		given[i] = true
		x, err := one(i)
		if err != nil {
			return err
		}
		in.byCol = append(in.byCol, x)
	}
	for _, i := range in.cols {
		if in.t.Columns()[i].Type.Kind != sqltype.KindRowVersion {
			in.all = append(in.all, i)
		}
	}
	for i, col := range in.t.Columns() {
		if given[i] || col.Computed || col.Type.Kind == sqltype.KindRowVersion {
			continue
		}
		if col.Identity {
			if in.explicit && len(in.stmt.Columns) > 0 {
				return sqlerr.Make(545, in.t.Name().Name)
			}
			continue
		}
		x, err := one(i)
		if err != nil {
			return err
		}
		in.all = append(in.all, i)
		in.fill = append(in.fill, x)
	}
	return nil
}

// source compiles what gives the rows.
func (in *insertion) source(ctx context.Context) (runFn, error) {
	switch {
	case in.stmt.Default:
		return func(_ *frame, emit func(sqltype.Row) error) error { return emit(nil) }, nil
	case in.stmt.Exec != nil:
		return in.execSource(ctx)
	case in.stmt.Query != nil:
		plan, err := in.c.subquery(in.stmt.Query, nil)
		if err != nil {
			return nil, err
		}
		if len(plan.cols) != len(in.cols) {
			return nil, in.countError(len(plan.cols))
		}
		lim, err := in.top()
		if err != nil {
			return nil, err
		}
		run := limited(lim, plan.run)
		if slices.Contains(*in.c.reads, in.t.Name()) {
			run = stored(run)
		}
		return run, in.castable(plan.cols)
	}
	return in.valuesSource()
}

// stored reads all rows before it passes the first one on: the target of an INSERT
// must not change under the query that reads it.
func stored(run runFn) runFn {
	return func(f *frame, emit func(sqltype.Row) error) error {
		var rows []sqltype.Row
		if err := run(f, func(row sqltype.Row) error {
			rows = append(rows, append(sqltype.Row(nil), row...))
			return nil
		}); err != nil {
			return err
		}
		for _, row := range rows {
			if err := emit(row); err != nil {
				return err
			}
		}
		return nil
	}
}

func (in *insertion) top() (*limit, error) {
	if in.stmt.Top == nil {
		return nil, nil
	}
	in.c.scope = &scope{}
	return in.c.topLimit(in.stmt.Top)
}

// castable refuses conversions that are never implicit (206, 257).
func (in *insertion) castable(cols []sqltype.Column) error {
	for i, col := range cols {
		to := in.t.Columns()[in.cols[i]].Type
		switch sqltype.Castable(col.Type.Kind, to.Kind) {
		case sqltype.CastNever:
			return sqlerr.Make(206, col.Type.Kind.String(), to.Kind.String())
		case sqltype.CastExplicit:
			return sqlerr.Make(257, col.Type.Kind.String(), to.Kind.String())
		}
	}
	return nil
}

func (in *insertion) countError(n int) error {
	switch {
	case len(in.stmt.Columns) == 0:
		return sqlerr.Make(213)
	case in.stmt.Query != nil && n < len(in.cols):
		return sqlerr.Make(120)
	case in.stmt.Query != nil:
		return sqlerr.Make(121)
	case n < len(in.cols):
		return sqlerr.Make(109)
	}
	return sqlerr.Make(110)
}

// valuesSource compiles VALUES; DEFAULT stands for the column's default.
func (in *insertion) valuesSource() (runFn, error) {
	in.c.scope = &scope{}
	rows := make([][]*expr, len(in.stmt.Rows))
	for i, r := range in.stmt.Rows {
		if len(r) != len(in.cols) {
			return nil, in.countError(len(r))
		}
		for j, e := range r {
			if l, ok := e.(*ast.Literal); ok && l.Kind == ast.LitDefault {
				rows[i] = append(rows[i], in.byCol[j])
				continue
			}
			x, err := in.c.expr(e)
			if err != nil {
				return nil, err
			}
			col := in.t.Columns()[in.cols[j]]
			if col.Type.Kind == sqltype.KindRowVersion {
				return nil, sqlerr.Make(273)
			}
			if err := in.castable1(x, col); err != nil {
				return nil, err
			}
			rows[i] = append(rows[i], x)
		}
	}
	return func(f *frame, emit func(sqltype.Row) error) error {
		out := make(sqltype.Row, len(in.cols))
		for _, r := range rows {
			for j, x := range r {
				v, err := x.eval(f)
				if err != nil {
					return err
				}
				out[j] = v
			}
			if err := emit(out); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (in *insertion) castable1(x *expr, col sqltype.Column) error {
	switch sqltype.Castable(x.typ.Kind, col.Type.Kind) {
	case sqltype.CastNever:
		return sqlerr.Make(206, x.typ.Kind.String(), col.Type.Kind.String())
	case sqltype.CastExplicit:
		return sqlerr.Make(257, x.typ.Kind.String(), col.Type.Kind.String())
	}
	return nil
}

// rows converts the rows of the source, fills in defaults and checks them.
func (in *insertion) rows(f *frame, source runFn) iter.Seq2[sqltype.Row, error] {
	cols := in.t.Columns()
	return func(yield func(sqltype.Row, error) bool) {
		out := make(sqltype.Row, 0, len(in.all))
		stop := &stopSignal{}
		err := source(f, func(row sqltype.Row) error {
			out = out[:0]
			for i, v := range row {
				col := cols[in.cols[i]]
				if col.Type.Kind == sqltype.KindRowVersion {
					continue
				}
				s, err := store(in.t, col, v, "INSERT")
				if err != nil {
					return err
				}
				out = append(out, s)
			}
			given := len(out)
			for i, x := range in.fill {
				v, err := x.eval(f)
				if err == nil {
					v, err = store(in.t, cols[in.all[given+i]], v, "INSERT")
				}
				if err != nil {
					return err
				}
				out = append(out, v)
			}
			if err := in.checkRow(f, out); err != nil {
				return err
			}
			if !yield(out, nil) {
				return stop
			}
			return nil
		})
		if err != nil && err != error(stop) {
			yield(nil, err)
		}
	}
}

// checkRow checks the constraints on a row as it will be stored.
func (in *insertion) checkRow(f *frame, values sqltype.Row) error {
	if in.check == nil {
		return nil
	}
	row := make(sqltype.Row, len(in.t.Columns()))
	for i, c := range in.all {
		row[c] = values[i]
	}
	return in.check.check(f, row, "INSERT")
}

// execSource runs the procedure of INSERT … EXEC and keeps its rows.
func (in *insertion) execSource(ctx context.Context) (runFn, error) {
	if in.r.insertExe {
		return nil, sqlerr.New(8164, 16, 1, "An INSERT EXEC statement cannot be nested.")
	}
	sink := &captureSink{down: in.r.sink, width: len(in.cols)}
	child := *in.r
	child.sink, child.insertExe = sink, true
	noCount := in.r.s.opt.noCount
	err := child.exec(ctx, in.stmt.Exec)
	in.r.s.opt.noCount = noCount
	if err == nil {
		err = sink.err
	}
	if err != nil {
		return nil, err
	}
	return func(_ *frame, emit func(sqltype.Row) error) error {
		for _, row := range sink.rows {
			if err := emit(row); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// captureSink keeps the rows of a procedure and passes its messages on.
type captureSink struct {
	down  ResultSink
	width int
	rows  []sqltype.Row
	err   error
}

func (s *captureSink) Columns(cols []ResultColumn) error {
	if len(cols) != s.width && s.err == nil {
		s.err = sqlerr.Make(213)
	}
	return nil
}

func (s *captureSink) Row(row sqltype.Row) error {
	s.rows = append(s.rows, append(sqltype.Row(nil), row...))
	return nil
}

func (s *captureSink) Done(Done) error { return nil }

func (s *captureSink) Message(e *Error) error { return s.down.Message(e) }

func (s *captureSink) ReturnStatus(int32) error { return nil }
