package sqlserversim_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// faulty is a server with a table of 1,000 rows and one connection to it.
func faulty(t *testing.T) (*sqlserversim.Server, *sql.DB) {
	t.Helper()
	sim := start(t, sqlserversim.WithoutTLS())
	exec(t, sim, "CREATE TABLE dbo.n (id int PRIMARY KEY, pad char(200) NOT NULL)",
		"SET NOCOUNT ON; DECLARE @i int = 0; WHILE @i < 1000 BEGIN SET @i += 1; INSERT dbo.n VALUES (@i, 'x') END")
	db := connect(t, sim.DSN())
	db.SetMaxOpenConns(1)
	require.NoError(t, db.PingContext(t.Context()))
	return sim, db
}

const readAll = "SELECT id, pad FROM dbo.n ORDER BY id"

// on makes a rule for the reading statement.
func on(rowsFirst int64, a sqlserversim.Action) sqlserversim.Fault {
	return sqlserversim.Fault{Statement: regexp.MustCompile(`FROM dbo\.n`), AfterRows: rowsFirst, Action: a}
}

// TestFaults is the table of simulator.md 5: what go-mssqldb shows of each fault, and whether its connection survives.
func TestFaults(t *testing.T) {
	t.Parallel()
	stream := func(t *testing.T, err error) {
		var s mssql.StreamError
		require.True(t, errors.As(err, &s), "want a StreamError, got %T: %v", err, err)
	}
	number := func(n int32) func(*testing.T, error) {
		return func(t *testing.T, err error) { require.Equal(t, n, sqlError(t, err).Number) }
	}
	for _, tt := range []struct {
		name   string
		fault  sqlserversim.Fault
		atMost int // rows that can have come
		check  func(*testing.T, error)
	}{
		{"close after rows", on(100, sqlserversim.CloseConnection()), 100, stream},
		{"reset after rows", on(100, sqlserversim.ResetConnection()), 100, func(t *testing.T, err error) { require.ErrorContains(t, err, "reset by peer") }},
		{"half a packet", on(10, sqlserversim.HalfPacket()), 0, func(t *testing.T, err error) {
			var op *net.OpError
			require.True(t, errors.As(err, &op) && errors.Is(err, io.ErrUnexpectedEOF), "%T: %v", err, err)
		}},
		{"end without DONE", on(100, sqlserversim.EndWithoutDone()), 100, stream},
		{"unknown token", on(100, sqlserversim.UnknownToken()), 100, stream},
		{"deadlock after rows", on(100, sqlserversim.RaiseError(1205, 13, 51, "")), 100, number(1205)},
		{"lock timeout after rows", on(100, sqlserversim.RaiseError(1222, 16, 51, "")), 100, number(1222)},
		{"error at once", on(0, sqlserversim.RaiseError(8134, 16, 1, "")), 0, number(8134)},
		{"class 20", on(100, sqlserversim.RaiseError(40197, 20, 1, "The service has encountered an error.")), 100, number(40197)},
		{"killed", on(100, sqlserversim.RaiseError(596, 21, 1, "")), 100, number(596)},
		{"severe DONE", on(100, sqlserversim.SevereDone()), 100, func(t *testing.T, err error) {
			var s mssql.ServerError
			require.True(t, errors.As(err, &s), "%T: %v", err, err)
		}},
		{"close before the answer", on(0, sqlserversim.CloseConnection()), 0, func(*testing.T, error) {}},
		{"more rows than there are", on(5000, sqlserversim.RaiseError(8134, 16, 1, "")), 1000, number(8134)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim, db := faulty(t)
			rule := sim.Fault(tt.fault)
			got, err := tryRows(t.Context(), db, readAll)
			require.Error(t, err)
			tt.check(t, err)
			require.LessOrEqual(t, len(got), tt.atMost)
			require.Equal(t, 1, rule.Hits())
			// The rule acted once. A connection that the driver did not see die is met once more.
			require.Eventually(t, func() bool {
				all, err := tryRows(t.Context(), db, readAll)
				return err == nil && len(all) == 1000
			}, wait, tick)
		})
	}
}

func TestFaultHang(t *testing.T) {
	t.Parallel()
	sim, db := faulty(t)
	rule := sim.Fault(on(100, sqlserversim.Hang()))
	done := make(chan error, 1)
	go func() {
		all, err := tryRows(context.Background(), db, readAll)
		if err == nil && len(all) != 1000 {
			err = errors.New("rows are missing")
		}
		done <- err
	}()
	require.Eventually(t, func() bool { return rule.Hits() == 1 }, wait, tick)
	select {
	case err := <-done:
		t.Fatalf("the statement ended while the server hung: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	rule.Release()
	require.NoError(t, <-done)
}

func TestFaultRun(t *testing.T) {
	t.Parallel()
	clock := engine.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithClock(clock))
	tracked(t, sim)
	for i := range 20 {
		clock.Advance(time.Second) // commits of one tick are cleaned up together
		exec(t, sim, fmt.Sprintf("INSERT dbo.orders VALUES (%d, N'x', 1)", i))
	}
	capture(t, sim)
	db := connect(t, sim.DSN())
	sim.Fault(sqlserversim.Fault{Statement: regexp.MustCompile("dbo_orders_CT"), AfterRows: 5, Action: sqlserversim.Run(func(ctx context.Context) error {
		return sim.CleanupBelow(ctx, "dbo_orders", sim.DefaultDB().CDC().Mapping().At(15).StartLSN)
	})})
	require.NotEmpty(t, rows(t, db, "SELECT id FROM cdc.dbo_orders_CT ORDER BY __$start_lsn"))
	require.Less(t, len(rows(t, db, "SELECT id FROM cdc.dbo_orders_CT")), 20, "the clean-up ran in the middle of the read")
}

func TestFaultSlowRows(t *testing.T) {
	t.Parallel()
	sim, db := faulty(t)
	sim.Fault(on(0, sqlserversim.SlowRows(time.Hour)))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := tryRows(ctx, db, readAll)
	require.Error(t, err)
	require.Less(t, time.Since(began), 4*time.Second, "an attention ends slow rows")
	require.Len(t, rows(t, db, readAll), 1000)
}

func TestFaultConditions(t *testing.T) {
	t.Parallel()
	sim, db := faulty(t)
	rule := sim.Fault(sqlserversim.Fault{Statement: regexp.MustCompile("SELECT 7"), Skip: 1, Times: 2, Action: sqlserversim.RaiseError(50001, 16, 1, "injected")})
	var failed []bool
	for range 5 {
		_, err := tryRows(t.Context(), db, "SELECT 7")
		failed = append(failed, err != nil)
	}
	require.Equal(t, []bool{false, true, true, false, false}, failed)
	require.Equal(t, 2, rule.Hits())

	other := sim.Fault(sqlserversim.Fault{Connection: 99, Times: -1, Action: sqlserversim.CloseConnection()})
	login := sim.Fault(sqlserversim.Fault{Login: "nobody", Times: -1, Action: sqlserversim.CloseConnection()})
	require.Equal(t, []string{"1"}, rows(t, db, "SELECT 1"))
	require.Zero(t, other.Hits()+login.Hits())

	always := sim.Fault(sqlserversim.Fault{Statement: regexp.MustCompile("^BEGIN TRANSACTION$"), Times: -1, Action: sqlserversim.RaiseError(3906, 16, 1, "no")})
	_, err := db.BeginTx(t.Context(), nil)
	require.Equal(t, int32(3906), sqlError(t, err).Number)
	always.Remove()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
}

func TestLoginFaults(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	for _, tt := range []struct {
		name   string
		fault  sqlserversim.Fault
		number int32 // 0: the connection dies
	}{
		{"refused at accept", sqlserversim.Fault{When: sqlserversim.AtAccept, Action: sqlserversim.CloseConnection()}, 0},
		{"cut at login", sqlserversim.Fault{When: sqlserversim.AtLogin, Action: sqlserversim.CloseConnection()}, 0},
		{"18456", sqlserversim.Fault{When: sqlserversim.AtLogin, Action: sqlserversim.RaiseError(18456, 14, 1, "Login failed for user 'sa'.")}, 18456},
		{"40613", sqlserversim.Fault{When: sqlserversim.AtLogin, Action: sqlserversim.RaiseError(40613, 17, 1, "Database 'lab' on server 's' is not currently available.")}, 40613},
		{"983", sqlserversim.Fault{When: sqlserversim.AtLogin, Action: sqlserversim.RaiseError(983, 14, 1, "")}, 983},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rule := sim.Fault(tt.fault)
			connector, err := mssql.NewConnector(sim.DSN())
			require.NoError(t, err)
			conn, err := connector.Connect(t.Context())
			if err == nil {
				_ = conn.Close()
			}
			require.Error(t, err)
			if tt.number != 0 {
				require.Equal(t, tt.number, sqlError(t, err).Number)
			}
			require.Equal(t, 1, rule.Hits())
		})
	}
	t.Run("routing", func(t *testing.T) {
		target := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithServerName("TARGET"))
		host, port, err := net.SplitHostPort(target.Addr())
		require.NoError(t, err)
		portNumber, err := strconv.ParseUint(port, 10, 16)
		require.NoError(t, err)
		sim.Fault(sqlserversim.Fault{When: sqlserversim.AtLogin, Action: sqlserversim.RouteTo(host, uint16(portNumber))})
		require.Equal(t, []string{"TARGET"}, rows(t, connect(t, sim.DSN()), "SELECT @@SERVERNAME"))
	})
	require.Equal(t, []string{"SIMULATOR"}, rows(t, connect(t, sim.DSN()), "SELECT @@SERVERNAME"))
}

func TestKill(t *testing.T) {
	t.Parallel()
	sim, db := faulty(t)
	spid := rows(t, db, "SELECT @@SPID")[0]
	exec(t, sim, "KILL "+spid)
	require.Eventually(t, func() bool {
		got, err := tryRows(t.Context(), db, "SELECT @@SPID")
		return err == nil && got[0] != spid
	}, wait, tick)
	require.Error(t, sim.Exec(t.Context(), "KILL 32000"))
}
