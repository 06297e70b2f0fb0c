package delta_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// realistic is a commit of about the size that a pipeline makes: 1.4 kB.
func realistic(i int) delta.Change {
	stats := `{"numRecords":10000,"minValues":{"start_lsn":"0x0000002A000000000003","id":1,"amount":0.01},"maxValues":{"start_lsn":"0x0000002A000303900003","id":99999,"amount":99999.99},"nullCount":{"start_lsn":0,"id":0,"amount":0,"note":5000}}`
	c := delta.Change{
		Operation:           delta.OpStreamingWrite,
		OperationParameters: map[string]string{"outputMode": "Append"},
		Metrics:             map[string]int64{"numFiles": 1, "numOutputRows": 10000, "numOutputBytes": 234567},
		Fenced:              &delta.Txn{AppID: "orders", Version: int64(i + 1)},
		Marks:               []delta.Txn{{AppID: "orders#lsn.hi", Version: int64(i)}, {AppID: "orders#lsn.lo", Version: int64(i)}},
		UserMetadata:        `{"batch":` + fmt.Sprint(i) + `,"facts":"` + strings.Repeat("x", 300) + `"}`,
		BlindAppend:         true,
		Add:                 []action.Add{add(fmt.Sprintf("part-00000-%032d-c000.zstd.parquet", i), 10000)},
	}
	c.Add[0].Stats = stats
	return c
}

// filled puts a log of n commits into a store, without syncing each.
func filled(b *testing.B, st store.Store, n int) {
	b.Helper()
	m := mem.New()
	table := create(b, m, delta.Options{CheckpointInterval: -1})
	for i := range n {
		commit(b, table, realistic(i))
	}
	for info, err := range m.List(b.Context(), "", "") {
		require.NoError(b, err)
		data, err := m.Get(b.Context(), info.Path)
		require.NoError(b, err)
		require.NoError(b, st.Put(b.Context(), info.Path, data))
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, files := range []int{0, 10_000} {
		for name, st := range map[string]store.Store{"mem": mem.New(), "file": fileStore(b)} {
			b.Run(fmt.Sprintf("%s/%d files before", name, files), func(b *testing.B) {
				o := delta.Options{CheckpointInterval: -1}
				table := create(b, st, o)
				many := delta.Change{BlindAppend: true}
				for i := range files {
					many.Add = append(many.Add, add(fmt.Sprint("old", i), 1))
				}
				commit(b, table, many)
				first, _ := table.Snapshot().AppVersion("orders")
				b.ReportAllocs()
				for i := int(first); b.Loop(); i++ {
					commit(b, table, realistic(i))
				}
			})
		}
	}
}

func fileStore(b *testing.B) store.Store {
	b.Helper()
	st, err := file.New(b.TempDir())
	require.NoError(b, err)
	return st
}

func BenchmarkOpen(b *testing.B) {
	const commits = 10_000
	st := fileStore(b)
	filled(b, st, commits)
	measure := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table, err := delta.Open(b.Context(), st, delta.Options{})
			require.NoError(b, err)
			require.EqualValues(b, commits, table.Snapshot().Version())
		}
	}
	list := func(b *testing.B) {
		b.ReportAllocs()
		table := open(b, st, delta.Options{})
		for b.Loop() {
			n := 0
			for _, err := range table.Snapshot().Files(b.Context()) {
				require.NoError(b, err)
				n++
			}
			require.Equal(b, commits, n)
		}
	}
	b.Run("10k commits", measure)
	b.Run("10k commits, files", list)
	require.NoError(b, open(b, st, delta.Options{}).Checkpoint(b.Context()))
	b.Run("checkpoint", measure)
	b.Run("checkpoint, files", list)
}

func BenchmarkCheckpoint(b *testing.B) {
	for _, files := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			st := mem.New()
			table := create(b, st, delta.Options{CheckpointInterval: -1})
			for i := 0; i < files; i += 1000 {
				c := delta.Change{BlindAppend: true}
				for j := range 1000 {
					c.Add = append(c.Add, realistic(i+j).Add...)
				}
				commit(b, table, c)
			}
			require.NoError(b, table.Checkpoint(b.Context()))
			b.ReportAllocs()
			var size int64
			for i := 0; b.Loop(); i++ {
				commit(b, table, adding(fmt.Sprint("more", i)))
				require.NoError(b, table.Checkpoint(b.Context()))
				object, err := st.Get(b.Context(), replay.CheckpointPath(table.Snapshot().Version()))
				require.NoError(b, err)
				size = int64(len(object))
			}
			b.ReportMetric(float64(size)/float64(files), "B/add")
		})
	}
}
