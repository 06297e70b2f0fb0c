package silver_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// bench is a lake with some changes and a configuration to build a table from it.
type bench struct {
	t      *testing.T
	source *source
	lake   *lake
	config silver.Config
	target store.Store
}

func newBench(t *testing.T, keys ...string) *bench {
	t.Helper()
	b := &bench{t: t, source: newSource(rand.New(rand.NewPCG(1, 2))), lake: newLake(t, mem.New(), mem.New()), target: mem.New()}
	b.lake.keys = keys
	for range 20 {
		b.source.commit(3)
	}
	b.config = silver.Config{
		Bronze: b.lake.bronze, BronzeName: "lake/orders", Target: b.target, TargetName: "lake/silver",
		Control: b.lake.control, Row: "silver.dbo.orders", BronzeRow: "dbo.orders", TempDir: t.TempDir(),
	}
	return b
}

// apply makes one call with the configuration.
func (b *bench) apply(change func(*silver.Config)) (silver.Result, error) {
	b.t.Helper()
	c := b.config
	if change != nil {
		change(&c)
	}
	a, err := silver.New(c)
	if err != nil {
		return silver.Result{}, err
	}
	defer func() { require.NoError(b.t, a.Close(b.t.Context())) }()
	return a.Apply(b.t.Context())
}

func (b *bench) applied(change func(*silver.Config)) silver.Result {
	b.t.Helper()
	r, err := b.apply(change)
	require.NoError(b.t, err)
	return r
}

func (b *bench) window(end int) { b.lake.window(b.t.Context(), b.source, end) }

func (b *bench) version() int64 {
	b.t.Helper()
	table, err := delta.Open(b.t.Context(), b.target, delta.Options{})
	if err != nil {
		require.ErrorIs(b.t, err, delta.ErrNotTable)
		return -1
	}
	return table.Snapshot().Version()
}

func TestNoBronzeYet(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	r := b.applied(nil)
	require.False(t, r.BronzeFound)
	require.EqualValues(t, -1, b.version(), "nothing was made")
}

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*silver.Config)
		want   string
	}{
		"mode":             {func(c *silver.Config) { c.Mode = "latest" }, `mode is "latest", want current or history`},
		"deletes":          {func(c *silver.Config) { c.Deletes = "never" }, `deletes is "never", want hard or soft`},
		"strategy":         {func(c *silver.Config) { c.Strategy = "merge_on_read" }, `merge_strategy is "merge_on_read"`},
		"soft history":     {func(c *silver.Config) { c.Mode, c.Deletes = silver.History, silver.Soft }, "has no meaning with mode: history"},
		"bronze as target": {func(c *silver.Config) { c.TargetName = c.BronzeName }, "are the same table"},
		"row of bronze":    {func(c *silver.Config) { c.Row = c.BronzeRow }, "give the field table another name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "id")
			b.window(3)
			_, err := b.apply(c.change)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// What cannot be applied is refused by a lasting error, and nothing is changed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(b *bench)
		change  func(*silver.Config)
		want    string
	}{
		"no unique index and no keys": {
			prepare: func(b *bench) {
				b.lake.open(b.t.Context())
				b.lake.setProperty(mssqlcdc.PropKeyColumns, "")
			},
			want: "name the key columns with keys",
		},
		"unknown key":       {change: func(c *silver.Config) { c.Keys = []string{"order_no"} }, want: "has no key column order_no"},
		"key twice":         {change: func(c *silver.Config) { c.Keys = []string{"id", "ID"} }, want: "key column ID is named twice"},
		"key left out":      {change: func(c *silver.Config) { c.Exclude = []string{"id"} }, want: "key column id is left out"},
		"metadata as key":   {change: func(c *silver.Config) { c.Keys = []string{"_start_lsn"} }, want: "a key must be in the table"},
		"unknown exclusion": {change: func(c *silver.Config) { c.Exclude = []string{"nothing"} }, want: "columns.exclude names nothing"},
		"unknown name":      {change: func(c *silver.Config) { c.Rename = map[string]string{"nothing": "x"} }, want: "columns.rename names nothing"},
		"two of one name":   {change: func(c *silver.Config) { c.Rename = map[string]string{"note": "amount"} }, want: "two columns would be named amount"},
		"own name":          {change: func(c *silver.Config) { c.Rename = map[string]string{"note": "_commit_ts"} }, want: "two columns would be named _commit_ts"},
		"null in a key of the source": {
			prepare: func(b *bench) {
				b.lake.open(b.t.Context())
				b.lake.setProperty(mssqlcdc.PropKeyColumns, mssqlcdc.EncodeKeyColumns([]string{"note"}))
				b.lake.write(b.t.Context(), []record{{lsn: 30, seq: 1, op: mssqlcdc.Insert, key: key{1, "a"}, noNote: true}}, nil)
			},
			want: "key column note of table lake/silver is NULL in a change",
		},
		"rows of another writer": {
			prepare: func(b *bench) {
				foreignTable(b.t, b.target)
			},
			want: "it has rows that apply_changes did not write",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "id", "part")
			b.window(10)
			if c.prepare != nil {
				c.prepare(b)
			}
			before := b.version()
			_, err := b.apply(c.change)
			require.ErrorContains(t, err, c.want)
			require.True(t, silver.Lasting(err), "%v", err)
			if before >= 0 {
				require.Equal(t, before, b.version(), "nothing was changed")
			}
		})
	}
}

// setProperty sets or, with "", takes a property of bronze.
func (l *lake) setProperty(name, value string) {
	m := l.table.Snapshot().Metadata()
	m.Configuration[name] = value
	if value == "" {
		delete(m.Configuration, name)
	}
	_, err := l.table.Commit(l.t.Context(), delta.Change{Operation: delta.OpSetProperties, Metadata: &m, ReadVersion: l.table.Snapshot().Version()})
	require.NoError(l.t, err)
}

// foreignTable is a table with rows that somebody else wrote.
func foreignTable(t *testing.T, st store.Store) {
	t.Helper()
	sc := &schema.Struct{Fields: []schema.Field{{Name: "id", Type: schema.Long, Nullable: true}, {Name: "part", Type: schema.String, Nullable: true}}}
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: sc}, delta.Options{})
	require.NoError(t, err)
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc.Arrow())
	b.Field(0).(*array.Int64Builder).Append(1)
	b.Field(1).(*array.StringBuilder).Append("a")
	require.NoError(t, w.Write(b.NewRecordBatch()))
	adds, err := w.Close()
	require.NoError(t, err)
	_, err = table.Commit(t.Context(), delta.Change{Operation: delta.OpWrite, Add: adds, BlindAppend: true})
	require.NoError(t, err)
}

// A table is this bronze's, and this configuration's, for life.
func TestTableOfAnotherKind(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.window(10)
	b.applied(nil)
	for name, c := range map[string]struct {
		change func(*silver.Config)
		want   string
	}{
		"history into current":                {func(c *silver.Config) { c.Mode = silver.History }, "it holds current (property rpconnect.silver_mode), and history is configured"},
		"soft into hard":                      {func(c *silver.Config) { c.Deletes = silver.Soft }, "current, soft is configured"},
		"other keys":                          {func(c *silver.Config) { c.Keys = []string{"id"} }, "is not what its rows were told apart by so far (id, part)"},
		"deletion vectors in a table without": {func(c *silver.Config) { c.Strategy = merge.DeletionVectors }, "would keep readers out that do not know deletion vectors"},
		"other bronze": {func(c *silver.Config) {
			other := newLake(t, mem.New(), mem.New())
			other.window(t.Context(), b.source, 12)
			c.Bronze = other.bronze
		}, "it was built from another bronze table"},
		"one name for two tables": {func(c *silver.Config) { c.Target, c.TargetName = mem.New(), "lake/other" }, `row "silver.dbo.orders" of the control table is that of table lake/silver`},
	} {
		t.Run(name, func(t *testing.T) {
			before := b.version()
			_, err := b.apply(c.change)
			require.ErrorContains(t, err, c.want)
			require.True(t, silver.Lasting(err))
			require.Equal(t, before, b.version())
		})
	}
}

// Deletion vectors come into an existing table only where somebody has said so.
func TestDeletionVectorsAreAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.write(2, change(2, 1, mssqlcdc.Insert, 1, 10), change(2, 2, mssqlcdc.Insert, 2, 20), change(2, 3, mssqlcdc.Insert, 3, 30))
	b.applied(nil)
	b.write(3, change(3, 1, mssqlcdc.UpdateAfter, 1, 11))
	b.applied(func(c *silver.Config) {
		c.Strategy, c.Properties = merge.DeletionVectors, map[string]string{delta.PropDeletionVectors: "true"}
	})
	require.Equal(t, map[int64]int64{1: 11, 2: 20, 3: 30}, b.amounts())
	have, _ := b.open().Snapshot().Property(delta.PropDeletionVectors)
	require.Equal(t, "true", have)
}

// Bronze that has lost what was applied, as a restored table has, is refused.
func TestBronzeThatIsBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.window(10)
	b.applied(nil)
	b.lake.write(t.Context(), nil, marksOf(bronzeApp, mssqlcdc.TxnPositionHi, mssqlcdc.TxnPositionLo, 6))
	_, err := b.apply(nil)
	var behind *silver.BehindError
	require.ErrorAs(t, err, &behind)
	require.Equal(t, lsnOf(6), behind.Have)
	require.ErrorContains(t, err, "delete table lake/silver, which is then built anew")
}

// A key column of another type ends the table, whichever way it changed.
func TestKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.window(10)
	b.applied(nil)
	wide := bronzeSchema(false)
	wide.Fields[wide.Index("id")].Type = schema.Decimal{Precision: 20, Scale: 0}
	snapshot := b.lake.table.Snapshot()
	merged, changed, err := schema.Evolution{Widen: true}.Merge(snapshot.Schema(), wide)
	require.NoError(t, err)
	require.True(t, changed)
	m := snapshot.Metadata()
	m.SchemaString = merged.JSON()
	m.Configuration[delta.PropTypeWidening] = "true"
	_, err = b.lake.table.Commit(t.Context(), delta.Change{Operation: delta.OpAddColumns, Metadata: &m, ReadVersion: snapshot.Version()})
	require.NoError(t, err)
	_, err = b.apply(nil)
	var keyErr *silver.KeyError
	require.ErrorAs(t, err, &keyErr)
	require.ErrorContains(t, err, "is of type long in it, and of type decimal(20,0) in bronze table lake/orders now: delete the table")
}

// A key column that went on in another column is refused, also as a chosen key, which may
// be NULL: all later rows would have one key.
func TestKeyThatWentOnInAnotherColumn(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{nil, {"id", "part"}} {
		b := newBench(t, "id", "part")
		b.window(10)
		b.applied(nil)
		snapshot := b.lake.table.Snapshot()
		wide := *snapshot.Schema()
		wide.Fields = append(slices.Clone(wide.Fields), schema.Field{
			Name: "id__string", Type: schema.String, Nullable: true, Metadata: map[string]any{mssqlcdc.MetaSourceColumn: "id"},
		})
		m := snapshot.Metadata()
		m.SchemaString = wide.JSON()
		_, err := b.lake.table.Commit(t.Context(), delta.Change{Operation: delta.OpAddColumns, Metadata: &m, ReadVersion: snapshot.Version()})
		require.NoError(t, err)
		_, err = b.apply(func(c *silver.Config) { c.Keys = keys })
		require.ErrorContains(t, err, "key column id changed its type, and its values are in column id__string since")
	}
}

// A table that was deleted is built anew, and is not called complete meanwhile.
func TestDeletedTableBeginsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.window(10)
	first := b.applied(nil)
	require.Equal(t, timeOf(10).Truncate(time.Minute), first.Verdict.FinalizedUntil)
	b.target = mem.New()
	b.config.Target = b.target
	c := b.config
	dead := newBreaking(b.target)
	ctx, cancel := contextWithCancel(t)
	dead.dieAfter(2, cancel)
	c.Target, c.SliceRows = dead, 3
	a, err := silver.New(c)
	require.NoError(t, err)
	_, err = a.Apply(ctx)
	require.Error(t, err)
	own, err := b.lake.control.Get(t.Context(), "silver.dbo.orders")
	require.NoError(t, err)
	require.True(t, own.FinalizedUntil.IsZero())
	require.Equal(t, "the table is being built anew", own.HeldBy)
	again := b.applied(nil)
	require.Equal(t, first.Verdict.FinalizedUntil, again.Verdict.FinalizedUntil)
	require.Empty(t, again.Verdict.HeldBy)
	require.Equal(t, control.Final, again.Verdict.Answer(time.Time{}, timeOf(9).Truncate(time.Minute)))
}
