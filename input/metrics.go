package input

import (
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// metrics are the counters and gauges of the input. Labels are tables and error
// classes, both few.
type metrics struct {
	rows, windows, bytes, failed *service.MetricCounter
	polls, rewinds, errors       *service.MetricCounter
	chunks, snapshotRows         *service.MetricCounter
	paused                       *service.MetricGauge
	captureLag                   *service.MetricGauge
	captureErrors, scanFailures  *service.MetricGauge
	captureLatency, scanAge      *service.MetricGauge
	ingestionLag, headroom       *service.MetricGauge
}

func newMetrics(m *service.Metrics) *metrics {
	return &metrics{
		rows:           m.NewCounter("mssql_cdc_rows_total", "table"),
		windows:        m.NewCounter("mssql_cdc_windows_total", "table"),
		bytes:          m.NewCounter("mssql_cdc_read_bytes_total", "table"),
		failed:         m.NewCounter("mssql_cdc_table_failed", "table"),
		chunks:         m.NewCounter("mssql_cdc_snapshot_chunks_total", "table"),
		snapshotRows:   m.NewCounter("mssql_cdc_snapshot_rows_total", "table"),
		paused:         m.NewGauge("mssql_cdc_snapshot_paused", "table"),
		polls:          m.NewCounter("mssql_cdc_polls_total"),
		rewinds:        m.NewCounter("mssql_cdc_rewinds_total"),
		errors:         m.NewCounter("mssql_cdc_errors_total", "class"),
		captureLag:     m.NewGauge("mssql_cdc_capture_lag_seconds"),
		captureErrors:  m.NewGauge("mssql_cdc_capture_errors"),
		scanFailures:   m.NewGauge("mssql_cdc_capture_scan_errors"),
		captureLatency: m.NewGauge("mssql_cdc_capture_latency_seconds"),
		scanAge:        m.NewGauge("mssql_cdc_capture_scan_age_seconds"),
		ingestionLag:   m.NewGauge("mssql_cdc_ingestion_lag_seconds", "table"),
		headroom:       m.NewGauge("mssql_cdc_retention_headroom_hours", "table"),
	}
}

// polled records the age of the newest commit that capture has processed.
func (m *metrics) polled(head sqlserver.Head) {
	m.polls.Incr(1)
	if !head.Time.IsZero() {
		m.captureLag.SetFloat64(head.SeenTime.Sub(head.Time).Seconds())
	}
}

// healthy records what the capture job tells about itself.
func (m *metrics) healthy(h sqlserver.Health) {
	m.captureErrors.Set(h.Errors)
	if h.Scanned {
		m.scanFailures.Set(h.Failed)
		m.captureLatency.SetFloat64(h.Latency.Seconds())
		m.scanAge.SetFloat64(h.Age.Seconds())
	}
}

// chunk records a chunk of a snapshot whose last part was handed out.
func (m *metrics) chunk(table mssqlcdc.TableID, wm mssqlcdc.WindowMetrics, rows int64) {
	name := table.String()
	m.chunks.Incr(1, name)
	m.snapshotRows.Incr(rows, name)
	m.bytes.Incr(wm.ReadBytes, name)
}

// pausing records whether the snapshot of a table waits for its changes.
func (m *metrics) pausing(table mssqlcdc.TableID, paused bool) {
	value := int64(0)
	if paused {
		value = 1
	}
	m.paused.Set(value, table.String())
}

// sent records a window whose last part was handed out.
func (m *metrics) sent(table mssqlcdc.TableID, window mssqlcdc.Window, wm mssqlcdc.WindowMetrics, head sqlserver.Head) {
	name := table.String()
	m.windows.Incr(1, name)
	m.bytes.Incr(wm.ReadBytes, name)
	if window.EndTime.IsZero() {
		return
	}
	if !head.Time.IsZero() {
		m.ingestionLag.SetFloat64(max(0, head.Time.Sub(window.EndTime)).Seconds(), name)
	}
	if !wm.MinLSNTime.IsZero() {
		m.headroom.SetFloat64(window.EndTime.Sub(wm.MinLSNTime).Hours(), name)
	}
}

func className(class sqlserver.Class) string {
	switch class {
	case sqlserver.Transient:
		return "transient"
	case sqlserver.DataLoss:
		return "data_loss"
	case sqlserver.Schema:
		return "schema"
	case sqlserver.Permission:
		return "permission"
	case sqlserver.Canceled:
		return "canceled"
	}
	return "fatal"
}

// wait pauses until the time is over or done is closed; false if it was closed.
func wait(done <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}
