package control_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(offset time.Duration) time.Time { return noon.Add(offset) }

func candidate(target string, end time.Time) control.Candidate {
	return control.Candidate{Target: target, Granularity: control.Minute, EndLSN: mssqlcdc.LSN{9: 7}, EndCommitTime: end}
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	when := time.Date(2026, 10, 25, 1, 30, 59, 999, time.UTC) // the second pass of a repeated hour in Berlin
	berlin := time.FixedZone("CET", 3600)
	for granularity, want := range map[control.Granularity]string{
		control.Minute: "2026-10-25T01:30:00Z", control.Hour: "2026-10-25T01:00:00Z", control.Day: "2026-10-25T00:00:00Z",
	} {
		got, err := granularity.Truncate(when.In(berlin))
		require.NoError(t, err)
		require.Equal(t, want, got.Format(time.RFC3339))
	}
	_, err := control.Granularity("week").Truncate(when)
	require.ErrorContains(t, err, "want minute, hour or day")
	old, err := control.Day.Truncate(time.Date(1900, 1, 1, 23, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Equal(t, "1900-01-01T00:00:00Z", old.Format(time.RFC3339))
}

func TestAdvanceIsMonotonicPerTarget(t *testing.T) {
	t.Parallel()
	table, err := control.Create(t.Context(), mem.New(), control.Options{})
	require.NoError(t, err)
	_, err = table.Get(t.Context(), "orders")
	require.ErrorIs(t, err, control.ErrUnknownTarget)

	for _, step := range []struct {
		end   time.Duration
		want  time.Duration
		moved bool
	}{
		{90 * time.Second, time.Minute, true},
		{91 * time.Second, time.Minute, false}, // the same period
		{30 * time.Second, time.Minute, false}, // the clock went back
		{3 * time.Minute, 3 * time.Minute, true},
	} {
		verdict, moved, err := table.Advance(t.Context(), candidate("orders", at(step.end)))
		require.NoError(t, err)
		require.Equal(t, step.moved, moved, step.end)
		require.Equal(t, at(step.want), verdict.FinalizedUntil)
	}
	_, _, err = table.Advance(t.Context(), candidate("lines", at(0)))
	require.NoError(t, err)
	all, err := table.All(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "lines", all[0].Target)
	require.Equal(t, at(3*time.Minute), all[1].FinalizedUntil)
	require.Equal(t, mssqlcdc.LSN{9: 7}, all[1].EndLSN)
	require.Equal(t, at(3*time.Minute), all[1].EndCommitTime)
}

func TestAnotherProcessSeesTheVerdict(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st, err := file.New(dir)
	require.NoError(t, err)
	writer, err := control.Create(t.Context(), st, control.Options{})
	require.NoError(t, err)
	reader, err := control.Open(t.Context(), st, control.Options{})
	require.NoError(t, err)
	for minute := range 5 {
		_, _, err := writer.Advance(t.Context(), candidate("orders", at(time.Duration(minute)*time.Minute)))
		require.NoError(t, err)
		verdict, err := reader.Get(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, at(time.Duration(minute)*time.Minute), verdict.FinalizedUntil)
	}
	_, err = control.Open(t.Context(), mem.New(), control.Options{})
	require.ErrorIs(t, err, delta.ErrNotTable)
}

// Writers of several targets race, some for the same one. Every verdict ends at
// the largest candidate, whoever wins.
func TestRaces(t *testing.T) {
	t.Parallel()
	st := mem.New()
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			table, err := control.Create(context.Background(), st, control.Options{})
			if err != nil {
				t.Errorf("opening: %v", err)
				return
			}
			for i := range 6 {
				target := fmt.Sprint("shared-", i%2)
				if _, _, err := table.Advance(context.Background(), candidate(target, at(time.Duration(i*10+writer)*time.Minute))); err != nil {
					t.Errorf("writer %d: %v", writer, err)
				}
			}
			if _, _, err := table.Advance(context.Background(), candidate(fmt.Sprint("own-", writer), at(0))); err != nil {
				t.Errorf("writer %d: %v", writer, err)
			}
		})
	}
	group.Wait()
	table, err := control.Open(t.Context(), st, control.Options{})
	require.NoError(t, err)
	all, err := table.All(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 6)
	for _, v := range all {
		switch v.Target {
		case "shared-0":
			require.Equal(t, at(43*time.Minute), v.FinalizedUntil)
		case "shared-1":
			require.Equal(t, at(53*time.Minute), v.FinalizedUntil)
		}
	}
}

func TestCompleteFromHoldsEarlierPeriods(t *testing.T) {
	t.Parallel()
	table, err := control.Create(t.Context(), mem.New(), control.Options{})
	require.NoError(t, err)
	c := candidate("orders", at(40*time.Second))
	c.CompleteFrom = at(10 * time.Second)
	v, moved, err := table.Advance(t.Context(), c)
	require.NoError(t, err)
	require.True(t, moved, "where completeness begins is recorded at once")
	require.True(t, v.FinalizedUntil.IsZero(), "the period in which it begins is never final")
	require.Equal(t, control.NotYet, v.Answer(time.Time{}, at(0)))

	c.EndCommitTime = at(2 * time.Minute)
	v, _, err = table.Advance(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, at(2*time.Minute), v.FinalizedUntil)
	require.Equal(t, control.NotYet, v.Answer(time.Time{}, at(0)), "before completeness begins")
	require.Equal(t, control.NotYet, v.Answer(at(0), at(time.Minute)), "it begins inside the period")
	require.Equal(t, control.Final, v.Answer(at(time.Minute), at(2*time.Minute)))
	require.Equal(t, control.NotYet, v.Answer(at(time.Minute), at(2*time.Minute+1)))

	// A later start of the stream does not make older verdicts wrong.
	c.CompleteFrom, c.EndCommitTime = at(time.Hour), at(2*time.Hour)
	v, _, err = table.Advance(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, at(10*time.Second), v.CompleteFrom)
}

// Somebody throws the resume position away, and the table is read whole again: what
// was committed between is in no window.
func TestStreamThatBeginsAboveTheVerdict(t *testing.T) {
	t.Parallel()
	table, err := control.Create(t.Context(), mem.New(), control.Options{})
	require.NoError(t, err)
	_, _, err = table.Advance(t.Context(), candidate("orders", at(10*time.Minute)))
	require.NoError(t, err)
	c := candidate("orders", at(40*time.Minute))
	c.CompleteFrom = at(30 * time.Minute)
	for range 2 {
		_, _, err = table.Advance(t.Context(), c)
		require.NoError(t, err)
	}
	v, err := table.Get(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, []control.Gap{{From: at(10 * time.Minute), To: at(30 * time.Minute)}}, v.Gaps)
	require.Equal(t, control.FinalOverGap, v.Answer(at(20*time.Minute), at(25*time.Minute)))
	require.Equal(t, control.Final, v.Answer(at(31*time.Minute), at(40*time.Minute)))
	require.Equal(t, control.Final, v.Answer(at(0), at(10*time.Minute)))
}

func TestASnapshotHoldsTheVerdict(t *testing.T) {
	t.Parallel()
	table, err := control.Create(t.Context(), mem.New(), control.Options{})
	require.NoError(t, err)
	_, _, err = table.Advance(t.Context(), candidate("orders", at(time.Minute)))
	require.NoError(t, err)
	c := candidate("orders", at(10*time.Minute))
	c.HeldBy = "snapshot 0x0A is not complete"
	v, moved, err := table.Advance(t.Context(), c)
	require.NoError(t, err)
	require.True(t, moved, "that it is held is recorded")
	require.Equal(t, c.HeldBy, v.HeldBy)
	require.Equal(t, at(time.Minute), v.FinalizedUntil)
	v, moved, err = table.Advance(t.Context(), c)
	require.NoError(t, err)
	require.False(t, moved)
	require.Equal(t, control.NotYet, v.Answer(time.Time{}, at(5*time.Minute)))
	v, _, err = table.Advance(t.Context(), candidate("orders", at(10*time.Minute)))
	require.NoError(t, err)
	require.Empty(t, v.HeldBy)
	require.Equal(t, at(10*time.Minute), v.FinalizedUntil)
}

func TestGapsAreMarked(t *testing.T) {
	t.Parallel()
	table, err := control.Create(t.Context(), mem.New(), control.Options{})
	require.NoError(t, err)
	c := candidate("orders", at(10*time.Minute))
	c.Gaps = []control.Gap{{From: at(2 * time.Minute), To: at(4 * time.Minute)}}
	for range 2 { // a replay records it once
		_, _, err = table.Advance(t.Context(), c)
		require.NoError(t, err)
	}
	v, err := table.Get(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, c.Gaps, v.Gaps)
	require.Equal(t, control.FinalOverGap, v.Answer(time.Time{}, at(5*time.Minute)))
	require.Equal(t, control.FinalOverGap, v.Answer(at(3*time.Minute), at(5*time.Minute)))
	require.Equal(t, control.Final, v.Answer(at(4*time.Minute), at(5*time.Minute)))
	require.Equal(t, control.Final, v.Answer(time.Time{}, at(2*time.Minute)))
	require.Equal(t, control.NotYet, v.Answer(time.Time{}, at(11*time.Minute)))
}

// A table of mssql-cdc-pyspark has nine columns. It gets ours, and what only that
// system knows stays.
func TestTableOfTheOtherSystemCarriesOn(t *testing.T) {
	t.Parallel()
	st := mem.New()
	columns := &schema.Struct{}
	for name, typ := range map[string]schema.Type{
		"table_name": schema.String, "finalized_until": schema.TimestampNTZ, "end_lsn": schema.String,
		"end_commit_ts": schema.TimestampNTZ, "updated_at": schema.TimestampNTZ, "applied_lsn": schema.String,
		"snapshot_lsn": schema.String, "open_snapshot_lsn": schema.String, "snapshot_wave": schema.Integer,
	} {
		columns.Fields = append(columns.Fields, schema.Field{Name: name, Type: typ, Nullable: true})
	}
	_, err := delta.Create(t.Context(), st, delta.Spec{Schema: columns, Properties: map[string]string{"mssql_cdc.schema_version": "4"}}, delta.Options{})
	require.NoError(t, err)
	table, err := control.Create(t.Context(), st, control.Options{})
	require.NoError(t, err)
	_, _, err = table.Advance(t.Context(), candidate("bronze", at(time.Minute)))
	require.NoError(t, err)
	opened, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	_, ok := opened.Snapshot().Schema().Field("complete_from")
	require.True(t, ok)
	version, _ := opened.Snapshot().Property("mssql_cdc.schema_version")
	require.Equal(t, "4", version)

	future := mem.New()
	_, err = delta.Create(t.Context(), future, delta.Spec{Schema: columns, Properties: map[string]string{"mssql_cdc.min_version": "5"}}, delta.Options{})
	require.NoError(t, err)
	_, err = control.Create(t.Context(), future, control.Options{})
	require.ErrorContains(t, err, "needs a newer release")
}

func TestVerdictNeverGoesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		table, err := control.Create(ctx, mem.New(), control.Options{})
		require.NoError(t, err)
		var last, largest time.Time
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			end := at(time.Duration(rapid.IntRange(-100, 100).Draw(t, "seconds")) * time.Second)
			if end.After(largest) {
				largest = end
			}
			v, _, err := table.Advance(ctx, candidate("t", end))
			require.NoError(t, err)
			require.False(t, v.FinalizedUntil.Before(last))
			last = v.FinalizedUntil
		}
		require.Equal(t, largest.Truncate(time.Minute), last)
		require.False(t, last.After(largest), "never ahead of what was committed")
	})
}
