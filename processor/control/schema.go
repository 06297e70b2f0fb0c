package control

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Columns of the table. The first nine are those of mssql-cdc-pyspark.
const (
	colTarget         = "table_name"
	colFinalizedUntil = "finalized_until"
	colEndLSN         = "end_lsn"
	colEndCommitTime  = "end_commit_ts"
	colUpdatedAt      = "updated_at"
	colAppliedLSN     = "applied_lsn"
	colSnapshotLSN    = "snapshot_lsn"
	colOpenSnapshot   = "open_snapshot_lsn"
	colSnapshotWave   = "snapshot_wave"
	colCompleteFrom   = "complete_from"
	colGap            = "gap"
	colHeldBy         = "held_by"
	colPath           = "table_path"
)

// SchemaVersionProperty holds the number of the newest migration that a table
// has. Migrations only add. Ledger: 1 is the first, 2 adds table_path.
const (
	SchemaVersionProperty = "rpconnect.schema_version"
	schemaVersion         = "2"
	// minVersionProperty is how mssql-cdc-pyspark keeps older releases out. We know
	// control tables up to version 4.
	minVersionProperty = "mssql_cdc.min_version"
)

// tableSchema is what we create, and what an older table is extended to.
func tableSchema() *schema.Struct {
	field := func(name string, t schema.Type, comment string) schema.Field {
		return schema.Field{Name: name, Type: t, Nullable: true}.WithComment(comment)
	}
	text, stamp := schema.String, schema.TimestampNTZ
	return &schema.Struct{Fields: []schema.Field{
		field(colTarget, text, "Target of the row, as configured"),
		field(colFinalizedUntil, stamp, "Every period before it is complete in the target (UTC). Never decreases"),
		field(colEndLSN, text, "End of the window that last moved the verdict"),
		field(colEndCommitTime, stamp, "Commit time of end_lsn (UTC)"),
		field(colUpdatedAt, stamp, "When the row last changed (UTC)"),
		field(colAppliedLSN, text, "Current-state tables: highest commit applied"),
		field(colSnapshotLSN, text, "Current-state tables: snapshot last rebuilt from"),
		field(colOpenSnapshot, text, "Current-state tables: chunked snapshot in progress"),
		field(colSnapshotWave, schema.Integer, "Current-state tables: last wave of it applied"),
		field(colCompleteFrom, stamp, "Commits up to it may be missing (UTC); NULL: none is"),
		field(colGap, text, "Lost stretches of commit time as JSON [{from,to}]; NULL: none"),
		field(colHeldBy, text, "Why the verdict stands still; NULL: it does not"),
		field(colPath, text, "Current-state tables: the table as configured"),
	}}
}

// row is a row of the table with every column, also those of other releases, so
// that rewriting it loses nothing.
type row map[string]any

func (r row) text(column string) string {
	text, _ := r[column].(string)
	return text
}

// time reads a zone-less timestamp column, which is in UTC.
func (r row) time(column string) time.Time {
	t, _ := r[column].(time.Time)
	return t
}

// rowsOf copies the rows out of a batch that the reader is about to reuse.
func rowsOf(rec arrow.RecordBatch) []row {
	var rows []row
	for object := range mssqlcdc.Rows(rec, 0) {
		for name, value := range object {
			if text, ok := value.(string); ok {
				object[name] = strings.Clone(text)
			}
		}
		rows = append(rows, row(object))
	}
	return rows
}

func (r row) verdict() (Verdict, error) {
	v := Verdict{
		Target: r.text(colTarget), FinalizedUntil: r.time(colFinalizedUntil),
		EndCommitTime: r.time(colEndCommitTime), UpdatedAt: r.time(colUpdatedAt),
		CompleteFrom: r.time(colCompleteFrom), HeldBy: r.text(colHeldBy),
	}
	v.Path = r.text(colPath)
	for column, to := range v.lsns() {
		text := r.text(column)
		if text == "" {
			continue
		}
		lsn, err := mssqlcdc.ParseLSN(text)
		if err != nil {
			return Verdict{}, fmt.Errorf("reading column %s of target %q: %w", column, v.Target, err)
		}
		*to = lsn
	}
	switch wave := r[colSnapshotWave].(type) {
	case int64:
		v.SnapshotWave = wave
	case nil:
	default:
		return Verdict{}, fmt.Errorf("reading column %s of target %q: it holds a %T", colSnapshotWave, v.Target, wave)
	}
	if text := r.text(colGap); text != "" {
		gaps, err := parseGaps(text)
		if err != nil {
			return Verdict{}, fmt.Errorf("target %q: %w", v.Target, err)
		}
		v.Gaps = gaps
	}
	return v, nil
}

// lsns are the LSNs of the verdict by column.
func (v *Verdict) lsns() map[string]*mssqlcdc.LSN {
	return map[string]*mssqlcdc.LSN{
		colEndLSN: &v.EndLSN, colAppliedLSN: &v.AppliedLSN, colSnapshotLSN: &v.SnapshotLSN, colOpenSnapshot: &v.OpenSnapshot,
	}
}

// set writes the verdict's columns and leaves the others.
func (r row) set(v Verdict) error {
	gaps, err := gapText(v.Gaps)
	if err != nil {
		return err
	}
	r[colTarget] = v.Target
	r[colFinalizedUntil] = known(v.FinalizedUntil)
	for column, lsn := range v.lsns() {
		r[column] = nil
		if !lsn.IsZero() {
			r[column] = lsn.String()
		}
	}
	if v.Path != "" {
		r[colPath], r[colSnapshotWave] = v.Path, v.SnapshotWave
	}
	r[colEndCommitTime] = known(v.EndCommitTime)
	r[colUpdatedAt] = known(v.UpdatedAt)
	r[colCompleteFrom] = known(v.CompleteFrom)
	r[colGap] = gaps
	r[colHeldBy] = nil
	if v.HeldBy != "" {
		r[colHeldBy] = v.HeldBy
	}
	return nil
}

func known(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC()
}

// record packs rows for a data file.
func record(as *arrow.Schema, rows []row) (arrow.RecordBatch, error) {
	builder, err := mssqlcdc.NewRowBuilder(as, array.NewRecordBuilder(memory.DefaultAllocator, as))
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		byName := map[string]any{}
		for name, value := range r {
			byName[strings.ToLower(name)] = value
		}
		for i, field := range as.Fields() {
			if err := builder.Set(i, byName[strings.ToLower(field.Name)]); err != nil {
				return nil, fmt.Errorf("writing a row of the control table: %w", err)
			}
		}
	}
	return builder.NewRecord(), nil
}
