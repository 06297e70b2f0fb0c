package checkpoint_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
)

// A chunk begins where the one before it ends, once that is decided; the snapshot holds the
// verdict until the changes have come as far as its chunks were read.
func TestSnapshotChunks(t *testing.T) {
	t.Parallel()
	at := func(n byte) mssqlcdc.LSN { return mssqlcdc.LSN{9: n} }
	key := func(text string) []*string { return []*string{&text} }
	s := checkpoint.NewSnapshot(at(1), time.Time{}, time.Now(), []string{"id"}, key("z"))
	begin := func(number int64) []*string {
		from, known := s.Begin(number)
		require.True(t, known)
		return from
	}
	unknown := func(number int64) {
		_, known := s.Begin(number)
		require.False(t, known)
	}
	require.Empty(t, begin(0))
	unknown(1)
	s = s.Plan(key("g"), false)
	require.Equal(t, key("g"), begin(1))
	unknown(2)
	s = s.Plan(key("p"), false).Plan(nil, true)
	require.Equal(t, key("p"), begin(2))
	unknown(3)

	s = s.Advance(5, at(7))
	require.Equal(t, key("g"), begin(1))
	unknown(0)
	s = s.Advance(0, at(4)).Advance(2, at(6))
	require.True(t, s.Complete)
	unknown(3)
	require.Equal(t, at(7), s.Through, "the highest, not the last")
	require.True(t, s.Holds(at(6)))
	require.False(t, s.Holds(at(7)))
	require.Equal(t, int64(7), s.Rows)
	require.Equal(t, int64(2), s.Prev)
}
