package conformance

import (
	"context"
	"database/sql"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// as runs a function with the database opened by a login of its own, which is a user
// called reader.
func (d *database) as(t *testing.T, run func(reader *database)) {
	t.Helper()
	const password = "Conf0rm-ance"
	login := d.name + "_reader"
	d.exec(t, "CREATE LOGIN "+login+" WITH PASSWORD = N'"+password+"'", "CREATE USER reader FOR LOGIN "+login)
	t.Cleanup(func() {
		_, err := d.ExecContext(context.WithoutCancel(t.Context()), "DROP USER reader; DROP LOGIN "+login)
		require.NoError(t, err)
	})
	parsed, err := url.Parse(d.dsn)
	require.NoError(t, err)
	parsed.User = url.UserPassword(login, password)
	db, err := sql.Open("sqlserver", parsed.String())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	run(&database{DB: db, dsn: parsed.String(), name: d.name, real: d.real})
}

func serverFacts() []fact {
	return []fact{
		{"select-on-the-change-table", "A change table is read with SELECT on it alone", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			d.as(t, func(reader *database) {
				reader.fails(t, 229, "SELECT id FROM cdc.dbo_orders_CT")
				d.exec(t, "GRANT SELECT ON cdc.dbo_orders_CT TO reader")
				require.Equal(t, "1", reader.one(t, "SELECT id FROM cdc.dbo_orders_CT"))
			})
		}},
		{"hidden-instances", "Who may not read all captured columns of the source is not told of its instance", func(t *testing.T, d *database) {
			orders(t, d)
			d.as(t, func(reader *database) {
				const help = "EXEC sys.sp_cdc_help_change_data_capture"
				require.Empty(t, reader.query(t, help))
				d.exec(t, "GRANT SELECT ON dbo.orders TO reader")
				require.Len(t, reader.query(t, help), 1)
				d.exec(t, "DENY SELECT ON dbo.orders (amount) TO reader")
				require.Empty(t, reader.query(t, help))
			})
		}},
		{"snapshot-isolation", "SNAPSHOT isolation that is not allowed is Msg 3952; allowed, a transaction sees the rows as they were at its first read", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION OFF")
			const count = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT COUNT(*) FROM dbo.orders"
			d.fails(t, 3952, count)
			d.exec(t, "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
			tx, err := d.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSnapshot})
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback()) }()
			require.Equal(t, [][]string{{"1"}}, ask(t, tx, "SELECT COUNT(*) FROM dbo.orders"))
			d.exec(t, "INSERT dbo.orders VALUES (2, N'b', 2)")
			require.Equal(t, [][]string{{"1"}}, ask(t, tx, "SELECT COUNT(*) FROM dbo.orders"))
		}},
		{"lock-timeout", "A statement that waits longer than LOCK_TIMEOUT for a writer is Msg 1222", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			writer, err := d.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, writer.Rollback()) }()
			_, err = writer.ExecContext(t.Context(), "UPDATE dbo.orders SET amount = 2")
			require.NoError(t, err)
			d.fails(t, 1222, "SET LOCK_TIMEOUT 50; SELECT COUNT(*) FROM dbo.orders WITH (READCOMMITTEDLOCK)")
		}},
		{"change-tables-do-not-wait", "A change table is read while its source is being written", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			writer, err := d.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, writer.Rollback()) }()
			_, err = writer.ExecContext(t.Context(), "UPDATE dbo.orders SET amount = 2")
			require.NoError(t, err)
			require.Equal(t, []string{"2 1"}, d.changes(t, "dbo_orders", "id"))
		}},
		{"mapping-time", "Times of the mapping are the server's own clock, in its zone", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			require.Equal(t, "1", d.one(t, "SELECT COUNT(*) FROM cdc.lsn_time_mapping AS m JOIN cdc.dbo_orders_CT AS c ON c.__$start_lsn = m.start_lsn WHERE ABS(DATEDIFF(second, m.tran_end_time, GETDATE())) < 300"))
		}},
		{"scan-sessions", "A scan shows in sys.dm_cdc_log_scan_sessions", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			require.NotEqual(t, "0", d.one(t, "SELECT COUNT(*) FROM sys.dm_cdc_log_scan_sessions WHERE session_id > 0"))
		}},
		{"syntax-error", "A statement that is none is Msg 102", func(t *testing.T, d *database) {
			d.fails(t, 102, "SELECT id FORM dbo.orders")
		}},
		{"no-such-object", "What is not there is Msg 208, a procedure that is not there Msg 2812", func(t *testing.T, d *database) {
			d.fails(t, 208, "SELECT * FROM dbo.nothing")
			d.fails(t, 2812, "EXEC dbo.nothing")
		}},
		{"waitfor", "WAITFOR DELAY waits", func(t *testing.T, d *database) {
			begin := time.Now()
			d.exec(t, "WAITFOR DELAY '00:00:00.2'")
			require.GreaterOrEqual(t, time.Since(begin), 200*time.Millisecond)
		}},
	}
}
