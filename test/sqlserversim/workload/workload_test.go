package workload_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

func start(t testing.TB) *sqlserversim.Server {
	t.Helper()
	sim, err := sqlserversim.Start(sqlserversim.WithoutTLS(), sqlserversim.WithCaptureInterval(0))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	return sim
}

func texts(row sqltype.Row) string {
	out := make([]string, len(row))
	for i, v := range row {
		out[i] = workload.Text(v)
		if v.IsNull() {
			out[i] = "NULL"
		}
	}
	return strings.Join(out, "|")
}

// TestOrdersTruth: the change tables hold exactly what the workload says, in its order, and the tables hold its rows.
func TestOrdersTruth(t *testing.T) {
	t.Parallel()
	sim := start(t)
	const seed = 11
	orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: seed})
	require.NoError(t, err)
	require.NoError(t, orders.Run(t.Context(), 300))
	require.NoError(t, sim.Capture(t.Context()))
	truth := orders.Truth()
	for _, op := range []int{1, 2, 3, 4} {
		require.NotZero(t, truth.CountOperation("dbo.orders", op), "operation %d (seed %d)", op, seed)
		require.NotZero(t, truth.CountOperation("dbo.order_lines", op), "operation %d (seed %d)", op, seed)
	}
	for table, instance := range map[string]string{"dbo.orders": "dbo_orders", "dbo.order_lines": "dbo_order_lines"} {
		columns := strings.Join(truth.Columns[table], ", ")
		res, err := sim.Query(t.Context(), fmt.Sprintf("SELECT __$operation, %s FROM cdc.%s_CT ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation", columns, instance))
		require.NoError(t, err)
		var want, got []string
		for _, c := range truth.Changes {
			if c.Table == table {
				want = append(want, fmt.Sprint(c.Operation)+"|"+texts(c.Values))
			}
		}
		for _, r := range res.Rows {
			got = append(got, texts(r))
		}
		require.Equal(t, want, got, "%s (seed %d)", table, seed)

		res, err = sim.Query(t.Context(), "SELECT "+columns+" FROM "+table)
		require.NoError(t, err)
		require.Len(t, res.Rows, len(truth.Rows[table]))
		for _, r := range res.Rows {
			key := fmt.Sprint(r[0].Int64())
			if table == "dbo.order_lines" {
				key += "/" + fmt.Sprint(r[1].Int64())
			}
			require.Equal(t, texts(truth.Rows[table][key]), texts(r), "%s %s (seed %d)", table, key, seed)
		}
	}
}

func TestOrdersRepeat(t *testing.T) {
	t.Parallel()
	var first workload.Truth
	for i := range 2 {
		sim := start(t)
		orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: 3})
		require.NoError(t, err)
		require.NoError(t, orders.Run(t.Context(), 50))
		if i == 0 {
			first = orders.Truth()
			continue
		}
		require.Equal(t, first, orders.Truth())
	}
}

// TestTypes: every type goes through INSERT, capture, the change table, the wire and go-mssqldb.
func TestTypes(t *testing.T) {
	t.Parallel()
	sim := start(t)
	truth, err := workload.WriteTypes(t.Context(), sim)
	require.NoError(t, err)
	require.NoError(t, sim.Capture(t.Context()))
	db, err := sql.Open("sqlserver", sim.DSN())
	require.NoError(t, err)
	defer db.Close()
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM cdc.dbo_all_types_CT").Scan(&n))
	require.Equal(t, truth.Changes, n)
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM dbo.all_types").Scan(&n))
	require.Equal(t, truth.Rows, n)
	for _, table := range []string{"dbo.all_types", "cdc.dbo_all_types_CT"} {
		for _, c := range workload.TypeColumns() {
			rows, err := db.QueryContext(t.Context(), fmt.Sprintf("SELECT id, %s FROM %s", c.Name, table))
			require.NoError(t, err, c.Name)
			for rows.Next() {
				var id int
				var v any
				require.NoError(t, rows.Scan(&id, &v), "%s.%s", table, c.Name)
				if table == "dbo.all_types" {
					if id == 1 || id == 2 {
						require.NotNil(t, v, "%s row %d", c.Name, id)
					} else if id == 0 {
						require.Nil(t, v, "%s row %d", c.Name, id)
					}
				}
			}
			require.NoError(t, rows.Err(), "%s.%s", table, c.Name)
			require.NoError(t, rows.Close())
		}
	}
}

func TestHugeTransaction(t *testing.T) {
	t.Parallel()
	sim := start(t)
	require.NoError(t, workload.HugeTransaction(t.Context(), sim, 5500))
	require.NoError(t, sim.Capture(t.Context()))
	res, err := sim.Query(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT __$start_lsn), MAX(id) FROM cdc.dbo_huge_CT")
	require.NoError(t, err)
	require.Equal(t, "5500|1|5500", texts(res.Rows[0]))
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	for _, shape := range []workload.Shape{workload.Narrow, workload.Wide} {
		t.Run(string(shape), func(t *testing.T) {
			t.Parallel()
			sim := start(t)
			truth, err := workload.Backlog(t.Context(), sim, shape, 10_000, 100)
			require.NoError(t, err)
			require.Equal(t, int64(100), truth.Transactions)
			res, err := sim.Query(t.Context(), fmt.Sprintf("SELECT COUNT(*), COUNT(DISTINCT __$start_lsn), MIN(id), MAX(id) FROM cdc.%s_CT", truth.Instance))
			require.NoError(t, err)
			require.Equal(t, "10000|100|1|10000", texts(res.Rows[0]))
			res, err = sim.Query(t.Context(), "SELECT sys.fn_cdc_get_max_lsn(), COUNT(*) FROM cdc.lsn_time_mapping")
			require.NoError(t, err)
			require.Equal(t, truth.Last.String(), res.Rows[0][0].String())
			if shape == workload.Narrow {
				res, err = sim.Query(t.Context(), "SELECT id, customer, sku, currency, amount, created, updated, note FROM cdc.dbo_backlog_narrow_CT WHERE id = 4712")
				require.NoError(t, err)
				require.Equal(t, texts(workload.NarrowRow(4711)), texts(res.Rows[0]))
			}
		})
	}
	sim := start(t)
	_, err := workload.Backlog(t.Context(), sim, "round", 1, 1)
	require.Error(t, err)
}

// KeyMoves and DDL run for long without an error, do the same under the same seed, and CDC's history put together is the table.
func TestKeyMovesAndDDL(t *testing.T) {
	t.Parallel()
	history := func() [][]string {
		sim, err := sqlserversim.Start(sqlserversim.WithoutListener(), sqlserversim.WithCaptureInterval(0))
		require.NoError(t, err)
		defer func() { require.NoError(t, sim.Close()) }()
		moves, err := workload.NewKeyMoves(t.Context(), sim, 9)
		require.NoError(t, err)
		ddl, err := workload.NewDDL(t.Context(), sim)
		require.NoError(t, err)
		for range 150 {
			require.NoError(t, moves.Step(t.Context()))
			require.NoError(t, ddl.Step(t.Context()))
			require.NoError(t, sim.Capture(t.Context()))
		}
		read := func(sql string) [][]string {
			res, err := sim.Query(t.Context(), sql)
			require.NoError(t, err)
			return res.Strings()
		}
		rows := map[string]string{}
		changes := read("SELECT __$operation, a, b, payload, __$start_lsn FROM cdc.dbo_key_moves_CT ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation")
		for _, c := range changes {
			key := c[1] + "/" + c[2]
			switch c[0] {
			case "1", "3":
				require.Contains(t, rows, key)
				delete(rows, key)
			default:
				require.NotContains(t, rows, key)
				rows[key] = c[3]
			}
		}
		at := read("SELECT a, b, payload FROM dbo.key_moves")
		require.Len(t, rows, len(at))
		for _, r := range at {
			require.Equal(t, r[2], rows[r[0]+"/"+r[1]])
		}
		instances := read("SELECT capture_instance FROM cdc.change_tables WHERE source_object_id = OBJECT_ID('dbo.changing')")
		require.Len(t, instances, 2)
		require.Greater(t, len(read("SELECT ddl_command FROM cdc.ddl_history")), 2)
		require.Empty(t, sim.Refused())
		return changes
	}
	require.Equal(t, history(), history())
}
