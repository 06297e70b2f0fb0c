package tsql

import (
	"context"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// queryFor compiles the query of a statement in a compiler of its own.
func (c *compiler) queryFor(q *ast.Query, with []ast.CTE) (*queryPlan, error) {
	if err := c.addCTEs(with); err != nil {
		return nil, err
	}
	return c.subquery(q, nil)
}

// selectStmt executes a query as a statement: to the client, or into variables.
func (r *runner) selectStmt(ctx context.Context, x *ast.SelectStmt) error {
	c := r.compiler(ctx)
	if names := assigned(x.Query.Body); len(names) > 0 {
		return r.selectInto(c, x.Query, names)
	}
	plan, err := c.queryFor(x.Query, nil)
	if err != nil {
		return err
	}
	if err := r.sink.Columns(plan.cols); err != nil {
		return err
	}
	if r.s.opt.fmtOnly {
		return r.done(Done{Kind: DoneSelect, HasCount: true})
	}
	var n int64
	emit := r.rowLimit(plan.run)
	err = emit(c.newFrame(), func(row sqltype.Row) error {
		n++
		return r.sink.Row(row)
	})
	if err != nil {
		if r.tryDepth > 0 && sqlerr.Of(err) != nil { // the rowset ends here, the CATCH block goes on
			if e := r.end(Done{Kind: DoneSelect, Count: n}); e != nil {
				return e
			}
		}
		return err
	}
	r.s.rowCount = n
	return r.done(Done{Kind: DoneSelect, Count: n, HasCount: true})
}

// rowLimit applies SET ROWCOUNT.
func (r *runner) rowLimit(run runFn) runFn {
	if r.s.opt.rowCount == 0 {
		return run
	}
	n := constant(sqltype.BigInt(r.s.opt.rowCount), sqltype.Type{Kind: sqltype.KindBigInt})
	return limited(&limit{count: n}, run)
}

// assigned lists the variables that a SELECT assigns.
func assigned(b ast.QueryBody) []string {
	s, ok := b.(*ast.Select)
	if !ok {
		return nil
	}
	var names []string
	for _, it := range s.Items {
		if it.Assign != "" {
			names = append(names, it.Assign)
		}
	}
	return names
}

// selectInto assigns the columns of every row in turn, so that the last one stays.
func (r *runner) selectInto(c *compiler, q *ast.Query, names []string) error {
	plan, err := c.queryFor(q, nil)
	if err != nil {
		return err
	}
	vars := make([]*variable, len(names))
	for i, n := range names {
		if vars[i], err = r.lookup(n); err != nil {
			return err
		}
	}
	var n int64
	if err := r.rowLimit(plan.run)(c.newFrame(), func(row sqltype.Row) error {
		n++
		for i, v := range vars {
			v.val = row[i]
		}
		return nil
	}); err != nil {
		return err
	}
	r.s.rowCount = n
	return r.done(Done{Kind: DoneOther, Count: n})
}
