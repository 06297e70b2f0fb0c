package sqlserversim_test

import (
	"context"
	"crypto/x509"
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

func TestEncryption(t *testing.T) {
	t.Parallel()
	t.Run("on by default", func(t *testing.T) {
		t.Parallel()
		sim := start(t)
		db := connect(t, sim.DSN())
		require.Equal(t, []string{"TRUE"}, rows(t, db, "SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID"))
		require.Equal(t, []string{"1"}, rows(t, connect(t, sim.DSNs().ADO), "SELECT 1"))
	})
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		sim := start(t, sqlserversim.WithoutTLS())
		require.Nil(t, sim.CACertPEM())
		db := connect(t, sim.DSN())
		require.Equal(t, []string{"FALSE"}, rows(t, db, "SELECT encrypt_option FROM sys.dm_exec_connections WHERE session_id = @@SPID"))
		require.Equal(t, []string{"1"}, rows(t, connect(t, sim.DSNs().ADO), "SELECT 1"))
	})
	t.Run("the certificate verifies against its authority", func(t *testing.T) {
		t.Parallel()
		sim := start(t)
		require.True(t, x509.NewCertPool().AppendCertsFromPEM(sim.CACertPEM()))
		file := filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(file, sim.CACertPEM(), 0o600))
		_, port, err := net.SplitHostPort(sim.Addr())
		require.NoError(t, err)
		dsn := "sqlserver://sa:" + sqlserversim.DefaultPassword + "@localhost:" + port + "?database=lab&encrypt=true&certificate=" + file
		require.Equal(t, []string{"1"}, rows(t, connect(t, dsn), "SELECT 1"))
		strict := "sqlserver://sa:" + sqlserversim.DefaultPassword + "@localhost:" + port + "?database=lab&encrypt=strict&certificate=" + file
		require.Equal(t, []string{"1"}, rows(t, connect(t, strict), "SELECT 1"))
	})
}

func TestLogin(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithDatabase("lab"), sqlserversim.WithDatabase("other"),
		sqlserversim.WithLogin("reader", "Reader-Pw1", false), sqlserversim.WithLogin("boss", "Boss-Pw1", true))
	exec(t, sim, "CREATE USER reader FOR LOGIN reader", "CREATE LOGIN gone WITH PASSWORD = 'Gone-Pw1'; ALTER LOGIN gone DISABLE")
	dsn := func(user, password, database string) string {
		return "sqlserver://" + user + ":" + password + "@" + sim.Addr() + "?encrypt=disable&database=" + database
	}
	for _, tt := range []struct {
		name, dsn string
		number    int32
		class     uint8
		text      string
	}{
		{"wrong password", dsn("reader", "nonsense", "lab"), 18456, 14, "Login failed for user 'reader'."},
		{"unknown login", dsn("nobody", "x", "lab"), 18456, 14, "Login failed for user 'nobody'."},
		{"disabled login", dsn("gone", "Gone-Pw1", "lab"), 18470, 14, "Login failed for user 'gone'. Reason: The account is disabled."},
		{"no such database", dsn("boss", "Boss-Pw1", "nowhere"), 4060, 11, "Cannot open database \"nowhere\" requested by the login. The login failed."},
		{"a database without a user", dsn("reader", "Reader-Pw1", "other"), 4060, 11, "Cannot open database \"other\" requested by the login. The login failed."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := connect(t, tt.dsn).PingContext(t.Context())
			all := sqlError(t, err).All
			require.NotEmpty(t, all)
			e := all[0]
			require.Equal(t, tt.number, e.Number)
			require.Equal(t, tt.class, e.Class)
			require.Equal(t, uint8(1), e.State)
			require.Equal(t, tt.text, e.Message)
			require.Equal(t, "SIMULATOR", e.ServerName)
			if tt.number == 4060 {
				require.Equal(t, int32(18456), all[1].Number)
			}
		})
	}
	db := connect(t, dsn("reader", "Reader-Pw1", "lab"))
	require.Equal(t, []string{"reader|reader|lab|0"}, rows(t, db, "SELECT SUSER_SNAME(), USER_NAME(), DB_NAME(), IS_SRVROLEMEMBER('sysadmin')"))
	require.Equal(t, []string{"boss|dbo|1"}, rows(t, connect(t, dsn("boss", "Boss-Pw1", "other")), "SELECT ORIGINAL_LOGIN(), USER_NAME(), IS_MEMBER('db_owner')"))

	_, err := db.ExecContext(t.Context(), "USE other")
	e := sqlError(t, err)
	require.Equal(t, int32(916), e.Number)
	require.Equal(t, uint8(14), e.Class)
	_, err = db.ExecContext(t.Context(), "USE nowhere")
	require.Equal(t, int32(911), sqlError(t, err).Number)
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		year  int
		major string
		zone  bool
	}{{2016, "13", false}, {2017, "14", false}, {2019, "15", false}, {2022, "16", true}, {2025, "17", true}} {
		t.Run(tt.major, func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation("Europe/Berlin")
			require.NoError(t, err)
			sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithVersion(tt.year), sqlserversim.WithTimeZone("W. Europe Standard Time", loc))
			db := connect(t, sim.DSN())
			require.Equal(t, []string{tt.major + "|3"}, rows(t, db, "SELECT SERVERPROPERTY('ProductMajorVersion'), CAST(SERVERPROPERTY('EngineEdition') AS int)"))
			require.Contains(t, rows(t, db, "SELECT @@VERSION")[0], "Microsoft SQL Server")
			zone, err := tryRows(t.Context(), db, "SELECT CURRENT_TIMEZONE_ID()")
			if tt.zone {
				require.NoError(t, err)
				require.Equal(t, []string{"W. Europe Standard Time"}, zone)
				return
			}
			require.Equal(t, int32(195), sqlError(t, err).Number)
			// The name does not compile even in a branch that is not taken [M22].
			_, err = tryRows(t.Context(), db, "SELECT CASE WHEN 1 = 0 THEN CURRENT_TIMEZONE_ID() ELSE 'x' END")
			require.Equal(t, int32(195), sqlError(t, err).Number)
		})
	}
}

func TestTransactionsOverTheWire(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	exec(t, sim, "CREATE TABLE dbo.t (id int PRIMARY KEY, v int)", "ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON", "INSERT dbo.t VALUES (1, 10)")
	db := connect(t, sim.DSN())
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSnapshot})
	require.NoError(t, err)
	require.Equal(t, []string{"10|1"}, rows(t, tx, "SELECT v, @@TRANCOUNT FROM dbo.t"))
	exec(t, sim, "UPDATE dbo.t SET v = 11")
	require.Equal(t, []string{"10"}, rows(t, tx, "SELECT v FROM dbo.t"), "a snapshot keeps its versions")
	require.NoError(t, tx.Commit())
	require.Equal(t, []string{"11"}, rows(t, db, "SELECT v FROM dbo.t"))

	tx, err = db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT dbo.t VALUES (2, 20)")
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	require.Equal(t, []string{"1"}, rows(t, db, "SELECT COUNT(*) FROM dbo.t"))

	require.Equal(t, []string{"1|2|1|0"}, rows(t, db, `DECLARE @a int, @b int, @c int;
		BEGIN TRAN; SET @a = @@TRANCOUNT; BEGIN TRAN; SET @b = @@TRANCOUNT; COMMIT; SET @c = @@TRANCOUNT; ROLLBACK;
		SELECT @a, @b, @c, @@TRANCOUNT`))
	require.Equal(t, []string{"2"}, rows(t, db, `SET NOCOUNT ON; BEGIN TRAN; INSERT dbo.t VALUES (3, 30); SAVE TRAN s; INSERT dbo.t VALUES (4, 40);
		ROLLBACK TRAN s; COMMIT; SELECT COUNT(*) FROM dbo.t`))
	_, err = db.ExecContext(t.Context(), "COMMIT")
	require.Equal(t, int32(3902), sqlError(t, err).Number)
}

func TestResetConnection(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	db := connect(t, sim.DSN())
	db.SetMaxOpenConns(1)
	_, err := db.ExecContext(t.Context(), "SET LOCK_TIMEOUT 1234; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN")
	require.NoError(t, err)
	// The pool gives the connection back with the reset bit set.
	require.Equal(t, []string{"-1|0|2"}, rows(t, db, `SELECT @@LOCK_TIMEOUT, @@TRANCOUNT, transaction_isolation_level
		FROM sys.dm_exec_sessions WHERE session_id = @@SPID`))
}

func TestAttention(t *testing.T) {
	t.Parallel()
	for _, dsnOf := range []struct {
		name string
		opts []sqlserversim.Option
	}{{"clear", []sqlserversim.Option{sqlserversim.WithoutTLS()}}, {"tls", nil}} {
		t.Run(dsnOf.name, func(t *testing.T) {
			t.Parallel()
			sim := start(t, dsnOf.opts...)
			db := connect(t, sim.DSN())
			db.SetMaxOpenConns(1)
			// Closing early in the middle of a rowset that would take for ever.
			r, err := db.QueryContext(t.Context(), "WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3000000) SELECT i FROM n OPTION (MAXRECURSION 0)")
			require.NoError(t, err)
			for range 10 {
				require.True(t, r.Next())
			}
			require.NoError(t, r.Close())
			require.Equal(t, []string{"1"}, rows(t, db, "SELECT 1"), "the connection is usable afterwards")
			// A context that ends while the server waits.
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			began := time.Now()
			_, err = tryRows(ctx, db, "WAITFOR DELAY '00:00:30'; SELECT 1")
			require.Error(t, err)
			require.Less(t, time.Since(began), 4*time.Second)
			require.Equal(t, []string{"2"}, rows(t, db, "SELECT 2"))
			require.GreaterOrEqual(t, sim.Counters().Attentions, int64(1))
		})
	}
}

func TestManyConnections(t *testing.T) {
	t.Parallel()
	sim := start(t)
	tracked(t, sim)
	db := connect(t, sim.DSN())
	var wg sync.WaitGroup
	errs := make(chan error, 20)
	for n := range 20 {
		wg.Go(func() {
			conn, err := db.Conn(t.Context())
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close()
			for i := range 10 {
				if _, err := conn.ExecContext(t.Context(), "INSERT dbo.orders VALUES (@p1, @p2, 1.5)", n*100+i, "x"); err != nil {
					errs <- err
					return
				}
				if _, err := tryRows(t.Context(), conn, "SELECT COUNT(*) FROM cdc.dbo_orders_CT; SELECT sys.fn_cdc_get_max_lsn()"); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	capture(t, sim)
	require.Equal(t, []string{"200"}, rows(t, db, "SELECT COUNT(*) FROM cdc.dbo_orders_CT WHERE __$operation = 2"))
}

func TestVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim, err := sqlserversim.Start(sqlserversim.WithoutListener(), sqlserversim.WithCaptureInterval(5*time.Second))
		require.NoError(t, err)
		connector, err := mssql.NewConnector(sim.DSN())
		require.NoError(t, err)
		connector.Dialer = sim.Dialer()
		db := sql.OpenDB(connector)
		for _, b := range []string{"CREATE TABLE dbo.t (id int PRIMARY KEY)", "EXEC sys.sp_cdc_enable_db",
			"EXEC sys.sp_cdc_enable_table 'dbo', 't', @role_name = NULL", "INSERT dbo.t VALUES (1)"} {
			_, err := db.ExecContext(t.Context(), b)
			require.NoError(t, err, b)
		}
		began := time.Now()
		for len(rows(t, db, "SELECT id FROM cdc.dbo_t_CT")) == 0 {
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, time.Since(began), 10*time.Second)
		time.Sleep(time.Hour)
		idle := rows(t, db, "SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE tran_id = 0x00")
		require.NotEqual(t, []string{"0"}, idle, "an hour of quiet leaves idle entries")
		require.NoError(t, db.Close())
		require.NoError(t, sim.Close())
	})
}

// TestLocks: a reader under READ COMMITTED waits for a writer, LOCK_TIMEOUT ends the wait with 1222, and a cycle ends with 1205.
func TestLocks(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	exec(t, sim, "CREATE TABLE dbo.t (id int PRIMARY KEY, v int)", "INSERT dbo.t VALUES (1, 1), (2, 2)")
	db := connect(t, sim.DSN())
	one, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = one.ExecContext(t.Context(), "UPDATE dbo.t SET v = 10 WHERE id = 1")
	require.NoError(t, err)
	_, err = tryRows(t.Context(), db, "SET LOCK_TIMEOUT 50; SELECT v FROM dbo.t WHERE id = 1")
	e := sqlError(t, err)
	require.Equal(t, int32(1222), e.Number)
	require.Equal(t, "Lock request time out period exceeded.", e.Message)
	require.Equal(t, []string{"10"}, rows(t, db, "SELECT v FROM dbo.t WITH (NOLOCK) WHERE id = 1"))
	require.Equal(t, []string{"2"}, rows(t, db, "SELECT v FROM dbo.t WITH (READPAST)"))

	two, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = two.ExecContext(t.Context(), "UPDATE dbo.t SET v = 20 WHERE id = 2")
	require.NoError(t, err)
	waits := make(chan error, 1)
	go func() {
		_, err := one.ExecContext(t.Context(), "UPDATE dbo.t SET v = 11 WHERE id = 2")
		waits <- err
	}()
	time.Sleep(20 * time.Millisecond)
	_, victim := two.ExecContext(t.Context(), "UPDATE dbo.t SET v = 21 WHERE id = 1")
	other := <-waits
	if victim == nil {
		victim, other = other, victim
	}
	require.NoError(t, other)
	e = sqlError(t, victim)
	require.Equal(t, int32(1205), e.Number)
	require.Equal(t, uint8(13), e.Class)
	_, _ = one.Rollback(), two.Rollback()
	require.Equal(t, []string{"1", "2"}, rows(t, db, "SELECT v FROM dbo.t ORDER BY id"))
}

func TestReadCommittedSnapshot(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS())
	exec(t, sim, "ALTER DATABASE lab SET READ_COMMITTED_SNAPSHOT ON", "CREATE TABLE dbo.t (id int PRIMARY KEY, v int)", "INSERT dbo.t VALUES (1, 1)")
	db := connect(t, sim.DSN())
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE dbo.t SET v = 2")
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, rows(t, db, "SELECT v FROM dbo.t"), "a reader does not wait")
	require.NoError(t, tx.Commit())
	require.Equal(t, []string{"2"}, rows(t, db, "SELECT v FROM dbo.t"))
}

// TestEnableInsideATransaction: enabling a table is part of the open transaction, also when that has changed the table: its own session
// sees it, all others at the commit, and a rollback takes it back.
func TestEnableInsideATransaction(t *testing.T) {
	t.Parallel()
	sim := start(t, sqlserversim.WithoutTLS(), sqlserversim.WithLogin("reader", "", false))
	exec(t, sim, "CREATE TABLE dbo.a (id int PRIMARY KEY)", "EXEC sys.sp_cdc_enable_db")
	db := connect(t, sim.DSN())
	const help, enable = "EXEC sys.sp_cdc_help_change_data_capture", "EXEC sys.sp_cdc_enable_table 'dbo', 'a', @role_name = NULL"
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		tx, err := db.Conn(t.Context())
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "BEGIN TRAN; INSERT dbo.a VALUES (1); "+enable+"; INSERT dbo.a VALUES (2)")
		require.NoError(t, err)
		require.Len(t, rows(t, tx, help), 1)
		require.Equal(t, []string{"true"}, rows(t, tx, "SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 'a'"))
		require.Empty(t, rows(t, db, help))
		_, err = tx.ExecContext(t.Context(), end)
		require.NoError(t, err)
		require.NoError(t, tx.Close())
	}
	require.Len(t, rows(t, db, help), 1)
	capture(t, sim)
	require.Equal(t, []string{"2"}, rows(t, db, "SELECT id FROM cdc.dbo_a_CT"), "what was logged after the call")

	_, err := db.ExecContext(t.Context(), "BEGIN TRAN; EXEC sys.sp_cdc_disable_table 'dbo', 'a', 'all'; ROLLBACK")
	require.NoError(t, err)
	exec(t, sim, "CREATE USER reader FOR LOGIN reader; GRANT SELECT ON dbo.a TO reader")
	require.Equal(t, []string{"2"}, rows(t, connect(t, sim.DSN("reader")), "SELECT id FROM cdc.fn_cdc_get_all_changes_dbo_a(sys.fn_cdc_get_min_lsn('dbo_a'), sys.fn_cdc_get_max_lsn(), 'all')"),
		"everybody may call its functions as before")
	_, err = db.ExecContext(t.Context(), "BEGIN TRAN; EXEC sys.sp_cdc_disable_table 'dbo', 'a', 'all'; TRUNCATE TABLE dbo.a; "+enable+"; COMMIT")
	require.NoError(t, err)
	require.Len(t, rows(t, db, help), 1)
	require.Empty(t, rows(t, db, "SELECT id FROM cdc.dbo_a_CT"))
}

func TestCounters(t *testing.T) {
	t.Parallel()
	sim, db := faulty(t)
	before := sim.Counters()
	require.Len(t, rows(t, db, readAll), 1000)
	after := sim.Counters()
	require.Equal(t, int64(1000), after.Rows-before.Rows)
	require.Equal(t, int64(1), after.Statements-before.Statements)
	require.Greater(t, after.Sent-before.Sent, int64(200_000))
	require.Positive(t, after.Received-before.Received)
	require.Equal(t, int64(1), after.Connections)
	require.Equal(t, readAll, sim.Statements()[len(sim.Statements())-1])
	waits := rows(t, db, "SELECT waiting_tasks_count FROM sys.dm_exec_session_wait_stats WHERE session_id = @@SPID AND wait_type = 'ASYNC_NETWORK_IO'")
	require.Len(t, waits, 1)
	sim.ResetStatements()
	require.Empty(t, sim.Statements())
}
