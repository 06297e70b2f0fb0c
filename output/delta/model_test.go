package delta_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// model is what a table must hold, told without a log.
type model struct {
	t       *rapid.T
	st      *mem.Store
	now     time.Time
	handles []*delta.Table

	version    int64
	live       map[string]action.Add
	txns       map[string]int64
	properties map[string]string
	next       int
}

// A random sequence of changes, through several handles with snapshots of
// different age, and checkpoints at any time: the table is at every step what
// the model says, for every handle, for a fresh reader, for one who has the
// commits only, and for one who has lost the commits under the checkpoint.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	histories := 0
	rapid.Check(t, func(t *rapid.T) {
		if histories++; raceEnabled && histories > 12 {
			return
		}
		m := &model{
			t: t, st: mem.New(), now: time.UnixMilli(1_800_000_000_000),
			live: map[string]action.Add{}, txns: map[string]int64{}, properties: map[string]string{},
		}
		for range 3 {
			table, err := delta.Create(t.Context(), m.st, delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{{Name: "a", Type: schema.Long, Nullable: true}}}}, m.options())
			require.NoError(t, err)
			m.handles = append(m.handles, table)
		}
		t.Repeat(map[string]func(*rapid.T){
			"append":     m.append,
			"replace":    m.replace,
			"compact":    m.compact,
			"delete":     m.delete,
			"property":   m.property,
			"checkpoint": m.checkpoint,
			"reopen":     m.reopen,
			"time":       func(*rapid.T) { m.now = m.now.Add(50 * time.Hour) },
			"":           m.check,
		})
		for _, table := range m.handles {
			require.NoError(t, table.Close(t.Context()))
		}
	})
}

func (m *model) options() delta.Options {
	return delta.Options{Now: func() time.Time { return m.now }, CheckpointInterval: -1}
}

func (m *model) handle(t *rapid.T) *delta.Table {
	return m.handles[rapid.IntRange(0, len(m.handles)-1).Draw(t, "handle")]
}

func (m *model) file() action.Add {
	m.next++
	names := []string{"part-%05d", "a b/%d", "ü%%/%d", "x=%d:y", "%d+1"}
	return add(fmt.Sprintf(names[m.next%len(names)], m.next), m.next)
}

// commit commits through a handle whose snapshot may be old, and expects success.
func (m *model) commit(t *rapid.T, table *delta.Table, c delta.Change) {
	app := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "app")
	v := rapid.Int64().Draw(t, "mark")
	c.Marks = []delta.Txn{{AppID: app, Version: v}}
	r, err := table.Commit(t.Context(), c)
	require.NoError(t, err)
	m.version++
	m.txns[app] = v
	require.Equal(t, m.version, r.Version)
	for _, rm := range c.Remove {
		delete(m.live, rm.Path)
	}
	for _, a := range c.Add {
		m.live[a.Path] = a
	}
}

func (m *model) append(t *rapid.T) {
	c := delta.Change{BlindAppend: true}
	for range rapid.IntRange(0, 4).Draw(t, "files") {
		c.Add = append(c.Add, m.file())
	}
	m.commit(t, m.handle(t), c)
}

// fresh is a handle that has seen everything, for changes that read.
func (m *model) fresh(t *rapid.T) (*delta.Table, []string) {
	table := m.handle(t)
	_, err := table.Refresh(t.Context())
	require.NoError(t, err)
	return table, sortedKeys(m.live)
}

func (m *model) rewrite(t *rapid.T, dataChange bool, adds int) {
	table, live := m.fresh(t)
	if len(live) == 0 {
		t.Skip("nothing to remove")
	}
	c := delta.Change{ReadVersion: table.Snapshot().Version()}
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom(live), 1, min(3, len(live)), rapid.ID).Draw(t, "remove") {
		c.Remove = append(c.Remove, m.live[path].Remove(0, dataChange))
	}
	for range adds {
		a := m.file()
		a.DataChange = dataChange
		c.Add = append(c.Add, a)
	}
	m.commit(t, table, c)
}

func (m *model) replace(t *rapid.T) { m.rewrite(t, true, 1) }
func (m *model) compact(t *rapid.T) { m.rewrite(t, false, 1) }
func (m *model) delete(t *rapid.T)  { m.rewrite(t, true, 0) }

func (m *model) property(t *rapid.T) {
	table, _ := m.fresh(t)
	metadata := table.Snapshot().Metadata()
	metadata.Configuration = map[string]string{"p": fmt.Sprint(m.next)}
	m.commit(t, table, delta.Change{ReadVersion: table.Snapshot().Version(), Metadata: &metadata})
	m.properties = metadata.Configuration
}

func (m *model) checkpoint(t *rapid.T) { require.NoError(t, m.handle(t).Checkpoint(t.Context())) }

func (m *model) reopen(t *rapid.T) {
	i := rapid.IntRange(0, len(m.handles)-1).Draw(t, "handle")
	require.NoError(t, m.handles[i].Close(t.Context()))
	table, err := delta.Open(t.Context(), m.st, m.options())
	require.NoError(t, err)
	m.handles[i] = table
}

func (m *model) check(t *rapid.T) {
	held, err := m.handle(t).Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, m.version, held.Version())
	require.Equal(t, m.txns, appVersions(held))
	if rapid.IntRange(0, 4).Draw(t, "look closely") > 0 {
		return // the rest takes most of the test's time
	}
	m.compare(t, "held", held)
	m.compare(t, "fresh", m.open(t, m.st))
	m.compare(t, "commits only", m.open(t, m.without(t, func(path string) bool { return strings.Contains(path, "checkpoint") })))
	newest := ""
	for info, err := range m.st.List(t.Context(), "_delta_log/0", "") {
		require.NoError(t, err)
		if before, ok := strings.CutSuffix(info.Path, ".checkpoint.parquet"); ok {
			newest = before
		}
	}
	if newest != "" {
		m.compare(t, "cleaned", m.open(t, m.without(t, func(path string) bool {
			return strings.HasPrefix(path, "_delta_log/0") && path < newest
		})))
	}
}

func (m *model) open(t *rapid.T, st store.Store) *delta.Snapshot {
	table, err := delta.Open(t.Context(), st, m.options())
	require.NoError(t, err)
	return table.Snapshot()
}

// without is a copy of the table's store that lacks some objects.
func (m *model) without(t *rapid.T, drop func(path string) bool) store.Store {
	out := mem.New()
	for info, err := range m.st.List(t.Context(), "", "") {
		require.NoError(t, err)
		if drop(info.Path) {
			continue
		}
		data, err := m.st.Get(t.Context(), info.Path)
		require.NoError(t, err)
		require.NoError(t, out.Put(t.Context(), info.Path, data))
	}
	return out
}

func (m *model) compare(t *rapid.T, who string, s *delta.Snapshot) {
	require.Equal(t, m.version, s.Version(), who)
	require.Equal(t, m.txns, appVersions(s), who)
	require.True(t, maps.Equal(m.properties, s.Metadata().Configuration), who)
	require.EqualValues(t, len(m.live), s.NumFiles(), who)
	var paths []string
	for a, err := range s.Files(t.Context()) {
		require.NoError(t, err)
		paths = append(paths, a.Path)
		require.Equal(t, m.live[a.Path].Stats, a.Stats, who)
		require.Equal(t, m.live[a.Path].Size, a.Size, who)
	}
	slices.Sort(paths)
	require.Equal(t, sortedKeys(m.live), paths, who)
}
