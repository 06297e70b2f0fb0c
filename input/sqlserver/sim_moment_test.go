package sqlserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

func TestSimSnapshotAllowed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	client := l.client()
	err := client.CheckSnapshotAllowed(t.Context())
	var refused *sqlserver.ConfigError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "ALTER DATABASE [lab] SET ALLOW_SNAPSHOT_ISOLATION ON")
	l.exec("ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON")
	require.NoError(t, client.CheckSnapshotAllowed(t.Context()))
}

// TestSimUnchangedSince tells commits before a reading of the clock from those after it, once capture has come so far.
func TestSimUnchangedSince(t *testing.T) {
	t.Parallel()
	clock := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l := newLab(t, sqlserversim.WithClock(clock))
	l.table("id int NOT NULL PRIMARY KEY", "(1)")
	client := l.client()
	instance := l.instance(client, "dbo_t")
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	ask := func(reading string) (unchanged, known bool) {
		unchanged, known, err := client.UnchangedSince(t.Context(), instance, head.LSN, reading)
		require.NoError(t, err)
		return unchanged, known
	}
	read := func() string {
		clock.Advance(time.Second)
		reading, err := client.ServerClock(t.Context())
		require.NoError(t, err)
		clock.Advance(time.Second)
		return reading
	}
	before := read()
	_, known := ask(before)
	require.False(t, known, "capture has not come so far")
	l.exec("INSERT dbo.other VALUES (11)")
	l.capture()
	unchanged, known := ask(before)
	require.True(t, known)
	require.True(t, unchanged, "another table's commit")

	l.exec("INSERT dbo.t VALUES (2)")
	after := read()
	l.exec("INSERT dbo.other VALUES (12)")
	l.capture()
	unchanged, known = ask(before)
	require.True(t, known && unchanged, "that commit came later")
	unchanged, known = ask(after)
	require.True(t, known)
	require.False(t, unchanged)
	require.Empty(t, l.sim.Refused())
}

func TestSimCommitsAfter(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY", "(1)")
	client := l.client()
	start, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	for range 5 {
		l.exec("UPDATE dbo.t SET id = id + 1")
	}
	l.capture()
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	at := start.LSN
	for range 5 {
		next, err := client.CommitsAfter(t.Context(), at, head.LSN, 1)
		require.NoError(t, err)
		require.True(t, at.Less(next))
		at = next
	}
	require.Equal(t, head.LSN, at)
	for n, want := range map[int64]mssqlcdc.LSN{5: head.LSN, 500: head.LSN} {
		got, err := client.CommitsAfter(t.Context(), start.LSN, head.LSN, n)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	none, err := client.CommitsAfter(t.Context(), head.LSN, head.LSN, 1)
	require.NoError(t, err)
	require.True(t, none.IsZero())
}
