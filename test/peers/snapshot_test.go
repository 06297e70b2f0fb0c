package peers

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// snapshot sets the fields of a stream that reads tables whole, in small chunks.
func (p *pipeline) snapshot() *pipeline {
	return p.with("stream_snapshot: true", "snapshot_chunk_rows: 5")
}

// current is what anybody makes of a bronze table who wants the rows of the source, of
// which the first column is the key: the newest snapshot, its rows and the changes after
// it in their order, the last one of each key.
func (p *pipeline) current(t testing.TB, name string, columns ...string) []string {
	t.Helper()
	type change struct {
		snapshot, lsn, seqval, key, line string
		command, operation               int64
	}
	table := p.open(t, "lake", name)
	require.NotNil(t, table)
	all := append([]string{mssqlcdc.ColSnapshot, mssqlcdc.ColStartLSN, mssqlcdc.ColCommandID, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation}, columns...)
	newest := ""
	var changes []change
	for record, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: all}) {
		require.NoError(t, err)
		for i, row := range slices.Collect(mssqlcdc.Rows(record, 0)) {
			c := change{command: -1}
			c.lsn, _ = row[mssqlcdc.ColStartLSN].(string)
			c.seqval, _ = row[mssqlcdc.ColSeqVal].(string)
			if n, ok := row[mssqlcdc.ColCommandID].(int64); ok {
				c.command = n
			}
			c.operation, _ = row[mssqlcdc.ColOperation].(int64)
			c.key = text(record.Column(5), i)
			for k := range columns {
				c.line += "|" + text(record.Column(5+k), i)
			}
			c.snapshot, _ = row[mssqlcdc.ColSnapshot].(string)
			newest = max(newest, c.snapshot)
			changes = append(changes, c)
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.lsn, b.lsn), cmp.Compare(a.command, b.command), cmp.Compare(a.seqval, b.seqval), cmp.Compare(a.operation, b.operation))
	})
	rows := map[string]string{}
	for _, c := range changes {
		switch op := mssqlcdc.Operation(c.operation); {
		case op == mssqlcdc.Read && c.snapshot != newest, op != mssqlcdc.Read && c.lsn <= newest:
			// The newest snapshot has it.
		case op == mssqlcdc.Delete || op == mssqlcdc.UpdateBefore:
			delete(rows, c.key)
		default:
			rows[c.key] = c.line
		}
	}
	var lines []string
	for _, line := range rows {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// requireCurrent checks that the lake shows a table of schema dbo as it is.
func (l *lab) requireCurrent(t testing.TB, p *pipeline, table string, columns ...string) {
	t.Helper()
	var selected string
	for _, c := range columns {
		selected += "+ N'|' + COALESCE(CONVERT(nvarchar(max), " + mssqlcdc.QuoteName(c) + "), N'NULL')"
	}
	var want []string
	for _, row := range l.query(t, "SELECT N''"+selected+" FROM "+mssqlcdc.TableID{Schema: "dbo", Name: table}.Quoted()) {
		want = append(want, row[0])
	}
	slices.Sort(want)
	require.NotEmpty(t, want)
	require.Equal(t, want, p.current(t, table, columns...), "rows of %s", table)
}

// twenty is a table with twenty rows, captured.
func (l *lab) twenty(t testing.TB) {
	t.Helper()
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL")
	l.exec(t, "INSERT dbo.t VALUES "+values(0, 20, func(i int) string { return fmt.Sprintf("%d, N'first'", i) }))
	l.capture(t)
}

// S-01, S-08: commits that the capture job has not seen when the snapshot is opened are in
// its rows and come as changes, too. Neither order doubles or loses them.
func TestSnapshotWhileCaptureLags(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.twenty(t)
	l.exec(t, "UPDATE dbo.t SET v = N'not captured' WHERE id < 7", "DELETE dbo.t WHERE id = 3", "INSERT dbo.t VALUES (100, N'new')")
	p := l.pipeline(t, "dbo.t").snapshot()
	p.run(t)
	l.requireCurrent(t, p, "t", "id", "v")
	l.capture(t)
	p.run(t)
	l.requireCurrent(t, p, "t", "id", "v")
	require.Len(t, p.bronze(t, "t"), 20+7*2+1+1, "rows of the snapshot, then each change once")
}

// S-03, S-04, S-20: a stop after any message, the last one of the snapshot among them, is
// no end of the snapshot. It goes on at the chunk at hand, and no row is read for nothing.
func TestSnapshotStoppedAtEveryMessage(t *testing.T) {
	t.Parallel()
	for messages := range 100 {
		l := newLab(t)
		l.twenty(t)
		p := l.pipeline(t, "dbo.t").snapshot()
		more := p.crash(t, messages)
		if state, stored := p.position(t, "t"); messages > 0 {
			require.True(t, stored)
			require.Equal(t, len(p.bronze(t, "t")) == 20, state.Snapshot.Complete, "stopped after %d messages", messages)
		}
		l.exec(t, "UPDATE dbo.t SET v = N'second' WHERE id % 3 = 0", "DELETE dbo.t WHERE id = 11")
		l.capture(t)
		p.run(t)
		l.requireCurrent(t, p, "t", "id", "v")
		if !more {
			require.Greater(t, messages, 4, "there were several chunks")
			return
		}
	}
	require.Fail(t, "the snapshot has no end")
}

// S-07: the snapshot takes longer than changes are kept. It ends once, with the error that
// says what is lost, and a new one is not begun again and again.
func TestSnapshotThatOutlivesTheRetention(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"fail", "resnapshot"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, march())
			l.table(t, "t", "id int NOT NULL PRIMARY KEY")
			l.insert(t, "t", 0, 20)
			p := l.pipeline(t, "dbo.t").snapshot().with("on_data_loss: " + policy).facts()
			require.True(t, p.crash(t, 2))
			l.insert(t, "t", 20, 24)
			l.exec(t, "DELETE dbo.t WHERE id < 4")
			l.insert(t, "t", 24, 26)
			all := l.commits(t, "dbo_t")
			l.cleanBelow(t, "dbo_t", all[len(all)-1])
			if policy == "fail" {
				for range 2 {
					require.ErrorContains(t, p.fail(t), "are lost")
				}
				return
			}
			p.run(t)
			l.requireCurrent(t, p, "t", "id")
			state, _ := p.position(t, "t")
			first := state.Snapshot.LSN
			p.run(t)
			state, _ = p.position(t, "t")
			require.Equal(t, first, state.Snapshot.LSN, "it is not read again")

			// The next loss comes too soon after it.
			l.insert(t, "t", 30, 34)
			all = l.commits(t, "dbo_t")
			l.cleanBelow(t, "dbo_t", all[len(all)-1])
			require.ErrorContains(t, p.fail(t), "resnapshot_interval")
		})
	}
}

// S-26: a row is changed, one deleted and one inserted while the chunk that has them is
// read, before its rows and between them. The newest image wins.
func TestRowsThatChangeWhileTheirChunkIsRead(t *testing.T) {
	t.Parallel()
	for _, after := range []int64{0, 1, 3} {
		t.Run(fmt.Sprintf("after %d rows", after), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.twenty(t)
			l.sim.Fault(sqlserversim.Fault{
				Statement: regexp.MustCompile(`FROM \[dbo\]\.\[t\]`), Skip: 2, AfterRows: after,
				Action: sqlserversim.Run(func(ctx context.Context) error {
					for _, batch := range []string{"UPDATE dbo.t SET v = N'changed' WHERE id = 9", "INSERT dbo.t VALUES (1000, N'x'), (-1, N'y')"} {
						if err := l.sim.Exec(ctx, batch); err != nil {
							return err
						}
					}
					return l.sim.Capture(ctx)
				}),
			})
			p := l.pipeline(t, "dbo.t").snapshot().with("snapshot_isolation: read_committed")
			p.run(t)
			l.capture(t)
			p.run(t)
			l.requireCurrent(t, p, "t", "id", "v")
			require.Contains(t, p.current(t, "t", "id", "v"), "|9|changed")
		})
	}
}

// S-28: a table without a key stops neither its own reading nor that of its neighbours, and
// names that must be quoted are.
func TestTablesWithoutKeysBesideOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.twenty(t)
	l.table(t, "heap", "[order] int NULL, v nvarchar(20) NULL")
	l.table(t, "order details", "[order] datetime NOT NULL, [select] uniqueidentifier NOT NULL, v int NULL, PRIMARY KEY ([order], [select])")
	for i := range 12 {
		l.exec(t, fmt.Sprintf("INSERT dbo.heap VALUES (%d, N'a')", i),
			fmt.Sprintf("INSERT dbo.[order details] VALUES (DATEADD(day, %d, '20260101'), NEWID(), %d)", i/5, i))
	}
	l.capture(t)
	p := l.pipeline(t, "dbo.*").snapshot()
	p.run(t)
	l.requireCurrent(t, p, "t", "id", "v")
	l.requireCurrent(t, p, "heap", "order", "v")
	l.requireCurrent(t, p, "order details", "select", "v")
	require.Len(t, p.bronze(t, "order details"), 12)
}

// P-02: the newest capture instance begins above max_lsn, as the commit that makes it is not
// captured. The snapshot's S lies there, where no commit is known, and the next run does
// not take that for a database that was restored.
func TestSnapshotThatBeginsAboveMaxLSN(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.twenty(t)
	l.track(t, id("t"), "@capture_instance = N'second'")
	l.capture(t)
	require.Equal(t, "1", l.query(t, "SELECT COUNT(*) FROM cdc.change_tables WHERE start_lsn > sys.fn_cdc_get_max_lsn()")[0][0])
	p := l.pipeline(t, "dbo.t").snapshot().facts()
	p.run(t)
	require.NotZero(t, p.verdict(t, "t").UpdatedAt)
	l.exec(t, "UPDATE dbo.t SET v = N'second'")
	l.capture(t)
	p.run(t)
	l.requireCurrent(t, p, "t", "id", "v")
}
