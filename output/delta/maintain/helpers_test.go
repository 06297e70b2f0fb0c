package maintain_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// t testing.TB or *rapid.T.
type tester interface {
	require.TestingT
	Helper()
	Context() context.Context
}

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// timed is a store whose objects are as old as the clock says.
type timed struct {
	store.Store
	clock *clock

	mu    sync.Mutex
	times map[string]time.Time
}

func newTimed(c *clock) *timed {
	return &timed{Store: mem.New(), clock: c, times: map[string]time.Time{}}
}

func (s *timed) set(path string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[path] = at
}

func (s *timed) done(path string, err error) error {
	if err == nil {
		s.set(path, s.clock.now())
	}
	return err
}

func (s *timed) Put(ctx context.Context, path string, data []byte) error {
	return s.done(path, s.Store.Put(ctx, path, data))
}

func (s *timed) PutIfAbsent(ctx context.Context, path string, data []byte) error {
	return s.done(path, s.Store.PutIfAbsent(ctx, path, data))
}

func (s *timed) Create(ctx context.Context, path string) (store.Writer, error) {
	w, err := s.Store.Create(ctx, path)
	if err != nil {
		return nil, err
	}
	return timedWriter{w, s, path}, nil
}

type timedWriter struct {
	store.Writer
	st   *timed
	path string
}

func (w timedWriter) Close() error { return w.st.done(w.path, w.Writer.Close()) }

func (s *timed) List(ctx context.Context, prefix, startAfter string) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		for info, err := range s.Store.List(ctx, prefix, startAfter) {
			s.mu.Lock()
			if at, ok := s.times[info.Path]; ok {
				info.ModTime = at
			}
			s.mu.Unlock()
			if !yield(info, err) {
				return
			}
		}
	}
}

// paths are the objects whose path begins with a prefix.
func paths(t tester, st store.Store, prefix string) []string {
	t.Helper()
	out := []string{}
	for info, err := range st.List(t.Context(), prefix, "") {
		require.NoError(t, err)
		out = append(out, info.Path)
	}
	return out
}

// columns makes a schema of nullable columns: "name type", long without a type.
func columns(names ...string) *schema.Struct {
	s := &schema.Struct{}
	for _, name := range names {
		name, typ, _ := strings.Cut(name, " ")
		field := schema.Field{Name: name, Type: schema.Long, Nullable: true}
		if typ != "" {
			field.Type = schema.Primitive(typ)
		}
		s.Fields = append(s.Fields, field)
	}
	return s
}

// lake is a table in memory on a clock of its own.
type lake struct {
	clock *clock
	st    *timed
	table *delta.Table
}

func newLake(t *testing.T, spec delta.Spec) *lake {
	t.Helper()
	l := &lake{clock: newClock()}
	l.st = newTimed(l.clock)
	if spec.Schema == nil {
		spec.Schema = columns("a", "b string")
	}
	var err error
	l.table, err = delta.Create(t.Context(), l.st, spec, l.options())
	require.NoError(t, err)
	closeAtEnd(t, l.table)
	return l
}

func closeAtEnd(t *testing.T, table *delta.Table) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, table.Close(context.Background())) })
}

func (l *lake) options() delta.Options {
	return delta.Options{Now: l.clock.now, CheckpointInterval: -1, Engine: "test/1", CommitTimeout: 10 * time.Second}
}

// open is another handle of the table, in a store that may wrap ours.
func (l *lake) open(t *testing.T, st store.Store) *delta.Table {
	t.Helper()
	table, err := delta.Open(t.Context(), st, l.options())
	require.NoError(t, err)
	closeAtEnd(t, table)
	return table
}

func batch(t tester, s *schema.Struct, rows string) arrow.RecordBatch {
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, s.Arrow(), strings.NewReader(rows))
	require.NoError(t, err)
	return rec
}

// write writes rows to files without committing them.
func write(t tester, table *delta.Table, rows string) []action.Add {
	t.Helper()
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(batch(t, table.Snapshot().Schema(), rows)))
	adds, err := w.Close()
	require.NoError(t, err)
	return adds
}

func commit(t tester, table *delta.Table, c delta.Change) int64 {
	t.Helper()
	r, err := table.Commit(t.Context(), c)
	require.NoError(t, err)
	return r.Version
}

// appendRows appends rows as one file per partition.
func appendRows(t tester, table *delta.Table, rows string) []action.Add {
	t.Helper()
	adds := write(t, table, rows)
	commit(t, table, delta.Change{BlindAppend: true, Add: adds})
	return adds
}

// appendMany makes commits of one row each: a is first, first+1, … The clock moves on
// by a second each.
func (l *lake) appendMany(t tester, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		appendRows(t, l.table, fmt.Sprintf(`[{"a":%d,"b":"row %d"}]`, i, i))
		l.clock.advance(time.Second)
	}
}

// remove removes files with their rows.
func remove(t tester, table *delta.Table, adds ...action.Add) int64 {
	t.Helper()
	c := delta.Change{ReadVersion: table.Snapshot().Version()}
	for _, a := range adds {
		c.Remove = append(c.Remove, a.Remove(0, true))
	}
	return commit(t, table, c)
}

// read returns the rows of a snapshot as JSON lines in their order.
func read(t tester, table *delta.Table, s *delta.Snapshot) []string {
	t.Helper()
	out := []string{}
	for rec, err := range table.Read(t.Context(), s, delta.ReadOptions{}) {
		require.NoError(t, err)
		text, err := rec.MarshalJSON()
		require.NoError(t, err)
		out = append(out, strings.Split(strings.Trim(string(text), "[]\n"), "\n,")...)
	}
	return out
}

// rows are the lines of appendMany.
func rows(from, to int) []string {
	out := []string{}
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf(`{"a":%d,"b":"row %d"}`, i, i))
	}
	return out
}

func files(t tester, s *delta.Snapshot) []action.Add {
	t.Helper()
	out := []action.Add{}
	for a, err := range s.Files(t.Context()) {
		require.NoError(t, err)
		out = append(out, a)
	}
	return out
}

// commitOf reads a commit from the log.
func commitOf(t tester, st store.Store, version int64) action.Commit {
	t.Helper()
	c, err := replay.ReadCommit(t.Context(), st, version)
	require.NoError(t, err)
	return c
}
