package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Columns of the report table that other packages read.
const (
	ColRunAt       = "run_at"
	ColRunID       = "run_id"
	ColTarget      = "silver" // also of a bronze table: the name is that of mssql-cdc-pyspark
	ColStatus      = "status"
	ColFailureType = "failure_type"
	ColDetail      = "detail"
)

// ReportSchema is that of the report table: the columns of mssql-cdc-pyspark, whose reports can go on in the same table. A run is one commit,
// with a row per bucket (status, counts), and a row per listed key or chunk (failure_type). Of the key sums, each run's are comparable with each
// other only.
func ReportSchema() *schema.Struct {
	text := schema.String
	field := func(name string, t schema.Type, comment string) schema.Field {
		return schema.Field{Name: name, Type: t, Nullable: true}.WithComment(comment)
	}
	return &schema.Struct{Fields: []schema.Field{
		field(ColRunID, text, "The comparison"),
		field(ColRunAt, schema.TimestampNTZ, "When it began, UTC"),
		field(ColTarget, text, "The table that was compared"),
		field("silver_version", schema.Long, "Its version"),
		field("silver_lsn", text, "The version holds every change up to it"),
		field("source_lsn", text, "Changes up to it were looked at; NULL if nothing differed"),
		field("bucket_lo", text, "First key of the bucket, JSON; NULL: from the first row"),
		field("bucket_hi", text, "First key after it, JSON; NULL: to the last row"),
		field("source_rows", schema.Long, "Rows of the source"),
		field("source_key_sum", schema.Decimal{Precision: 38}, "Sum over the digests of their keys"),
		field("silver_rows", schema.Long, "Rows of the table with these keys"),
		field("silver_key_sum", schema.Decimal{Precision: 38}, "Sum over the digests of their keys"),
		field(ColStatus, text, "MATCH, IN_FLIGHT or MISMATCH; NULL on rows of keys"),
		field("hashed", schema.Boolean, "Rows were compared whole, not only their keys"),
		field("key", text, "Key that differs, JSON"),
		field(ColFailureType, text, "What is wrong with a key or a chunk; NULL on buckets"),
		field(ColDetail, text, "JSON, by failure type; on a bucket what was counted"),
	}}
}

// OpenReport opens the report table, and makes it if there is none.
func OpenReport(ctx context.Context, st store.Store, o delta.Options) (*delta.Table, error) {
	t, err := delta.Create(ctx, st, delta.Spec{Schema: ReportSchema(), Comment: "Comparisons of tables with their source"}, o)
	if err != nil {
		return nil, fmt.Errorf("opening the report table: %w", err)
	}
	return t, nil
}

// Append writes the result into a report table, in one commit.
func (r *Result) Append(ctx context.Context, table *delta.Table) error {
	const doing = "writing the report"
	rec, err := r.record()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	w, err := table.NewWriter(ctx, data.WriterOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := w.Write(rec); err != nil {
		return fmt.Errorf("%s: %w", doing, errors.Join(err, w.Abort()))
	}
	adds, err := w.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	_, err = table.Commit(ctx, delta.Change{
		Operation: delta.OpWrite, OperationParameters: map[string]string{"mode": "Append", "partitionBy": "[]"}, Add: adds, BlindAppend: true,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// record is the rows of the report.
func (r *Result) record() (arrow.RecordBatch, error) {
	as := ReportSchema().Arrow()
	builder := array.NewRecordBuilder(memory.DefaultAllocator, as)
	defer builder.Release()
	packer, err := mssqlcdc.NewRowBuilder(as, builder)
	if err != nil {
		return nil, err
	}
	add := func(row map[string]any) error {
		row[ColRunID], row[ColRunAt], row[ColTarget] = r.RunID, r.RunAt.Truncate(time.Microsecond), r.Target
		row["silver_version"], row["silver_lsn"] = r.Version, textOrNil(r.TargetLSN)
		for i, field := range as.Fields() {
			if err := packer.Set(i, row[field.Name]); err != nil {
				return err
			}
		}
		return nil
	}
	for _, b := range r.Buckets {
		detail, err := jsonText(map[string]any{"in_flight": b.InFlight, "wrong": b.Wrong, "outside": b.Outside})
		if err != nil {
			return nil, err
		}
		row := map[string]any{
			"source_lsn": textOrNil(r.SourceLSN), "source_rows": b.SourceRows, "source_key_sum": decimalText(b.SourceSum),
			"silver_rows": b.TargetRows, "silver_key_sum": decimalText(b.TargetSum), ColStatus: string(b.Status), "hashed": b.Hashed, ColDetail: detail,
		}
		if row["bucket_lo"], err = boundText(b.From); err != nil {
			return nil, err
		}
		if row["bucket_hi"], err = boundText(b.To); err != nil {
			return nil, err
		}
		if err := add(row); err != nil {
			return nil, err
		}
	}
	for _, f := range r.Failures {
		row, err := f.row()
		if err != nil {
			return nil, err
		}
		if f.Chunk == nil {
			row["source_lsn"] = textOrNil(r.SourceLSN)
		}
		if err := add(row); err != nil {
			return nil, err
		}
	}
	return packer.NewRecord(), nil
}

// row is the row of a key or a chunk.
func (f Failure) row() (map[string]any, error) {
	row := map[string]any{ColFailureType: string(f.Type)}
	detail := map[string]any{"silver_start_lsn": textOrNil(lsnText(f.TargetLSN)), "columns": f.Columns}
	if f.Note != "" {
		detail["note"] = f.Note
	}
	if c := f.Chunk; c != nil {
		detail = map[string]any{
			"snapshot": c.Snapshot, "chunk": c.Chunk, "rows": c.Rows, "facts_rows": c.FactsRows, "stamp": c.Stamp, "facts_stamp": c.FactStamp, "note": f.Note,
		}
	}
	var err error
	if row[ColDetail], err = jsonText(detail); err != nil {
		return nil, err
	}
	if f.Key != nil {
		row["key"], err = jsonText(f.Key)
	}
	return row, err
}

func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func boundText(bound []*string) (any, error) {
	if len(bound) == 0 {
		return nil, nil
	}
	return jsonText(bound)
}

func jsonText(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return string(text), nil
}

func decimalText(n *big.Int) any {
	if n == nil {
		return nil
	}
	return n.String()
}
