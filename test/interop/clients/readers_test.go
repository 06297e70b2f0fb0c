package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// address is user, password, host and database as these readers' URLs have them.
func address(sim *sqlserversim.Server) string {
	return url.UserPassword("sa", sqlserversim.DefaultPassword).String() + "@" + sim.Addr() + "/" + sqlserversim.DefaultDatabase
}

// rivetEvent is a line of rivet cdc. It leaves out what was there before an update.
type rivetEvent struct {
	Op            string
	Before, After []json.RawMessage
}

func rivet(t *testing.T, sim *sqlserversim.Server, instance, checkpoint string) []rivetEvent {
	t.Helper()
	out, err := output(exec.CommandContext(t.Context(), installed(t, "clients/bin/rivet"), "cdc", "--source", "sqlserver://"+address(sim),
		"--capture-instance", instance, "--checkpoint", checkpoint))
	require.NoError(t, err)
	var events []rivetEvent
	for line := range bytes.Lines(out) {
		var e rivetEvent
		require.NoError(t, json.Unmarshal(line, &e), "%.300s", line)
		events = append(events, e)
	}
	return events
}

// rivet drains a change table in two runs and has every change once, in order.
func TestRivetDrains(t *testing.T) {
	t.Parallel()
	installed(t, "clients/bin/rivet")
	sim := startSimulator(t)
	orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: 21})
	require.NoError(t, err)
	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	var events []rivetEvent
	for range 2 {
		require.NoError(t, orders.Run(t.Context(), 80))
		capture(t, sim)
		events = append(events, rivet(t, sim, "dbo_orders", checkpoint)...)
	}
	require.Empty(t, rivet(t, sim, "dbo_orders", checkpoint), "nothing new")
	columns := columnsOf(t, sim, "dbo.orders")
	want := history(t, sim, "dbo_orders", columns)
	require.Len(t, events, len(want))
	for i, w := range want {
		what := fmt.Sprintf("event %d", i)
		require.Equal(t, map[string]string{"c": "insert", "u": "update", "d": "delete"}[w.op], events[i].Op, what)
		image, got := w.after, events[i].After
		if w.op == "d" {
			image, got = w.before, events[i].Before
		}
		require.Len(t, got, len(columns), what)
		for j, c := range columns {
			text := "NULL"
			if raw := got[j]; string(raw) != "null" {
				if text = string(raw); raw[0] == '"' {
					require.NoError(t, json.Unmarshal(raw, &text))
				}
			}
			if moneys(c) {
				requireNear(t, image[j], text, what)
				continue
			}
			c.requireSame(t, image[j], text, what)
		}
	}
	require.Empty(t, sim.Refused())
}

// ingestr takes a snapshot and then, in later runs, the changes since: its table is the source's.
func TestIngestrFollows(t *testing.T) {
	t.Parallel()
	program, python := installed(t, "clients/bin/ingestr"), installed(t, "clients/bin/python")
	for _, isolation := range []string{"OFF", "ON"} {
		t.Run("snapshot isolation "+isolation, func(t *testing.T) {
			t.Parallel()
			sim := startSimulator(t)
			orders, err := workload.NewOrders(t.Context(), sim, workload.OrdersConfig{Seed: 22})
			require.NoError(t, err)
			execute(t, sim, "ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION "+isolation)
			file := filepath.Join(t.TempDir(), "destination.db")
			for range 3 {
				require.NoError(t, orders.Run(t.Context(), 60))
				capture(t, sim)
				cmd := exec.CommandContext(t.Context(), program, "ingest", "--source-uri", "mssql+cdc://"+address(sim)+"?encrypt=true&TrustServerCertificate=true",
					"--source-table", "dbo.orders", "--dest-uri", "sqlite:///"+file, "--dest-table", "main.orders", "--yes", "--progress", "log")
				cmd.Env = append(cmd.Environ(), "DISABLE_TELEMETRY=true")
				_, err := output(cmd)
				require.NoError(t, err)
				const read = "import json, sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute(" +
					"'SELECT order_id, customer_id, status, currency, total, note, is_gift FROM orders WHERE NOT _cdc_deleted ORDER BY 1'):\n" +
					"    print('|'.join('NULL' if v is None else f'{v:.2f}' if isinstance(v, float) else str(v) for v in row))"
				out, err := output(exec.CommandContext(t.Context(), python, "-c", read, file))
				require.NoError(t, err)
				var want []string
				for _, row := range query(t, sim, "SELECT order_id, customer_id, status, currency, total, note, CONVERT(int, is_gift) FROM dbo.orders ORDER BY order_id") {
					want = append(want, strings.Join(row, "|"))
				}
				require.Equal(t, want, strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"))
			}
			require.Empty(t, sim.Refused())
		})
	}
}
