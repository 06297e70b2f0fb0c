package sqlserver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

func newClock(at time.Time) *engine.ManualClock { return engine.NewManualClock(at) }

// changeTable reads a change table with the driver alone, as text.
func (l *lab) changeTable(t require.TestingT, instance string, columns ...string) [][]string {
	text := "SELECT CONVERT(varchar(22), __$start_lsn, 1), CONVERT(varchar(22), __$seqval, 1), CONVERT(varchar(10), __$operation), CONVERT(varchar(10), __$command_id)"
	for _, c := range columns {
		text += ", CONVERT(nvarchar(200), " + mssqlcdc.QuoteName(c) + ")"
	}
	text += " FROM cdc." + mssqlcdc.QuoteName(instance+"_CT") + " ORDER BY __$start_lsn, __$command_id, __$seqval, __$operation"
	rows, err := l.db.QueryContext(l.t.Context(), text)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var found [][]string
	for rows.Next() {
		row := make([]*string, 4+len(columns))
		targets := make([]any, len(row))
		for i := range row {
			targets[i] = &row[i]
		}
		require.NoError(t, rows.Scan(targets...))
		var line []string
		for _, v := range row {
			if v == nil {
				line = append(line, "NULL")
			} else {
				line = append(line, *v)
			}
		}
		found = append(found, line)
	}
	require.NoError(t, rows.Err())
	return found
}

// lines gives parts in the form of changeTable.
func lines(parts []sqlserver.Part) [][]string {
	var found [][]string
	for _, part := range parts {
		for i, row := range values([]sqlserver.Part{part}, 0) {
			start, seq := part.Record.Column(mssqlcdc.IdxStartLSN), part.Record.Column(mssqlcdc.IdxSeqVal)
			line := []string{hexOf(start, i), hexOf(seq, i), row[mssqlcdc.IdxOperation], row[mssqlcdc.IdxCommandID]}
			found = append(found, append(line, row[mssqlcdc.FirstCaptured:]...))
		}
	}
	return found
}

func hexOf(column arrow.Array, i int) string {
	return mssqlcdc.LSN(column.(*array.FixedSizeBinary).Value(i)).String()
}

// all reads an instance from its beginning, window by window.
func (l *lab) all(t require.TestingT, c *sqlserver.Client, layout sqlserver.Layout, limits sqlserver.Limits) [][]string {
	var found [][]string
	low, err := c.MinLSN(l.t.Context(), layout.Instance.Name)
	require.NoError(t, err)
	position := low.Prev()
	for {
		head, err := c.MaxLSN(l.t.Context())
		require.NoError(t, err)
		if !position.Less(head.LSN) {
			return found
		}
		parts, err := l.parts(c, layout, position, limits)
		require.NoError(t, err)
		found = append(found, lines(parts)...)
		end := parts[len(parts)-1].Window.End
		require.True(t, position.Less(end))
		position = end
	}
}

// statements draws DML on a table with a key and a unique column.
func statements(t *rapid.T) []string {
	var made []string
	next := 0
	dml := func() string {
		id := rapid.IntRange(0, max(next, 1)).Draw(t, "id")
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0, 1, 2:
			n := rapid.IntRange(1, 5).Draw(t, "rows")
			var rows []string
			for range n {
				rows = append(rows, fmt.Sprintf("(%d, N'ref %d', N'new')", next, next))
				next++
			}
			return "INSERT dbo.orders (id, ref, status) VALUES " + strings.Join(rows, ", ")
		case 3:
			return fmt.Sprintf("UPDATE dbo.orders SET status = N'status %d' WHERE id <= %d", rapid.IntRange(0, 9).Draw(t, "n"), id)
		case 4: // a deferred update: deletes, then inserts
			return fmt.Sprintf("UPDATE dbo.orders SET ref = ref + N'_v2' WHERE id BETWEEN %d AND %d", id-3, id)
		case 5: // a key change
			next += 1000
			return fmt.Sprintf("UPDATE dbo.orders SET id = id + %d WHERE id = %d", next, id)
		case 6:
			return fmt.Sprintf("DELETE dbo.orders WHERE id = %d", id)
		}
		return fmt.Sprintf("INSERT dbo.other VALUES (%d)", rapid.IntRange(0, 1<<30).Draw(t, "other"))
	}
	for range rapid.IntRange(1, 25).Draw(t, "transactions") {
		n := rapid.IntRange(1, 4).Draw(t, "statements")
		if n == 1 {
			made = append(made, dml())
			continue
		}
		var body []string
		for range n {
			body = append(body, dml())
		}
		end := "COMMIT"
		if rapid.IntRange(0, 4).Draw(t, "rolled back") == 0 {
			end = "ROLLBACK"
		}
		made = append(made, "BEGIN TRAN; "+strings.Join(body, "; ")+"; "+end)
	}
	return made
}

// TestSimHistories reads random histories with random limits: what comes is the change table.
func TestSimHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		l := newLab(t)
		l.exec("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, ref nvarchar(200) NULL, status nvarchar(50) NULL, CONSTRAINT uq_ref UNIQUE (ref))",
			"CREATE TABLE dbo.other (id int NOT NULL)")
		l.track(mssqlcdc.TableID{Schema: "dbo", Name: "orders"})
		l.track(mssqlcdc.TableID{Schema: "dbo", Name: "other"})
		for _, statement := range statements(rt) {
			_ = l.sim.Exec(t.Context(), statement) // a duplicate key is part of the game
			if rapid.IntRange(0, 3).Draw(rt, "capture") == 0 {
				l.capture()
			}
		}
		l.capture()
		client := l.client()
		layout := l.layout(client, "dbo_orders")
		want := l.changeTable(rt, "dbo_orders", "id", "ref", "status")
		for range 3 {
			limits := sqlserver.Limits{
				PartRows: rapid.SampledFrom([]int64{0, 1, 3, 5, 7, 12}).Draw(rt, "rows per part"),
				Rows:     rapid.SampledFrom([]int64{0, 1, 4, 20}).Draw(rt, "rows per window"),
				Commits:  rapid.SampledFrom([]int64{0, 1, 3}).Draw(rt, "commits per window"),
				Ranges:   rapid.IntRange(1, 2).Draw(rt, "ranges"),
			}
			require.Equal(rt, want, l.all(rt, client, layout, limits))
		}
	})
}

// TestSimDeferredUpdate is O-01, O-04 and O-13: rows of one statement that share a seqval, and keys that move over each
// other.
func TestSimDeferredUpdate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, order_ref nvarchar(50) NULL CONSTRAINT uq UNIQUE, status nvarchar(50) NULL)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "orders"})
	l.exec("INSERT dbo.orders VALUES (1,N'a',N'x'),(2,N'b',N'x'),(3,N'c',N'x'),(4,N'd',N'x'),(5,N'e',N'x')",
		"UPDATE dbo.orders SET order_ref = order_ref + N'_v2' WHERE id BETWEEN 1 AND 5",
		"UPDATE dbo.orders SET id = id + 1",
		"BEGIN TRAN; UPDATE dbo.orders SET status = N'y'; UPDATE dbo.orders SET id = id + 100; COMMIT")
	l.capture()
	client := l.client()
	layout := l.layout(client, "dbo_orders")
	want := l.changeTable(t, "dbo_orders", "id", "order_ref", "status")
	for _, size := range []int64{1, 3, 5, 7, 12, 1000} {
		for _, commits := range []int64{-1, 1, 2} {
			got := l.all(t, client, layout, sqlserver.Limits{PartRows: size, Commits: commits})
			require.Equal(t, want, got)
			// Applied by key in this order, five rows are left.
			rows := map[string]bool{}
			for _, line := range got {
				switch line[2] {
				case "1":
					delete(rows, line[4])
				case "2", "4":
					rows[line[4]] = true
				}
			}
			require.Equal(t, map[string]bool{"102": true, "103": true, "104": true, "105": true, "106": true}, rows)
		}
	}
}

// TestSimHugeTransaction is M-01 in small: a transaction that is many parts long comes whole, and no window ends in it.
func TestSimHugeTransaction(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	l.exec("INSERT dbo.t VALUES (-1)")
	var body strings.Builder
	body.WriteString("BEGIN TRAN;")
	for i := range 50 {
		body.WriteString(" INSERT dbo.t VALUES ")
		for k := range 100 {
			if k > 0 {
				body.WriteString(", ")
			}
			fmt.Fprintf(&body, "(%d)", i*100+k)
		}
		body.WriteString(";")
	}
	body.WriteString(" COMMIT")
	l.exec(body.String(), "INSERT dbo.t VALUES (-2)")
	l.capture()
	client := l.client()
	layout := l.layout(client, "dbo_t")
	for _, ranges := range []int{1, 2} {
		parts, err := l.parts(client, layout, l.start(client, "dbo_t"), sqlserver.Limits{Rows: 10, PartRows: 64, Ranges: ranges})
		require.NoError(t, err)
		rows := int64(0)
		for i, part := range parts {
			rows += part.Record.NumRows()
			require.LessOrEqual(t, part.Record.NumRows(), int64(64))
			require.Equal(t, i == len(parts)-1, part.Last)
		}
		require.EqualValues(t, 5001, rows, "the window ends after the transaction that reached the limit")
		require.EqualValues(t, 2, parts[len(parts)-1].Metrics.Commits)
	}
}
