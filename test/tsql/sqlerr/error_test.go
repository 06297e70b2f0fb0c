package sqlerr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

func TestMake(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    *sqlerr.Error
		number int32
		class  uint8
		state  uint8
		text   string
	}{
		{sqlerr.InvalidObject(ast.Name("lab", "cdc", "x_CT")), 208, 16, 1, "Invalid object name 'lab.cdc.x_CT'."},
		{sqlerr.InvalidColumn("c"), 207, 16, 1, "Invalid column name 'c'."},
		{sqlerr.NoProcedure(ast.Name("p")), 2812, 16, 62, "Could not find stored procedure 'p'."},
		{sqlerr.NoDatabase("d"), 911, 16, 1, "Database 'd' does not exist. Make sure that the name is entered correctly."},
		{sqlerr.MissingParameter("p", "@a"), 201, 16, 4, "Procedure or function 'p' expects parameter '@a', which was not supplied."},
		{sqlerr.Syntax("x"), 102, 15, 1, "Incorrect syntax near 'x'."},
		{sqlerr.SyntaxKeyword("FROM"), 156, 15, 1, "Incorrect syntax near the keyword 'FROM'."},
		{sqlerr.Undeclared("@x"), 137, 15, 2, `Must declare the scalar variable "@x".`},
		{sqlerr.LockTimeout(), 1222, 16, 51, "Lock request time out period exceeded."},
		{sqlerr.DuplicateKey("PRIMARY KEY", "pk", "dbo.t", "(1)"), 2627, 14, 1, "Violation of PRIMARY KEY constraint 'pk'. Cannot insert duplicate key in object 'dbo.t'. The duplicate key value is (1)."},
		{sqlerr.DuplicateIndex("dbo.t", "ix", "(1)"), 2601, 14, 1, "Cannot insert duplicate key row in object 'dbo.t' with unique index 'ix'. The duplicate key value is (1)."},
		{sqlerr.Denied("SELECT", "t", "lab", "dbo"), 229, 14, 5, "The SELECT permission was denied on the object 't', database 'lab', schema 'dbo'."},
		{sqlerr.MakeState(313, 3, "cdc.fn_cdc_get_all_changes_ ... "), 313, 16, 3, "An insufficient number of arguments were supplied for the procedure or function cdc.fn_cdc_get_all_changes_ ... ."},
	} {
		require.Equal(t, c.number, c.err.Number)
		require.Equal(t, c.class, c.err.Class, c.number)
		require.Equal(t, c.state, c.err.State, c.number)
		require.Equal(t, c.text, c.err.Message)
	}
	require.Equal(t, uint8(13), sqlerr.Deadlock(51).Class)
	require.Contains(t, sqlerr.Make(99999, "lost?").Message, "lost?")
}

func TestPlaceAndChain(t *testing.T) {
	t.Parallel()
	e := sqlerr.Syntax("x")
	at := e.At(3).In("p")
	require.Zero(t, e.Line, "the original stays")
	require.Equal(t, "Msg 102, Level 15, State 1, Procedure p, Line 3: Incorrect syntax near 'x'.", at.Error())
	require.Same(t, at, at.At(9).In("q"), "a place that is known stays")
	wrapped := fmt.Errorf("running: %w", at)
	require.True(t, sqlerr.IsNumber(wrapped, 102))
	require.False(t, sqlerr.IsNumber(errors.New("x"), 102))
	require.Nil(t, sqlerr.Of(nil))
	require.True(t, sqlerr.Info("50%").IsInfo())
	require.Equal(t, "50%", sqlerr.Info("50%").Message)
	require.Equal(t, "Msg 102, Level 15, State 1, Line 0: Incorrect syntax near 'x'.", e.Error())
}
