package engine_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// TestCursorAgainstAFilter reads ranges of several segments by bounds of one to four columns, in both directions, and compares with
// a filter over all rows.
func TestCursorAgainstAFilter(t *testing.T) {
	t.Parallel()
	db, inst, _ := backlog(t, 40_000, 9)
	view := db.CDC()
	columns := inst.ChangeColumns()
	order := inst.ChangeOrder()
	var all []sqltype.Row
	for r := range view.ScanChanges(inst, engine.ChangeScan{}).All() {
		all = append(all, slices.Clone(r))
	}
	require.Len(t, all, 40_000)
	compare := func(r sqltype.Row, b []sqltype.Value) int {
		for i, v := range b {
			if d := sqltype.Compare(r[order[i]], v, nil); d != 0 {
				return d
			}
		}
		return 0
	}
	rapid.Check(t, func(rt *rapid.T) {
		bound := func(name string) engine.Bound {
			n := rapid.IntRange(0, 4).Draw(rt, name+" columns")
			r := all[rapid.IntRange(0, len(all)-1).Draw(rt, name)]
			b := engine.Bound{Inclusive: rapid.Bool().Draw(rt, name+" inclusive")}
			for _, c := range order[:n] {
				b.Values = append(b.Values, r[c])
			}
			if n == 1 && rapid.Bool().Draw(rt, name+" short") {
				b.Values[0] = sqltype.Bytes(sqltype.KindVarBinary, b.Values[0].Str()[:rapid.IntRange(1, 10).Draw(rt, "bytes")])
			}
			return b
		}
		spec := engine.ChangeScan{Lower: bound("lower"), Upper: bound("upper"), Reverse: rapid.Bool().Draw(rt, "reverse")}
		if rapid.Bool().Draw(rt, "project") {
			spec.Columns = rapid.SliceOfNDistinct(rapid.IntRange(0, len(columns)-1), 1, 5, rapid.ID[int]).Draw(rt, "columns")
		}
		want := slices.DeleteFunc(slices.Clone(all), func(r sqltype.Row) bool {
			lo, hi := compare(r, spec.Lower.Values), compare(r, spec.Upper.Values)
			return lo < 0 || len(spec.Lower.Values) > 0 && lo == 0 && !spec.Lower.Inclusive ||
				hi > 0 || len(spec.Upper.Values) > 0 && hi == 0 && !spec.Upper.Inclusive
		})
		if spec.Reverse {
			slices.Reverse(want)
		}
		cur := view.ScanChanges(inst, spec)
		for n, w := range want {
			if !cur.Next() {
				rt.Fatalf("only %d of %d rows", n, len(want))
			}
			for c := range w {
				var v sqltype.Value
				if spec.Columns == nil || slices.Contains(spec.Columns, c) {
					v = w[c]
				}
				if cur.Row()[c] != v {
					rt.Fatalf("row %d, column %d is %v, want %v", n, c, cur.Row()[c], v)
				}
			}
		}
		require.False(rt, cur.Next())
		require.False(rt, cur.Next())
	})
}

func TestARowCostsAtMost150Bytes_ours(t *testing.T) {
	_, _, res := backlog(t, 60_000, 10)
	require.Less(t, res.BytesPerRow, 150.0)
	_, _, res = backlog(t, 60_000, 1)
	require.Less(t, res.BytesPerRow, 170.0, "with a transaction per row")
}

// TestValuesOfARowMayBeKept: the row is reused, its values are not.
func TestValuesOfARowMayBeKept(t *testing.T) {
	db, inst, _ := backlog(t, 5_000, 3)
	var kept []sqltype.Value
	for r := range db.CDC().ScanChanges(inst, engine.ChangeScan{}).All() {
		kept = append(kept, r[2])
	}
	require.True(t, slices.IsSortedFunc(kept, func(a, b sqltype.Value) int { return cmp.Compare(a.Str(), b.Str()) }))
	require.NotEqual(t, kept[0], kept[4_999])
}

func TestLSNArithmetic_D_M25(t *testing.T) {
	parse := func(s string) engine.LSN {
		l, err := engine.ParseLSN(s)
		require.NoError(t, err)
		return l
	}
	require.Equal(t, parse("0x0000002D000005900006"), parse("0x0000002D000005900005").Increment())
	require.Equal(t, parse("0x0000002D00000590FFFF"), parse("0x0000002D000005910000").Decrement())
	require.Equal(t, engine.LSN{}, parse("0xFFFFFFFFFFFFFFFFFFFF").Increment())
	require.Equal(t, parse("0xFFFFFFFFFFFFFFFFFFFF"), engine.LSN{}.Decrement())
	l := engine.MakeLSN(0x2D, 0x580, 0x1D)
	require.Equal(t, "0x0000002D00000580001D", l.String())
	require.Equal(t, "0000002d:00000580:001d", l.Colons())
	require.Equal(t, []uint32{0x2D, 0x580, 0x1D}, []uint32{l.VLF(), l.Block(), uint32(l.Slot())})
	require.Equal(t, engine.LSN{0x2D}, engine.LSNFromBytes([]byte{0x2D}), "short binary is padded on the right")
}

func FuzzParseLSN(f *testing.F) {
	for _, s := range []string{"", "0x", "0x1", "0xzz", "0x0000002D00000580001D", "0x0000002D00000580001D0", "0X2d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := engine.ParseLSN(s)
		if err != nil {
			require.Zero(t, l)
			return
		}
		again, err := engine.ParseLSN(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
		require.Equal(t, l, l.Increment().Decrement())
		require.Equal(t, l.Less(l.Increment()), l != engine.LSN{}.Decrement())
	})
}
