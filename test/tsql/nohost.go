package tsql

import (
	"context"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// noHost is a host without anything: for expressions that need none.
type noHost struct{}

func (noHost) Begin(context.Context, string) error    { return sqlerr.Make(3930) }
func (noHost) Commit(context.Context, string) error   { return sqlerr.Make(3902) }
func (noHost) Rollback(context.Context, string) error { return sqlerr.Make(3903) }
func (noHost) Save(context.Context, string) error     { return sqlerr.Make(628) }
func (noHost) TranCount() int                         { return 0 }
func (noHost) Doom()                                  {}
func (noHost) Doomed() bool                           { return false }

func (noHost) Table(_ context.Context, r TableRequest) (Table, error) {
	return nil, sqlerr.InvalidObject(r.Name)
}

func (noHost) TableFunction(_ context.Context, n ObjectName) (*TableFunction, error) {
	return nil, sqlerr.InvalidObject(n)
}

func (noHost) ScalarFunction(ObjectName) (*ScalarFunction, bool) { return nil, false }

func (noHost) Procedure(_ context.Context, n ObjectName) (*Procedure, error) {
	return nil, sqlerr.NoProcedure(n)
}

func (noHost) Variable(string) (sqltype.Value, sqltype.Type, bool) {
	return sqltype.Value{}, sqltype.Type{}, false
}

func (noHost) SetOption(context.Context, SetOption) error { return nil }

func (noHost) Use(_ context.Context, db string) error { return sqlerr.NoDatabase(db) }

func (noHost) DDL(_ context.Context, s ast.Statement) error {
	return sqlerr.Syntax("CREATE").At(s.Place().Line)
}

func (noHost) Now() time.Time { return time.Unix(0, 0).UTC() }

func (noHost) Collation() string { return "" }
