package merge_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// versioned is a table of ids with versions.
func versioned() *schema.Struct {
	return columns(field("id", schema.Long), field("version", schema.Long), field("who", schema.String))
}

// versionedBatch has a row per id, all of one version.
func versionedBatch(who string, version int64, ids ...int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, versioned().Arrow())
	defer b.Release()
	for _, id := range ids {
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.Int64Builder).Append(version)
		b.Field(2).(*array.StringBuilder).Append(who)
	}
	return b.NewRecordBatch()
}

// flaky makes a store whose requests fail now and then, and whose commits sometimes land
// without an answer.
func flaky(inner *mem.Store, seed uint64) *fault.Store {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 3))
	return fault.Wrap(inner, func(c fault.Call) fault.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case c.Op == fault.Delete:
			return fault.Fault{} // or files would be left, which is no fault of ours
		case c.Op == fault.PutIfAbsent && r.IntN(10) == 0:
			return fault.Fault{After: fault.ErrInjected}
		case c.Op == fault.PutIfAbsent && r.IntN(10) == 0:
			return fault.Fault{Before: fault.ErrInjected}
		case strings.HasPrefix(c.Path, "_delta_log/"):
			return fault.Fault{}
		case r.IntN(40) == 0:
			return fault.Fault{Before: fault.ErrInjected}
		}
		return fault.Fault{}
	})
}

// Several writers merge the same keys at a time through a store that fails now and then, while
// the table is compacted and others append. In the end there is one row per key, the newest one
// that anybody brought, and no file is left that belongs to nobody.
func TestConcurrentMerges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			first := create(t, st, delta.Spec{Schema: versioned(), Properties: map[string]string{delta.PropDeletionVectors: "true"}})
			const keys, writers, rounds = 40, 3, 6
			newest := make([]map[int64]int64, writers)
			g, _ := errgroup.WithContext(t.Context())
			for w := range writers {
				newest[w] = map[int64]int64{}
				g.Go(func() error {
					r := rand.New(rand.NewPCG(seed, uint64(w)))
					table := open(t, flaky(st, seed*100+uint64(w)))
					for round := range rounds {
						var ids []int64
						for _, id := range r.Perm(keys)[:1+r.IntN(12)] {
							ids = append(ids, int64(id))
						}
						version := int64(round*writers + w + 1)
						o := merge.Options{
							Keys: []string{"id"}, Versions: []string{"version"},
							Strategy: []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors}[r.IntN(2)],
							Writer:   data.WriterOptions{RowGroupRows: 4},
						}
						for {
							_, err := merge.Run(t.Context(), table, merge.Source{
								Upserts: []arrow.RecordBatch{versionedBatch(fmt.Sprint("writer ", w), version, ids...)},
							}, o)
							if err == nil {
								break
							}
							if !errors.Is(err, fault.ErrInjected) {
								return err
							}
						}
						for _, id := range ids {
							newest[w][id] = version
						}
					}
					return nil
				})
			}
			g.Go(func() error {
				table := open(t, st)
				for i := range int64(10) {
					_, err := maintain.Optimize(t.Context(), table, maintain.OptimizeOptions{})
					if err != nil && !errors.Is(err, maintain.ErrBusy) {
						return err
					}
					w, err := table.NewWriter(t.Context(), data.WriterOptions{})
					if err != nil {
						return err
					}
					if err := w.Write(versionedBatch("appender", 0, 1000+i)); err != nil {
						return err
					}
					adds, err := w.Close()
					if err != nil {
						return err
					}
					if _, err := table.Commit(t.Context(), delta.Change{BlindAppend: true, Add: adds}); err != nil {
						return err
					}
				}
				return nil
			})
			require.NoError(t, g.Wait())
			want := map[int64]int64{}
			for _, each := range newest {
				for id, version := range each {
					want[id] = max(want[id], version)
				}
			}
			for i := range int64(10) {
				want[1000+i] = 0
			}
			s, err := first.Refresh(t.Context())
			require.NoError(t, err)
			have := map[int64]int64{}
			for rec, err := range first.Read(t.Context(), s, delta.ReadOptions{}) {
				require.NoError(t, err)
				for i, id := range rec.Column(0).(*array.Int64).Int64Values() {
					require.NotContains(t, have, id, "one row per key")
					have[id] = rec.Column(1).(*array.Int64).Value(i)
				}
			}
			require.Equal(t, want, have)
			require.Empty(t, orphans(t, st, first))
		})
	}
}

// Appends that cannot have the keys of a merge are no conflict, those that may have them are.
func TestAppendDuringMerge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		appended int64
		races    int
		rows     []string
	}{
		"other keys": {appended: 100, rows: []string{
			`{"id":1,"version":2,"who":"merge"}`, `{"id":100,"version":1,"who":"append"}`}},
		"the same key": {appended: 1, rows: []string{`{"id":1,"version":2,"who":"merge"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := mem.New()
			other := create(t, inner, delta.Spec{Schema: versioned()})
			var once sync.Once
			st := fault.Wrap(inner, func(call fault.Call) fault.Fault {
				if call.Op != fault.PutIfAbsent {
					return fault.Fault{}
				}
				once.Do(func() {
					w, err := other.NewWriter(t.Context(), data.WriterOptions{})
					require.NoError(t, err)
					require.NoError(t, w.Write(versionedBatch("append", 1, c.appended)))
					adds, err := w.Close()
					require.NoError(t, err)
					_, err = other.Commit(t.Context(), delta.Change{BlindAppend: true, Add: adds})
					require.NoError(t, err)
				})
				return fault.Fault{}
			})
			table := open(t, st)
			r, err := merge.Run(t.Context(), table, merge.Source{Upserts: batches(versionedBatch("merge", 2, 1))}, merge.Options{Keys: []string{"id"}})
			require.NoError(t, err)
			require.Equal(t, 1, r.Races)
			require.EqualValues(t, 2, r.Version)
			require.Equal(t, c.appended == 1, r.Metrics.RowsUpdated == 1)
			require.Equal(t, c.rows, rowsOf(t, table))
			require.Empty(t, orphans(t, inner, table))
		})
	}
}

// A compaction that comes first takes the files away that the merge has found its keys in: the
// merge is computed again, and the new rows that it has written are used again.
func TestCompactionDuringMerge(t *testing.T) {
	t.Parallel()
	for _, strategy := range []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			inner := mem.New()
			other := create(t, inner, delta.Spec{Schema: versioned(), Properties: map[string]string{delta.PropDeletionVectors: "true"}})
			for id := range int64(4) {
				_, err := merge.Run(t.Context(), other, merge.Source{Upserts: batches(versionedBatch("first", 1, id, 10+id, 20+id))}, merge.Options{Keys: []string{"id"}})
				require.NoError(t, err)
			}
			var once sync.Once
			var created atomic.Int64
			st := fault.Wrap(inner, func(call fault.Call) fault.Fault {
				if call.Op == fault.Create {
					created.Add(1)
				}
				if call.Op == fault.PutIfAbsent {
					once.Do(func() {
						r, err := maintain.Optimize(t.Context(), other, maintain.OptimizeOptions{})
						require.NoError(t, err)
						require.EqualValues(t, 1, r.Commits)
					})
				}
				return fault.Fault{}
			})
			table := open(t, st)
			r, err := merge.Run(t.Context(), table, merge.Source{
				Upserts: batches(versionedBatch("merge", 2, 2, 50)), Deletes: batches(versionedBatch("merge", 2, 13)),
			}, merge.Options{Keys: []string{"id"}, Strategy: strategy, PurgeRatio: 1, Parallel: 1})
			require.NoError(t, err)
			require.EqualValues(t, 1, r.Metrics.RowsUpdated)
			require.EqualValues(t, 1, r.Metrics.RowsInserted)
			require.EqualValues(t, 1, r.Metrics.RowsDeleted)
			rows := rowsOf(t, table)
			require.Len(t, rows, 12)
			require.Contains(t, rows, `{"id":2,"version":2,"who":"merge"}`)
			require.Empty(t, orphans(t, inner, table))
			// Copy on write: two files and the new row, and the file that the compaction made. Deletion
			// vectors: the new rows only.
			want := map[merge.Strategy]int64{merge.CopyOnWrite: 4, merge.DeletionVectors: 1}
			require.Equal(t, want[strategy], created.Load())
		})
	}
}

// A row that was found newer than the source's, and that somebody else deletes before the merge
// is committed, does not keep the source's row out.
func TestDeleteOfNewerRowDuringMerge(t *testing.T) {
	t.Parallel()
	inner := mem.New()
	other := create(t, inner, delta.Spec{Schema: versioned()})
	run(t, other, merge.Source{Upserts: batches(versionedBatch("first", 5, 1))}, byID(""))
	var once sync.Once
	table := open(t, fault.Wrap(inner, func(call fault.Call) fault.Fault {
		if call.Op == fault.PutIfAbsent {
			once.Do(func() { run(t, other, merge.Source{Deletes: batches(versionedBatch("", 0, 1))}, byID("")) })
		}
		return fault.Fault{}
	}))
	o := byID("")
	o.Versions = []string{"version"}
	r := run(t, table, merge.Source{Upserts: batches(versionedBatch("merge", 3, 1, 50))}, o)
	require.EqualValues(t, 2, r.Metrics.RowsInserted)
	require.Equal(t, []string{`{"id":1,"version":3,"who":"merge"}`, `{"id":50,"version":3,"who":"merge"}`}, rowsOf(t, table))
}
