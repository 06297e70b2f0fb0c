package sqlserver_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// BenchmarkSimBacklog drains a backlog of the simulator, which runs in the same process.
func BenchmarkSimBacklog(b *testing.B) {
	for _, shape := range []workload.Shape{workload.Narrow, workload.Wide} {
		for _, ranges := range []int{1, 2} {
			b.Run(string(shape)+map[int]string{1: ", one range", 2: ", two ranges"}[ranges], func(b *testing.B) {
				rows := int64(400_000)
				if shape == workload.Wide {
					rows = 60_000
				}
				l := newLab(b)
				truth, err := workload.Backlog(b.Context(), l.sim, shape, rows, 100)
				require.NoError(b, err)
				client := l.client()
				layout := l.layout(client, truth.Instance)
				start := l.start(client, truth.Instance)
				head, err := client.MaxLSN(b.Context())
				require.NoError(b, err)
				limits := sqlserver.Limits{Ranges: ranges}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				var read, size int64
				for b.Loop() {
					for position := start; position.Less(head.LSN); {
						plan, err := client.Plan(b.Context(), layout, position, head.LSN, limits)
						require.NoError(b, err)
						for part, err := range client.Read(b.Context(), sqlserver.ReadRequest{Layout: layout, Plan: plan, Limits: limits, Head: head}) {
							require.NoError(b, err)
							read += part.Record.NumRows()
							if part.Last {
								position = part.Window.End
								size += part.Metrics.ReadBytes
							}
						}
					}
				}
				runtime.ReadMemStats(&after)
				require.EqualValues(b, rows*int64(b.N), read)
				b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "rows/s")
				b.ReportMetric(float64(size)/1e6/b.Elapsed().Seconds(), "MB/s")
				b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(read), "allocs/row")
			})
		}
	}
}
