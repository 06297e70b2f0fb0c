package facts

import (
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// The columns that are looked at by name.
const (
	colAppID    = "app_id"
	colEvent    = "event"
	colMinLSN   = "min_lsn"
	colMaxLSN   = "max_lsn"
	colEndLSN   = "end_lsn"
	colDetail   = "detail"
	colTarget   = "target"
	colInstance = "capture_instance"
)

// column is a column of the facts table and where its value comes from. A value is
// nil, string, int64, int32, float64 or time.Time.
type column struct {
	name    string
	typ     schema.Primitive
	comment string
	value   func(f *mssqlcdc.Fact) any
}

// columns are all columns but written_at, which the writer fills.
func columns() []column {
	const (
		text, long, real, when = schema.String, schema.Long, schema.Double, schema.TimestampNTZ
	)
	return []column{
		{colAppID, text, "Application id of the writer", func(f *mssqlcdc.Fact) any { return f.AppID }},
		{"batch_id", long, "Number of the data commit; NULL if there was none", func(f *mssqlcdc.Fact) any { return value(f.BatchID) }},
		{"rows", long, "Change rows of the window as committed; 0 on events", func(f *mssqlcdc.Fact) any { return f.Rows }},
		{colMinLSN, text, "Lowest commit LSN of the rows; the LSN of an event", func(f *mssqlcdc.Fact) any { return lsn(f.MinLSN) }},
		{colMaxLSN, text, "Highest commit LSN of the rows; the LSN of an event", func(f *mssqlcdc.Fact) any { return lsn(f.MaxLSN) }},
		{"min_commit_ts", when, "Commit time of min_lsn, UTC", func(f *mssqlcdc.Fact) any { return instant(f.MinCommitTime) }},
		{"max_commit_ts", when, "Commit time of max_lsn, UTC", func(f *mssqlcdc.Fact) any { return instant(f.MaxCommitTime) }},
		{"deletes", long, "Rows of operation 1", func(f *mssqlcdc.Fact) any { return f.Deletes }},
		{"inserts", long, "Rows of operation 2", func(f *mssqlcdc.Fact) any { return f.Inserts }},
		{"updates", long, "Rows of operation 4", func(f *mssqlcdc.Fact) any { return f.Updates }},
		{"started_at", when, "When the window reached the output, UTC", func(f *mssqlcdc.Fact) any { return instant(f.StartedAt) }},
		{"duration_ms", long, "From started_at to the end of the data commit, milliseconds", func(f *mssqlcdc.Fact) any { return value(f.DurationMS) }},
		{"source_rtt_ms", real, "One round trip to the source, milliseconds", func(f *mssqlcdc.Fact) any { return value(f.SourceRTT) }},
		{"read_seconds", real, "Time spent reading, summed over connections", func(f *mssqlcdc.Fact) any { return value(f.ReadSeconds) }},
		{"read_mb", real, "Bytes of the rows in memory, 10^6", func(f *mssqlcdc.Fact) any { return value(f.ReadMB) }},
		{"network_wait_ms", long, "Time the server waited for the reader, milliseconds; NULL if it does not tell", func(f *mssqlcdc.Fact) any { return value(f.NetworkWaitMS) }},
		{"retention_watermark_ts", when, "Commit time of the oldest change that the source still had after the read, UTC", func(f *mssqlcdc.Fact) any { return instant(f.RetentionTime) }},
		{"retention_headroom_hours", real, "Hours between that and the end of the window", func(f *mssqlcdc.Fact) any { return value(f.RetentionHeadroom) }},
		{colEvent, text, "What happened; NULL on windows", func(f *mssqlcdc.Fact) any { return notEmpty(string(f.Event)) }},
		{"lost_from_ts", when, "Begin of a loss, UTC", func(f *mssqlcdc.Fact) any { return instant(f.LostFrom) }},
		{"lost_to_ts", when, "End of a loss, UTC", func(f *mssqlcdc.Fact) any { return instant(f.LostTo) }},
		{"source_max_commit_ts", when, "Commit time of the newest change that the source had captured, UTC", func(f *mssqlcdc.Fact) any { return instant(f.SourceMaxTime) }},
		{"capture_lag_seconds", real, "Age of that when it was seen, seconds", func(f *mssqlcdc.Fact) any { return value(f.CaptureLag) }},
		{"ingestion_lag_seconds", real, "From the end of the window to that, seconds", func(f *mssqlcdc.Fact) any { return value(f.IngestionLag) }},
		{colEndLSN, text, "End of the window", func(f *mssqlcdc.Fact) any { return lsn(f.EndLSN) }},
		{"end_commit_ts", when, "Its commit time, UTC", func(f *mssqlcdc.Fact) any { return instant(f.EndCommitTime) }},
		{colDetail, text, "Text or JSON, by event; warnings on a window", func(f *mssqlcdc.Fact) any { return notEmpty(f.Detail) }},
		{colTarget, text, "The data table as configured", func(f *mssqlcdc.Fact) any { return f.Target }},
		{colWrittenAt, when, "When this row was written, UTC", nil},
		{"source_table", text, "Table of the source", func(f *mssqlcdc.Fact) any { return tableName(f.Table) }},
		{colInstance, text, "Capture instance", func(f *mssqlcdc.Fact) any { return notEmpty(f.CaptureInstance) }},
		{"generation", schema.Integer, "Counts the snapshots that the stream was started anew from", func(f *mssqlcdc.Fact) any { return int32(f.Generation) }},
		{"start_lsn", text, "Position that the window continued from", func(f *mssqlcdc.Fact) any { return lsn(f.StartLSN) }},
		{"commits", long, "Commits of the source with rows in the window", func(f *mssqlcdc.Fact) any { return f.Commits }},
		{"parts", long, "Parts that the window came in", func(f *mssqlcdc.Fact) any { return int64(f.Parts) }},
		{"rows_filtered", long, "Rows that each_row took out", func(f *mssqlcdc.Fact) any { return f.RowsFiltered }},
	}
}

const colWrittenAt = "written_at"

// Schema is the schema of the facts table. All columns are nullable.
func Schema() *schema.Struct {
	s := &schema.Struct{}
	for _, c := range columns() {
		field := schema.Field{Name: c.name, Type: c.typ, Nullable: true}.WithComment(c.comment)
		s.Fields = append(s.Fields, field)
	}
	return s
}

func value[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func instant(p *time.Time) any {
	if p == nil || p.IsZero() {
		return nil
	}
	return p.UTC()
}

func lsn(l mssqlcdc.LSN) any {
	if l.IsZero() {
		return nil
	}
	return l.String()
}

func notEmpty(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func tableName(t mssqlcdc.TableID) any {
	if t.IsZero() {
		return nil
	}
	return t.String()
}
