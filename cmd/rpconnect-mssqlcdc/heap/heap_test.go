package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	tuner := &tuner{percent: 50, least: 24 << 20}
	for name, tc := range map[string]struct {
		live int64
		want int
	}{
		"nothing yet":         {0, mostPercent},
		"nearly empty":        {1 << 20, mostPercent},
		"small":               {12 << 20, 200},
		"at the boundary":     {48 << 20, 50},
		"large":               {1 << 30, 50},
		"steps are of ten":    {13 << 20, 180},
		"more than the world": {1 << 60, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tuner.percentFor(tc.live))
		})
	}
}

// The growth follows what is in use, down and up again.
func TestGrowthFollowsTheHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	Tune(50, 24<<20)
	percent := func() int {
		runtime.GC()
		p := debug.SetGCPercent(50)
		debug.SetGCPercent(p)
		return p
	}
	require.Eventually(t, func() bool { return percent() > 100 }, 10*time.Second, time.Millisecond, "a small heap")
	held := make([]byte, 100<<20)
	require.Eventually(t, func() bool { return percent() == 50 }, 10*time.Second, time.Millisecond, "a large heap")
	runtime.KeepAlive(held)
}
