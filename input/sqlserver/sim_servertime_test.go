package sqlserver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// TestSimServerTime compares with commit times, whatever zone the client was told.
func TestSimServerTime(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for name, at := range map[string]time.Time{
		"winter": time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC), "summer": time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC),
		"the repeated hour, first": time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), "second": time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := engine.NewManualClock(at)
			l := newLab(t, sqlserversim.WithClock(clock), sqlserversim.WithTimeZone("W. Europe Standard Time", berlin))
			now, err := l.client().ServerTime(t.Context())
			require.NoError(t, err)
			require.Equal(t, at, now)
		})
	}
	clock := engine.NewManualClock(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC))
	l := newLab(t, sqlserversim.WithClock(clock), sqlserversim.WithTimeZone("W. Europe Standard Time", berlin))
	wrong, err := sqlserver.Open(t.Context(), sqlserver.Config{ConnectionString: l.sim.DSN(), TimeZone: "UTC"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, wrong.Close()) })
	require.NoError(t, l.sim.Idle(t.Context()))
	head, err := wrong.MaxLSN(t.Context())
	require.NoError(t, err)
	now, err := wrong.ServerTime(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, head.Time, now, time.Minute, "both an hour wrong")
}
