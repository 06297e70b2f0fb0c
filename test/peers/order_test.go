package peers

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// deferredUpdates is two tables, each with a key and a unique column, whose rows move:
// statements that SQL Server runs as deletes followed by inserts.
func deferredUpdates(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.table(t, "orders", "id int NOT NULL PRIMARY KEY, order_ref nvarchar(50) NULL CONSTRAINT uq_orders UNIQUE, status nvarchar(20) NULL")
	l.table(t, "shipments", "id int NOT NULL PRIMARY KEY, tracking_ref nvarchar(50) NULL CONSTRAINT uq_shipments UNIQUE")
	five := func(row string) string { return values(1, 6, func(i int) string { return fmt.Sprintf(row, i, i) }) }
	l.exec(t,
		"INSERT dbo.orders VALUES "+five("%d, N'ref %d', N'new'"),
		"INSERT dbo.shipments VALUES "+five("%d, N'ref %d'"),
		// One statement, five deletes and five inserts: a row's two share a seqval.
		"UPDATE dbo.orders SET order_ref = order_ref + N'_v2' WHERE id BETWEEN 1 AND 5",
		// The same in two tables and one transaction, with a plain update and a move of keys.
		`BEGIN TRAN;
		UPDATE dbo.orders SET order_ref = order_ref + N'_v3' WHERE id BETWEEN 1 AND 5;
		UPDATE dbo.shipments SET tracking_ref = tracking_ref + N'_v2' WHERE id BETWEEN 1 AND 5;
		UPDATE dbo.orders SET status = N'sent' WHERE id <= 3;
		UPDATE dbo.orders SET id = id + 100;
		COMMIT`,
		"UPDATE dbo.orders SET id = 200 WHERE id = 101", // one row: a delete and an insert
		// Keys move over each other, twice.
		"UPDATE dbo.orders SET id = id + 1 WHERE id < 200",
		"UPDATE dbo.orders SET id = id + 1 WHERE id < 200",
	)
	l.capture(t)
	return l
}

// O-01, O-04, O-05, O-13: whatever the size of a page, and after whichever page the
// process ends, each change is there once and in its order, and replayed by key in that
// order the changes are the table.
func TestDeferredUpdateAtEveryPageSizeAndRestartPoint(t *testing.T) {
	t.Parallel()
	l := deferredUpdates(t)
	for _, page := range []int{1, 3, 5, 7, 12, 0} {
		t.Run(fmt.Sprintf("page of %d rows", page), func(t *testing.T) {
			t.Parallel()
			step := max(1, 5-page) // the more pages, the fewer restarts
			pages := 0
			for more := true; more; pages += step {
				p := l.pipeline(t, "dbo.orders", "dbo.shipments").with(fmt.Sprintf("max_rows_per_part: %d", page))
				more = p.crash(t, pages)
				p.run(t)
				l.requireSame(t, p, "orders", "id", "order_ref", "status")
				l.requireSame(t, p, "shipments", "id", "tracking_ref")
				require.Equal(t, l.ofTable(t, "dbo.orders", "id", "order_ref", "status"), replay(p.bronze(t, "orders", "id", "order_ref", "status")))
				require.Equal(t, l.ofTable(t, "dbo.shipments", "id", "tracking_ref"), replay(p.bronze(t, "shipments", "id", "tracking_ref")))
			}
			if page > 0 {
				require.GreaterOrEqual(t, pages, 70/page, "the pages were cut")
			}
		})
	}
}

// ofTable are the rows of a table of the source, sorted.
func (l *lab) ofTable(t testing.TB, table string, columns ...string) []string {
	t.Helper()
	var lines []string
	for _, row := range l.query(t, "SELECT "+strings.Join(columns, ", ")+" FROM "+table) {
		lines = append(lines, strings.Join(row, "|"))
	}
	slices.Sort(lines)
	return lines
}

// replay applies change rows to a map by their first column, and returns what is left,
// sorted.
func replay(changes []string) []string {
	rows := map[string]string{}
	for _, line := range changes {
		parts := strings.SplitN(line, "|", 5)
		key, _, _ := strings.Cut(parts[4], "|")
		switch parts[3] {
		case "1":
			delete(rows, key)
		case "2", "4":
			rows[key] = parts[4]
		}
	}
	var lines []string
	for _, row := range rows {
		lines = append(lines, row)
	}
	slices.Sort(lines)
	return lines
}

// O-01: with the deletes filtered out on the way every insert of the statement is left,
// also after a restart at any page.
func TestDeferredUpdateWithoutItsDeletes(t *testing.T) {
	t.Parallel()
	l := deferredUpdates(t)
	want := slices.DeleteFunc(l.changes(t, "dbo_orders", "id", "order_ref"), func(line string) bool { return strings.Split(line, "|")[3] == "1" })
	for messages := range 9 {
		p := l.pipeline(t, "dbo.orders").with("max_rows_per_part: 3", "max_commits_per_window: 2")
		p.processors = []string{`each_row: { processors: [ { mapping: 'root = if @operation == "delete" { deleted() }' } ] }`}
		require.True(t, p.crash(t, messages))
		p.run(t)
		require.Equal(t, want, p.bronze(t, "orders", "id", "order_ref"))
	}
}

// O-03, O-07, C-14: the process ends, or a batch is rejected, after the first batch of a
// transaction was acknowledged: the resume position does not cover the transaction, and
// the next run brings all of it.
func TestStopInTheMiddleOfATransaction(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{30, 100} {
		l := newLab(t)
		l.table(t, "t", "id int NOT NULL PRIMARY KEY")
		l.exec(t, "INSERT dbo.t VALUES "+values(0, rows, func(i int) string { return fmt.Sprint(i) }))
		l.capture(t)
		commit := l.commits(t, "dbo_t")[0]
		for _, replays := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d messages, replayed %v", rows, replays), func(t *testing.T) {
				t.Parallel()
				p := l.pipeline(t, "dbo.t").rows().with("max_rows_per_part: 10", fmt.Sprintf("auto_replay_nacks: %v", replays))
				held, dead := make(chan struct{}, 100), make(chan struct{})
				p.sink.decide = func(_ context.Context, n int, _ service.MessageBatch) error {
					if n == 1 {
						return nil
					}
					held <- struct{}{}
					<-dead
					return errors.New("the process is dead")
				}
				r := p.begin(t, "available_now")
				<-held
				if replays { // one batch at a time: the first one is acknowledged
					r.eventually(t, "a resume position", func() bool { _, stored := p.position(t, "t"); return stored })
				}
				r.state.Stop()
				stopped := make(chan error, 1)
				go func() { stopped <- r.stream.StopWithin(time.Second) }()
				close(dead)
				<-stopped
				_ = r.end(t) // it says that the process is dead
				state, _ := p.position(t, "t")
				require.True(t, state.LSN.Less(commit), "the resume position is %s, the transaction is %s", state.LSN, commit)
				first := p.sink.identities()
				require.Len(t, first, 10)

				p.sink = newSink()
				p.run(t)
				require.Equal(t, l.changes(t, "dbo_t"), p.sink.identities())
			})
		}
		t.Run(fmt.Sprintf("%d rows of record batches", rows), func(t *testing.T) {
			t.Parallel()
			p := l.pipeline(t, "dbo.t").with("max_rows_per_part: 10")
			require.True(t, p.crash(t, 1))
			require.Empty(t, p.bronze(t, "t"), "nothing of a transaction is there before all of it is")
			p.run(t)
			l.requireSame(t, p, "t", "id")
		})
	}
}

// C-14: a batch in the middle is rejected and not replayed by the engine. Nothing moves
// the position over it, and it comes again with what follows.
func TestRejectionNeverMovesThePosition(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	for i := range 3 {
		l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", i))
	}
	l.capture(t)
	commits := l.commits(t, "dbo_t")
	p := l.pipeline(t, "dbo.t").rows().with("auto_replay_nacks: false", "max_commits_per_window: 1")
	var rejected mssqlcdc.LSN
	p.sink.decide = func(_ context.Context, n int, batch service.MessageBatch) error {
		state, _ := p.position(t, "t")
		lsn, _ := batch[0].MetaGet("lsn")
		if at, err := mssqlcdc.ParseLSN(lsn); err != nil || !state.LSN.Less(at) {
			return fmt.Errorf("the resume position %s is ahead of %s", state.LSN, lsn)
		}
		if n == 2 {
			rejected = state.LSN
			return errors.New("not now")
		}
		return nil
	}
	p.run(t)
	require.True(t, rejected.Less(commits[1]))
	require.Subset(t, p.sink.identities(), l.changes(t, "dbo_t"))
	require.NotContains(t, p.log.String(), "is ahead of")
	state, _ := p.position(t, "t")
	require.Equal(t, commits[2], state.LSN)
}

// O-08: the rows of one table break off in the middle while another table has more. The
// error is no end of the rows: nothing of the broken window is written or passed over.
func TestErrorInTheMiddleOfATable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		action sqlserversim.Action
		passes bool
	}{
		"reset":          {sqlserversim.ResetConnection(), true},
		"closed":         {sqlserversim.CloseConnection(), true},
		"no done":        {sqlserversim.EndWithoutDone(), true},
		"half a packet":  {sqlserversim.HalfPacket(), true},
		"deadlock":       {sqlserversim.RaiseError(1205, 13, 51, "deadlock"), true},
		"severe":         {sqlserversim.SevereDone(), true},
		"conversion":     {sqlserversim.RaiseError(8114, 16, 5, "no number"), false},
		"another error":  {sqlserversim.RaiseError(8134, 16, 1, "division by zero"), false},
		"not understood": {sqlserversim.UnknownToken(), true},
	} {
		for _, onError := range []string{"stop", "isolate"} {
			t.Run(name+", "+onError, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				for _, name := range []string{"alpha", "beta"} {
					l.table(t, name, "id int NOT NULL PRIMARY KEY")
					l.exec(t, "INSERT dbo."+name+" VALUES "+values(0, 20, func(i int) string { return fmt.Sprint(i) }))
				}
				l.capture(t)
				times := 1
				if !c.passes {
					times = -1
				}
				rule := l.sim.Fault(sqlserversim.Fault{Statement: changesOf("dbo_alpha"), AfterRows: 3, Times: times, Action: c.action})
				p := l.pipeline(t, "dbo.alpha", "dbo.beta").with("max_rows_per_part: 2", "on_table_error: "+onError)
				if c.passes {
					p.run(t)
				} else {
					require.ErrorContains(t, p.fail(t), "dbo_alpha")
					require.Empty(t, p.bronze(t, "alpha"))
					state, _ := p.position(t, "alpha")
					require.True(t, state.LSN.Less(l.commits(t, "dbo_alpha")[0]))
					if onError == "isolate" {
						l.requireSame(t, p, "beta", "id")
					}
					rule.Remove()
					p.run(t)
				}
				require.NotZero(t, rule.Hits())
				l.requireSame(t, p, "alpha", "id")
				l.requireSame(t, p, "beta", "id")
			})
		}
	}
}

// changesOf matches the statement that reads the change rows of an instance.
func changesOf(instance string) *regexp.Regexp {
	return regexp.MustCompile(`(?s)^SELECT.*` + regexp.QuoteMeta(changeTable(instance)) + `.*LEFT JOIN cdc\.lsn_time_mapping`)
}

// O-16, O-21: LSNs with every byte value survive the resume position, the transactions of
// the Delta log and their text, and their text sorts as they do.
func TestEveryByteOfAnLSNSurvives(t *testing.T) {
	t.Parallel()
	cached := map[string][]byte{}
	positions := checkpoint.NewStore(func(_ context.Context, fn func(checkpoint.Cache)) error { fn(memory(cached)); return nil }, "key")
	var all []mssqlcdc.LSN
	for value := range 256 {
		for at := range mssqlcdc.LSNSize {
			lsn := mssqlcdc.LSN{0, 0, 0, 0x2D, 0, 0, 0x0A, 0x48, 0, 3}
			lsn[at] = byte(value)
			all = append(all, lsn)
			table := mssqlcdc.TableID{Schema: "dbo", Name: "t"}
			require.NoError(t, positions.Save(t.Context(), table, checkpoint.State{LSN: lsn, DataLSN: lsn, Instance: "i"}))
			state, stored, err := positions.Load(t.Context(), table)
			require.NoError(t, err)
			require.True(t, stored)
			require.Equal(t, lsn, state.LSN)
			hi, lo := lsn.Parts()
			again, err := mssqlcdc.LSNFromParts(hi, lo)
			require.NoError(t, err)
			require.Equal(t, lsn, again)
			again, err = mssqlcdc.ParseLSN(lsn.String())
			require.NoError(t, err)
			require.Equal(t, lsn, again)
		}
	}
	slices.SortFunc(all, mssqlcdc.LSN.Compare)
	require.True(t, slices.IsSortedFunc(all, func(a, b mssqlcdc.LSN) int { return strings.Compare(a.String(), b.String()) }))
}

// memory is a cache.
type memory map[string][]byte

func (m memory) Get(_ context.Context, key string) ([]byte, error) {
	if value, ok := m[key]; ok {
		return value, nil
	}
	return nil, service.ErrKeyNotFound
}

func (m memory) Set(_ context.Context, key string, value []byte, _ *time.Duration) error {
	m[key] = slices.Clone(value)
	return nil
}

// O-16, C-05: nothing is written to the source, so no collation can bend a stored
// position and no transaction of ours can be half done. The statements of a whole run
// ask only.
func TestNothingIsWrittenToTheSource(t *testing.T) {
	t.Parallel()
	l := deferredUpdates(t)
	p := l.pipeline(t, "dbo.*").facts()
	p.run(t)
	statements := l.sim.Statements()
	require.Greater(t, len(statements), 10)
	writes := regexp.MustCompile(`(?i)\b(INSERT|UPDATE|DELETE|MERGE|CREATE|ALTER|DROP|TRUNCATE|GRANT|INTO|BEGIN TRAN\w*|COMMIT|NOLOCK)\b`)
	for _, statement := range statements {
		require.NotRegexp(t, writes, statement)
	}
	at, known, err := bronze.Position(p.open(t, "lake", "orders").Snapshot(), "peers")
	require.NoError(t, err)
	require.True(t, known)
	commits := l.commits(t, "dbo_orders")
	require.Equal(t, commits[len(commits)-1], at, "the position is in the table's own log")
}
