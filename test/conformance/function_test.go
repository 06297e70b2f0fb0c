package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// between are the bounds of a query function as T-SQL that declares them.
const between = "DECLARE @from binary(10) = sys.fn_cdc_get_min_lsn(N'dbo_orders'), @to binary(10) = sys.fn_cdc_get_max_lsn(); "

func functionFacts() []fact {
	return []fact{
		{"all-changes", "The function of all changes leaves out images before updates unless it is asked for them, and has neither __$end_lsn nor __$command_id", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "UPDATE dbo.orders SET status = N'b'")
			d.capture(t)
			const call = "SELECT __$operation, status FROM cdc.fn_cdc_get_all_changes_dbo_orders(@from, @to, N'%s') ORDER BY __$seqval, __$operation"
			require.Equal(t, []string{"2 a", "4 b"}, d.lines(t, between+fmt.Sprintf(call, "all")))
			require.Equal(t, []string{"2 a", "3 a", "4 b"}, d.lines(t, between+fmt.Sprintf(call, "all update old")))
			d.fails(t, 207, between+"SELECT __$command_id FROM cdc.fn_cdc_get_all_changes_dbo_orders(@from, @to, N'all')")
			d.fails(t, 207, between+"SELECT __$end_lsn FROM cdc.fn_cdc_get_all_changes_dbo_orders(@from, @to, N'all')")
		}},
		{"window-errors", "A window below the instance, above max_lsn, of NULL, or with an option that does not exist is Msg 313", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			for _, bounds := range []string{"0x00000000000000000001, @to, N'all'", "@from, 0xFFFFFFFF000000010001, N'all'", "NULL, @to, N'all'", "@from, @to, N'some'"} {
				d.fails(t, 313, between+"SELECT COUNT(*) FROM cdc.fn_cdc_get_all_changes_dbo_orders("+bounds+")")
			}
		}},
		{"net-changes", "The function of net changes shows what is left of a key over its whole window", func(t *testing.T, d *database) {
			d.exec(t, "CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, status nvarchar(20) NULL, amount decimal(18,2) NULL)")
			d.track(t, "orders", "@supports_net_changes = 1")
			d.exec(t,
				"INSERT dbo.orders VALUES (1, N'a', 1)", "UPDATE dbo.orders SET status = N'b' WHERE id = 1",
				"INSERT dbo.orders VALUES (2, N'a', 1)", "DELETE dbo.orders WHERE id = 2")
			d.capture(t)
			require.Equal(t, []string{"2 1 b"}, d.lines(t, between+"SELECT __$operation, id, status FROM cdc.fn_cdc_get_net_changes_dbo_orders(@from, @to, N'all')"))
		}},
		{"min-lsn", "min_lsn of an instance that is not there is ten bytes of zero", func(t *testing.T, d *database) {
			require.Equal(t, "0x"+strings.Repeat("0", 20), d.one(t, "SELECT sys.fn_cdc_get_min_lsn(N'dbo_nothing')"))
		}},
		{"max-lsn", "max_lsn is the newest LSN of cdc.lsn_time_mapping", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			require.Equal(t, d.one(t, "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping"), d.one(t, "SELECT sys.fn_cdc_get_max_lsn()"))
		}},
		{"lsn-arithmetic", "An LSN is incremented and decremented as a number of 80 bits", func(t *testing.T, d *database) {
			require.Equal(t, []string{"0x00000000000000010000 0x0000000000000000FFFE NULL"}, d.lines(t,
				"SELECT sys.fn_cdc_increment_lsn(0x0000000000000000FFFF), sys.fn_cdc_decrement_lsn(0x0000000000000000FFFF), sys.fn_cdc_increment_lsn(NULL)"))
		}},
		{"lsn-and-time", "An LSN of the mapping has the end time of its transaction, and the time has the LSN; another LSN has none", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)")
			d.capture(t)
			require.Equal(t, "1", d.one(t, "SELECT COUNT(*) FROM cdc.lsn_time_mapping AS m JOIN cdc.dbo_orders_CT AS c ON c.__$start_lsn = m.start_lsn WHERE m.tran_end_time = sys.fn_cdc_map_lsn_to_time(m.start_lsn) AND sys.fn_cdc_map_time_to_lsn(N'largest less than or equal', m.tran_end_time) >= m.start_lsn"))
			require.Equal(t, "NULL", d.one(t, "SELECT sys.fn_cdc_map_lsn_to_time(0x00000000000000000001)"))
		}},
		{"mask-functions", "fn_cdc_get_column_ordinal and fn_cdc_is_bit_set find a changed column in a mask", func(t *testing.T, d *database) {
			orders(t, d)
			d.exec(t, "INSERT dbo.orders VALUES (1, N'a', 1)", "UPDATE dbo.orders SET amount = 2")
			d.capture(t)
			require.Equal(t, []string{"2 true true", "3 false true", "4 false true"}, d.lines(t, `SELECT __$operation,
				sys.fn_cdc_is_bit_set(sys.fn_cdc_get_column_ordinal(N'dbo_orders', N'status'), __$update_mask),
				sys.fn_cdc_is_bit_set(sys.fn_cdc_get_column_ordinal(N'dbo_orders', N'amount'), __$update_mask)
				FROM cdc.dbo_orders_CT ORDER BY __$start_lsn, __$seqval, __$operation`))
		}},
	}
}
