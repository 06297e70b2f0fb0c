package output_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
)

const ordersConfig = `
path: mem://orders
app_id: orders
facts_path: mem://facts
commit_timeout: 20ms
`

// direct is an output without a stream around it.
type direct struct {
	service.BatchOutput
	t     *testing.T
	lake  *lake
	state *mssqlcdc.RunState
}

func newDirect(t *testing.T, l *lake, config string, opts ...output.Option) *direct {
	t.Helper()
	d := &direct{t: t, lake: l, state: mssqlcdc.NewRunState()}
	res := service.MockResources()
	res.SetGeneric(mssqlcdc.RunStateKey(""), d.state)
	out, err := output.New(config, res, append([]output.Option{output.WithStores(store.NewRegistry(l.provider()))}, opts...)...)
	require.NoError(t, err)
	d.BatchOutput = out
	require.NoError(t, out.Connect(t.Context()))
	return d
}

func message(part *mssqlcdc.RecordBatch) *service.Message {
	m := service.NewMessage(nil)
	m.SetStructured(part)
	m.MetaSetMut(mssqlcdc.MetaFormat, mssqlcdc.FormatRecordBatch)
	m.MetaSetMut(mssqlcdc.MetaTable, part.Envelope().Table.Name)
	m.MetaSetMut(mssqlcdc.MetaSchemaName, part.Envelope().Table.Schema)
	return m
}

func (d *direct) send(part *mssqlcdc.RecordBatch) error {
	return d.WriteBatch(d.t.Context(), service.MessageBatch{message(part)})
}

// window writes a window and returns the mark of its last part.
func (d *direct) window(w changetest.Window, sink string) mssqlcdc.Mark {
	d.t.Helper()
	var mark mssqlcdc.Mark
	for _, part := range w.Parts {
		require.NoError(d.t, d.send(part))
		mark = part.MarkOf(sink)
	}
	return mark
}

func (d *direct) close() {
	d.t.Helper()
	require.NoError(d.t, d.Close(context.Background()))
	require.NoError(d.t, d.Close(context.Background()), "closing twice does nothing")
}

func history(seed uint64, commits int) changetest.History {
	return changetest.Random(rand.New(rand.NewPCG(seed, 5)), commits, 8)
}

func requireRows(t *testing.T, st store.Store, want []changetest.Row) {
	t.Helper()
	got, err := changetest.ReadBack(t.Context(), st)
	require.NoError(t, err)
	require.Empty(t, changetest.Difference(want, got))
}

func TestMarksSayWhatWasDone(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(1, 9)
	d := newDirect(t, l, ordersConfig)
	sink := bronze.Sink("orders", "mem://orders")
	first := h.Cut(changetest.Cursor{}, 3, 4)
	require.Equal(t, mssqlcdc.Committed, d.window(first, sink))
	for _, part := range first.Parts[:len(first.Parts)-1] {
		require.Equal(t, mssqlcdc.Staged, part.MarkOf(sink))
	}
	require.Equal(t, mssqlcdc.Skipped, d.window(h.Cut(changetest.Cursor{}, 3, 9), sink))
	require.Equal(t, mssqlcdc.Committed, d.window(h.Cut(first.After, 0, 9), sink), "an idle window")
	require.Equal(t, mssqlcdc.Committed, d.window(h.Cut(changetest.Cursor{}, 9, 9), sink), "a trimmed one")
	requireRows(t, l.plain("mem://orders"), h.Rows())
	d.close()
	require.NoError(t, d.state.Err())
	require.ErrorContains(t, d.send(first.Parts[0]), "closed")
}

func TestMessagesThatAreRefused(t *testing.T) {
	t.Parallel()
	h := history(2, 3)
	part := func() *mssqlcdc.RecordBatch { return h.Cut(changetest.Cursor{}, 3, 100).Parts[0] }
	structured := func(v any, format string) *service.Message {
		m := service.NewMessage(nil)
		m.SetStructured(v)
		if format != "" {
			m.MetaSetMut(mssqlcdc.MetaFormat, format)
		}
		return m
	}
	for _, test := range []struct {
		name    string
		config  string
		message func() *service.Message
		want    []string
	}{
		{"a message that failed before", ordersConfig, func() *service.Message {
			m := message(part())
			m.SetError(errors.New("mapping broke"))
			return m
		}, []string{"failed before", "mapping broke"}},
		{"a record batch that a row mapping replaced", ordersConfig, func() *service.Message {
			return structured(map[string]any{"a": nil}, mssqlcdc.FormatRecordBatch)
		}, []string{"each_row", "format: rows"}},
		{"a record batch that became null", ordersConfig, func() *service.Message { return structured(nil, mssqlcdc.FormatRecordBatch) }, []string{"each_row"}},
		{"a record batch that became a list of rows", ordersConfig, func() *service.Message {
			return structured([]any{map[string]any{"id": 1}}, mssqlcdc.FormatRecordBatch)
		}, []string{"each_row"}},
		{"a list of record batches", ordersConfig, func() *service.Message { return structured([]any{part()}, mssqlcdc.FormatRecordBatch) }, []string{"archive"}},
		{"a list of record batches without metadata", ordersConfig, func() *service.Message { return structured([]any{part()}, "") }, []string{"archive"}},
		{"no record batch", ordersConfig, func() *service.Message { return structured((*mssqlcdc.RecordBatch)(nil), "") }, []string{"no record batch"}},
		{"rows of the input", ordersConfig, func() *service.Message { return structured(map[string]any{"id": 1}, mssqlcdc.FormatRows) }, []string{"format: record_batch", "delivery: at_least_once"}},
		{"a record batch without app_id", "path: mem://x", func() *service.Message { return message(part()) }, []string{"app_id"}},
		{"no object", "path: mem://x", func() *service.Message { return structured("text", "") }, []string{"string", "object"}},
		{"no JSON", "path: mem://x", func() *service.Message { return service.NewMessage([]byte("{")) }, []string{"no object"}},
		{"a list", "path: mem://x", func() *service.Message { return structured([]any{1}, "") }, []string{"unarchive"}},
		{"a path that is missing", `path: mem://${! @nowhere.not_null() }`, func() *service.Message { return structured(map[string]any{"a": 1}, "") }, []string{"path"}},
		{"a batch key that is no number", "path: mem://x\napp_id: a\nbatch_key: ${! @key }", func() *service.Message {
			m := structured(map[string]any{"a": 1}, "")
			m.MetaSetMut("key", "x1")
			return m
		}, []string{"batch_key", "x1"}},
		{"a store that nobody knows", `path: ftp://${! "x" }`, func() *service.Message { return structured(map[string]any{"a": 1}, "") }, []string{"ftp"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDirect(t, newLake(), test.config)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err := d.WriteBatch(ctx, service.MessageBatch{test.message()})
			for _, part := range test.want {
				require.ErrorContains(t, err, part)
			}
			d.close()
		})
	}
}

// The messages of other tables in a batch are written, and those of a table behind
// a failed one are not.
func TestAFailedMessageFailsItsTableOnly(t *testing.T) {
	t.Parallel()
	l := newLake()
	orders, customers := history(3, 9), history(4, 9)
	customers.Table.Name = "customers"
	d := newDirect(t, l, "path: mem://${! @table }\napp_id: shop\nfacts_path: mem://facts\n")
	o1 := orders.Cut(changetest.Cursor{}, 3, 100)
	o2 := orders.Cut(o1.After, 3, 100)
	c1 := customers.Cut(changetest.Cursor{}, 3, 100)
	bad := message(o1.Parts[0])
	gap := message(o2.Parts[0])
	batch := service.MessageBatch{gap, message(c1.Parts[0]), bad}
	index := batch.Index()
	err := d.WriteBatch(t.Context(), batch)
	var failed *service.BatchError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 2, failed.IndexedErrors())
	seen := map[int]string{}
	failed.WalkMessagesIndexedBy(index, func(i int, _ *service.Message, err error) bool {
		if err != nil {
			seen[i] = err.Error()
		}
		return true
	})
	require.Contains(t, seen[0], "continues from")
	require.Contains(t, seen[2], "an earlier message of table mem://orders")
	requireRows(t, l.plain("mem://customers"), customers.Rows()[:c1.Rows])
	require.NoError(t, d.WriteBatch(t.Context(), service.MessageBatch{bad, gap}))
	d.close()
	require.Len(t, readFacts(t, l.plain("mem://facts")), 3)
}

func TestTheSecondOutputStops(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(5, 9)
	first, second := newDirect(t, l, ordersConfig), newDirect(t, l, ordersConfig)
	w := h.Cut(changetest.Cursor{}, 3, 100)
	sink := bronze.Sink("orders", "mem://orders")
	require.Equal(t, mssqlcdc.Committed, first.window(w, sink))
	second2 := newDirect(t, l, ordersConfig)
	w2 := h.Cut(w.After, 3, 100)
	require.Equal(t, mssqlcdc.Committed, first.window(w2, sink))
	err := second2.send(h.Cut(w.After, 3, 100).Parts[0])
	require.ErrorIs(t, err, delta.ErrFenced)
	require.ErrorContains(t, second2.state.Err(), `another writer uses application id "orders"`)
	select {
	case <-second2.state.Failed():
	default:
		t.Fatal("the run must end")
	}
	require.NoError(t, first.state.Err())
	requireRows(t, l.plain("mem://orders"), h.Rows()[:w.Rows+w2.Rows])
	for _, d := range []*direct{first, second, second2} {
		d.close()
	}
}

// A gap that stays is no window behind a nacked one.
func TestALastingGapEndsTheRun(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(6, 9)
	d := newDirect(t, l, ordersConfig)
	w := h.Cut(changetest.Cursor{}, 3, 100)
	behind := h.Cut(w.After, 3, 100)
	require.Error(t, d.send(behind.Parts[0]))
	require.Error(t, d.send(behind.Parts[0]))
	require.NoError(t, d.state.Err(), "windows in flight behind a failed one are no reason")
	d.window(w, "")
	d.window(behind, "")

	l2 := newLake() // the table is gone
	d2 := newDirect(t, l2, ordersConfig)
	for range 3 {
		require.Error(t, d2.send(h.Cut(w.After, 3, 100).Parts[0]))
	}
	require.ErrorContains(t, d2.state.Err(), w.After.LSN.String())
	require.ErrorContains(t, d2.state.Err(), "restore the table")
	d.close()
	d2.close()
}

// Behind windows that were written a gap is never for good, and a part that was
// read again is another one; but the same part again and again is somebody who
// does not go back.
func TestRefusedPartsThatComeAgain(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(61, 9)
	d := newDirect(t, l, ordersConfig)
	w := h.Cut(changetest.Cursor{}, 3, 3)
	d.window(w, "")
	next := h.Cut(w.After, 3, 3)
	behind := h.Cut(next.After, 3, 3)
	for range 5 {
		require.Error(t, d.send(behind.Parts[0]))
	}
	for attempt := range int64(5) {
		require.Error(t, d.send(next.Attempt(attempt + 1).Parts[1]))
	}
	require.NoError(t, d.state.Err())
	again := next.Attempt(9)
	for range 3 {
		require.Error(t, d.send(again.Parts[1]))
	}
	require.ErrorContains(t, d.state.Err(), "from part 0")
	d.close()
}

func TestPartitionsByDate(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(62, 40)
	for i := range h.Commits { // over midnight
		h.Commits[i].Time = h.Commits[i].Time.Add(23*time.Hour + 25*time.Minute)
		for j := range h.Commits[i].Rows {
			h.Commits[i].Rows[j].Time = h.Commits[i].Time
		}
	}
	config := ordersConfig + "partition_by: [ date(_commit_ts) ]\n"
	for part := range 2 { // the second output finds the table partitioned, whatever it was told
		d := newDirect(t, l, config)
		d.window(h.Cut(changetest.Cursor{}, 20+20*part, 50), "")
		d.close()
		config = ordersConfig
	}
	requireRows(t, l.plain("mem://orders"), h.Rows())
	table, err := delta.Open(t.Context(), l.plain("mem://orders"), delta.Options{})
	require.NoError(t, err)
	require.Equal(t, []string{bronze.ColCommitDate}, table.Snapshot().PartitionColumns())
	dates := map[string]bool{}
	for add, err := range table.Snapshot().Files(t.Context()) {
		require.NoError(t, err)
		dates[*add.PartitionValues[bronze.ColCommitDate]] = true
	}
	require.Equal(t, map[string]bool{"2026-03-29": true, "2026-03-30": true}, dates)
}

// A table of mssql-cdc-pyspark and its facts are carried on.
func TestAdoptByFacts(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(63, 12)
	d := newDirect(t, l, "path: mem://orders\napp_id: theirs\nfacts_path: mem://facts\n")
	w := h.Cut(changetest.Cursor{}, 5, 100)
	d.window(w, "")
	d.close()

	config := "path: mem://orders\napp_id: ours\nfacts_path: mem://facts\nadopt: facts\n"
	d = newDirect(t, l, config)
	all := h.Cut(changetest.Cursor{}, 12, 100)
	require.Equal(t, mssqlcdc.Committed, d.window(all, bronze.Sink("ours", "mem://orders")))
	d.close()
	requireRows(t, l.plain("mem://orders"), h.Rows())
	facts := readFacts(t, l.plain("mem://facts"))
	events, rows := 0, int64(0)
	for _, f := range facts {
		if f["event"] == "table_adopted" {
			events++
			require.Equal(t, w.After.LSN.String(), f["end_lsn"])
		}
		rows += f["rows"].(int64)
	}
	require.Equal(t, int64(len(h.Rows())), rows)
	require.Equal(t, 1, events)
	newDirect(t, l, config).close()
	require.Len(t, readFacts(t, l.plain("mem://facts")), len(facts), "nothing comes twice")
}

func TestErrorsOfTheStoreAreRetriedInOrder(t *testing.T) {
	t.Parallel()
	l, h := newLake(), history(7, 12)
	d := newDirect(t, l, ordersConfig)
	n := 0
	l.fail(func(_ string, c fault.Call) fault.Fault {
		if n++; n%3 == 0 {
			return fault.Fault{Before: fault.ErrInjected}
		}
		return fault.Fault{}
	})
	at := changetest.Cursor{}
	for at.Next < len(h.Commits) {
		w := h.Cut(at, 2, 100)
		require.Equal(t, mssqlcdc.Committed, d.window(w, bronze.Sink("orders", "mem://orders")))
		at = w.After
	}
	l.fail(nil)
	d.close()
	requireRows(t, l.plain("mem://orders"), h.Rows())
	require.NoError(t, d.state.Err())
}

func TestRetriesEndWithTheStream(t *testing.T) {
	t.Parallel()
	broken := func(string, fault.Call) fault.Fault { return fault.Fault{Before: fault.ErrInjected} }
	for name, end := range map[string]func(*direct, context.CancelFunc){
		"by the context":   func(_ *direct, cancel context.CancelFunc) { cancel() },
		"by the run state": func(d *direct, _ context.CancelFunc) { d.state.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, h := newLake(), history(8, 3)
			d := newDirect(t, l, ordersConfig)
			l.fail(broken)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			w := h.Cut(changetest.Cursor{}, 3, 100)
			go func() { done <- d.WriteBatch(ctx, service.MessageBatch{message(w.Parts[0])}) }()
			select {
			case err := <-done:
				t.Fatalf("gave up: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			end(d, cancel)
			select {
			case err := <-done:
				require.ErrorIs(t, err, fault.ErrInjected)
			case <-time.After(10 * time.Second):
				t.Fatal("did not end")
			}
			l.fail(nil)
			require.NoError(t, d.state.Err())
			d.close()
		})
	}
}

func TestSchemaConflictEndsTheRun(t *testing.T) {
	t.Parallel()
	l := newLake()
	d := newDirect(t, l, "path: mem://lake\napp_id: lake\n")
	h := history(9, 3)
	d.window(h.Cut(changetest.Cursor{}, 3, 100), "")
	other := newDirect(t, l, "path: mem://lake\napp_id: other\n")
	require.Error(t, other.send(h.Cut(changetest.Cursor{}, 3, 100).Parts[0]))
	require.ErrorContains(t, other.state.Err(), "adopt")
	d.close()
	other.close()
}

func TestOldTablesAreClosedForNewOnes(t *testing.T) {
	t.Parallel()
	l := newLake()
	d := newDirect(t, l, "path: mem://${! @table }\napp_id: shop\nmax_open_tables: 2\nfacts_path: mem://facts\n")
	tables := make([]changetest.History, 5)
	cursors := make([]changetest.Cursor, len(tables))
	for i := range tables {
		tables[i] = history(uint64(20+i), 8)
		tables[i].Table.Name = fmt.Sprint("t", i)
	}
	for round := range 4 {
		for i, h := range tables {
			w := h.Cut(cursors[i], 2, 3)
			require.Equal(t, mssqlcdc.Committed, d.window(w, bronze.Sink("shop", "mem://"+h.Table.Name)), "round %d", round)
			cursors[i] = w.After
		}
	}
	d.close()
	for _, h := range tables {
		requireRows(t, l.plain("mem://"+h.Table.Name), h.Rows())
	}
	require.Len(t, readFacts(t, l.plain("mem://facts")), 20)
}

func TestConnectionTest(t *testing.T) {
	t.Parallel()
	l := newLake()
	test := func(config string) error {
		d := newDirect(t, l, config)
		defer d.close()
		return d.BatchOutput.(service.ConnectionTestable).ConnectionTest(t.Context())[0].Err
	}
	require.NoError(t, test("path: mem://nothing-yet"))
	require.ErrorIs(t, test("path: mem://${! @table }"), service.ErrConnectionTestNotSupported)
	d := newDirect(t, l, ordersConfig)
	l.fail(func(string, fault.Call) fault.Fault { return fault.Fault{Before: fault.ErrInjected} })
	require.ErrorIs(t, d.BatchOutput.(service.ConnectionTestable).ConnectionTest(t.Context())[0].Err, fault.ErrInjected)
	l.fail(nil)
	d.close()
}
