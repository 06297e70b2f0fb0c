package ast_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
)

func TestObjectNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "t", ast.Name("t").String())
	require.Equal(t, "db.cdc.t", ast.Name("db", "cdc", "t").String())
	require.Equal(t, "db..t", ast.Name("db", "", "t").String())
	require.Equal(t, ast.ObjectName{Server: "a", Database: "b", Schema: "c", Name: "d"}, ast.Name("a", "b", "c", "d"))
	require.True(t, ast.ObjectName{}.IsZero())
	require.True(t, ast.Name("SYS", "Fn").Is("sys", "fn"))
	require.True(t, ast.Name("fn").Is("sys", "fn"))
	require.False(t, ast.Name("dbo", "fn").Is("sys", "fn"))
	require.Equal(t, "[a]]b]", ast.Quote("a]b"))
}

func TestIsCondition(t *testing.T) {
	t.Parallel()
	one := &ast.Literal{Kind: ast.LitInteger, Text: "1"}
	require.True(t, ast.IsCondition(&ast.Binary{Op: "=", L: one, R: one}))
	require.True(t, ast.IsCondition(&ast.IsNull{X: one}))
	require.False(t, ast.IsCondition(&ast.Binary{Op: "+", L: one, R: one}))
	require.False(t, ast.IsCondition(&ast.Unary{Op: "-", X: one}))
	require.True(t, ast.IsCondition(&ast.Unary{Op: "NOT", X: one}))
}
