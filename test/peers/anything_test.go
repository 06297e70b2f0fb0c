package peers

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// The flags of TestAnythingAtAnyTime.
var (
	longRun = flag.Bool("long", false, "run a thousand seeds of TestAnythingAtAnyTime instead of fifty")
	oneSeed = flag.Uint64("seed", 0, "run this seed of TestAnythingAtAnyTime only")
)

// badSeeds have found an error once.
func badSeeds() []uint64 { return []uint64{4300191874535294828} }

// P-01: random tables, keys and settings; transactions, captures of a part of them, DDL,
// capture instances that come and go, clean-up, faults of the server and of the store, and
// stops at any message, in any order. Whatever happens, a verdict never moves back, no
// change at or below a verdict comes after it, no change comes twice, and in the end the
// lake shows the source.
//
//	go test ./test/peers -run TestAnythingAtAnyTime -seed 17
//	go test ./test/peers -run TestAnythingAtAnyTime -long -timeout 2h
func TestAnythingAtAnyTime(t *testing.T) {
	t.Parallel()
	seeds := badSeeds()
	switch {
	case *oneSeed != 0:
		seeds = []uint64{*oneSeed}
	default:
		count := 50
		if testing.Short() {
			count = 10
		}
		if *longRun {
			count = 1000
		}
		base := rand.Uint64()
		for i := range count {
			seeds = append(seeds, base+uint64(i))
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed)
			for range 8 + w.rng.IntN(14) {
				w.step(t)
			}
			w.settle(t)
		})
	}
}

// world is a source that changes at random, and a pipeline that follows it through faults.
type world struct {
	*lab
	p      *pipeline
	rng    *rand.Rand
	tables []*randomTable
	losses bool // clean-up may take what was not read: tables are read again

	faults *atomic.Bool // of the store
	final  map[string]finality
	log    []string
}

// finality is what a published verdict was about.
type finality struct {
	until time.Time
	below map[string]int // changes below it
}

// randomTable is a table of the source.
type randomTable struct {
	name, columns string
	insert        string                              // the columns of an INSERT
	value         func(rng *rand.Rand, id int) string // of the columns after id and v
	ids, added    int
	instances     []string
}

func kinds() []randomTable {
	word := func(rng *rand.Rand) string { return []string{"a", "A", "b", "Ž", "ß", "zz"}[rng.IntN(6)] }
	return []randomTable{
		{name: "plain", insert: "id, v", columns: "id int NOT NULL PRIMARY KEY, v int NULL", value: func(*rand.Rand, int) string { return "" }},
		{name: "composite", insert: "id, v, g", columns: "id int NOT NULL, v int NULL, g nvarchar(10) NOT NULL, PRIMARY KEY (g, id)", value: func(rng *rand.Rand, _ int) string { return ", N'" + word(rng) + "'" }},
		{name: "times", insert: "id, v, k", columns: "id int NOT NULL, v int NULL, k datetime2(3) NOT NULL, PRIMARY KEY (k, id)", value: func(rng *rand.Rand, _ int) string {
			return fmt.Sprintf(", '2026-01-%02dT00:00:00.%03d'", 1+rng.IntN(5), rng.IntN(1000))
		}},
		{name: "guids", insert: "id, v, k", columns: "id int NOT NULL, v int NULL, k uniqueidentifier NOT NULL PRIMARY KEY", value: func(*rand.Rand, int) string { return ", NEWID()" }},
		{name: "heap", insert: "id, v, note", columns: "id int NOT NULL, v int NULL, note nvarchar(max) NULL", value: func(rng *rand.Rand, id int) string {
			return fmt.Sprintf(", REPLICATE(CONVERT(nvarchar(max), N'%s'), %d)", word(rng), rng.IntN(300))
		}},
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{lab: newClockedLab(t, march(), sqlserversim.WithSeed(int64(seed>>1))), rng: rng, faults: &atomic.Bool{}, final: map[string]finality{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d:\n%s", seed, strings.Join(w.log, "\n"))
		}
	})
	all := kinds()
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, table := range all[:1+rng.IntN(3)] {
		w.lab.table(t, table.name, table.columns)
		table.instances = []string{"dbo_" + table.name}
		w.tables = append(w.tables, &table)
	}
	require.NoError(t, w.sim.Idle(t.Context()))
	snapshot := rng.IntN(2) == 0
	w.losses = snapshot && rng.IntN(2) == 0
	w.p = w.pipeline(t, "dbo.*").facts().with(
		fmt.Sprintf("max_rows_per_part: %d", 1+rng.IntN(20)), fmt.Sprintf("max_commits_per_window: %d", 1+rng.IntN(6)),
		fmt.Sprintf("checkpoint_limit: %d", 1+rng.IntN(6)), fmt.Sprintf("max_parallel_reads: %d", 1+rng.IntN(3)))
	if snapshot {
		w.p.with("stream_snapshot: true", fmt.Sprintf("snapshot_chunk_rows: %d", 2+rng.IntN(9)), fmt.Sprintf("snapshot_on_switch: %v", rng.IntN(2) == 0))
	}
	if w.losses {
		w.p.with("on_data_loss: resnapshot", "resnapshot_interval: 1ns")
	}
	storeFaults := fault.Random(seed, 0.03)
	w.p.outputs = []output.Option{faulty(func(c fault.Call) fault.Fault {
		if !w.faults.Load() {
			return fault.Fault{}
		}
		return storeFaults(c)
	})}
	w.say("tables %d, snapshot %v, losses %v, input %q", len(w.tables), snapshot, w.losses, w.p.input)
	return w
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// do runs a batch in the source.
func (w *world) do(t *testing.T, batch string) {
	t.Helper()
	w.say("%.300s", batch)
	w.exec(t, batch)
}

func (w *world) step(t *testing.T) {
	t.Helper()
	table := w.tables[w.rng.IntN(len(w.tables))]
	switch n := w.rng.IntN(20); {
	case n < 9:
		for range 1 + w.rng.IntN(4) {
			w.clock.Advance(time.Duration(w.rng.IntN(60_000)) * time.Millisecond)
			w.do(t, w.transaction(table))
		}
	case n < 12:
		w.someCapture(t)
	case n < 17:
		w.someCapture(t)
		w.run(t)
	case n < 19:
		w.ddl(t, table)
	default:
		w.cleanUp(t, table)
	}
}

// transaction is a batch that changes a table in one transaction.
func (w *world) transaction(table *randomTable) string {
	var statements []string
	name := "dbo." + table.name
	for range 1 + w.rng.IntN(3) {
		switch w.rng.IntN(8) {
		case 0:
			statements = append(statements, fmt.Sprintf("UPDATE %s SET v = %d WHERE id %% %d = 0", name, w.rng.IntN(100), 1+w.rng.IntN(5)))
		case 1:
			statements = append(statements, fmt.Sprintf("DELETE %s WHERE id %% 7 = %d", name, w.rng.IntN(7)))
		case 2: // keys move over each other
			by := 1
			if !strings.Contains(table.columns, "id)") && !strings.Contains(table.columns, "id int NOT NULL PRIMARY") {
				by = table.ids + 1 // ids are not the server's key, and must not meet on the way
			}
			statements = append(statements, fmt.Sprintf("UPDATE %s SET id = id + %d", name, by))
			table.ids += by
		case 3: // back and forth
			statements = append(statements, "UPDATE "+name+" SET v = NULL", fmt.Sprintf("UPDATE %s SET v = %d", name, w.rng.IntN(9)))
		default:
			for range 1 + w.rng.IntN(6) {
				table.ids++
				statements = append(statements, w.insertOne(table))
			}
		}
	}
	end := "COMMIT"
	if w.rng.IntN(10) == 0 {
		end = "ROLLBACK"
	}
	return "BEGIN TRAN; " + strings.Join(statements, "; ") + "; " + end
}

// someCapture captures everything or the oldest few transactions.
func (w *world) someCapture(t *testing.T) {
	t.Helper()
	if w.rng.IntN(3) == 0 {
		w.do(t, fmt.Sprintf("EXEC sys.sp_cdc_scan @maxtrans = %d, @maxscans = 1", 1+w.rng.IntN(4)))
		return
	}
	w.say("capture")
	w.capture(t)
}

// ddl adds a column with an instance that has it, or drops an instance that was read past.
func (w *world) ddl(t *testing.T, table *randomTable) {
	t.Helper()
	if len(table.instances) < 2 {
		table.added++
		w.do(t, fmt.Sprintf("ALTER TABLE dbo.%s ADD added%d int NULL", table.name, table.added))
		instance := fmt.Sprintf("dbo_%s_%d", table.name, table.added)
		w.say("instance %s", instance)
		w.track(t, id(table.name), "@capture_instance = N'"+instance+"'")
		table.instances = append(table.instances, instance)
		if _, stored := w.p.position(t, table.name); !stored {
			w.say("capture")
			w.capture(t) // a table begins in its newest instance, and would wait for it
		}
		return
	}
	state, stored := w.p.position(t, table.name)
	if !stored || state.Instance != table.instances[1] {
		return
	}
	w.do(t, fmt.Sprintf("EXEC sys.sp_cdc_disable_table N'dbo', N'%s', N'%s'", table.name, table.instances[0]))
	table.instances = table.instances[1:]
}

// cleanUp cleans up to where a table was read, or beyond where losses are gone on from.
func (w *world) cleanUp(t *testing.T, table *randomTable) {
	t.Helper()
	instance := table.instances[0]
	commits := w.commits(t, instance)
	if len(commits) == 0 {
		return
	}
	mark := commits[w.rng.IntN(len(commits))]
	state, stored := w.p.position(t, table.name)
	if !w.losses && (!stored || state.LSN.Less(mark)) {
		return
	}
	w.say("clean-up of %s below %s", instance, mark)
	require.NoError(t, w.sim.CleanupBelow(t.Context(), instance, engine.LSN(mark)))
}

// run runs the pipeline to the end of what is there, to a message, or into faults.
func (w *world) run(t *testing.T) {
	t.Helper()
	var rules []*sqlserversim.Rule
	faults := w.rng.IntN(2) == 0
	if faults {
		for range 1 + w.rng.IntN(2) {
			f, name := w.serverFault()
			w.say("fault %s after %d rows, skipping %d", name, f.AfterRows, f.Skip)
			rules = append(rules, w.sim.Fault(f))
		}
		w.faults.Store(w.rng.IntN(2) == 0)
	}
	var err error
	switch w.rng.IntN(3) {
	case 0:
		messages := w.rng.IntN(6)
		w.say("run, stopped after %d messages", messages)
		err = w.crashed(t, messages)
	default:
		w.say("run")
		err = w.p.begin(t, "available_now").end(t)
	}
	w.faults.Store(false)
	for _, rule := range rules {
		rule.Remove()
	}
	w.say("run ended: %v", err)
	if !faults {
		require.NoError(t, err, "%s", w.p.log)
	}
	w.check(t)
}

// crashed is pipeline.crash for runs that may end badly before.
func (w *world) crashed(t *testing.T, messages int) error {
	t.Helper()
	w.p.pass = messages
	defer func() { w.p.pass = -1 }()
	r := w.p.begin(t, "available_now")
	select {
	case <-r.gate.shut:
	case err := <-r.ended:
		w.p.live = nil
		return errors.Join(err, r.state.Err())
	case <-time.After(patience):
		require.Fail(t, "the stream does not end", "%s", w.p.log)
	}
	close(r.gate.dead)
	_ = r.stop(t)
	return nil
}

func (w *world) serverFault() (sqlserversim.Fault, string) {
	actions := []struct {
		name   string
		action sqlserversim.Action
	}{
		{"close", sqlserversim.CloseConnection()}, {"reset", sqlserversim.ResetConnection()}, {"half a packet", sqlserversim.HalfPacket()}, {"no DONE", sqlserversim.EndWithoutDone()},
		{"unknown token", sqlserversim.UnknownToken()}, {"severe DONE", sqlserversim.SevereDone()}, {"deadlock", sqlserversim.RaiseError(1205, 13, 51, "deadlock victim")},
		{"lock timeout", sqlserversim.RaiseError(1222, 16, 51, "Lock request time out period exceeded.")}, {"killed", sqlserversim.RaiseError(596, 21, 1, "Cannot continue the execution because the session is in the kill state.")},
		{"away", sqlserversim.RaiseError(40613, 17, 1, "Database is not currently available.")}, {"slow", sqlserversim.SlowRows(time.Millisecond)},
	}
	a := actions[w.rng.IntN(len(actions))]
	return sqlserversim.Fault{
		Statement: regexp.MustCompile([]string{`.`, `_CT\]`, `FROM \[dbo\]`, `max_lsn`, `lsn_time_mapping`}[w.rng.IntN(5)]),
		Skip:      w.rng.IntN(6), AfterRows: int64(w.rng.IntN(5)), Times: 1 + w.rng.IntN(2), Action: a.action,
	}, a.name
}

// check holds the lake against what was said of it before.
func (w *world) check(t *testing.T) {
	t.Helper()
	for _, table := range w.tables {
		changes, times := w.read(t, table.name)
		for change, n := range changes {
			require.Equal(t, 1, n, "table %s has a change more than once: %s", table.name, change)
		}
		before := w.final[table.name]
		for change, at := range times {
			if at.Before(before.until) {
				require.Contains(t, before.below, change, "table %s: a change of %s came after everything before %s was final", table.name, at, before.until)
			}
		}
		verdict := w.p.verdict(t, table.name)
		require.False(t, verdict.FinalizedUntil.Before(before.until), "the verdict of table %s went back from %s to %s", table.name, before.until, verdict.FinalizedUntil)
		now := finality{until: verdict.FinalizedUntil, below: map[string]int{}}
		for change, at := range times {
			if at.Before(now.until) {
				now.below[change]++
			}
		}
		w.final[table.name] = now
	}
}

// read are the changes in a bronze table with their number and commit times; rows of
// snapshots are none.
func (w *world) read(t *testing.T, name string) (changes map[string]int, times map[string]time.Time) {
	t.Helper()
	changes, times = map[string]int{}, map[string]time.Time{}
	table := w.p.open(t, "lake", name)
	if table == nil {
		return changes, times
	}
	columns := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColCommandID, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation, "id", mssqlcdc.ColCommitTime}
	for record, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: columns}) {
		require.NoError(t, err)
		i := -1
		for row := range mssqlcdc.Rows(record, 0) {
			i++
			if op, _ := row[mssqlcdc.ColOperation].(int64); mssqlcdc.Operation(op) == mssqlcdc.Read {
				continue
			}
			var cells []string
			for k := range 5 {
				cells = append(cells, strings.Clone(text(record.Column(k), i)))
			}
			key := strings.Join(cells, "|")
			changes[key]++
			if at, ok := row[mssqlcdc.ColCommitTime].(time.Time); ok {
				times[key] = at
			}
		}
	}
	return changes, times
}

// settle lets everything arrive, and compares.
func (w *world) settle(t *testing.T) {
	t.Helper()
	w.say("the rest")
	for _, table := range w.tables {
		table.ids++
		w.do(t, w.insertOne(table))
	}
	w.capture(t)
	w.capture(t)
	for range 2 {
		require.NoError(t, w.p.begin(t, "available_now").end(t), "%s", w.p.log)
		w.check(t)
	}
	for _, table := range w.tables {
		w.requireCurrent(t, w.p, table.name, "id", "v")
	}
}

// insertOne inserts the row of the table's newest id.
func (w *world) insertOne(table *randomTable) string {
	return fmt.Sprintf("INSERT dbo.%s (%s) VALUES (%d, %d%s)", table.name, table.insert, table.ids, w.rng.IntN(1000), table.value(w.rng, table.ids))
}
