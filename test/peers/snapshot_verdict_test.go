package peers

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A commit that capture has not come to moves a key from the part of a table that is still
// to be read to the part that was read: the row is in no chunk and in no change yet. max_lsn
// says nothing of it, so the verdict must not move before capture has come to a commit that
// was written after the read.
func TestVerdictWaitsForAMoveThatIsNotCaptured(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.twenty(t)
	p := l.pipeline(t, "dbo.t").snapshot().facts()
	p.with("snapshot_parallelism: 1")
	require.True(t, p.crash(t, 2))
	require.NotEmpty(t, p.bronze(t, "t"), "a chunk was read")
	require.Less(t, len(p.bronze(t, "t")), 20)
	for i := range 3 { // captured, of another minute each
		l.clock.Advance(time.Minute)
		l.exec(t, fmt.Sprintf("UPDATE dbo.t SET v = N'second' WHERE id = %d", i))
	}
	l.capture(t)
	l.clock.Advance(time.Second)
	l.exec(t, "UPDATE dbo.t SET id = -1 WHERE id = 19") // and capture stands still
	l.clock.Advance(time.Second)
	for range 2 {
		p.run(t)
		require.NotContains(t, p.current(t, "t", "id"), "|19")
		require.NotContains(t, p.current(t, "t", "id"), "|-1")
		verdict := p.verdict(t, "t")
		require.True(t, verdict.FinalizedUntil.IsZero(), "final until %s without the row that moved", verdict.FinalizedUntil)
		require.NotEmpty(t, verdict.HeldBy)
	}
	l.capture(t)
	p.run(t) // the move is there, but more may have been committed before the read
	l.requireCurrent(t, p, "t", "id", "v")
	require.True(t, p.verdict(t, "t").FinalizedUntil.IsZero())

	l.clock.Advance(time.Minute)
	require.NoError(t, l.sim.Idle(t.Context()))
	p.run(t)
	require.Empty(t, p.verdict(t, "t").HeldBy)
	require.Equal(t, minute(4), p.verdict(t, "t").FinalizedUntil)
}
