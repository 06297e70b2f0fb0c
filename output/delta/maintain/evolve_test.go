package maintain_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// byKey are lines with their keys in order, sorted.
func byKey(t *testing.T, lines []string) []string {
	t.Helper()
	out := slices.Clone(lines)
	for i, line := range out {
		var row map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		text, err := json.Marshal(row)
		require.NoError(t, err)
		out[i] = string(text)
	}
	slices.Sort(out)
	return out
}

func field(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

func widen(t *testing.T, table *delta.Table, to *schema.Struct) {
	t.Helper()
	s := table.Snapshot()
	m := s.Metadata()
	if m.Configuration == nil {
		m.Configuration = map[string]string{}
	}
	m.Configuration[delta.PropTypeWidening] = "true"
	merged, changed, err := schema.Evolution{Widen: true}.Merge(s.Schema(), to)
	require.NoError(t, err)
	require.True(t, changed)
	m.SchemaString = merged.JSON()
	commit(t, table, delta.Change{Metadata: &m, ReadVersion: s.Version()})
}

// Compaction puts files of the old types, of the new ones, and of mapped columns together:
// the rows stay, in the table's types, under its physical names, partition by partition.
func TestOptimizeEvolvedTables(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"none", "name", "id"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLake(t, delta.Spec{
				Schema:      &schema.Struct{Fields: []schema.Field{field("n", schema.Integer), field("at", schema.Date), field("p", schema.Integer), field("s", &schema.Struct{Fields: []schema.Field{field("x", schema.Float)}})}},
				PartitionBy: []string{"p"}, Properties: map[string]string{delta.PropColumnMappingMode: mode},
			})
			for range 3 {
				appendRows(t, l.table, `[{"n":1,"at":"2026-01-02","p":1,"s":{"x":0.5}},{"n":2,"p":2}]`)
			}
			widen(t, l.table, &schema.Struct{Fields: []schema.Field{field("n", schema.Long), field("at", schema.TimestampNTZ), field("p", schema.Long), field("s", &schema.Struct{Fields: []schema.Field{field("x", schema.Double)}})}})
			for range 3 {
				appendRows(t, l.table, `[{"n":5000000000,"at":"2026-01-02 03:04:05","p":1,"s":{"x":0.1}},{"n":3,"p":5000000000}]`)
			}
			before := read(t, l.table, l.table.Snapshot())
			result, err := maintain.Optimize(t.Context(), l.table, maintain.OptimizeOptions{})
			require.NoError(t, err)
			require.EqualValues(t, 12, result.FilesRemoved)
			require.EqualValues(t, 3, result.FilesAdded)
			require.NoError(t, l.table.Checkpoint(t.Context()))
			fresh := l.open(t, l.st)
			require.Equal(t, byKey(t, before), byKey(t, read(t, fresh, fresh.Snapshot())))
			p, _ := fresh.Snapshot().Schema().Field("p")
			for _, a := range files(t, fresh.Snapshot()) {
				require.Contains(t, a.PartitionValues, fresh.Snapshot().Mapping().PhysicalName(p))
			}
			_, err = maintain.Vacuum(t.Context(), fresh, maintain.VacuumOptions{})
			require.NoError(t, err)
			require.Equal(t, byKey(t, before), byKey(t, read(t, fresh, fresh.Snapshot())))
		})
	}
}
