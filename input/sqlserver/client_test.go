package sqlserver_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

func TestOpenLearnsTheServer(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.zone = "W. Europe Standard Time"
	client := s.start(t)
	require.Equal(t, sqlserver.Server{
		Name: "STUB", Database: "lab", Version: "16.0.4135.4", Major: 16, EngineEdition: 3, Zone: "W. Europe Standard Time",
	}, client.Server())
	took, err := client.Ping(t.Context())
	require.NoError(t, err)
	require.Positive(t, took)
	require.Equal(t, 1, s.logins)
}

func TestConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*sqlserver.Config)
		want   string
	}{
		"two users":            {func(c *sqlserver.Config) { c.User = "other" }, "user: differs"},
		"two passwords":        {func(c *sqlserver.Config) { c.Password = "An0therSecret" }, "password: differs"},
		"token and user":       {func(c *sqlserver.Config) { c.AccessToken = func(context.Context) (string, error) { return "x", nil } }, "access token: excludes"},
		"no user":              {func(c *sqlserver.Config) { c.ConnectionString = "Server=h" }, "user: neither"},
		"zone":                 {func(c *sqlserver.Config) { c.TimeZone = "Mars" }, "time zone: unknown"},
		"one connection":       {func(c *sqlserver.Config) { c.MaxConnections = 1 }, "at least 2"},
		"reader":               {func(c *sqlserver.Config) { c.Reader = "fast" }, "reader: want auto or driver"},
		"negative timeout":     {func(c *sqlserver.Config) { c.QueryTimeout = -1 }, "timeouts"},
		"no connection string": {func(c *sqlserver.Config) { c.ConnectionString = "" }, "no server given"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newStub().open(t, c.change)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, sqlserver.Fatal, sqlserver.Classify(err))
			require.NotContains(t, err.Error(), "Secret")
		})
	}
}

func TestIdlePollIsOneStatement(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1)
	client := s.start(t)
	s.statements = nil
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	require.Equal(t, lsn(2), head.LSN)
	require.Equal(t, begin(), head.Time)
	require.Len(t, s.statements, 1)
}

func TestNoCommitYet(t *testing.T) {
	t.Parallel()
	head, err := newStub().start(t).MaxLSN(t.Context())
	require.NoError(t, err)
	require.True(t, head.LSN.IsZero())
	require.True(t, head.Time.IsZero())
	require.False(t, head.SeenTime.IsZero())
}

func TestTransientErrorsOfQuestionsAreRetried(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1)
	client := s.start(t)
	failures := 0
	s.before = func(statement string, _ map[string]any) error {
		if !contains(statement, "fn_cdc_get_max_lsn") {
			return nil
		}
		if failures++; failures <= 2 {
			return &tds.ServerError{Number: 1205, Class: 13, State: 1, Text: "deadlock"}
		}
		return nil
	}
	_, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, failures)
}

func TestPermissionErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	s := newStub()
	client := s.start(t)
	asked := 0
	s.before = func(string, map[string]any) error {
		asked++
		return &tds.ServerError{Number: 229, Class: 14, State: 5, Text: "denied"}
	}
	_, err := client.MaxLSN(t.Context())
	require.Equal(t, sqlserver.Permission, sqlserver.Classify(err))
	require.Equal(t, 1, asked)
}

func TestDeadPooledConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 3)
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	for conn := range s.server.Conns() {
		require.NoError(t, conn.Close())
	}
	_, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	for conn := range s.server.Conns() {
		require.NoError(t, conn.Close())
	}
	w, err := readWindow(t, t.Context(), client, l, lsn(1), sqlserver.Limits{})
	require.NoError(t, err)
	require.Len(t, w.rows, 3)
}

func TestCDCDisabled(t *testing.T) {
	t.Parallel()
	s := newStub()
	client := s.start(t)
	s.before = func(string, map[string]any) error {
		return &tds.ServerError{Number: 208, Class: 16, State: 1, Text: "Invalid object name 'cdc.lsn_time_mapping'."}
	}
	_, err := client.MaxLSN(t.Context())
	require.ErrorIs(t, err, sqlserver.ErrCDCDisabled)
	require.Equal(t, sqlserver.Fatal, sqlserver.Classify(err))
}

func TestMoved(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("a", 1, 0, 0, 1)
	s.tables["b"] = &stubTable{min: lsn(1)}
	s.tables["purged"] = &stubTable{min: lsn(4)}
	client := s.start(t)
	s.statements = nil
	cursor := func(name string, after int) sqlserver.Cursor {
		return sqlserver.Cursor{Instance: mssqlcdc.CaptureInstance{Name: name, Table: mssqlcdc.TableID{Schema: "dbo", Name: name}}, After: lsn(after)}
	}
	moved, err := client.Moved(t.Context(), []sqlserver.Cursor{cursor("a", 1), cursor("a", 2), cursor("b", 1), cursor("purged", 1)}, lsn(4))
	require.NoError(t, err)
	require.Len(t, s.statements, 1)
	require.Equal(t, []bool{true, false, false, false}, []bool{moved[0].Moved, moved[1].Moved, moved[2].Moved, moved[3].Moved})
	for _, m := range moved[:3] {
		require.NoError(t, m.Err)
		require.Equal(t, lsn(1), m.MinLSN)
		require.Equal(t, begin(), m.MinLSNTime)
	}
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(moved[3].Err))

	part := client.Idle(layout(t, t.Context(), client, "b"), mssqlcdc.Window{Start: lsn(1), End: lsn(4)}, moved[2], sqlserver.Head{LSN: lsn(4)})
	require.True(t, part.Last)
	require.Zero(t, part.Record.NumRows())
	require.Equal(t, lsn(1), part.Metrics.MinLSN)

	// One table that is gone does not hide the others.
	moved, err = client.Moved(t.Context(), []sqlserver.Cursor{cursor("a", 1), cursor("gone", 1), cursor("b", 1)}, lsn(4))
	require.NoError(t, err)
	require.True(t, moved[0].Moved)
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(moved[1].Err))
	require.NoError(t, moved[2].Err)
	require.Equal(t, "gone", moved[1].Cursor.Instance.Name)
}

func TestInstanceThatIsGoneIsDataLoss(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1, 1)
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	delete(s.tables, "t")
	_, err := readWindow(t, t.Context(), client, l, lsn(1), sqlserver.Limits{})
	var loss *sqlserver.DataLossError
	require.ErrorAs(t, err, &loss)
	require.True(t, loss.MinLSN.IsZero())
	require.ErrorContains(t, err, "is gone")
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(client.CheckRetention(t.Context(), sqlserver.Cursor{Instance: l.Instance, After: lsn(1)})))
}

func TestInstanceThatCaptureHasNotReached(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.tables["t"] = &stubTable{}
	client := s.start(t)
	err := client.CheckRetention(t.Context(), sqlserver.Cursor{Instance: mssqlcdc.CaptureInstance{Name: "t"}, After: lsn(1)})
	require.ErrorIs(t, err, sqlserver.ErrNotYetCaptured)
	require.Equal(t, sqlserver.Transient, sqlserver.Classify(err))
}

// TestCloseUnderASilentNetwork is C-03b: nothing answers any more, not even an attention.
func TestCloseUnderASilentNetwork(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 10)
	var silent atomic.Bool
	s.hooks.Request = func(*tds.Conn, *tds.Request) tds.Fault {
		if silent.Load() {
			return tds.Fault{Action: tds.Hang}
		}
		return tds.Fault{}
	}
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	silent.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := readWindow(t, context.WithoutCancel(t.Context()), client, l, lsn(1), sqlserver.Limits{})
		done <- err
	}()
	require.Eventually(t, func() bool { return s.statementsWith("CURRENT_TIMEZONE_ID") > 0 }, 5*time.Second, time.Millisecond)
	time.Sleep(50 * time.Millisecond)
	begin := time.Now()
	require.NoError(t, client.Close())
	require.Less(t, time.Since(begin), 10*time.Second)
	err := <-done
	require.ErrorIs(t, err, sqlserver.ErrClosed)
	require.Equal(t, sqlserver.Canceled, sqlserver.Classify(err))
	_, err = client.MaxLSN(t.Context())
	require.ErrorIs(t, err, sqlserver.ErrClosed)
}

func TestQueryTimeout(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 10)
	hangs := 0
	s.hooks.Request = func(_ *tds.Conn, req *tds.Request) tds.Fault {
		if batch, ok := req.Body.(*tds.SQLBatch); ok && contains(batch.Text, "fn_cdc_get_max_lsn") && hangs == 0 {
			hangs++
			return tds.Fault{Action: tds.Hang}
		}
		return tds.Fault{}
	}
	client := s.start(t, func(c *sqlserver.Config) { c.QueryTimeout = 200 * time.Millisecond })
	begin := time.Now()
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err, "the second attempt answers")
	require.Equal(t, lsn(2), head.LSN)
	require.Less(t, time.Since(begin), 10*time.Second)
}

func TestRestOfAnErrorDoesNotReachTheNextQuestion(t *testing.T) {
	t.Parallel()
	// C-03: the driver keeps a connection whose response was not read to its end.
	s := newStub()
	s.fill("t", 1)
	client := s.start(t)
	s.before = func(statement string, _ map[string]any) error {
		if contains(statement, "fn_cdc_get_min_lsn") {
			return &tds.ServerError{Number: 50000, Class: 16, State: 1, Text: "?"}
		}
		return nil
	}
	for range 5 {
		_, err := client.MinLSN(t.Context(), "t")
		require.Error(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = client.MaxLSN(ctx)
		cancel()
		require.NoError(t, err)
	}
}
