package merge_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// key is a key of the model: positions in the domains.
type key [2]int

// row is a row of the model.
type row struct {
	version int64
	payload string
}

// model is a table in memory beside the real one.
type model struct {
	t       *testing.T
	r       *rand.Rand
	domains []domain
	guard   bool
	schema  *schema.Struct
	table   *delta.Table
	st      *mem.Store
	rows    map[key]row
	clock   int64
}

func newModel(t *testing.T, seed uint64) *model {
	r := rand.New(rand.NewPCG(seed, 7))
	all := domains()
	names := slices.Sorted(maps.Keys(all))
	m := &model{t: t, r: r, guard: r.IntN(2) == 0, rows: map[key]row{}, schema: columns(), st: mem.New()}
	for i := range 1 + r.IntN(2) {
		d := all[names[r.IntN(len(names))]]
		m.domains = append(m.domains, d)
		m.schema.Fields = append(m.schema.Fields, field(fmt.Sprintf("Key%d", i), d.typ))
	}
	m.schema.Fields = append(m.schema.Fields, field("version", schema.Long), field("payload", schema.String),
		field("tags", &schema.Array{Element: schema.String, ContainsNull: true}))
	spec := delta.Spec{Schema: m.schema, Properties: map[string]string{}}
	if r.IntN(3) == 0 {
		spec.PartitionBy = []string{"payload"}
	}
	if r.IntN(4) == 0 {
		spec.Properties["delta.dataSkippingNumIndexedCols"] = "0"
	}
	m.table = create(t, m.st, spec)
	return m
}

func (m *model) key() key {
	k := key{m.r.IntN(len(m.domains[0].values)), 0}
	if len(m.domains) > 1 {
		k[1] = m.r.IntN(len(m.domains[1].values))
	}
	return k
}

func (m *model) keyNames() []string {
	return []string{"key0", "KEY1"}[:len(m.domains)]
}

// change is a row of a source.
type change struct {
	key
	row
	del bool
}

func (m *model) changes() []change {
	var out []change
	used := map[key]bool{}
	m.clock++
	for range m.r.IntN(12) {
		k := m.key()
		if used[k] {
			continue
		}
		used[k] = true
		c := change{key: k, del: m.r.IntN(3) == 0, row: row{version: m.clock - int64(m.r.IntN(3)), payload: fmt.Sprint("p", m.r.IntN(3))}}
		out = append(out, c)
	}
	return out
}

// batch makes a batch of changes; deletes have keys and versions only.
func (m *model) batch(changes []change, del bool) []arrow.RecordBatch {
	some := m.schema
	if del {
		some = columns(m.schema.Fields[:len(m.domains)+1]...)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, some.Arrow())
	defer b.Release()
	n := 0
	for _, c := range changes {
		if c.del != del {
			continue
		}
		n++
		for i, d := range m.domains {
			spellings := d.values[c.key[i]]
			appendValue(b.Field(i), spellings[m.r.IntN(len(spellings))])
		}
		at := len(m.domains)
		b.Field(at).(*array.Int64Builder).Append(c.version)
		if !del {
			b.Field(at + 1).(*array.StringBuilder).Append(c.payload)
			list := b.Field(at + 2).(*array.ListBuilder)
			list.Append(true)
			list.ValueBuilder().(*array.StringBuilder).Append(fmt.Sprint(c.key))
		}
	}
	if n == 0 {
		return nil
	}
	rec := b.NewRecordBatch()
	if cut := int64(m.r.IntN(n + 1)); cut > 0 && cut < int64(n) {
		return []arrow.RecordBatch{rec.NewSlice(0, cut), rec.NewSlice(cut, int64(n))}
	}
	return []arrow.RecordBatch{rec}
}

func (m *model) less(a, b key) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// interval is a range of the model.
type interval struct {
	after, upTo key
	from, to    bool // it has a bound below, above
	before      int64
}

func (m *model) intervals() []interval {
	var out []interval
	for range max(0, m.r.IntN(5)-2) {
		iv := interval{after: m.key(), upTo: m.key(), from: m.r.IntN(4) > 0, to: m.r.IntN(4) > 0, before: m.clock - int64(m.r.IntN(3))}
		if m.less(iv.upTo, iv.after) {
			iv.after, iv.upTo = iv.upTo, iv.after
		}
		out = append(out, iv)
	}
	return out
}

func (m *model) bound(k key) []any {
	var out []any
	for i, d := range m.domains {
		out = append(out, d.values[k[i]][0])
	}
	return out
}

// apply does to the model what a merge must do, and tells what that is.
func (m *model) apply(changes []change, intervals []interval) merge.Metrics {
	var n merge.Metrics
	named := map[key]bool{}
	n.SourceRows = int64(len(changes))
	for _, c := range changes {
		named[c.key] = true
	}
	for k, have := range m.rows {
		if named[k] {
			continue
		}
		for _, iv := range intervals {
			if (!iv.from || m.less(iv.after, k)) && (!iv.to || !m.less(iv.upTo, k)) && (!m.guard || have.version < iv.before) {
				delete(m.rows, k)
				n.RowsDeleted++
				n.RowsDeletedByRange++
				break
			}
		}
	}
	for _, c := range changes {
		have, ok := m.rows[c.key]
		switch {
		case ok && m.guard && have.version >= c.version:
			n.RowsOutdated++
		case c.del && ok:
			delete(m.rows, c.key)
			n.RowsDeleted++
		case c.del:
		default:
			m.rows[c.key] = c.row
			if ok {
				n.RowsUpdated++
			} else {
				n.RowsInserted++
			}
		}
	}
	return n
}

func (m *model) check() {
	want := []string{}
	for k, r := range m.rows {
		want = append(want, fmt.Sprintf("%v %d %s [\"%v\"]", k, r.version, r.payload, k))
	}
	have := []string{}
	s := m.table.Snapshot()
	for rec, err := range m.table.Read(m.t.Context(), s, delta.ReadOptions{}) {
		require.NoError(m.t, err)
		at := len(m.domains)
		for i := range int(rec.NumRows()) {
			k := key{}
			for j := range m.domains {
				k[j] = m.position(j, rec.Column(j), i)
			}
			have = append(have, fmt.Sprintf("%v %s %s %s", k, rec.Column(at).ValueStr(i), rec.Column(at+1).ValueStr(i), rec.Column(at+2).ValueStr(i)))
		}
	}
	slices.Sort(want)
	slices.Sort(have)
	require.Equal(m.t, want, have)
	rows, err := s.NumRecords(m.t.Context())
	require.NoError(m.t, err)
	require.EqualValues(m.t, len(m.rows), rows)
}

// position is which value of a domain a cell has.
func (m *model) position(column int, arr arrow.Array, i int) int {
	d := m.domains[column]
	for at, spellings := range d.values {
		for _, v := range spellings {
			b := array.NewBuilder(memory.DefaultAllocator, arr.DataType())
			appendValue(b, v)
			if b.NewArray().ValueStr(0) == arr.ValueStr(i) {
				return at
			}
		}
	}
	m.t.Fatalf("the value %s is none of the domain", arr.ValueStr(i))
	return -1
}

func (m *model) options() merge.Options {
	o := merge.Options{
		Keys: m.keyNames(), EnableDeletionVectors: true, Parallel: 1 + m.r.IntN(3), PurgeRatio: []float64{0, 0.5, 1}[m.r.IntN(3)],
		Strategy: []merge.Strategy{"", merge.CopyOnWrite, merge.DeletionVectors}[m.r.IntN(3)],
		Writer:   data.WriterOptions{RowGroupRows: 1 + int64(m.r.IntN(5)), TargetFileBytes: []int64{1, 0}[m.r.IntN(2)]},
	}
	if m.guard {
		o.Versions = []string{"version"}
	}
	return o
}

func (m *model) source(changes []change, intervals []interval) merge.Source {
	src := merge.Source{Upserts: m.batch(changes, false), Deletes: m.batch(changes, true)}
	for _, iv := range intervals {
		var r merge.Range
		if iv.from {
			r.After = m.bound(iv.after)
		}
		if iv.to {
			r.UpTo = m.bound(iv.upTo)
		}
		if m.guard {
			r.Before = []any{iv.before}
		}
		src.Ranges = append(src.Ranges, r)
	}
	return src
}

func (m *model) step() {
	changes, intervals := m.changes(), m.intervals()
	o := m.options()
	r, err := merge.Run(m.t.Context(), m.table, m.source(changes, intervals), o)
	require.NoError(m.t, err)
	want := m.apply(changes, intervals)
	have := r.Metrics
	require.Equal(m.t, want, merge.Metrics{
		SourceRows: have.SourceRows, RowsInserted: have.RowsInserted, RowsUpdated: have.RowsUpdated,
		RowsDeleted: have.RowsDeleted, RowsDeletedByRange: have.RowsDeletedByRange, RowsOutdated: have.RowsOutdated,
	})
	m.check()
	if !r.Unchanged {
		m.checkCommit(r)
	}
	if m.guard {
		// Once more: nothing changes, but for keys that this very source deletes.
		again, err := merge.Run(m.t.Context(), m.table, m.source(changes, intervals), m.options())
		require.NoError(m.t, err)
		require.True(m.t, again.Unchanged)
		m.check()
	}
	if m.r.IntN(4) == 0 {
		_, err := maintain.Optimize(m.t.Context(), m.table, maintain.OptimizeOptions{})
		require.NoError(m.t, err)
		m.check()
	}
}

// checkCommit compares the metrics with the commit.
func (m *model) checkCommit(r merge.Result) {
	c := commitOf(m.t, m.st, r.Version)
	require.Equal(m.t, delta.OpMerge, c.Info.Operation)
	adds, removes := map[string]bool{}, map[string]bool{}
	var have merge.Metrics
	for _, a := range c.Adds {
		adds[a.Path] = true
	}
	for _, rm := range c.Removes {
		removes[rm.Path] = true
		switch {
		case !adds[rm.Path]:
			have.FilesRemoved++
			have.BytesRemoved += *rm.Size
			if rm.DeletionVector != nil {
				have.VectorsRemoved++
			}
		case rm.DeletionVector != nil:
			have.VectorsUpdated++
		default:
			have.VectorsAdded++
		}
	}
	var rows int64
	for _, a := range c.Adds {
		if removes[a.Path] {
			require.NotNil(m.t, a.DeletionVector)
			require.Contains(m.t, a.Stats, `"tightBounds":false`)
			continue
		}
		have.FilesAdded++
		have.BytesAdded += a.Size
		require.Contains(m.t, a.Stats, `"numRecords":`)
		var n int64
		_, err := fmt.Sscanf(a.Stats, `{"numRecords":%d`, &n)
		require.NoError(m.t, err)
		rows += n
	}
	n := r.Metrics
	require.Equal(m.t, n.RowsInserted+n.RowsUpdated+n.RowsCopied, rows)
	require.Equal(m.t, fmt.Sprint(rows), c.Info.OperationMetrics["numOutputRows"])
	require.Equal(m.t, have, merge.Metrics{FilesAdded: n.FilesAdded, FilesRemoved: n.FilesRemoved, BytesAdded: n.BytesAdded,
		BytesRemoved: n.BytesRemoved, VectorsAdded: n.VectorsAdded, VectorsUpdated: n.VectorsUpdated, VectorsRemoved: n.VectorsRemoved})
	for name, value := range c.Info.OperationParameters {
		require.False(m.t, strings.ContainsAny(value, "\n"), name)
	}
}

// Random merges into tables with random keys, beside a model.
func TestModel(t *testing.T) {
	t.Parallel()
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
			for range 8 {
				m.step()
			}
			require.Empty(t, orphans(t, m.st, m.table))
		})
	}
}
