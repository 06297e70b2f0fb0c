package engine_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// storable draws a type that a table can have, and a generator of its values.
var storable = []struct {
	typ   sqltype.Type
	value *rapid.Generator[sqltype.Value]
}{
	{sqltype.TypeOf(sqltype.KindBit), rapid.Map(rapid.Bool(), sqltype.Bit)},
	{sqltype.TypeOf(sqltype.KindTinyInt), rapid.Map(rapid.Uint8(), sqltype.TinyInt)},
	{sqltype.TypeOf(sqltype.KindSmallInt), rapid.Map(rapid.Int16(), sqltype.SmallInt)},
	{sqltype.TypeOf(sqltype.KindInt), rapid.Map(rapid.Int32(), sqltype.Int)},
	{sqltype.TypeOf(sqltype.KindBigInt), rapid.Map(rapid.Int64(), sqltype.BigInt)},
	{sqltype.TypeOf(sqltype.KindReal), rapid.Map(rapid.Float32(), sqltype.Real)},
	{sqltype.TypeOf(sqltype.KindFloat), rapid.Map(rapid.Float64(), sqltype.Float)},
	{sqltype.DecimalType(18, 4), number(999_999_999_999_999_999, 0, 4)},
	{sqltype.DecimalType(38, 10), number(math.MaxUint64, 1<<62, 10)},
	{sqltype.TypeOf(sqltype.KindMoney), rapid.Map(rapid.Int64(), sqltype.Money)},
	{sqltype.TypeOf(sqltype.KindSmallMoney), rapid.Map(rapid.Int32(), sqltype.SmallMoney)},
	{sqltype.TypeOf(sqltype.KindDate), rapid.Map(rapid.Int32Range(0, sqltype.MaxDays), sqltype.Date)},
	{sqltype.TypeOf(sqltype.KindTime), rapid.Map(rapid.Int64Range(0, sqltype.TicksPerDay-1), func(n int64) sqltype.Value {
		return sqltype.Time(n, 7)
	})},
	{sqltype.Type{Kind: sqltype.KindDateTime2, Scale: 7}, rapid.Custom(func(t *rapid.T) sqltype.Value {
		return sqltype.DateTime2(rapid.Int32Range(0, sqltype.MaxDays).Draw(t, "d"), rapid.Int64Range(0, sqltype.TicksPerDay-1).Draw(t, "t"), 7)
	})},
	{sqltype.Type{Kind: sqltype.KindDateTimeOffset, Scale: 3}, rapid.Custom(func(t *rapid.T) sqltype.Value {
		return sqltype.DateTimeOffset(rapid.Int32Range(0, sqltype.MaxDays).Draw(t, "d"),
			rapid.Int64Range(0, 86_400_000-1).Draw(t, "t")*10_000, rapid.Int16Range(-840, 840).Draw(t, "o"), 3)
	})},
	{sqltype.TypeOf(sqltype.KindDateTime), rapid.Custom(func(t *rapid.T) sqltype.Value {
		return sqltype.DateTime(rapid.Int32Range(-53690, 2958463).Draw(t, "d"), rapid.Int32Range(0, 86_400*300-1).Draw(t, "t"))
	})},
	{sqltype.TypeOf(sqltype.KindSmallDateTime), rapid.Custom(func(t *rapid.T) sqltype.Value {
		return sqltype.SmallDateTime(rapid.Uint16().Draw(t, "d"), rapid.Uint16Range(0, 1439).Draw(t, "m"))
	})},
	{sqltype.VarCharType(40), rapid.Map(rapid.StringN(0, 10, 40), sqltype.VarChar)},
	{sqltype.NVarCharType(sqltype.Max), rapid.Map(rapid.StringN(0, 100, -1), sqltype.NVarChar)},
	{sqltype.VarBinaryType(16), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 16), sqltype.VarBinary)},
	{sqltype.BinaryType(4), rapid.Map(rapid.SliceOfN(rapid.Byte(), 4, 4), sqltype.Binary)},
	{sqltype.TypeOf(sqltype.KindUniqueIdentifier), rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) sqltype.Value {
		return sqltype.UniqueIdentifier([16]byte(b))
	})},
	{sqltype.TypeOf(sqltype.KindVariant), rapid.OneOf(rapid.Map(rapid.Int32(), sqltype.Int), rapid.Map(rapid.String(), sqltype.NVarChar))},
}

func number(lo, hi uint64, scale uint8) *rapid.Generator[sqltype.Value] {
	return rapid.Custom(func(t *rapid.T) sqltype.Value {
		n := sqltype.Number{Lo: rapid.Uint64Range(0, lo).Draw(t, "lo"), Hi: rapid.Uint64Range(0, hi).Draw(t, "hi"), Scale: scale}
		n.Neg = !n.IsZero() && rapid.Bool().Draw(t, "neg")
		return sqltype.Decimal(n)
	})
}

func TestEveryTypeSurvivesTheChangeTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLab(t)
		require.NoError(rt, l.db.EnableCDC())
		spec := engine.TableSpec{Schema: "dbo", Name: "types"}
		chosen := rapid.SliceOfN(rapid.IntRange(0, len(storable)-1), 1, 20).Draw(rt, "types")
		for i, k := range chosen {
			spec.Columns = append(spec.Columns, engine.ColumnSpec{Name: string(rune('a' + i)), Type: storable[k].typ, Nullable: true})
		}
		types := l.create(spec)
		l.enable("types")
		rows := make([]sqltype.Row, rapid.IntRange(1, 100).Draw(rt, "rows"))
		for n := range rows {
			rows[n] = make(sqltype.Row, len(chosen))
			for i, k := range chosen {
				if rapid.IntRange(0, 3).Draw(rt, "null") > 0 {
					rows[n][i] = storable[k].value.Draw(rt, "value")
				}
			}
		}
		l.insert(types, rows...)
		l.scan()
		got := l.changes("dbo_types")
		require.Len(rt, got, len(rows))
		for n := range rows {
			for i := range chosen {
				if f := rows[n][i]; f.Kind().IsFloat() && math.IsNaN(f.Float64()) {
					continue
				}
				require.Equal(rt, rows[n][i], got[n].row[i], "row %d column %d", n, i)
			}
		}
	})
}

func TestValuesOfTheWrongKindAreRefused(t *testing.T) {
	l, orders := captured(t)
	err := l.db.Do(l.ctx(), func(tx *engine.Tx) error {
		return insert(l.ctx(), tx, orders, sqltype.Row{sqltype.BigInt(1), sqltype.NVarChar("a"), sqltype.Int(1)})
	})
	require.ErrorContains(t, err, "storing a value of kind bigint in a column of kind int: convert it first")
	require.Zero(t, engine.Number(err), "a slip of the caller, not an error of SQL Server")
}
