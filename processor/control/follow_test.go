package control_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

func followed(source control.Verdict) control.Followed {
	return control.Followed{Target: "silver.orders", Path: "lake/silver", Source: source, AppliedLSN: mssqlcdc.LSN{9: 5}, SnapshotWave: -1}
}

// The verdict of a derived table is that of its source, never more, and survives a rewrite
// by both.
func TestFollow(t *testing.T) {
	t.Parallel()
	table, err := control.Create(t.Context(), mem.New(), control.Options{Now: func() time.Time { return at(time.Hour) }})
	require.NoError(t, err)
	source, _, err := table.Advance(t.Context(), candidate("orders", at(10*time.Minute)))
	require.NoError(t, err)
	f := followed(source)
	f.OpenSnapshot, f.SnapshotWave, f.HeldBy = mssqlcdc.LSN{9: 4}, 3, "snapshot 4 is not complete"
	v, changed, err := table.Follow(t.Context(), f)
	require.NoError(t, err)
	require.True(t, changed)
	require.True(t, v.FinalizedUntil.IsZero(), "it is held")

	v, changed, err = table.Follow(t.Context(), followed(source))
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, source.FinalizedUntil, v.FinalizedUntil)
	require.Equal(t, source.EndLSN, v.EndLSN)
	stored, err := table.Get(t.Context(), "silver.orders")
	require.NoError(t, err)
	require.Equal(t, v, stored)
	require.EqualValues(t, -1, stored.SnapshotWave)
	_, changed, err = table.Follow(t.Context(), followed(source))
	require.NoError(t, err)
	require.False(t, changed, "nothing moved")

	v, _, err = table.Follow(t.Context(), followed(control.Verdict{}))
	require.NoError(t, err)
	require.Equal(t, source.FinalizedUntil, v.FinalizedUntil, "it never goes back")

	other := followed(source)
	other.Path = "lake/other"
	_, _, err = table.Follow(t.Context(), other)
	var shared *control.SharedRowError
	require.ErrorAs(t, err, &shared)
	require.Equal(t, "lake/silver", shared.Other)

	anew := followed(control.Verdict{})
	anew.Anew, anew.HeldBy = true, "it is built anew"
	v, _, err = table.Follow(t.Context(), anew)
	require.NoError(t, err)
	require.True(t, v.FinalizedUntil.IsZero())
	require.Equal(t, control.NotYet, v.Answer(time.Time{}, at(0)))
}

// What the source lost is missing here until a snapshot that was read after it.
func TestFollowedGaps(t *testing.T) {
	t.Parallel()
	gap := control.Gap{From: at(10 * time.Minute), To: at(20 * time.Minute)}
	source := control.Verdict{FinalizedUntil: at(60 * time.Minute), Gaps: []control.Gap{gap}}
	for name, c := range map[string]struct {
		snapshot time.Duration
		closed   bool
	}{
		"no snapshot":           {0, false},
		"a snapshot before":     {15 * time.Minute, false},
		"a snapshot at its end": {20 * time.Minute, true},
		"a snapshot later":      {30 * time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, err := control.Create(t.Context(), mem.New(), control.Options{})
			require.NoError(t, err)
			f := followed(source)
			if c.snapshot != 0 {
				f.SnapshotTime = at(c.snapshot)
			}
			v, _, err := table.Follow(t.Context(), f)
			require.NoError(t, err)
			want := control.FinalOverGap
			if c.closed {
				want = control.Final
			}
			require.Equal(t, want, v.Answer(at(40*time.Minute), at(50*time.Minute)))
			require.Equal(t, control.FinalOverGap, v.Answer(at(5*time.Minute), at(30*time.Minute)))
			require.Equal(t, control.Final, v.Answer(time.Time{}, at(10*time.Minute)))
		})
	}
}
