package delta_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func nullable(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

// oddTable makes a table with names that need column mapping.
func oddTable(t *testing.T, st store.Store, mode string) *delta.Table {
	t.Helper()
	table, err := delta.Create(t.Context(), st, delta.Spec{
		Schema: &schema.Struct{Fields: []schema.Field{
			nullable("order id", schema.Long), nullable("part=of", schema.String),
			nullable("s", &schema.Struct{Fields: []schema.Field{nullable("x,y", schema.Integer)}}),
		}},
		PartitionBy: []string{"part=of"}, Properties: map[string]string{delta.PropColumnMappingMode: mode},
	}, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close(context.Background())) })
	return table
}

// lines are rows as JSON, keys in order, sorted.
func lines(t *testing.T, rows ...string) []string {
	t.Helper()
	for i := range rows {
		decoder := json.NewDecoder(strings.NewReader(rows[i]))
		decoder.UseNumber()
		var row map[string]any
		require.NoError(t, decoder.Decode(&row))
		text, err := json.Marshal(row)
		require.NoError(t, err)
		rows[i] = string(text)
	}
	slices.Sort(rows)
	return rows
}

func evolve(t *testing.T, table *delta.Table, change func(m *action.Metadata, s *schema.Struct) *schema.Struct) error {
	t.Helper()
	s := table.Snapshot()
	m := s.Metadata()
	m.SchemaString = change(&m, &schema.Struct{Fields: slices.Clone(s.Schema().Fields)}).JSON()
	_, err := table.Commit(t.Context(), delta.Change{Metadata: &m, ReadVersion: s.Version()})
	return err
}

func TestMappedTable(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"name", "id"} {
		st := mem.New()
		table := oddTable(t, st, mode)
		s := table.Snapshot()
		require.Equal(t, action.Protocol{MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"columnMapping"}, WriterFeatures: []string{"columnMapping"}}, s.Protocol())
		require.Equal(t, schema.Mapping(mode), s.Mapping())
		require.EqualValues(t, 4, s.LastColumnID())
		last, _ := s.Property(delta.PropColumnMappingMaxID)
		require.Equal(t, "4", last)
		physical := s.Mapping().PhysicalName(s.Schema().Fields[1])
		require.Regexp(t, "^col-[0-9a-f-]{36}$", physical)

		commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"order id":1,"part=of":"a","s":{"x,y":5}},{"order id":2,"part=of":null}]`)})
		require.NoError(t, table.Checkpoint(t.Context()))
		commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"order id":3,"part=of":"b"}]`)})
		for _, reader := range []*delta.Table{table, open(t, st, delta.Options{})} {
			require.Equal(t, lines(t,
				`{"order id":1,"part=of":"a","s":{"x,y":5}}`, `{"order id":2,"part=of":null,"s":null}`, `{"order id":3,"part=of":"b","s":null}`,
			), read(t, reader, reader.Snapshot()))
			for condition, want := range map[prune.Condition]int{
				{Column: "order id", Op: prune.Equal, Value: 3}:  1,
				{Column: "part=of", Op: prune.Equal, Value: "a"}: 1,
				{Column: "order id", Op: prune.Equal, Value: 9}:  0,
			} {
				n := 0
				for _, err := range reader.Snapshot().PrunedFiles(t.Context(), []prune.Condition{condition}) {
					require.NoError(t, err)
					n++
				}
				require.Equal(t, want, n, "%v", condition)
			}
		}
		for a, err := range table.Snapshot().Files(t.Context()) {
			require.NoError(t, err)
			require.Contains(t, a.PartitionValues, physical)
		}
		byName := add("f", 1)
		byName.PartitionValues = map[string]*string{"part=of": nil}
		_, err := table.Commit(t.Context(), delta.Change{BlindAppend: true, Add: []action.Add{byName}})
		require.ErrorContains(t, err, physical, "partition values have physical names")
	}
}

// Columns come, go and are renamed; each keeps its own values and no id comes twice.
func TestMappedTableEvolves(t *testing.T) {
	t.Parallel()
	table := oddTable(t, mem.New(), "name")
	commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"order id":1,"part=of":"a","s":{"x,y":5}}]`)})
	require.NoError(t, evolve(t, table, func(_ *action.Metadata, s *schema.Struct) *schema.Struct {
		s.Fields[0].Name = "id"
		s.Fields = append(s.Fields, nullable("a b", schema.Date), nullable("n", &schema.Array{Element: &schema.Struct{Fields: []schema.Field{nullable("e", schema.Long)}}}))
		return s
	}))
	s := table.Snapshot()
	require.EqualValues(t, 7, s.LastColumnID())
	require.EqualValues(t, 5, s.Schema().Fields[3].ColumnID())
	commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"id":2,"part=of":"a","a b":"2026-01-02","n":[{"e":7}]}]`)})

	// What is dropped and added again is another column.
	before := s.Schema().Fields[3]
	require.NoError(t, evolve(t, table, func(_ *action.Metadata, s *schema.Struct) *schema.Struct {
		s.Fields = slices.Delete(s.Fields, 3, 4)
		return s
	}))
	require.NoError(t, evolve(t, table, func(m *action.Metadata, s *schema.Struct) *schema.Struct {
		m.Configuration[delta.PropColumnMappingMaxID] = "1" // the library knows better
		s.Fields = append(s.Fields, nullable("a b", schema.Date))
		return s
	}))
	s = table.Snapshot()
	require.EqualValues(t, 8, s.LastColumnID())
	after, _ := s.Schema().Field("a b")
	require.EqualValues(t, 8, after.ColumnID())
	require.NotEqual(t, s.Mapping().PhysicalName(before), s.Mapping().PhysicalName(after))
	require.Equal(t, lines(t,
		`{"id":1,"part=of":"a","s":{"x,y":5},"n":null,"a b":null}`, `{"id":2,"part=of":"a","s":null,"n":[{"e":7}],"a b":null}`,
	), read(t, table, s))

	// Files that were written without knowing a column's place are refused.
	merged, _, err := schema.Merge(s.Schema(), columns(t, "late"))
	require.NoError(t, err)
	m := s.Metadata()
	m.SchemaString = merged.JSON()
	late := add("f", 1)
	late.PartitionValues = map[string]*string{s.Mapping().PhysicalName(s.Schema().Fields[1]): nil}
	_, err = table.Commit(t.Context(), delta.Change{ReadVersion: s.Version(), Metadata: &m, Add: []action.Add{late}})
	require.ErrorContains(t, err, "column late has no delta.columnMapping.physicalName")
	reused := nullable("late", schema.Long)
	reused.Metadata = before.Metadata
	var change *delta.ChangeError
	require.ErrorAs(t, evolve(t, table, func(_ *action.Metadata, s *schema.Struct) *schema.Struct {
		s.Fields = append(s.Fields, reused)
		return s
	}), &change)
	require.ErrorContains(t, change, "has the column id 5")
}

// A table that exists turns column mapping on: its files keep their names.
func TestColumnMappingIsTurnedOn(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table, err := delta.Create(t.Context(), st, delta.Spec{PartitionBy: []string{"p"}, Schema: &schema.Struct{Fields: []schema.Field{
		nullable("a", schema.Long), nullable("p", schema.String), nullable("s", &schema.Struct{Fields: []schema.Field{nullable("x", schema.Long)}}),
	}}}, delta.Options{})
	require.NoError(t, err)
	commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"a":1,"p":"u","s":{"x":2}}]`)})
	late := write(t, table, `[{"a":2,"p":"v","s":{"x":3}}]`)
	require.NoError(t, evolve(t, table, func(m *action.Metadata, s *schema.Struct) *schema.Struct {
		if m.Configuration == nil {
			m.Configuration = map[string]string{}
		}
		m.Configuration[delta.PropColumnMappingMode] = "name"
		s.Fields = append(s.Fields, nullable("b c", schema.Long))
		return s
	}))
	require.Equal(t, action.Protocol{
		MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"columnMapping"}, WriterFeatures: []string{"appendOnly", "columnMapping", "invariants"},
	}, table.Snapshot().Protocol())
	commit(t, table, delta.Change{BlindAppend: true, Add: late})
	commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"a":3,"p":"w","s":{"x":4},"b c":9}]`)})
	fresh := open(t, st, delta.Options{})
	require.Equal(t, lines(t,
		`{"a":1,"p":"u","s":{"x":2},"b c":null}`, `{"a":2,"p":"v","s":{"x":3},"b c":null}`, `{"a":3,"p":"w","s":{"x":4},"b c":9}`,
	), read(t, fresh, fresh.Snapshot()))

	for _, mode := range []string{"none", "id", "position"} {
		var change *delta.ChangeError
		require.ErrorAs(t, evolve(t, table, func(m *action.Metadata, s *schema.Struct) *schema.Struct {
			m.Configuration[delta.PropColumnMappingMode] = mode
			return s
		}), &change, mode)
	}
}

func TestTypesWiden(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table, err := delta.Create(t.Context(), st, delta.Spec{PartitionBy: []string{"p"}, Schema: columns(t, "a integer", "b date", "p integer", "c string")}, delta.Options{})
	require.NoError(t, err)
	narrow := table.Snapshot().Schema()
	commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"a":1,"b":"2026-01-02","p":3,"c":"x"}]`)})
	late := write(t, table, `[{"a":2,"b":null,"p":4}]`)
	widen := func(to *schema.Struct) func(m *action.Metadata, s *schema.Struct) *schema.Struct {
		return func(m *action.Metadata, s *schema.Struct) *schema.Struct {
			m.Configuration = map[string]string{delta.PropTypeWidening: "true"}
			merged, changed, err := schema.Evolution{Widen: true}.Merge(s, to)
			require.NoError(t, err)
			require.True(t, changed)
			return merged
		}
	}
	require.NoError(t, evolve(t, table, widen(columns(t, "a long", "b timestamp_ntz", "p long"))))
	require.Equal(t, action.Protocol{
		MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"timestampNtz", "typeWidening"},
		WriterFeatures: []string{"appendOnly", "invariants", "timestampNtz", "typeWidening"},
	}, table.Snapshot().Protocol())
	commit(t, table, delta.Change{BlindAppend: true, Add: late})
	commit(t, table, delta.Change{BlindAppend: true, Add: write(t, table, `[{"a":5000000000,"b":"2026-01-02 03:04:05","p":6000000000}]`)})

	// A writer that knows the narrow types still.
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(batch(t, narrow, `[{"a":7,"b":"2026-01-03","p":8}]`)))
	adds, err := w.Close()
	require.NoError(t, err)
	commit(t, table, delta.Change{BlindAppend: true, Add: adds})
	require.NoError(t, table.Checkpoint(t.Context()))
	want := lines(t,
		`{"a":1,"b":"2026-01-02T00:00:00","p":3,"c":"x"}`, `{"a":2,"b":null,"p":4,"c":null}`,
		`{"a":5000000000,"b":"2026-01-02T03:04:05","p":6000000000,"c":null}`, `{"a":7,"b":"2026-01-03T00:00:00","p":8,"c":null}`,
	)
	fresh := open(t, st, delta.Options{})
	require.Equal(t, want, read(t, fresh, fresh.Snapshot()))

	for name, change := range map[string]func(m *action.Metadata, s *schema.Struct) *schema.Struct{
		"another type": func(_ *action.Metadata, s *schema.Struct) *schema.Struct { s.Fields[3].Type = schema.Long; return s },
		"narrower":     func(_ *action.Metadata, s *schema.Struct) *schema.Struct { s.Fields[0].Type = schema.Integer; return s },
		"no record": func(_ *action.Metadata, s *schema.Struct) *schema.Struct {
			s.Fields[0].Type = schema.Decimal{Precision: 20}
			return s
		},
		"not null": func(_ *action.Metadata, s *schema.Struct) *schema.Struct { s.Fields[3].Nullable = false; return s },
	} {
		require.ErrorContains(t, evolve(t, fresh, change), "checking the new schema", name)
	}
}

// A commit that gives the columns other places in files, under the same names and types,
// is in the way of files that were written before it.
func TestReplacedColumnsAreAConflict(t *testing.T) {
	t.Parallel()
	st := mem.New()
	ours, theirs := oddTable(t, st, "name"), open(t, st, delta.Options{})
	late := write(t, ours, `[{"order id":1,"part=of":null}]`)
	s := theirs.Snapshot()
	m := s.Metadata()
	fresh := &schema.Struct{}
	for i, f := range s.Schema().Fields {
		if i == 0 {
			f = nullable(f.Name, f.Type)
		}
		fresh.Fields = append(fresh.Fields, f)
	}
	m.SchemaString = fresh.JSON()
	commit(t, theirs, delta.Change{Metadata: &m, ReadVersion: s.Version()})
	require.True(t, schema.Equal(s.Schema(), theirs.Snapshot().Schema()))
	_, err := ours.Commit(t.Context(), delta.Change{BlindAppend: true, Add: late, ReadVersion: s.Version()})
	var conflict *delta.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Equal(t, delta.ConflictMetadata, conflict.Kind)
}

// Tables that others made with column mapping or widened types take our rows: their own
// first batch again, and a checkpoint.
func TestGoldenAppends(t *testing.T) {
	t.Parallel()
	sharedData(t)
	for _, name := range []string{
		"golden/table-with-columnmapping-mode-id", "golden/table-with-columnmapping-mode-name", "golden/dv-with-columnmapping",
		"golden/data-skipping-basic-stats-all-types-columnmapping-id", "golden/data-skipping-basic-stats-all-types-columnmapping-name",
		"golden/data-reader-timestamp_ntz-id-mode", "golden/data-reader-timestamp_ntz-name-mode",
		"tables/cdf-column-mapping-name-mode-3-7",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := goldenTable(t, name)
			table := open(t, st, delta.Options{CheckpointInterval: -1})
			require.True(t, table.Snapshot().Mapping().Maps())
			before := read(t, table, table.Snapshot())
			var first arrow.RecordBatch
			for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
				require.NoError(t, err)
				rec.Retain()
				first = rec
				break
			}
			require.NotNil(t, first)
			w, err := table.NewWriter(t.Context(), data.WriterOptions{})
			require.NoError(t, err)
			require.NoError(t, w.Write(first))
			adds, err := w.Close()
			require.NoError(t, err)
			commit(t, table, delta.Change{BlindAppend: true, Add: adds})
			require.NoError(t, table.Checkpoint(t.Context()))
			text, err := first.MarshalJSON()
			require.NoError(t, err)
			want := append(slices.Clone(before), strings.Split(strings.Trim(string(text), "[]\n"), "\n,")...)
			slices.Sort(want)
			after := open(t, st, delta.Options{})
			require.Equal(t, want, read(t, after, after.Snapshot()), fmt.Sprint(first.NumRows(), " rows were added"))
		})
	}
}
