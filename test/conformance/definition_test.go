package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func definitionFacts() []fact {
	return []fact{
		{"instances", "An instance is called <schema>_<table>, lists its captured columns, and its metadata hangs on the change table's object id", func(t *testing.T, d *database) {
			orders(t, d)
			require.Equal(t, []string{"dbo_orders true"}, d.lines(t, "SELECT capture_instance, supports_net_changes FROM cdc.change_tables"))
			require.Equal(t, []string{"id int 1", "status nvarchar 2", "amount decimal 3"}, d.lines(t, "SELECT column_name, column_type, column_ordinal FROM cdc.captured_columns WHERE object_id = OBJECT_ID(N'cdc.dbo_orders_CT') ORDER BY column_ordinal"))
			require.Equal(t, []string{"id 1"}, d.lines(t, "SELECT column_name, index_ordinal FROM cdc.index_columns WHERE object_id = OBJECT_ID(N'cdc.dbo_orders_CT')"))
		}},
		{"two-instances", "A table has two instances at most, which both record what comes after the second began", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			d.track(t, "orders", "@capture_instance = N'second'")
			d.exec(t, "INSERT dbo.orders VALUES (2, N'b', 2)")
			d.capture(t)
			require.Equal(t, []string{"2 1", "2 2"}, d.changes(t, "dbo_orders", "id"))
			require.Equal(t, []string{"2 2"}, d.changes(t, "second", "id"))
			d.fails(t, 22962, "EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @capture_instance = N'third', @role_name = NULL")
			require.Equal(t, "2", d.one(t, "SELECT COUNT(*) FROM cdc.dbo_orders_CT AS a JOIN cdc.change_tables AS c ON c.capture_instance = N'second' AND (a.__$start_lsn > c.start_lsn OR a.id = 1)"), "the second begins between the commits")
		}},
		{"add-column", "A column that is added is in the DDL history and not captured, and an update of it alone writes no row", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "ALTER TABLE dbo.orders ADD extra int NULL", "UPDATE dbo.orders SET extra = 1", "UPDATE dbo.orders SET amount = 2, extra = 2")
			d.capture(t)
			require.Equal(t, []string{"2", "3", "4"}, d.changes(t, "dbo_orders"))
			history := d.lines(t, "SELECT required_column_update, ddl_command FROM cdc.ddl_history")
			require.Len(t, history, 1)
			require.Equal(t, "false", strings.Fields(history[0])[0])
			require.Contains(t, history[0], "extra")
		}},
		{"ddl-not-later", "A statement of the DDL history is not above max_lsn once it shows", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "ALTER TABLE dbo.orders ADD extra int NULL", "INSERT dbo.orders (id) VALUES (1)")
			d.capture(t)
			require.Equal(t, "0", d.one(t, "SELECT COUNT(*) FROM cdc.ddl_history WHERE ddl_lsn > sys.fn_cdc_get_max_lsn()"))
		}},
		{"drop-column", "A column that is dropped stays in the change table and is NULL from then on", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "ALTER TABLE dbo.orders DROP COLUMN status", "INSERT dbo.orders VALUES (2, 2)")
			d.capture(t)
			require.Equal(t, []string{"2 1 a", "2 2 NULL"}, d.changes(t, "dbo_orders", "id", "status"))
		}},
		{"alter-column", "A type that grows reaches the change table with the capture of the statement", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "ALTER TABLE dbo.orders ALTER COLUMN status nvarchar(40) NULL", "INSERT dbo.orders VALUES (2, REPLICATE(N'x', 40), 2)")
			d.capture(t)
			d.capture(t)
			require.Equal(t, "80", d.one(t, "SELECT max_length FROM sys.columns WHERE object_id = OBJECT_ID(N'cdc.dbo_orders_CT') AND name = N'status'"))
			require.Equal(t, []string{"2 1", "2 40"}, d.lines(t, "SELECT __$operation, LEN(status) FROM cdc.dbo_orders_CT ORDER BY __$start_lsn, __$seqval"))
		}},
		{"rename-column", "A captured column cannot be renamed", func(t *testing.T, d *database) {
			orders(t, d)
			d.fails(t, 4928, "EXEC sp_rename N'dbo.orders.status', N'state', N'COLUMN'")
		}},
		{"truncate", "A captured table cannot be truncated", func(t *testing.T, d *database) {
			orders(t, d)
			d.fails(t, 4711, "TRUNCATE TABLE dbo.orders")
		}},
		{"disable", "An instance that is disabled is gone with its rows, and min_lsn is zero", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			d.exec(t, "EXEC sys.sp_cdc_disable_table N'dbo', N'orders', N'dbo_orders'")
			d.fails(t, 208, "SELECT COUNT(*) FROM cdc.dbo_orders_CT")
			require.Equal(t, "0x"+strings.Repeat("0", 20), d.one(t, "SELECT sys.fn_cdc_get_min_lsn(N'dbo_orders')"))
		}},
		{"disabled-database", "Without change data capture in the database its functions are Msg 208 or NULL, never a number", func(t *testing.T, d *database) {
			d.exec(t, "EXEC sys.sp_cdc_disable_db")
			rows, err := d.QueryContext(t.Context(), "SELECT sys.fn_cdc_get_max_lsn()")
			if err != nil {
				require.ErrorContains(t, err, "cdc.lsn_time_mapping")
				return
			}
			defer rows.Close()
			for rows.Next() {
				var lsn []byte
				require.NoError(t, rows.Scan(&lsn))
				require.Nil(t, lsn)
			}
		}},
		{"clean-up", "Clean-up moves min_lsn to its mark, and deletes the rows and the mapping below", func(t *testing.T, d *database) {
			orders(t, d)
			for i := range 4 {
				d.exec(t, fmt.Sprintf("INSERT dbo.orders VALUES (%d, N'a', 1)", i), "WAITFOR DELAY '00:00:00.02'")
			}
			d.capture(t)
			mark := d.one(t, "SELECT __$start_lsn FROM cdc.dbo_orders_CT WHERE id = 2")
			d.exec(t, "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_orders', @low_water_mark = "+mark)
			require.Equal(t, mark, d.one(t, "SELECT sys.fn_cdc_get_min_lsn(N'dbo_orders')"))
			require.Equal(t, []string{"2 2", "2 3"}, d.changes(t, "dbo_orders", "id"))
			require.Equal(t, "0", d.one(t, "SELECT COUNT(*) FROM cdc.lsn_time_mapping WHERE start_lsn < "+mark))
		}},
		{"clean-up-mark", "A mark of clean-up must be an LSN of the mapping", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			d.fails(t, 22964, "EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_orders', @low_water_mark = 0x00000000000000000001")
		}},
	}
}
