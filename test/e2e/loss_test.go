package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// reads is the statement that reads the rows of a change table.
func reads(instance string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)tran_end_time.*FROM cdc\.\[` + instance + `_CT\]`)
}

// CDC's clean-up deletes rows while they are read, or just before. The run ends with an
// error about the loss, or it has every row; the table never has a hole.
func TestCleanUpDuringARead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ statement, rows int }{{0, 0}, {0, 1}, {0, 12}, {1, 0}, {1, 5}, {2, 9}} {
		t.Run(fmt.Sprintf("read %d after %d rows", tc.statement, tc.rows), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write(t, 40)
			whole := l.captured(t, "dbo_orders")
			rule := l.sim.Fault(sqlserversim.Fault{
				Statement: reads("dbo_orders"), Skip: tc.statement, AfterRows: int64(tc.rows),
				Action: sqlserversim.Run(func(ctx context.Context) error {
					return l.sim.CleanupBelow(context.WithoutCancel(ctx), "dbo_orders", engine.LSN{}) // the reader may hang up meanwhile
				}),
			})
			cmd, out := l.command(t.Context(), "-c", l.config(t, boundedYAML))
			err := cmd.Run()
			require.Equal(t, 1, rule.Hits(), "clean-up has not run: the test tests nothing")
			require.Less(t, len(l.captured(t, "dbo_orders")), len(whole), "clean-up has deleted nothing")
			got := l.bronze(t, "orders")
			if err == nil {
				require.Empty(t, difference(whole, got), "the run says that all is well:\n%s", out)
				return
			}
			require.Contains(t, lastLine(out.String()), "dbo_orders")
			require.Contains(t, lastLine(out.String()), "are lost")
			l.requirePrefix(t, whole, got)
			// Trying again does not hide it, and loses nothing more.
			require.Contains(t, lastLine(l.fail(t, boundedYAML)), "are lost")
			require.Equal(t, got, l.bronze(t, "orders"))
			// The other table is not concerned and comes with the next run that leaves this one out.
			l.run(t, with(t, boundedYAML, "dbo.orders, dbo.order_lines", "dbo.order_lines"))
			l.requireOnce(t, "order_lines")
		})
	}
}

// requirePrefix checks that rows are whole commits from the first on, each once.
func (l *lab) requirePrefix(t *testing.T, whole, got map[string]int) {
	t.Helper()
	last := ""
	for id := range got {
		last = max(last, strings.SplitN(id, "/", 2)[0])
	}
	want := map[string]int{}
	for id, n := range whole {
		if strings.SplitN(id, "/", 2)[0] <= last {
			want[id] = n
		}
	}
	require.Empty(t, difference(want, got), "up to %s", last)
}

// Clean-up has passed the position while nothing ran: the next run says what is lost,
// and writes nothing.
func TestPurgedPosition(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 20)
	l.run(t, boundedYAML)
	before := l.bronze(t, "orders")
	l.write(t, 20)
	require.NoError(t, l.sim.CleanupBelow(t.Context(), "dbo_orders", engine.LSN{}))
	text := l.fail(t, boundedYAML)
	requireAnswer(t, text, "dbo.orders or dbo_orders", "are lost")
	require.Equal(t, before, l.bronze(t, "orders"))
	l.run(t, with(t, boundedYAML, "dbo.orders, dbo.order_lines", "dbo.order_lines"))
	l.requireOnce(t, "order_lines")

	// One table of several can be left out; the others go on, and the run is a failure.
	l.write(t, 20)
	isolated := l.fail(t, with(t, boundedYAML, "run: available_now", "run: available_now\n    on_table_error: isolate"))
	requireAnswer(t, isolated, "dbo.orders", "are lost", "left out")
	l.requireOnce(t, "order_lines")
	require.Equal(t, before, l.bronze(t, "orders"))

	// What is left goes into a new table.
	l.run(t, with(t, boundedYAML, "./lake/${! @table }", "./lake/new_${! @table }", "tables:", "checkpoint_cache_key: new\n    tables:"))
	require.Empty(t, difference(l.captured(t, "dbo_orders"), l.bronze(t, "new_orders")))

	// Or the table goes on over the gap, which is on record.
	l.run(t, with(t, boundedYAML, "tables:", "on_data_loss: skip\n    tables:"))
	want := l.captured(t, "dbo_orders")
	for id, n := range before {
		want[id] = n
	}
	require.Empty(t, difference(want, l.bronze(t, "orders")))
	l.requireOnce(t, "order_lines")
	_, others := l.facts(t, "./lake/orders")
	require.True(t, slices.ContainsFunc(others, func(f fact) bool { return f.Event == "data_skipped" }), "%+v", others)
	requireAnswer(t, text, "on_data_loss")
}
