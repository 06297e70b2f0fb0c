package bronze

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// ColCommitDate is the column that a table partitioned by [ByCommitDate] has
// beside the usual ones: the date of _commit_ts, UTC.
const ColCommitDate = "_commit_date"

// ByCommitDate in Config.PartitionBy stands for the date of the commit time.
const ByCommitDate = "date(_commit_ts)"

// Table properties. Those of mssql-cdc-pyspark are honoured on tables that began
// there; our own are written to every table.
const (
	// PropSchemaVersion is the version of our columns. Ledger: 1 is the first.
	PropSchemaVersion = "rpconnect.schema_version"
	// PropMinVersion is the least version that may write; nobody sets it yet.
	PropMinVersion = "rpconnect.min_version"
	// PropSourceTable and PropSourceDatabase name the source. Rows of another
	// one are refused: their LSNs cannot be compared.
	PropSourceTable    = mssqlcdc.PropSourceTable
	PropSourceDatabase = mssqlcdc.PropSourceDatabase

	// PropForeignMinVersion is the least schema version of mssql-cdc-pyspark
	// that may write.
	PropForeignMinVersion = "mssql_cdc.min_version"
)

// The versions that this code knows.
const (
	schemaVersion        = 1
	foreignSchemaVersion = 2
)

// column is a metadata column of the bronze table.
type column struct {
	name    string
	typ     schema.Type
	comment string
}

// before and after are the metadata columns around the captured ones, in the
// order of mssql-cdc-pyspark. All are nullable, as they are there, so that no
// writer of the table needs to check anything.
func before() []column {
	return []column{
		{mssqlcdc.ColCaptureInstance, schema.String, "Capture instance that the row was read from"},
		{mssqlcdc.ColStartLSN, schema.String, "Commit LSN, 0x and 20 hex digits; text order is commit order"},
		{mssqlcdc.ColSeqVal, schema.String, "LSN of the change within its transaction; NULL on snapshot rows"},
		{mssqlcdc.ColOperation, schema.Integer, "0 snapshot row, 1 delete, 2 insert, 3 row before an update, 4 row after it"},
		{mssqlcdc.ColCommandID, schema.Integer, "Order of the command within its transaction"},
		{mssqlcdc.ColCommitTime, schema.TimestampNTZ, "Commit time in UTC"},
	}
}

func after(byDate bool) []column {
	columns := []column{
		{mssqlcdc.ColBatchID, schema.Integer, "Number of the commit that brought the row; NULL on snapshot rows"},
		{mssqlcdc.ColSnapshot, schema.String, "LSN that names the snapshot of a snapshot row; NULL on change rows"},
		{mssqlcdc.ColChunk, schema.Integer, "Chunk of the snapshot that the row came in; NULL on change rows"},
	}
	if byDate {
		columns = append(columns, column{ColCommitDate, schema.Date, "Date of _commit_ts in UTC"})
	}
	return columns
}

// Schema is the schema of a bronze table for records of the given layout
// (mssqlcdc.RecordSchema). A captured column that has the name of a metadata
// column, or a type that Delta has no counterpart of, is an error that names it.
func Schema(record *arrow.Schema, byDate bool) (*schema.Struct, error) {
	captured := record.Fields()[mssqlcdc.FirstCaptured:]
	reserved := mssqlcdc.ReservedColumns()
	if byDate {
		reserved = append(reserved, ColCommitDate)
	}
	fields := make([]schema.Field, 0, len(captured)+10)
	for _, c := range before() {
		fields = append(fields, c.field())
	}
	for _, f := range captured {
		if slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, f.Name) }) {
			return nil, fmt.Errorf("source column %q has the name of a metadata column: leave it out or give it another name", f.Name)
		}
		one, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{f}, nil))
		if err != nil {
			return nil, err
		}
		field := one.Fields[0]
		field.Nullable = true
		if source, ok := f.Metadata.GetValue(mssqlcdc.FieldSourceType); ok && source != "" {
			field = field.WithComment("SQL Server " + source)
		}
		fields = append(fields, field)
	}
	for _, c := range after(byDate) {
		fields = append(fields, c.field())
	}
	return &schema.Struct{Fields: fields}, nil
}

func (c column) field() schema.Field {
	return schema.Field{Name: c.name, Type: c.typ, Nullable: true}.WithComment(c.comment)
}
