package interop

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// A table at writer version 7 with NOT NULL columns, which lists the feature invariants, is one that every engine opens (Spark: see
// TestSparkReadsTheTables).
func TestEnginesReadNotNullColumns(t *testing.T) {
	t.Parallel()
	interopPython(t, "pyarrow")
	table := notNullTable(t)
	for engine, module := range engines() {
		t.Run(engine, func(t *testing.T) { requireSame(t, interopPython(t, module), engine, table) })
	}
}

// notNullTable makes such a table.
func notNullTable(t *testing.T) []readTable {
	t.Helper()
	l := &lake{dir: t.TempDir()}
	st, err := file.New(l.path("notnull"))
	require.NoError(t, err)
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{
		{Name: "id", Type: schema.Long}, {Name: "at", Type: schema.TimestampNTZ}, {Name: "note", Type: schema.String, Nullable: true},
	}}}, delta.Options{})
	require.NoError(t, err)
	require.Contains(t, table.Snapshot().Protocol().WriterFeatures, delta.FeatureInvariants)
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, table.Snapshot().Schema().Arrow(),
		strings.NewReader(`[{"id":1,"at":"2026-01-01 00:00:00.123456","note":"x"},{"id":2,"at":"0001-01-01 00:00:00"}]`))
	require.NoError(t, err)
	defer rec.Release()
	require.NoError(t, w.Write(rec))
	files, err := w.Close()
	require.NoError(t, err)
	_, err = table.Commit(t.Context(), delta.Change{Operation: delta.OpWrite, Add: files, BlindAppend: true})
	require.NoError(t, err)
	require.NoError(t, table.Close(t.Context()))
	want := l.own(t, "notnull")
	require.Len(t, want.Rows, 2)
	return []readTable{{"not null", request{Path: l.path("notnull")}, want}}
}
