package merge_test

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func byID(strategy merge.Strategy) merge.Options {
	return merge.Options{Keys: []string{"id"}, Strategy: strategy, EnableDeletionVectors: true}
}

func run(t *testing.T, table *delta.Table, src merge.Source, o merge.Options) merge.Result {
	t.Helper()
	r, err := merge.Run(t.Context(), table, src, o)
	require.NoError(t, err)
	return r
}

func appendRows(t *testing.T, table *delta.Table, rec arrow.RecordBatch) {
	t.Helper()
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(rec))
	adds, err := w.Close()
	require.NoError(t, err)
	_, err = table.Commit(t.Context(), delta.Change{BlindAppend: true, Add: adds})
	require.NoError(t, err)
}

// is tells whether an error is, or wraps, one of a type.
func is[T error](err error) bool {
	var as T
	return errors.As(err, &as)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	table := columns(field("id", schema.Long), field("v", schema.Long), schema.Field{Name: "must", Type: schema.String})
	const row = `[{"id":4711,"v":1,"must":"m"}]`
	good := func(t *testing.T) arrow.RecordBatch { return batch(t, table, row) }
	duplicate, shape, feature := is[*merge.DuplicateKeyError], is[*schema.SchemaError], is[*delta.FeatureError]
	for name, c := range map[string]struct {
		src        func(t *testing.T) merge.Source
		o          merge.Options
		properties map[string]string
		as         func(error) bool
		text       string
	}{
		"no keys":     {o: merge.Options{}, text: "no key columns"},
		"unknown key": {o: merge.Options{Keys: []string{"nope"}}, as: shape, text: "nope"},
		"a key twice": {o: merge.Options{Keys: []string{"id", "ID"}}, text: "named twice"},
		"strategy":    {o: merge.Options{Keys: []string{"id"}, Strategy: "fast"}, text: `strategy "fast"`},
		"duplicate upsert": {o: byID(""), as: duplicate, text: "row 0 of batch 1 of the upserts", src: func(t *testing.T) merge.Source {
			return merge.Source{Upserts: batches(good(t), good(t))}
		}},
		"upsert and delete": {o: byID(""), as: duplicate, text: "row 1 of batch 0 of the deletes", src: func(t *testing.T) merge.Source {
			return merge.Source{Upserts: batches(good(t)), Deletes: batches(batch(t, table, `[{"id":1},{"id":4711}]`, "id"))}
		}},
		"null twice": {o: byID(""), as: duplicate, text: "row 1 of batch 0 of the deletes", src: func(t *testing.T) merge.Source {
			return merge.Source{Deletes: batches(batch(t, table, `[{"id":null},{"id":null}]`, "id"))}
		}},
		"a delete without key": {o: byID(""), as: shape, text: "id", src: func(t *testing.T) merge.Source {
			return merge.Source{Deletes: batches(batch(t, table, `[{"v":1}]`, "v"))}
		}},
		"a delete without version": {o: merge.Options{Keys: []string{"id"}, Versions: []string{"v"}}, as: shape, text: "column v", src: func(t *testing.T) merge.Source {
			return merge.Source{Deletes: batches(batch(t, table, `[{"id":1}]`, "id"))}
		}},
		"a missing column": {o: byID(""), as: shape, text: "must", src: func(t *testing.T) merge.Source {
			return merge.Source{Upserts: batches(batch(t, table, `[{"id":1}]`, "id"))}
		}},
		"NULL where none may be": {o: byID(""), text: "column must", src: func(t *testing.T) merge.Source {
			return merge.Source{Upserts: batches(batch(t, columns(field("id", schema.Long), field("must", schema.String)), `[{"id":1,"must":null}]`))}
		}},
		"an unknown column": {o: byID(""), as: shape, text: "more", src: func(t *testing.T) merge.Source {
			return merge.Source{Upserts: batches(batch(t, columns(field("id", schema.Long), field("must", schema.String), field("more", schema.Long)), `[{"id":1,"must":"m"}]`))}
		}},
		"another type": {o: byID(""), as: shape, text: "integer", src: func(t *testing.T) merge.Source {
			return merge.Source{Upserts: batches(batch(t, columns(field("id", schema.Integer), field("must", schema.String)), `[{"id":1,"must":"m"}]`))}
		}},
		"a bound of another type": {o: byID(""), text: "range 0: its lower bound: column id", src: func(*testing.T) merge.Source {
			return merge.Source{Ranges: []merge.Range{{After: []any{"4711x"}}}}
		}},
		"a bound too long": {o: byID(""), text: "2 values for 1 columns", src: func(*testing.T) merge.Source {
			return merge.Source{Ranges: []merge.Range{{UpTo: []any{4711, 2}}}}
		}},
		"a range without version": {o: merge.Options{Keys: []string{"id"}, Versions: []string{"v"}}, text: "version columns", src: func(*testing.T) merge.Source {
			return merge.Source{Ranges: []merge.Range{{}}}
		}},
		"no deletion vectors": {o: merge.Options{Keys: []string{"id"}, Strategy: merge.DeletionVectors}, as: feature, text: delta.PropDeletionVectors},
		"append-only":         {o: byID(""), as: feature, properties: map[string]string{delta.PropAppendOnly: "true"}, text: delta.PropAppendOnly},
		"change data feed":    {o: byID(""), as: feature, properties: map[string]string{delta.PropChangeDataFeed: "true"}, text: delta.PropChangeDataFeed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			tbl := create(t, st, delta.Spec{Schema: table, Properties: c.properties})
			appendRows(t, tbl, good(t))
			src := merge.Source{Upserts: batches(good(t))}
			if c.src != nil {
				src = c.src(t)
			}
			_, err := merge.Run(t.Context(), tbl, src, c.o)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), "4711", "no key values in errors")
			if c.as != nil {
				require.True(t, c.as(err), "%T", err)
			}
			require.EqualValues(t, 1, tbl.Snapshot().Version())
			require.Empty(t, orphans(t, st, tbl))
		})
	}
}

// Batches of a source may spell columns, order and Arrow types differently.
func TestShapesOfSources(t *testing.T) {
	t.Parallel()
	table := create(t, mem.New(), delta.Spec{Schema: columns(field("Id", schema.String), field("a", schema.Long), field("b", schema.Binary))})
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	made := func(id arrow.DataType, fill func(b *array.RecordBuilder), more ...arrow.Field) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(append([]arrow.Field{{Name: "ID", Type: id, Nullable: true}}, more...), nil))
		defer b.Release()
		fill(b)
		return b.NewRecordBatch()
	}
	src := merge.Source{Upserts: batches(
		batch(t, table.Snapshot().Schema(), `[{"Id":"plain","a":1,"b":"AQ=="}]`),
		made(dictionary, func(b *array.RecordBuilder) {
			for _, id := range []string{"x", "y", "z"} {
				require.NoError(t, b.Field(0).(*array.BinaryDictionaryBuilder).AppendString(id))
			}
		}),
		made(arrow.BinaryTypes.LargeString, func(b *array.RecordBuilder) {
			b.Field(0).(*array.LargeStringBuilder).Append("large")
			b.Field(1).(*array.FixedSizeBinaryBuilder).Append([]byte{7, 8})
		}, arrow.Field{Name: "B", Type: &arrow.FixedSizeBinaryType{ByteWidth: 2}, Nullable: true}),
	)}
	r := run(t, table, src, merge.Options{Keys: []string{"id"}})
	require.EqualValues(t, 5, r.Metrics.RowsInserted)
	require.Equal(t, []string{
		`{"Id":"large","a":null,"b":"Bwg="}`, `{"Id":"plain","a":1,"b":"AQ=="}`,
		`{"Id":"x","a":null,"b":null}`, `{"Id":"y","a":null,"b":null}`, `{"Id":"z","a":null,"b":null}`,
	}, rowsOf(t, table))
	// The same once more replaces each row; a column that a batch lacks becomes NULL.
	r = run(t, table, merge.Source{Upserts: batches(batch(t, table.Snapshot().Schema(), `[{"Id":"plain"}]`, "Id")), Deletes: src.Upserts[1:]}, merge.Options{Keys: []string{"id"}})
	require.EqualValues(t, 1, r.Metrics.RowsUpdated)
	require.EqualValues(t, 4, r.Metrics.RowsDeleted)
	require.Equal(t, []string{`{"Id":"plain","a":null,"b":null}`}, rowsOf(t, table))
}

// Of a key that the table has several times, an upsert leaves one row and a delete none; with
// versions, one row that is newer keeps them all.
func TestSeveralRowsOfAKey(t *testing.T) {
	t.Parallel()
	for _, strategy := range []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			table := create(t, mem.New(), delta.Spec{Schema: versioned()})
			for _, version := range []int64{1, 2, 0} {
				appendRows(t, table, versionedBatch("append", version, 1, 2, 3, 2))
			}
			o := byID(strategy)
			o.Versions = []string{"version"}
			r := run(t, table, merge.Source{Upserts: batches(versionedBatch("merge", 2, 1))}, o)
			require.True(t, r.Unchanged)
			require.EqualValues(t, 1, r.Metrics.RowsOutdated)
			r = run(t, table, merge.Source{Upserts: batches(versionedBatch("merge", 3, 1, 2)), Deletes: batches(versionedBatch("", 3, 3))}, o)
			require.EqualValues(t, 2, r.Metrics.RowsUpdated)
			require.EqualValues(t, 10, r.Metrics.RowsDeleted)
			require.Equal(t, []string{`{"id":1,"version":3,"who":"merge"}`, `{"id":2,"version":3,"who":"merge"}`}, rowsOf(t, table))
		})
	}
}

// Files and row groups that cannot have a key are not read, and files without one not touched.
func TestOnlyWhatMayHaveKeysIsRead(t *testing.T) {
	t.Parallel()
	inner := mem.New()
	first := create(t, inner, delta.Spec{Schema: versioned()})
	for from := int64(0); from < 400; from += 100 {
		var ids []int64
		for id := from; id < from+100; id += 2 {
			ids = append(ids, id)
		}
		o := byID("")
		o.Writer.RowGroupRows = 10
		run(t, first, merge.Source{Upserts: batches(versionedBatch("first", 1, ids...))}, o)
	}
	var read atomic.Int64
	st := fault.Wrap(inner, func(c fault.Call) fault.Fault {
		if c.Op == fault.Read {
			read.Add(1)
		}
		return fault.Fault{}
	})
	table := open(t, st)
	s := table.Snapshot()
	before := filesOf(t, s)
	lookUp := func(ids ...int64) (rows int64) {
		for rec, err := range merge.Lookup(t.Context(), table, s, batches(versionedBatch("", 0, ids...)), merge.LookupOptions{Keys: []string{"id"}, Columns: []string{"who"}}) {
			require.NoError(t, err)
			rows += rec.NumRows()
		}
		return rows
	}
	opened := func() int {
		n := 0
		for _, c := range st.Calls(".parquet") {
			if c.Op == fault.Open {
				n++
			}
		}
		st.Reset()
		return n
	}
	opened()
	require.Zero(t, lookUp(-1, 99, 1000))
	require.Equal(t, 0, opened(), "no file has a key between two of its bounds")
	require.EqualValues(t, 0, lookUp(13))
	require.Equal(t, 1, opened())
	read.Store(0)
	require.EqualValues(t, 1, lookUp(12))
	few := read.Swap(0)
	require.EqualValues(t, 50, lookUp(evens(100)...))
	require.Greater(t, read.Load(), few, "one row group of five was read")
	st.Reset()
	r := run(t, table, merge.Source{Upserts: batches(versionedBatch("second", 2, 102, 199, 305))}, byID(""))
	require.EqualValues(t, 2, r.Metrics.FilesScanned)
	require.EqualValues(t, 1, r.Metrics.FilesRemoved)
	require.EqualValues(t, 1, r.Metrics.RowsUpdated)
	require.EqualValues(t, 2, r.Metrics.RowsInserted)
	after := filesOf(t, table.Snapshot())
	require.Equal(t, before[0], after[0])
	require.Len(t, after, 5)
}

func evens(below int64) (out []int64) {
	for id := int64(0); id < below; id += 2 {
		out = append(out, id)
	}
	return out
}

// A file is written anew when many of its rows are deleted, and is gone with its last row.
func TestVectorsComeAndGo(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Spec{Schema: versioned()})
	o := byID(merge.DeletionVectors)
	o.PurgeRatio = 0.3
	run(t, table, merge.Source{Upserts: batches(versionedBatch("first", 1, evens(40)...))}, o)
	require.Contains(t, table.Snapshot().Protocol().ReaderFeatures, delta.FeatureDeletionVectors)
	step := func(ids ...int64) merge.Metrics {
		return run(t, table, merge.Source{Deletes: batches(versionedBatch("", 1, ids...))}, o).Metrics
	}
	m := step(0, 2, 5)
	require.EqualValues(t, 2, m.RowsDeleted)
	require.EqualValues(t, 1, m.VectorsAdded)
	require.Zero(t, m.FilesAdded+m.FilesRemoved+m.RowsCopied)
	m = step(0, 4, 6)
	require.EqualValues(t, 2, m.RowsDeleted)
	require.EqualValues(t, 1, m.VectorsUpdated)
	add := filesOf(t, table.Snapshot())[0]
	require.EqualValues(t, 4, add.DeletionVector.Cardinality)
	require.Contains(t, add.Stats, `"numRecords":20`)
	require.Contains(t, add.Stats, `"tightBounds":false`)
	m = step(8, 10)
	require.EqualValues(t, 1, m.VectorsRemoved)
	require.EqualValues(t, 1, m.FilesAdded)
	require.EqualValues(t, 14, m.RowsCopied)
	m = run(t, table, merge.Source{Ranges: []merge.Range{{}}}, o).Metrics
	require.EqualValues(t, 14, m.RowsDeletedByRange)
	require.EqualValues(t, 1, m.FilesRemoved)
	require.Empty(t, filesOf(t, table.Snapshot()))
	require.Empty(t, orphans(t, st, table))
}

// The commit carries what the caller gives it, and one that was applied is not done again.
func TestTransactions(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Spec{Schema: versioned()})
	o := byID("")
	o.Fenced = &delta.Txn{AppID: "silver", Version: 7}
	o.Keyed = &delta.Txn{AppID: "batch", Version: 3}
	o.Marks = []delta.Txn{{AppID: "mark", Version: 11}}
	o.UserMetadata = "{}"
	src := merge.Source{Upserts: batches(versionedBatch("a", 1, 1))}
	r := run(t, table, src, o)
	c := commitOf(t, st, r.Version)
	require.Len(t, c.Txns, 3)
	require.Equal(t, "{}", c.Info.UserMetadata)
	require.Equal(t, `["(target.id <=> source.id)"]`, c.Info.OperationParameters["predicate"])
	require.Equal(t, `[{"actionType":"update"}]`, c.Info.OperationParameters["matchedPredicates"])
	require.Equal(t, "1", c.Info.OperationMetrics["numTargetRowsInserted"])

	again := run(t, table, src, o)
	require.Equal(t, delta.AlreadyApplied, again.State)
	require.Zero(t, again.Metrics.SourceRows)

	// Another handle has not heard of it yet.
	o.Keyed = nil
	_, err := merge.Run(t.Context(), open(t, st), src, o)
	require.ErrorIs(t, err, delta.ErrFenced)
	o.Fenced = nil
	nothing := run(t, table, merge.Source{Deletes: batches(versionedBatch("", 1, 99))}, o)
	require.False(t, nothing.Unchanged, "its transactions and metadata are committed")
	require.EqualValues(t, 2, nothing.Version)
	require.Empty(t, orphans(t, st, table))
}

// A batch that somebody else commits first is applied already, and our files are deleted.
func TestAppliedByAnother(t *testing.T) {
	t.Parallel()
	inner := mem.New()
	other := create(t, inner, delta.Spec{Schema: versioned()})
	o := byID("")
	o.Keyed = &delta.Txn{AppID: "batch", Version: 1}
	src := merge.Source{Upserts: batches(versionedBatch("a", 1, 1))}
	var once sync.Once
	table := open(t, fault.Wrap(inner, func(c fault.Call) fault.Fault {
		if c.Op == fault.PutIfAbsent {
			once.Do(func() { run(t, other, src, o) })
		}
		return fault.Fault{}
	}))
	require.Equal(t, delta.AlreadyApplied, run(t, table, src, o).State)
	require.Empty(t, orphans(t, inner, table))
	require.Len(t, rowsOf(t, table), 1)
}

// A commit whose outcome is unknown keeps its files, and is found again by its id.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, lands := range map[string]bool{"landed": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := mem.New()
			create(t, inner, delta.Spec{Schema: versioned(), Properties: map[string]string{delta.PropDeletionVectors: "true"}})
			var broken, asked atomic.Bool
			st := fault.Wrap(inner, func(c fault.Call) fault.Fault {
				switch {
				case !broken.Load():
					return fault.Fault{}
				case c.Op == fault.PutIfAbsent && lands:
					asked.Store(true)
					return fault.Fault{After: fault.ErrInjected}
				case c.Op == fault.PutIfAbsent || c.Op == fault.Get && asked.Load():
					asked.Store(true)
					return fault.Fault{Before: fault.ErrInjected}
				}
				return fault.Fault{}
			})
			table, err := delta.Open(t.Context(), st, delta.Options{CommitTimeout: 50 * time.Millisecond})
			require.NoError(t, err)
			closeAtEnd(t, table)
			o := byID(merge.DeletionVectors)
			o.PurgeRatio = 1
			run(t, table, merge.Source{Upserts: batches(versionedBatch("first", 1, 1, 2, 3))}, o)
			broken.Store(true)
			src := merge.Source{Deletes: batches(versionedBatch("", 2, 2))}
			_, err = merge.Run(t.Context(), table, src, o)
			var unknown *delta.UnknownOutcomeError
			require.ErrorAs(t, err, &unknown)
			broken.Store(false)
			o.ID = unknown.ID
			r := run(t, table, src, o)
			require.EqualValues(t, 2, r.Version)
			require.EqualValues(t, 1, r.Metrics.RowsDeleted)
			require.Equal(t, []string{`{"id":1,"version":1,"who":"first"}`, `{"id":3,"version":1,"who":"first"}`}, rowsOf(t, table))
			if lands {
				require.Empty(t, orphans(t, inner, table))
			}
		})
	}
}

// Whatever fails on the way, the table is as it was and no file is left.
func TestFailuresLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, strategy := range []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors} {
		for fail := 1; ; fail++ {
			inner := mem.New()
			first := create(t, inner, delta.Spec{Schema: versioned(), Properties: map[string]string{delta.PropDeletionVectors: "true"}})
			for i := range int64(3) {
				run(t, first, merge.Source{Upserts: batches(versionedBatch("first", 1, i, 10+i, 20+i))}, byID(""))
			}
			before := rowsOf(t, first)
			var opened atomic.Bool
			var calls atomic.Int64
			st := fault.Wrap(inner, func(c fault.Call) fault.Fault {
				if !opened.Load() || c.Op == fault.Delete || c.Op == fault.PutIfAbsent {
					return fault.Fault{}
				}
				if calls.Add(1) == int64(fail) {
					return fault.Fault{Before: fault.ErrInjected}
				}
				return fault.Fault{}
			})
			table := open(t, st)
			opened.Store(true)
			o := byID(strategy)
			o.Parallel, o.PurgeRatio = 1, 0.5
			_, err := merge.Run(t.Context(), table, merge.Source{
				Upserts: batches(versionedBatch("merge", 2, 0, 11, 12, 40)), Deletes: batches(versionedBatch("", 2, 22)),
			}, o)
			if err == nil {
				require.Greater(t, fail, 10)
				break
			}
			require.True(t, errors.Is(err, fault.ErrInjected), err)
			require.Equal(t, before, rowsOf(t, first))
			require.Empty(t, orphans(t, inner, first), "call %d", fail)
		}
	}
}

// A writer that leaves NaN out of its bounds, as Parquet does, hides no row.
func TestNaNOutsideOfBounds(t *testing.T) {
	t.Parallel()
	table := create(t, mem.New(), delta.Spec{Schema: columns(field("f", schema.Double), field("who", schema.String))})
	rows := func(who string, keys ...float64) arrow.RecordBatch {
		b := array.NewRecordBuilder(memory.DefaultAllocator, table.Snapshot().Schema().Arrow())
		defer b.Release()
		for _, key := range keys {
			b.Field(0).(*array.Float64Builder).Append(key)
			b.Field(1).(*array.StringBuilder).Append(who)
		}
		return b.NewRecordBatch()
	}
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(rows("append", 1, math.NaN(), 2)))
	adds, err := w.Close()
	require.NoError(t, err)
	adds[0].Stats = `{"numRecords":3,"minValues":{"f":1.0},"maxValues":{"f":2.0},"nullCount":{"f":0}}`
	_, err = table.Commit(t.Context(), delta.Change{BlindAppend: true, Add: adds})
	require.NoError(t, err)
	o := merge.Options{Keys: []string{"f"}}
	r := run(t, table, merge.Source{Upserts: batches(rows("merge", math.NaN()))}, o)
	require.EqualValues(t, 1, r.Metrics.RowsUpdated)
	r = run(t, table, merge.Source{Ranges: []merge.Range{{After: []any{2.0}}}}, o)
	require.EqualValues(t, 1, r.Metrics.RowsDeletedByRange)
}
