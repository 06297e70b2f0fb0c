package conformance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// orders is a table with a key that is captured.
func orders(t *testing.T, d *database) {
	t.Helper()
	d.exec(t, "CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, status nvarchar(20) NULL, amount decimal(18,2) NULL)")
	d.track(t, "orders")
}

func changeFacts() []fact {
	return []fact{
		{"change-columns", "A change table has the columns __$start_lsn, __$end_lsn, __$seqval, __$operation, __$update_mask, the captured ones, all of which allow NULL, and __$command_id", func(t *testing.T, d *database) {
			orders(t, d)
			require.Equal(t, []string{
				"__$start_lsn binary 10 false", "__$end_lsn binary 10 true", "__$seqval binary 10 false", "__$operation int 4 false", "__$update_mask varbinary 128 true",
				"id int 4 true", "status nvarchar 40 true", "amount decimal 9 true", "__$command_id int 4 true",
			}, d.lines(t, "SELECT c.name, t.name, c.max_length, c.is_nullable FROM sys.columns AS c JOIN sys.types AS t ON t.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID(N'cdc.dbo_orders_CT') ORDER BY c.column_id"))
		}},
		{"nothing-before-a-scan", "Nothing is visible before a scan, and then all of a transaction is", func(t *testing.T, d *database) {
			orders(t, d)
			d.capture(t)
			before := d.one(t, "SELECT sys.fn_cdc_get_max_lsn()")
			d.exec(t, "BEGIN TRAN; INSERT dbo.orders VALUES (1, N'a', 1); INSERT dbo.orders VALUES (2, N'b', 2); COMMIT")
			require.Empty(t, d.changes(t, "dbo_orders"))
			require.Equal(t, before, d.one(t, "SELECT sys.fn_cdc_get_max_lsn()"))
			d.capture(t)
			require.Equal(t, []string{"2 1", "2 2"}, d.changes(t, "dbo_orders", "id"))
			require.Equal(t, "1", d.one(t, "SELECT COUNT(DISTINCT __$start_lsn) FROM cdc.dbo_orders_CT"), "both rows have the commit's LSN")
			require.Less(t, before, d.one(t, "SELECT sys.fn_cdc_get_max_lsn()"))
		}},
		{"operations", "1 is a delete, 2 an insert, 3 and 4 are an update before and after, which share __$seqval and __$command_id", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "UPDATE dbo.orders SET status = N'b' WHERE id = 1", "DELETE dbo.orders")
			d.capture(t)
			require.Equal(t, []string{"2 a", "3 a", "4 b", "1 b"}, d.changes(t, "dbo_orders", "status"))
			require.Equal(t, "1", d.one(t, "SELECT COUNT(*) FROM (SELECT DISTINCT __$seqval, __$command_id FROM cdc.dbo_orders_CT WHERE __$operation IN (3, 4)) AS pairs"))
		}},
		{"update-mask", "The mask has a bit for each captured column, the first in the lowest bit of the last byte: all for inserts and deletes, the changed ones for updates", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "UPDATE dbo.orders SET amount = 2", "DELETE dbo.orders")
			d.capture(t)
			require.Equal(t, []string{"2 0x07", "3 0x04", "4 0x04", "1 0x07"}, d.lines(t, "SELECT __$operation, __$update_mask FROM cdc.dbo_orders_CT ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation"))
		}},
		{"seqval-below-commit", "__$seqval is below the LSN of its commit, and commits grow in their order", func(t *testing.T, d *database) {
			orders(t, d)
			for range 4 {
				d.exec(t, "INSERT dbo.orders SELECT COALESCE(MAX(id), 0) + 1, N'a', 1 FROM dbo.orders")
			}
			d.capture(t)
			require.Equal(t, "4", d.one(t, "SELECT COUNT(*) FROM cdc.dbo_orders_CT WHERE __$seqval < __$start_lsn"))
			require.Equal(t, []string{"2 1", "2 2", "2 3", "2 4"}, d.changes(t, "dbo_orders", "id"))
		}},
		{"key-change", "A key that changes is a delete and an insert, the delete first by __$command_id", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "UPDATE dbo.orders SET id = 2")
			d.capture(t)
			require.Equal(t, []string{"2 1", "1 1", "2 2"}, d.changes(t, "dbo_orders", "id"))
		}},
		{"key-shift", "Keys that move over each other in one statement end, read by __$command_id, where the table does", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1), (2, N'b', 2), (3, N'c', 3)", "UPDATE dbo.orders SET id = id + 1")
			d.capture(t)
			rows := map[string]string{}
			for _, line := range d.changes(t, "dbo_orders", "id", "status") {
				cells := strings.Fields(line)
				switch cells[0] {
				case "1", "3":
					delete(rows, cells[1])
				default:
					rows[cells[1]] = cells[2]
				}
			}
			require.Equal(t, map[string]string{"2": "a", "3": "b", "4": "c"}, rows)
		}},
		{"rollback", "What is rolled back leaves nothing", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "BEGIN TRAN; INSERT dbo.orders VALUES (1, N'a', 1); ROLLBACK", "INSERT dbo.orders VALUES (2, N'b', 2)")
			d.capture(t)
			require.Equal(t, []string{"2 2"}, d.changes(t, "dbo_orders", "id"))
		}},
		{"same-value", "An update to the same value, and one of columns that are not captured, writes no row", func(t *testing.T, d *database) {
			d.exec(t, "CREATE TABLE dbo.narrow (id int NOT NULL PRIMARY KEY, a int NULL, b int NULL)")
			d.track(t, "narrow", "@captured_column_list = N'id, a'")
			d.exec(t, "INSERT dbo.narrow VALUES (1, 1, 1)", "UPDATE dbo.narrow SET a = 1", "UPDATE dbo.narrow SET b = 9")
			d.capture(t)
			require.Equal(t, []string{"2 1"}, d.changes(t, "dbo_narrow", "a"))
		}},
		{"long-transaction", "A long transaction sorts by its commit, after those that began later and committed before", func(t *testing.T, d *database) {
			orders(t, d)
			long, err := d.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = long.ExecContext(t.Context(), "INSERT dbo.orders VALUES (1, N'long', 1)")
			require.NoError(t, err)
			d.exec(t, "INSERT dbo.orders VALUES (2, N'short', 2)")
			d.capture(t)
			require.Equal(t, []string{"2 short"}, d.changes(t, "dbo_orders", "status"))
			require.NoError(t, long.Commit())
			d.capture(t)
			require.Equal(t, []string{"2 short", "2 long"}, d.changes(t, "dbo_orders", "status"))
		}},
		{"large-columns", "A (max) column that an update left alone is NULL before and has its value after; its bit is not set", func(t *testing.T, d *database) {
			d.exec(t, "CREATE TABLE dbo.notes (id int NOT NULL PRIMARY KEY, a int NULL, note nvarchar(max) NULL)")
			d.track(t, "notes")
			d.exec(t, "INSERT dbo.notes VALUES (1, 1, N'long')", "UPDATE dbo.notes SET a = 2", "UPDATE dbo.notes SET note = NULL", "DELETE dbo.notes")
			d.capture(t)
			require.Equal(t, []string{"2 long", "3 NULL", "4 long", "3 long", "4 NULL", "1 NULL"}, d.changes(t, "dbo_notes", "note"))
		}},
		{"computed-columns", "Computed columns are in the change table, and NULL", func(t *testing.T, d *database) {
			d.exec(t, "CREATE TABLE dbo.sums (id int NOT NULL PRIMARY KEY, a int NOT NULL, twice AS (a * 2))")
			d.track(t, "sums")
			d.exec(t, "INSERT dbo.sums (id, a) VALUES (1, 1)")
			d.capture(t)
			require.Equal(t, []string{"2 1 NULL"}, d.changes(t, "dbo_sums", "a", "twice"))
		}},
		{"heap", "A table without a key is captured, and every update is one", func(t *testing.T, d *database) {
			d.exec(t, "CREATE TABLE dbo.heap (a int NULL)")
			d.track(t, "heap")
			d.exec(t, "INSERT dbo.heap VALUES (1), (1)", "UPDATE dbo.heap SET a = 2")
			d.capture(t)
			require.Equal(t, []string{"2 1", "2 1", "3 1", "4 2", "3 1", "4 2"}, d.changes(t, "dbo_heap", "a"))
		}},
	}
}
