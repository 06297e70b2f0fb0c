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
	clock := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
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

	s = s.Advance(5, at(7), clock.Add(-time.Minute))
	require.Equal(t, key("g"), begin(1))
	unknown(0)
	s = s.Advance(0, at(4), clock).Advance(2, at(6), clock.Add(-time.Hour))
	require.True(t, s.Complete)
	unknown(3)
	require.Equal(t, at(7), s.Through, "the highest, not the last")
	require.Equal(t, clock, s.ThroughTime, "the latest, not the last")
	late := clock.Add(time.Second)
	require.True(t, s.Holds(at(6), late))
	require.False(t, s.Holds(at(7), late))
	require.True(t, s.Holds(at(7), time.Time{}), "not known")
	require.True(t, s.Holds(at(7), clock.Add(3*time.Millisecond)), "commit times are rounded to 1/300 s")
	require.False(t, s.Holds(at(7), clock.Add(4*time.Millisecond)))
	s.ThroughTime = time.Time{} // stored by a release that did not ask
	require.False(t, s.Holds(at(7), time.Time{}))
	require.Equal(t, int64(7), s.Rows)
	require.Equal(t, int64(2), s.Prev)
}
