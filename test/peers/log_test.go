package peers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// faulty opens local folders through a store that fails as decided (K7).
func faulty(decide func(fault.Call) fault.Fault) output.Option {
	return output.WithStores(store.NewRegistry(store.Provider{Schemes: []string{""}, Open: func(_ context.Context, path string) (store.Store, error) {
		st, err := file.New(path)
		if err != nil {
			return nil, err
		}
		return fault.Wrap(st, decide), nil
	}}))
}

var errStore = errors.New("503 slow down")

// L-01, L-02, L-04, L-21: the store loses answers and requests, says that a file is there
// which is not, forbids to look, and loses what was written before its commit: whatever
// it does for a while, the table ends up with every row once.
func TestFaultyStoreUnderThePipeline(t *testing.T) {
	t.Parallel()
	isLog := func(c fault.Call) bool { return strings.HasSuffix(c.Path, ".json") && c.Op == fault.PutIfAbsent }
	first := func(f fault.Fault, of func(fault.Call) bool) func(fault.Call) fault.Fault {
		var seen atomic.Int64
		return func(c fault.Call) fault.Fault {
			if of(c) && seen.Add(1)%5 == 1 && seen.Load() < 20 {
				return f
			}
			return fault.Fault{}
		}
	}
	cases := map[string]func(fault.Call) fault.Fault{
		"answers of commits are lost":      first(fault.Fault{After: errStore}, isLog),
		"commits are lost":                 first(fault.Fault{Before: errStore}, isLog),
		"a commit is said to be there":     first(fault.Fault{Before: store.ErrExists}, isLog),
		"a lost answer, and no look":       func(c fault.Call) fault.Fault { return answerLost(c) },
		"files are lost before a commit":   first(fault.Fault{Before: errStore}, func(c fault.Call) bool { return c.Op == fault.Close }),
		"answers of files are lost":        first(fault.Fault{After: errStore}, func(c fault.Call) bool { return c.Op == fault.Close || c.Op == fault.Create }),
		"reads and listings fail at first": first(fault.Fault{Before: errStore}, func(c fault.Call) bool { return c.Op == fault.Get || c.Op == fault.Open || c.Op == fault.List }),
	}
	for range 3 {
		seed := rand.Uint64()
		cases[fmt.Sprintf("by chance, seed %d", seed)] = fault.Random(seed, 0.05)
	}
	for name, decide := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.table(t, "t", "id int NOT NULL PRIMARY KEY")
			for i := range 12 {
				l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d), (%d), (%d)", 3*i, 3*i+1, 3*i+2))
			}
			l.capture(t)
			p := l.pipeline(t, "dbo.t").with("max_commits_per_window: 2", "max_rows_per_part: 4").facts()
			p.outputs = []output.Option{faulty(decide)}
			p.run(t)
			l.requireSame(t, p, "t", "id")
			p.outputs = nil
			p.run(t)
			l.requireSame(t, p, "t", "id")
		})
	}
}

// answerLost loses the answer of each commit, and forbids to look at it once.
func answerLost(c fault.Call) fault.Fault {
	switch {
	case !strings.HasSuffix(c.Path, ".json") || c.N > 1:
		return fault.Fault{}
	case c.Op == fault.PutIfAbsent:
		return fault.Fault{After: errStore}
	case c.Op == fault.Get:
		return fault.Fault{Before: fmt.Errorf("403 forbidden: %w", errStore)}
	}
	return fault.Fault{}
}

// L-01, L-14, L-15: two pipelines write one table under one name, at once. Each goes on
// exactly behind what the table has, or ends and says that there is another writer.
func TestTwoPipelinesUnderOneName(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	for i := range 40 {
		l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", i))
	}
	l.capture(t)
	for round := range 3 {
		one := l.pipeline(t, "dbo.t").with("max_commits_per_window: 1")
		other := l.pipeline(t, "dbo.t").with("max_commits_per_window: 1", "checkpoint_cache_key: other")
		other.dir = one.dir
		one.cache, other.cache = t.TempDir(), t.TempDir()
		errs := make([]error, 2)
		var group sync.WaitGroup
		for i, p := range []*pipeline{one, other} {
			r := p.begin(t, "available_now")
			group.Go(func() { errs[i] = r.end(t) })
		}
		group.Wait()
		for _, err := range errs {
			if err != nil {
				require.ErrorContains(t, err, "another writer", "round %d", round)
			}
		}
		require.False(t, errs[0] != nil && errs[1] != nil, "both gave up: %v", errs)
		l.requireSame(t, one, "t", "id")
	}
}

// L-07: clean-up of the log with no retention at all, again and again: the table opens
// and has every file, for a reader that comes and for one that was there.
func TestLogCleanUpKeepsWhatReadersNeed(t *testing.T) {
	t.Parallel()
	for _, interval := range []int{5, 10, -1} {
		t.Run(fmt.Sprintf("checkpoint every %d", interval), func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			o := delta.Options{CheckpointInterval: interval, Now: func() time.Time { return now }}
			table := create(t, st, "a long", o)
			for i := range 25 {
				commit(t, table, delta.Change{BlindAppend: true, Add: []action.Add{addOf(i)}})
				if i%7 != 6 {
					continue
				}
				now = now.Add(72 * time.Hour)
				none := time.Duration(0)
				_, err := maintain.CleanLog(t.Context(), table, maintain.LogOptions{Retention: &none})
				require.NoError(t, err)
				require.Len(t, paths(t, table.Snapshot()), i+1)
				fresh, err := delta.Open(t.Context(), st, delta.Options{})
				require.NoError(t, err)
				require.Len(t, paths(t, fresh.Snapshot()), i+1)
			}
			require.NoError(t, table.Close(t.Context()))
		})
	}
}

// L-09: a checkpoint of a table with structs, maps, lists and wide decimals, and of files
// with, without and with broken statistics, says what its commits said.
func TestCheckpointOfEveryKindOfColumn(t *testing.T) {
	t.Parallel()
	inner := &schema.Struct{Fields: []schema.Field{{Name: "x", Type: schema.Decimal{Precision: 38, Scale: 10}, Nullable: true}, {Name: "when", Type: schema.TimestampNTZ, Nullable: true}}}
	s := &schema.Struct{Fields: []schema.Field{
		{Name: "id", Type: schema.Long, Nullable: true},
		{Name: "wide", Type: schema.Decimal{Precision: 38, Scale: 10}, Nullable: true},
		{Name: "nested", Type: inner, Nullable: true},
		{Name: "map", Type: &schema.Map{Key: schema.String, Value: inner, ValueContainsNull: true}, Nullable: true},
		{Name: "list", Type: &schema.Array{Element: inner, ContainsNull: true}, Nullable: true},
		{Name: "p", Type: schema.Date, Nullable: true},
	}}
	st := mem.New()
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: s, PartitionBy: []string{"p"}}, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	day := "2026-03-01"
	for i, stats := range []string{
		"", `{"numRecords":3}`, `{"numRecords":3,"minValues":{"wide":-99999999999999999999999999999.9999999999,"nested":{"when":"2026-03-01T00:00:00.000001"}},"maxValues":{"id":9223372036854775807},"nullCount":{"id":0,"nested":{"x":3}}}`,
		`{"numRecords":null}`, "not json",
	} {
		add := addOf(i)
		add.Stats, add.PartitionValues = stats, map[string]*string{"p": &day}
		if i%2 == 0 {
			add.PartitionValues = map[string]*string{"p": nil}
		}
		c := delta.Change{BlindAppend: true, Add: []action.Add{add}}
		c.Fenced = &delta.Txn{AppID: "app", Version: int64(i + 1)}
		commit(t, table, c)
	}
	want := adds(t, table.Snapshot())
	require.NoError(t, table.Checkpoint(t.Context()))
	require.NoError(t, table.Close(t.Context()))
	for version := range 5 {
		require.NoError(t, st.Delete(t.Context(), fmt.Sprintf("_delta_log/%020d.json", version)))
	}
	again, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	require.Equal(t, want, adds(t, again.Snapshot()))
	require.Equal(t, s.JSON(), again.Snapshot().Schema().JSON())
	version, known := again.Snapshot().AppVersion("app")
	require.True(t, known)
	require.EqualValues(t, 5, version)
	require.NoError(t, again.Close(t.Context()))
}

// L-20: after a thousand commits a reader that comes reads a checkpoint and a hundred
// commits at most, and finds files, statistics and transactions.
func TestColdOpenAfterAThousandCommits(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, "a long", delta.Options{})
	const commits = 1000
	for i := range commits {
		c := delta.Change{BlindAppend: true, Add: []action.Add{addOf(i)}}
		c.Fenced = &delta.Txn{AppID: "app", Version: int64(i + 1)}
		commit(t, table, c)
	}
	require.NoError(t, table.Close(t.Context()))
	counted := fault.Wrap(st, nil)
	fresh, err := delta.Open(t.Context(), counted, delta.Options{})
	require.NoError(t, err)
	found := adds(t, fresh.Snapshot())
	require.Len(t, found, commits)
	for _, add := range found {
		require.Contains(t, add.Stats, "numRecords")
	}
	version, _ := fresh.Snapshot().AppVersion("app")
	require.EqualValues(t, commits, version)
	gets := slices.DeleteFunc(counted.Calls("_delta_log"), func(c fault.Call) bool { return c.Op != fault.Get })
	require.LessOrEqual(t, len(gets), 2*100+5, "commits are read twice at most, for the state and for the files")
	require.NoError(t, fresh.Close(t.Context()))
}

// L-17: partition values that need escaping, once in a path and once in the log. A value
// has one directory, and what is appended later stands beside what was there.
func TestPartitionValuesThatNeedEscaping(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, region nvarchar(20) NULL")
	regions := []string{"N'a b'", "N'a%20b'", "N'ü'", "N'a/b'", "N'a=b'", "N'a:b'", "N'{x}'", "N'.'", "N'表'", "NULL"}
	p := l.pipeline(t, "dbo.t")
	p.deltaLake = append(p.deltaLake, "partition_by: [ region ]")
	for round := range 3 {
		l.exec(t, "INSERT dbo.t VALUES "+values(0, len(regions), func(i int) string { return fmt.Sprintf("%d, %s", 100*round+i, regions[i]) }))
		l.capture(t)
		p.run(t)
		want := l.changes(t, "dbo_t", "id", "region")
		got := p.bronze(t, "t", "id", "region")
		slices.Sort(got) // a commit has a file for each value
		slices.Sort(want)
		require.Equal(t, want, got)
	}
	directories, err := filepath.Glob(filepath.Join(p.dir, "lake", "t", "region=*"))
	require.NoError(t, err)
	require.Len(t, directories, len(regions), "%v", directories)

	// Delta readers take an empty value for NULL, so it is refused and not changed.
	l.exec(t, "INSERT dbo.t VALUES (1000, N'')")
	l.capture(t)
	require.ErrorContains(t, p.fail(t), "empty string")
	require.Len(t, p.bronze(t, "t"), 3*len(regions))
}

func create(t testing.TB, st store.Store, columns string, o delta.Options) *delta.Table {
	t.Helper()
	name, typ, _ := strings.Cut(columns, " ")
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{{Name: name, Type: schema.Primitive(typ), Nullable: true}}}}, o)
	require.NoError(t, err)
	return table
}

func addOf(i int) action.Add {
	return action.Add{Path: fmt.Sprintf("part-%04d.parquet", i), Size: 100, DataChange: true, Stats: `{"numRecords":1}`}
}

func commit(t testing.TB, table *delta.Table, c delta.Change) {
	t.Helper()
	r, err := table.Commit(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, delta.Committed, r.State)
}

func adds(t testing.TB, s *delta.Snapshot) []action.Add {
	t.Helper()
	var all []action.Add
	for add, err := range s.Files(t.Context()) {
		require.NoError(t, err)
		add.DataChange = false // of a commit, not of a file
		all = append(all, add)
	}
	slices.SortFunc(all, func(a, b action.Add) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func paths(t testing.TB, s *delta.Snapshot) []string {
	t.Helper()
	var all []string
	for _, add := range adds(t, s) {
		all = append(all, add.Path)
	}
	return all
}
