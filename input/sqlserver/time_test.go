package sqlserver_test

import (
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/zone"
)

// fillOver gives the stub one commit of one row every five minutes, as a server of the zone would write their times.
func (s *stub) fillOver(t require.TestingT, windows string, from time.Time, n int) []time.Time {
	z, err := zone.Parse(windows)
	require.NoError(t, err)
	s.zone = windows
	table := &stubTable{min: lsn(1)}
	var utc []time.Time
	for i := range n {
		at := from.Add(time.Duration(i) * 5 * time.Minute)
		utc = append(utc, at)
		s.mapping = append(s.mapping, entry{lsn(2 + i), z.Wall(at)})
		table.rows = append(table.rows, change{
			pos: mssqlcdc.Position{StartLSN: lsn(2 + i), SeqVal: lsn(1), CommandID: 1, Operation: mssqlcdc.Insert}, id: int64(i),
		})
	}
	s.tables["t"] = table
	return utc
}

// timesOf reads the commit times of one window.
func timesOf(t require.TestingT, c *sqlserver.Client, tt *testing.T, start mssqlcdc.LSN, limits sqlserver.Limits) ([]time.Time, mssqlcdc.Window) {
	l := layout(t, tt.Context(), c, "t")
	head, err := c.MaxLSN(tt.Context())
	require.NoError(t, err)
	plan, err := c.Plan(tt.Context(), l, start, head.LSN, limits)
	require.NoError(t, err)
	var times []time.Time
	var end mssqlcdc.Window
	for part, err := range c.Read(tt.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Head: head, Limits: limits}) {
		require.NoError(t, err)
		column := part.Record.Column(mssqlcdc.IdxCommitTime).(*array.Timestamp)
		for i := range column.Len() {
			times = append(times, column.Value(i).ToTime(arrow.Microsecond))
		}
		end = part.Window
	}
	return times, end
}

func changes(windows string) (time.Time, time.Time) {
	switch windows {
	case "W. Europe Standard Time":
		return time.Date(2025, 10, 25, 22, 2, 0, 0, time.UTC), time.Date(2025, 3, 29, 23, 2, 0, 0, time.UTC)
	case "Eastern Standard Time":
		return time.Date(2025, 11, 2, 3, 2, 0, 0, time.UTC), time.Date(2025, 3, 9, 4, 2, 0, 0, time.UTC)
	case "Lord Howe Standard Time":
		return time.Date(2025, 4, 5, 12, 2, 0, 0, time.UTC), time.Date(2025, 10, 4, 12, 2, 0, 0, time.UTC)
	}
	return time.Date(2019, 2, 16, 23, 2, 0, 0, time.UTC), time.Date(2018, 11, 4, 0, 2, 0, 0, time.UTC) // Sao Paulo
}

// TestCommitTimesOverAChangeOfTheClock reads six hours around each change: in one window, commit by commit, and resumed
// at any commit after clean-up took what was before.
func TestCommitTimesOverAChangeOfTheClock(t *testing.T) {
	t.Parallel()
	for _, windows := range []string{"W. Europe Standard Time", "Eastern Standard Time", "Lord Howe Standard Time", "E. South America Standard Time"} {
		back, forward := changes(windows)
		for name, from := range map[string]time.Time{"set back": back, "set forward": forward} {
			t.Run(windows+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newStub()
				want := s.fillOver(t, windows, from, 72)
				client := s.start(t)
				got, window := timesOf(t, client, t, lsn(1), sqlserver.Limits{})
				require.Equal(t, want, got)
				require.Equal(t, want[71], window.EndTime)

				got, window = timesOf(t, client, t, lsn(1), sqlserver.Limits{Commits: 30, PartRows: 7})
				require.Equal(t, want[:30], got)
				require.Equal(t, want[29], window.EndTime)

				for resume := 0; resume <= 70; resume += 5 {
					later := newStub()
					later.fillOver(t, windows, from, 72)
					later.mapping = later.mapping[resume+1:]
					client := later.start(t)
					client.Remember(lsn(2+resume), want[resume])
					// The state moves on with each window, as a resume position does.
					for at := resume; at < 71; at += 10 {
						got, window := timesOf(t, client, t, lsn(2+at), sqlserver.Limits{Commits: 10})
						last := min(at+10, 71)
						require.Equal(t, want[at+1:last+1], got)
						require.Equal(t, want[last], window.EndTime)
					}
				}
			})
		}
	}
}

// TestHeadInTheRepeatedHour polls as the clock is set back.
func TestHeadInTheRepeatedHour(t *testing.T) {
	t.Parallel()
	s := newStub()
	back, _ := changes("W. Europe Standard Time")
	want := s.fillOver(t, "W. Europe Standard Time", back, 72)
	all := s.mapping
	s.mapping = all[:1]
	client := s.start(t)
	for i := range all {
		s.mu.Lock()
		s.mapping = all[:i+1]
		s.mu.Unlock()
		head, err := client.MaxLSN(t.Context())
		require.NoError(t, err)
		require.Equal(t, want[i], head.Time)
	}
	s.mu.Lock()
	s.statements = nil
	s.mu.Unlock()
	_, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	require.Len(t, s.statements, 1, "once over, the repetition costs nothing")
}

func TestServerWithoutZoneName(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.version, s.offset = "14.0.3456.2", 60
	s.fill("t", 1, 1)
	client := s.start(t)
	require.True(t, client.Server().FixedOffset)
	require.Equal(t, "+01:00", client.Server().Zone)
	require.Zero(t, s.statementsWith("CURRENT_TIMEZONE_ID"))

	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	require.Equal(t, begin().Add(time.Second-time.Hour), head.Time)

	s.mu.Lock()
	s.offset = 120
	s.mu.Unlock()
	l := layout(t, t.Context(), client, "t")
	head, err = client.MaxLSN(t.Context())
	require.NoError(t, err)
	plan, err := client.Plan(t.Context(), l, lsn(1), head.LSN, sqlserver.Limits{})
	require.NoError(t, err)
	for part, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Head: head}) {
		require.NoError(t, err)
		require.Equal(t, begin().Add(time.Second-2*time.Hour), part.Window.EndTime, "the end and the rows agree")
		times := part.Record.Column(mssqlcdc.IdxCommitTime).(*array.Timestamp)
		require.Equal(t, part.Window.EndTime, times.Value(1).ToTime(arrow.Microsecond))
		require.Len(t, part.Warnings, 2)
		require.Contains(t, part.Warnings[0], "does not tell its time zone")
		require.Contains(t, part.Warnings[1], "changed from +01:00 to +02:00")
	}
}

func TestConfiguredZone(t *testing.T) {
	t.Parallel()
	for configured, offset := range map[string]time.Duration{
		"UTC": 0, "W. Europe Standard Time": 2 * time.Hour, "America/New_York": -4 * time.Hour, "+05:30": 5*time.Hour + 30*time.Minute,
	} {
		s := newStub()
		s.version = "14.0.3456.2"
		s.fill("t", 1)
		client := s.start(t, func(c *sqlserver.Config) { c.TimeZone = configured })
		require.False(t, client.Server().FixedOffset)
		head, err := client.MaxLSN(t.Context())
		require.NoError(t, err)
		require.Equal(t, begin().Add(-offset), head.Time, configured)
		require.Zero(t, s.statementsWith("TZOFFSET"))
	}
}

func TestUnknownZoneNameFallsBackToTheOffset(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.zone, s.offset = "Middle Earth Standard Time", -90
	client := s.start(t)
	require.Equal(t, "-01:30", client.Server().Zone)
	require.True(t, client.Server().FixedOffset)
}

func TestCommitTime(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1, 1)
	client := s.start(t)
	at, found, err := client.CommitTime(t.Context(), lsn(2), true)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, begin(), at)
	_, found, err = client.CommitTime(t.Context(), lsn(2).Next(), true)
	require.NoError(t, err)
	require.False(t, found)
	at, found, err = client.CommitTime(t.Context(), lsn(2).Next(), false)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, begin(), at)
	_, found, err = client.CommitTime(t.Context(), lsn(1), false)
	require.NoError(t, err)
	require.False(t, found)
}
