package silver_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// insert and others are rows of a commit, for short.
func change(lsn, seq int, op mssqlcdc.Operation, id int64, amount int64) record {
	return record{lsn: lsn, seq: seq, command: seq, op: op, key: key{id, "a"}, values: values{amount: amount, note: "n", extraIsNull: true}}
}

func read(snapshot, chunk, stamp int, id, amount int64) record {
	r := change(stamp, 0, mssqlcdc.Read, id, amount)
	r.snapshot, r.chunk = snapshot, chunk
	return r
}

func (b *bench) write(position int, records ...record) {
	b.lake.write(b.t.Context(), records, marksOf(bronzeApp, mssqlcdc.TxnPositionHi, mssqlcdc.TxnPositionLo, position))
	b.lake.end = position
	b.lake.finalize(b.t.Context())
}

// amounts are the amounts of the table by id, of rows that are not deleted.
func (b *bench) amounts() map[int64]int64 {
	b.t.Helper()
	out := map[int64]int64{}
	for _, r := range readRows(b.t, b.target) {
		if gone, _ := r[silver.ColDeleted].(bool); !gone {
			out[r["id"].(int64)] = r["amount"].(int64)
		}
	}
	return out
}

func (b *bench) open() *delta.Table {
	b.t.Helper()
	table, err := delta.Open(b.t.Context(), b.target, delta.Options{CheckpointInterval: -1})
	require.NoError(b.t, err)
	return table
}

func TestRowsAndProgressAreOneCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.write(3, change(2, 1, mssqlcdc.Insert, 1, 10), change(3, 1, mssqlcdc.Insert, 2, 20))
	r := b.applied(nil)
	require.Equal(t, silver.Result{
		BronzeFound: true, Changed: true, Version: 1, Rows: 2, Merges: 1, Inserted: 2, AppliedLSN: lsnOf(3), Wave: -1,
		Verdict: r.Verdict, Took: r.Took,
	}, r)
	again := b.applied(nil)
	require.False(t, again.Changed, "nothing is new")
	require.EqualValues(t, 1, again.Version)
	require.Equal(t, map[int64]int64{1: 10, 2: 20}, b.amounts())
}

func TestColumnsLeftOutAndRenamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.write(2, change(2, 1, mssqlcdc.Insert, 1, 10))
	b.applied(func(c *silver.Config) {
		c.Exclude, c.Rename = []string{"NOTE"}, map[string]string{"ID": "order_number", "amount": "cents"}
	})
	s := b.open().Snapshot()
	var names []string
	for _, f := range s.Schema().Fields {
		names = append(names, f.Name)
	}
	require.Equal(t, []string{"order_number", "part", "cents", "_start_lsn", "_commit_ts"}, names)
	f, _ := s.Schema().Field("cents")
	require.Equal(t, "SQL Server bigint", f.Comment())
	keys, _ := s.Property(mssqlcdc.PropKeyColumns)
	require.Equal(t, `["order_number","part"]`, keys)
	rows := readRows(t, b.target)
	require.Len(t, rows, 1)
	require.EqualValues(t, 10, rows[0]["cents"])
}

// A column that bronze gains, and one that it widens, change the table, too.
func TestColumnsFollowBronze(t *testing.T) {
	t.Parallel()
	for _, mode := range []silver.Mode{silver.Current, silver.History} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "id", "part")
			with := func(c *silver.Config) { c.Mode = mode }
			narrow := bronzeSchema(false)
			narrow.Fields[narrow.Index("amount")].Type = schema.Integer
			table, err := delta.Create(t.Context(), b.lake.bronze, delta.Spec{Schema: narrow, Properties: map[string]string{
				mssqlcdc.PropKeyColumns: mssqlcdc.EncodeKeyColumns(b.lake.keys), mssqlcdc.PropSourceTable: "dbo.orders",
			}}, delta.Options{})
			require.NoError(t, err)
			b.lake.table = table
			b.writeAs(narrow, 2, change(2, 1, mssqlcdc.Insert, 1, 10), change(2, 2, mssqlcdc.Insert, 2, 20))
			b.applied(with)
			merged, _, err := schema.Evolution{Widen: true}.Merge(narrow, bronzeSchema(true))
			require.NoError(t, err)
			m := table.Snapshot().Metadata()
			m.SchemaString = merged.JSON()
			m.Configuration[delta.PropTypeWidening] = "true"
			_, err = table.Commit(t.Context(), delta.Change{Operation: delta.OpAddColumns, Metadata: &m, ReadVersion: table.Snapshot().Version()})
			require.NoError(t, err)
			b.lake.wide = true
			wide := change(3, 1, mssqlcdc.UpdateAfter, 1, 1<<40)
			wide.values.extra, wide.values.extraIsNull = 7, false
			b.write(3, wide)
			b.applied(with)
			for _, name := range []string{"amount", "extra"} {
				f, ok := b.open().Snapshot().Schema().Field(name)
				require.True(t, ok)
				require.Equal(t, schema.Long, f.Type, name)
				require.Equal(t, "SQL Server bigint", f.Comment())
			}
			if mode == silver.Current {
				require.Equal(t, map[int64]int64{1: 1 << 40, 2: 20}, b.amounts())
			} else {
				require.Len(t, readRows(t, b.target), 3)
			}
		})
	}
}

// writeAs writes rows with a column of another type.
func (b *bench) writeAs(s *schema.Struct, position int, records ...record) {
	rec := b.lake.records(records)
	build := array.NewRecordBuilder(memory.DefaultAllocator, s.Arrow())
	for i, f := range s.Fields {
		for row := range int(rec.NumRows()) {
			require.NoError(b.t, build.Field(i).AppendValueFromString(rec.Column(i).ValueStr(row)), f.Name)
		}
	}
	w, err := b.lake.table.NewWriter(b.t.Context(), data.WriterOptions{})
	require.NoError(b.t, err)
	require.NoError(b.t, w.Write(build.NewRecordBatch()))
	adds, err := w.Close()
	require.NoError(b.t, err)
	_, err = b.lake.table.Commit(b.t.Context(), delta.Change{Operation: delta.OpStreamingWrite, Add: adds, BlindAppend: true,
		ReadVersion: b.lake.table.Snapshot().Version(), Marks: marksOf(bronzeApp, mssqlcdc.TxnPositionHi, mssqlcdc.TxnPositionLo, position)})
	require.NoError(b.t, err)
	b.lake.end = position
	b.lake.finalize(b.t.Context())
}

func TestSoftDeletesKeepTheRow(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	soft := func(c *silver.Config) { c.Deletes = silver.Soft }
	b.write(2, change(2, 1, mssqlcdc.Insert, 1, 10), change(2, 2, mssqlcdc.Insert, 2, 20))
	b.applied(soft)
	b.write(3, change(3, 1, mssqlcdc.Delete, 1, 10))
	b.applied(soft)
	rows := readRows(t, b.target)
	require.Len(t, rows, 2)
	for _, r := range rows {
		require.Equal(t, r["id"].(int64) == 1, r[silver.ColDeleted])
	}
	b.write(4, change(4, 1, mssqlcdc.Insert, 1, 11))
	b.applied(soft)
	require.Equal(t, map[int64]int64{1: 11, 2: 20}, b.amounts())
}

// NULL is a value of a key that somebody chose.
func TestChosenKeysMayBeNull(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	chosen := func(c *silver.Config) { c.Keys = []string{"note"} }
	null := change(2, 1, mssqlcdc.Insert, 1, 10)
	null.noNote = true
	b.write(2, null)
	b.applied(chosen)
	again := change(3, 1, mssqlcdc.UpdateAfter, 2, 30)
	again.noNote = true
	b.write(3, again)
	b.applied(chosen)
	require.Equal(t, map[int64]int64{2: 30}, b.amounts())
}

// A snapshot without chunks is complete by being there, and a rebuild point without any
// event: what it does not have goes.
func TestWholeSnapshotIsARebuildPoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.write(3, change(2, 1, mssqlcdc.Insert, 1, 10), change(3, 1, mssqlcdc.Insert, 2, 20))
	b.applied(nil)
	b.lake.write(t.Context(), []record{read(3, -1, 3, 2, 22), read(3, -1, 3, 3, 30)}, nil)
	r := b.applied(nil)
	require.True(t, r.Rebuilt)
	require.Equal(t, lsnOf(3), r.SnapshotLSN)
	require.Equal(t, map[int64]int64{2: 20, 3: 30}, b.amounts(), "id 2 has a change of the very LSN, which counts; id 1 is gone")
	b.write(5, change(5, 1, mssqlcdc.Insert, 1, 11))
	require.False(t, b.applied(nil).Rebuilt)
	require.Equal(t, map[int64]int64{1: 11, 2: 20, 3: 30}, b.amounts())
}

// Chunks are applied as they come; what is stale goes with the last one only, and the
// verdict stands still until then.
func TestChunksAreAppliedAsTheyCome(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.write(9, change(2, 1, mssqlcdc.Insert, 1, 10), change(3, 1, mssqlcdc.Insert, 2, 20), change(9, 1, mssqlcdc.Insert, 9, 90))
	first := b.applied(nil)
	require.False(t, first.Verdict.FinalizedUntil.IsZero())
	b.lake.chunk(t.Context(), chunk{snapshot: 12, number: 0, stamp: 12, first: true, rows: []record{read(12, 0, 12, 1, 12)}})
	b.write(30, change(20, 1, mssqlcdc.Delete, 1, 12))
	r := b.applied(nil)
	require.Equal(t, lsnOf(12), r.OpenSnapshot)
	require.Zero(t, r.Wave)
	require.Equal(t, map[int64]int64{2: 20, 9: 90}, b.amounts())
	require.Contains(t, r.Verdict.HeldBy, "is not complete")
	require.Equal(t, first.Verdict.FinalizedUntil, r.Verdict.FinalizedUntil)
	// The chunk was read before the deletion that is applied already.
	b.lake.chunk(t.Context(), chunk{snapshot: 12, number: 3, stamp: 13, final: true, rows: []record{read(12, 3, 13, 9, 91)}})
	b.lake.finalize(t.Context())
	r = b.applied(nil)
	require.True(t, r.Rebuilt)
	require.True(t, r.OpenSnapshot.IsZero())
	require.Equal(t, map[int64]int64{9: 91}, b.amounts())
	require.Empty(t, r.Verdict.HeldBy)
	require.Equal(t, timeOf(30).Truncate(time.Minute), r.Verdict.FinalizedUntil)
}

// A gap lasts in the table until a snapshot whose rows were read after it, and no period
// after its begin is final without a mark.
func TestGapLastsUntilASnapshot(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	b.write(6, change(2, 1, mssqlcdc.Insert, 1, 10), change(6, 1, mssqlcdc.Insert, 2, 20))
	b.applied(nil)
	b.lake.gaps = []control.Gap{{From: timeOf(6), To: timeOf(12)}}
	b.write(30, change(15, 1, mssqlcdc.Insert, 3, 30))
	bronze, err := b.lake.control.Get(t.Context(), "dbo.orders")
	require.NoError(t, err)
	r := b.applied(nil)
	late, end := timeOf(20), timeOf(29).Truncate(time.Minute)
	require.Equal(t, control.Final, bronze.Answer(late, end), "bronze has every change of the period")
	require.Equal(t, control.FinalOverGap, r.Verdict.Answer(late, end), "the table lacks what was lost before it")
	require.Equal(t, control.Final, r.Verdict.Answer(time.Time{}, timeOf(6).Truncate(time.Minute)))

	b.lake.chunk(t.Context(), chunk{snapshot: 30, number: 0, stamp: 31, first: true, final: true, rows: []record{read(30, 0, 31, 1, 11), read(30, 0, 31, 3, 30)}})
	b.write(60, change(50, 1, mssqlcdc.Insert, 4, 40))
	r = b.applied(nil)
	require.Equal(t, map[int64]int64{1: 11, 3: 30, 4: 40}, b.amounts())
	require.Equal(t, []control.Gap{{From: timeOf(6), To: timeOf(31)}}, r.Verdict.Gaps)
	require.Equal(t, control.Final, r.Verdict.Answer(timeOf(31), timeOf(57).Truncate(time.Minute)))
	require.Equal(t, control.FinalOverGap, r.Verdict.Answer(late, end))
	require.Equal(t, r.Verdict.Gaps, b.applied(nil).Verdict.Gaps, "it stays closed")
}

// Tables of mssql-cdc-pyspark have no word about complete snapshots in their log; the facts
// table has.
func TestFactsSayThatASnapshotIsComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	facts := mem.New()
	with := func(c *silver.Config) { c.Facts = facts }
	b.write(2, change(2, 1, mssqlcdc.Insert, 1, 10))
	b.applied(with)
	b.lake.write(t.Context(), []record{read(5, 0, 6, 2, 20), read(5, 1, 7, 3, 30)}, nil)
	require.Equal(t, lsnOf(5), b.applied(with).OpenSnapshot)
	require.Len(t, b.amounts(), 3)
	factsTable(t, facts, "lake/other", lsnOf(5).String())
	require.False(t, b.applied(with).Rebuilt, "that was another table")
	factsTable(t, facts, "lake/orders", lsnOf(5).String())
	require.True(t, b.applied(with).Rebuilt)
	require.Equal(t, map[int64]int64{2: 20, 3: 30}, b.amounts())
}

func factsTable(t *testing.T, st store.Store, target, lsn string) {
	t.Helper()
	text := func(name string) schema.Field { return schema.Field{Name: name, Type: schema.String, Nullable: true} }
	sc := &schema.Struct{Fields: []schema.Field{text("event"), text("max_lsn"), text("target")}}
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: sc}, delta.Options{})
	require.NoError(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc.Arrow())
	for i, v := range []string{"bootstrap", lsn, target} {
		b.Field(i).(*array.StringBuilder).Append(v)
	}
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(b.NewRecordBatch()))
	adds, err := w.Close()
	require.NoError(t, err)
	_, err = table.Commit(t.Context(), delta.Change{Operation: delta.OpWrite, Add: adds, BlindAppend: true, ReadVersion: table.Snapshot().Version()})
	require.NoError(t, err)
}

// Where the log of bronze was cleaned, and its files compacted, statistics tell what is new.
func TestCleanedAndCompactedLog(t *testing.T) {
	t.Parallel()
	for _, mode := range []silver.Mode{silver.Current, silver.History} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "id", "part")
			with := func(c *silver.Config) { c.Mode = mode }
			b.write(2, change(2, 1, mssqlcdc.Insert, 1, 10))
			b.applied(with)
			for n := 3; n < 9; n++ {
				b.write(n, change(n, 1, mssqlcdc.Insert, int64(n), int64(n)))
			}
			b.lake.chunk(t.Context(), chunk{snapshot: 8, number: 0, stamp: 8, first: true, rows: []record{read(8, 0, 8, 100, 1)}})
			_, err := maintain.Optimize(t.Context(), b.lake.table, maintain.OptimizeOptions{})
			require.NoError(t, err)
			require.NoError(t, b.lake.table.Checkpoint(t.Context()))
			var old []string
			for version := range b.lake.table.Snapshot().Version() {
				old = append(old, fmt.Sprintf("_delta_log/%020d.json", version))
			}
			require.NoError(t, b.lake.bronze.Delete(t.Context(), old...))
			r := b.applied(with)
			require.EqualValues(t, 7, r.Rows)
			require.Len(t, b.amounts(), 8)
			require.Zero(t, b.applied(with).Rows)
		})
	}
}

// The images of a commit that changes a row several times are all there, and only the last
// of them is visible at any moment.
func TestHistoryWithinACommit(t *testing.T) {
	t.Parallel()
	b := newBench(t, "id", "part")
	with := func(c *silver.Config) { c.Mode = silver.History }
	b.write(2, change(2, 1, mssqlcdc.Insert, 1, 10), change(2, 2, mssqlcdc.UpdateBefore, 1, 10), change(2, 2, mssqlcdc.UpdateAfter, 1, 11))
	b.applied(with)
	b.write(5, change(5, 1, mssqlcdc.Delete, 1, 11))
	r := b.applied(with)
	require.Equal(t, 1, r.Merges)
	rows := readRows(t, b.target)
	slices.SortFunc(rows, func(a, b map[string]any) int { return int(a["amount"].(int64) - b["amount"].(int64)) })
	require.Len(t, rows, 2)
	require.Equal(t, rows[0][silver.ColValidFrom], rows[0][silver.ColValidTo])
	require.Equal(t, []any{timeOf(2), timeOf(5), false, lsnOf(5).String()},
		[]any{rows[1][silver.ColValidFrom], rows[1][silver.ColValidTo], rows[1][silver.ColIsCurrent], rows[1][silver.ColEndLSN]})
}
