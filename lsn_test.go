package mssqlcdc_test

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

func genLSN() *rapid.Generator[mssqlcdc.LSN] {
	return rapid.Custom(func(t *rapid.T) mssqlcdc.LSN {
		// Runs of 0x00 and 0xFF are where carries and borrows go wrong.
		bytes := rapid.SliceOfN(rapid.OneOf(
			rapid.Byte(), rapid.SampledFrom([]byte{0x00, 0xFF}),
		), mssqlcdc.LSNSize, mssqlcdc.LSNSize).Draw(t, "bytes")
		return mssqlcdc.LSN(bytes)
	})
}

func number(l mssqlcdc.LSN) *big.Int { return new(big.Int).SetBytes(l[:]) }

func TestParseLSN(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"full":               {"0x0000002D00000A480003", "0x0000002D00000A480003"},
		"lower case":         {"0x0000002d00000a480003", "0x0000002D00000A480003"},
		"without prefix":     {"0000002D00000A480003", "0x0000002D00000A480003"},
		"short is padded":    {"0x1", "0x00000000000000000001"},
		"upper-case prefix":  {"0X2A", "0x0000000000000000002A"},
		"ends of the domain": {strings.Repeat("F", 20), "0xFFFFFFFFFFFFFFFFFFFF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := mssqlcdc.ParseLSN(tc.text)
			require.NoError(t, err)
			require.Equal(t, tc.want, l.String())
		})
	}
	for _, text := range []string{"", "0x", "0x0000002D:00000A48:0003", "0x000000000000000000000", "g", "0x1\n", "-1", " 1"} {
		_, err := mssqlcdc.ParseLSN(text)
		require.ErrorIs(t, err, mssqlcdc.ErrInvalidLSN, "%q", text)
	}
}

func TestLSNProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := genLSN().Draw(t, "a"), genLSN().Draw(t, "b")

		parsed, err := mssqlcdc.ParseLSN(a.String())
		require.NoError(t, err)
		require.Equal(t, a, parsed)

		hi, lo := a.Parts()
		joined, err := mssqlcdc.LSNFromParts(hi, lo)
		require.NoError(t, err)
		require.Equal(t, a, joined)

		raw, err := json.Marshal(a)
		require.NoError(t, err)
		var back mssqlcdc.LSN
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, a, back)

		require.Equal(t, number(a).Cmp(number(b)), a.Compare(b), "byte order is number order")
		require.Equal(t, strings.Compare(a.String(), b.String()), a.Compare(b), "text order is LSN order")
		require.Equal(t, a.Compare(b) < 0, a.Less(b))
	})
}

func TestNextAndPrev(t *testing.T) {
	t.Parallel()
	one := big.NewInt(1)
	top, err := mssqlcdc.ParseLSN(strings.Repeat("F", 20))
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		l := genLSN().Draw(t, "lsn")
		if l == top {
			require.Equal(t, l, l.Next())
		} else {
			require.Zero(t, new(big.Int).Add(number(l), one).Cmp(number(l.Next())))
			require.Equal(t, l, l.Next().Prev())
		}
		if l.IsZero() {
			require.Equal(t, l, l.Prev())
		} else {
			require.Zero(t, new(big.Int).Sub(number(l), one).Cmp(number(l.Prev())))
		}
	})
}

func TestLSNFromPartsRefuses(t *testing.T) {
	t.Parallel()
	for _, parts := range [][2]int64{{-1, 0}, {0, -1}, {1 << 40, 0}, {0, 1 << 40}} {
		_, err := mssqlcdc.LSNFromParts(parts[0], parts[1])
		require.ErrorIs(t, err, mssqlcdc.ErrInvalidLSN)
	}
	_, err := mssqlcdc.LSNFromBytes(make([]byte, 9))
	require.ErrorIs(t, err, mssqlcdc.ErrInvalidLSN)
}

func genPosition() *rapid.Generator[mssqlcdc.Position] {
	return rapid.Custom(func(t *rapid.T) mssqlcdc.Position {
		// Few distinct values, so that ties in each part are common.
		lsn := rapid.Custom(func(t *rapid.T) mssqlcdc.LSN {
			l := mssqlcdc.LSN{}
			l[9] = rapid.ByteRange(0, 2).Draw(t, "lsn")
			return l
		})
		return mssqlcdc.Position{
			StartLSN:  lsn.Draw(t, "start"),
			CommandID: rapid.Int32Range(1, 3).Draw(t, "command"),
			SeqVal:    lsn.Draw(t, "seqval"),
			Operation: mssqlcdc.Operation(rapid.IntRange(1, 4).Draw(t, "operation")),
		}
	})
}

func TestPositionOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := genPosition().Draw(t, "a"), genPosition().Draw(t, "b"), genPosition().Draw(t, "c")
		require.Equal(t, -a.Compare(b), b.Compare(a))
		require.Equal(t, a == b, a.Compare(b) == 0)
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 {
			require.LessOrEqual(t, a.Compare(c), 0)
		}
	})
	// A deferred update: deletes before inserts by command id although the
	// seqvals of the pairs interleave.
	seq := func(n byte) mssqlcdc.LSN { return mssqlcdc.LSN{9: n} }
	rows := []mssqlcdc.Position{
		{CommandID: 1, SeqVal: seq(1), Operation: mssqlcdc.Delete},
		{CommandID: 2, SeqVal: seq(3), Operation: mssqlcdc.Delete},
		{CommandID: 3, SeqVal: seq(1), Operation: mssqlcdc.Insert},
		{CommandID: 4, SeqVal: seq(3), Operation: mssqlcdc.Insert},
		{CommandID: 5, SeqVal: seq(2), Operation: mssqlcdc.UpdateBefore},
		{CommandID: 5, SeqVal: seq(2), Operation: mssqlcdc.UpdateAfter},
	}
	require.True(t, slices.IsSortedFunc(rows, mssqlcdc.Position.Compare))
}

func TestPositionColumnsFollowCompare(t *testing.T) {
	t.Parallel()
	columns := mssqlcdc.PositionColumns(true)
	require.Equal(t, []string{"__$start_lsn", "__$command_id", "__$seqval", "__$operation"}, columns)
	// Each column decides over all that follow it.
	low, high := mssqlcdc.LSN{9: 1}, mssqlcdc.LSN{9: 2}
	require.Negative(t, mssqlcdc.Position{StartLSN: low, CommandID: 9, SeqVal: high, Operation: 4}.Compare(
		mssqlcdc.Position{StartLSN: high, CommandID: 1, SeqVal: low, Operation: 1}))
	require.Negative(t, mssqlcdc.Position{CommandID: 1, SeqVal: high, Operation: 4}.Compare(
		mssqlcdc.Position{CommandID: 2, SeqVal: low, Operation: 1}))
	require.Negative(t, mssqlcdc.Position{SeqVal: low, Operation: 4}.Compare(
		mssqlcdc.Position{SeqVal: high, Operation: 1}))
	require.Equal(t, []string{"__$start_lsn", "__$seqval", "__$operation"}, mssqlcdc.PositionColumns(false))
}

func TestOperationNames(t *testing.T) {
	t.Parallel()
	for op := mssqlcdc.Read; op <= mssqlcdc.UpdateAfter; op++ {
		back, err := mssqlcdc.ParseOperation(op.String())
		require.NoError(t, err)
		require.Equal(t, op, back)
		require.True(t, op.Valid())
	}
	_, err := mssqlcdc.ParseOperation("upsert")
	require.ErrorContains(t, err, `unknown operation "upsert"`)
	require.False(t, mssqlcdc.Operation(5).Valid())
}

func FuzzParseLSN(f *testing.F) {
	for _, seed := range []string{"", "0x", "0x1", "0x0000002D00000A480003", "ﬀ", "0x 1", strings.Repeat("F", 21)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := mssqlcdc.ParseLSN(text)
		if err != nil {
			require.ErrorIs(t, err, mssqlcdc.ErrInvalidLSN)
			return
		}
		again, err := mssqlcdc.ParseLSN(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}
