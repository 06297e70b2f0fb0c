package sqlserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// TestSimHealth is what capture tells about itself to a login that may see it, and the grant to one that may not.
func TestSimHealth(t *testing.T) {
	t.Parallel()
	clock := newClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l := newLab(t, sqlserversim.WithClock(clock), sqlserversim.WithLogin("reader", "", false))
	l.exec("CREATE USER reader FOR LOGIN reader")
	client := l.client()
	health, err := client.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, sqlserver.Health{}, health, "capture never ran")
	require.Equal(t, sqlserver.LevelWarning, of(l.examineNothing(client), "capture scan", "lab").Level)

	l.table("id int NOT NULL PRIMARY KEY", "(1)")
	clock.Advance(90 * time.Second)
	health, err = client.Health(t.Context())
	require.NoError(t, err)
	require.True(t, health.Scanned)
	require.Zero(t, health.Errors)
	require.InDelta(t, 90, health.Age.Seconds(), 2)
	require.Equal(t, sqlserver.LevelOK, of(l.examineNothing(client), "capture scan", "lab").Level)

	_, err = l.client("reader").Health(t.Context())
	var denied *sqlserver.PermissionError
	require.ErrorAs(t, err, &denied)
	require.Equal(t, "GRANT VIEW DATABASE PERFORMANCE STATE TO [reader]", denied.Grant)
	require.Empty(t, l.sim.Refused())
}

func (l *lab) examineNothing(c *sqlserver.Client) []sqlserver.Finding {
	l.t.Helper()
	findings, err := c.Examine(l.t.Context(), nil)
	require.NoError(l.t, err)
	return findings
}

// TestReadOnlyIsRefused: a readable secondary lags behind by an unknown time.
func TestReadOnlyIsRefused(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.updateability = "READ_ONLY"
	_, err := s.open(t)
	var refused *sqlserver.ConfigError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "readable secondary")
	require.Equal(t, sqlserver.Fatal, sqlserver.Classify(err))
}
