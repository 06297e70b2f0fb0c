package output

import (
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/rows"
)

// metrics are counted after what they count succeeded. The label table is the
// source table of changes, and the last element of the path of ordinary rows.
type metrics struct {
	rows, commits, files, bytes *service.MetricCounter
	skipped, trimmed, retries   *service.MetricCounter
	factsRows                   *service.MetricCounter
	commitLatency               *service.MetricTimer
	stagedParts, position       *service.MetricGauge
}

func newMetrics(m *service.Metrics) *metrics {
	const table = "table"
	return &metrics{
		rows:          m.NewCounter("delta_lake_rows_total", table),
		commits:       m.NewCounter("delta_lake_commits_total", table),
		files:         m.NewCounter("delta_lake_files_total", table),
		bytes:         m.NewCounter("delta_lake_bytes_total", table),
		skipped:       m.NewCounter("delta_lake_skipped_windows_total", table),
		trimmed:       m.NewCounter("delta_lake_trimmed_rows_total", table),
		retries:       m.NewCounter("delta_lake_retries_total", table),
		factsRows:     m.NewCounter("delta_lake_facts_rows_total"),
		commitLatency: m.NewTimer("delta_lake_commit_latency_ns", table),
		stagedParts:   m.NewGauge("delta_lake_staged_parts", table),
		position:      m.NewGauge("delta_lake_position_timestamp_seconds", table),
	}
}

// wrote counts a part that was written.
func (m *metrics) wrote(table string, env mssqlcdc.Envelope, done bronze.Result) {
	if done.Mark == mssqlcdc.Staged {
		m.stagedParts.Set(int64(env.Part+1), table)
		return
	}
	m.stagedParts.Set(0, table)
	m.trimmed.Incr(done.Trimmed, table)
	if done.Mark == mssqlcdc.Skipped {
		m.skipped.Incr(1, table)
		return
	}
	if !env.Window.EndTime.IsZero() {
		m.position.SetFloat64(float64(env.Window.EndTime.UnixMilli())/1000, table)
	}
	if done.Idle {
		return
	}
	m.commits.Incr(1, table)
	m.rows.Incr(done.Rows, table)
	m.files.Incr(done.Files, table)
	m.bytes.Incr(done.Bytes, table)
	m.commitLatency.Timing(done.Took.Nanoseconds(), table)
}

// wroteRows counts a batch of ordinary rows.
func (m *metrics) wroteRows(table string, done rows.Result, took time.Duration) {
	if done.Skipped {
		m.skipped.Incr(1, table)
		return
	}
	m.commits.Incr(1, table)
	m.rows.Incr(done.Rows, table)
	m.files.Incr(done.Files, table)
	m.bytes.Incr(done.Bytes, table)
	m.commitLatency.Timing(took.Nanoseconds(), table)
}
