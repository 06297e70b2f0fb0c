package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Both strategies come to the same table, with the latest row of each key.
func TestCases(t *testing.T) {
	t.Parallel()
	o := options{dir: t.TempDir(), rows: 200, changed: 50, batch: 300, runs: 1}
	require.NoError(t, prepare(t.Context(), o))
	found := map[string][]measure{}
	for _, c := range o.chosen() {
		m, err := c.run(t.Context(), o)
		require.NoError(t, err, c.name)
		require.Positive(t, m.Commits, c.name)
		found[c.bronze] = append(found[c.bronze], m)
	}
	for name, ms := range found {
		require.Len(t, ms, 2, name)
		require.Equal(t, ms[0].Answer, ms[1].Answer, name)
		require.Equal(t, ms[0].Changes, ms[1].Changes, name)
	}
	small, large := found[smallBronze][0], found[largeBronze][0]
	require.EqualValues(t, o.rows, small.Answer[0], "updates add no rows")
	require.Greater(t, large.Answer[0], int64(o.rows), "keys above those of the table do")
	require.Less(t, small.Changes, int64(o.changed)+1)
}

// A bar that is not reached is told.
func TestJudge(t *testing.T) {
	t.Parallel()
	of := func(wall, peak float64) *result { return &result{measure: measure{WallSeconds: wall, PeakRSSMB: peak}} }
	for name, c := range map[string]struct {
		line line
		want []bool
	}{
		"met":         {line{benchCase{bar: bar{wallRatio: 0.2, peakMB: 300}}, of(1, 100), of(5, 900)}, []bool{true, true}},
		"slow":        {line{benchCase{bar: bar{wallRatio: 0.2, peakMB: 300}}, of(2, 100), of(5, 900)}, []bool{false, true}},
		"large":       {line{benchCase{bar: bar{peakMB: 300}}, of(2, 301), nil}, []bool{false}},
		"without one": {line{benchCase{bar: bar{wallRatio: 1}}, of(2, 301), nil}, nil},
	} {
		var got []bool
		for _, v := range c.line.judge() {
			got = append(got, v.met)
		}
		require.Equal(t, c.want, got, name)
	}
}
