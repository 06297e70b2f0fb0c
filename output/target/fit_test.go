package target_test

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

func col(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

func decimal(p, s int) schema.Type { return schema.Decimal{Precision: p, Scale: s} }

// made is a table with the columns.
func made(t *testing.T, st store.Store, spec target.Spec, fields ...schema.Field) *target.Target {
	t.Helper()
	tg := open(t, st, spec)
	fit, err := tg.Fit(nil, columns(fields...))
	require.NoError(t, err)
	require.NoError(t, tg.Create(t.Context(), fit, nil, ""))
	return tg
}

// evolved commits what rows of the schema change in the table.
func evolved(t *testing.T, tg *target.Target, fit *target.Fitted) {
	t.Helper()
	s := tg.Snapshot()
	m := target.Metadata(s, fit, nil)
	if m == nil {
		return
	}
	_, err := tg.Table().Commit(t.Context(), delta.Change{Metadata: m, ReadVersion: s.Version()})
	require.NoError(t, err)
}

// A column changes its type once and again, under each policy.
func TestTypeChanges(t *testing.T) {
	t.Parallel()
	type step struct {
		incoming schema.Type
		column   string // where the values go; "" is refused
		want     schema.Type
		event    string
	}
	for name, c := range map[string]struct {
		policy target.OnTypeChange
		begin  schema.Type
		steps  []step
	}{
		"fail takes what fits": {target.Fail, schema.Long, []step{
			{schema.Integer, "a", schema.Long, ""}, {schema.Short, "a", schema.Long, ""}, {schema.String, "", nil, ""}, {decimal(20, 0), "", nil, ""},
		}},
		"the zero policy is fail": {"", schema.Integer, []step{{schema.Long, "", nil, ""}, {schema.Byte, "a", schema.Integer, ""}}},
		"widen": {target.Widen, schema.Byte, []step{
			{schema.Integer, "a", schema.Integer, "column a was widened from byte to integer"},
			{schema.Short, "a", schema.Integer, ""},
			{schema.Long, "a", schema.Long, "column a was widened from integer to long"},
			{schema.Double, "", nil, ""}, // a long is no double
			{decimal(22, 2), "a", decimal(22, 2), "column a was widened from long to decimal(22,2)"},
			{schema.Long, "a", decimal(22, 2), ""},
			{decimal(21, 2), "a", decimal(22, 2), ""},
			{decimal(23, 3), "a", decimal(23, 3), "column a was widened from decimal(22,2) to decimal(23,3)"},
			{decimal(10, 8), "", nil, ""},
		}},
		"widen a date": {target.Widen, schema.Date, []step{
			{schema.TimestampNTZ, "a", schema.TimestampNTZ, "column a was widened from date to timestamp_ntz"}, {schema.Timestamp, "", nil, ""}, {schema.Date, "a", schema.TimestampNTZ, ""},
		}},
		"new_column": {target.NewColumn, schema.Integer, []step{
			{schema.Short, "a", schema.Integer, ""},
			{schema.Long, "a__long", schema.Long, "column a changed from integer to long: its values go to column a__long from now on"},
			{schema.Integer, "a__long", schema.Long, ""}, // the newest that takes it
			{schema.String, "a__string", schema.String, "column a changed from long to string: its values go to column a__string from now on"},
			{schema.Byte, "a__long", schema.Long, ""},
			{schema.String, "a__string", schema.String, ""},
			{decimal(9, 2), "a__decimal_9_2", decimal(9, 2), "column a changed from string to decimal(9,2): its values go to column a__decimal_9_2 from now on"},
			{decimal(8, 2), "a__decimal_9_2", decimal(9, 2), ""},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			made(t, st, target.Spec{}, col("A", c.begin).WithComment("ours"), col("b", schema.Long))
			for i, s := range c.steps {
				tg := open(t, st, target.Spec{OnTypeChange: c.policy}) // a new process each time
				before := tg.Snapshot().Schema().JSON()
				fit, err := tg.Fit(nil, columns(col("a", s.incoming), col("b", schema.Long)))
				if s.column == "" {
					var change *target.TypeChangeError
					require.ErrorAs(t, err, &change, "step %d", i)
					var conflict *target.SchemaConflictError
					require.ErrorAs(t, err, &conflict)
					require.ErrorContains(t, err, "lake/t")
					require.ErrorContains(t, err, "new_column")
					require.Equal(t, s.incoming.String(), change.Have)
					continue
				}
				require.NoError(t, err, "step %d", i)
				if s.event == "" {
					require.Empty(t, fit.Changes)
					require.False(t, fit.Changed)
					require.Nil(t, target.Metadata(tg.Snapshot(), fit, nil))
				} else {
					require.Len(t, fit.Changes, 1)
					require.Equal(t, s.event, lower(fit.Changes[0].String()))
				}
				got := fit.Columns["a"]
				if got == "" {
					got = "a"
				}
				require.Equal(t, s.column, got, "step %d", i)
				require.NotContains(t, fit.Columns, "b")
				evolved(t, tg, fit)
				f, ok := tg.Snapshot().Schema().Field(s.column)
				require.True(t, ok)
				require.Equal(t, s.want, f.Type)
				require.Equal(t, tg.Snapshot().Schema().JSON() != before, s.event != "")
				own, _ := tg.Snapshot().Schema().Field("A")
				require.Equal(t, "ours", own.Comment())
			}
		})
	}
}

// lower puts the name of the one column of the test in the case of the rows.
func lower(text string) string {
	out := []byte(text)
	for i := range out {
		if out[i] == 'A' {
			out[i] = 'a'
		}
	}
	return string(out)
}

func TestWaysOutOfATypeChange(t *testing.T) {
	t.Parallel()
	st := mem.New()
	made(t, st, target.Spec{}, col("a", schema.Integer))
	for policy, want := range map[target.OnTypeChange]string{
		target.Fail:  "the rows do not fit into table lake/t: column a: have long, want integer: the type has changed; set on_type_change to widen",
		target.Widen: "column a: have string, want integer: the type has changed; Delta cannot widen the one to the other: set on_type_change to new_column",
	} {
		incoming := map[target.OnTypeChange]schema.Type{target.Fail: schema.Long, target.Widen: schema.String}[policy]
		_, err := open(t, st, target.Spec{OnTypeChange: policy}).Fit(nil, columns(col("a", incoming)))
		require.ErrorContains(t, err, want)
		var conflict *schema.SchemaError
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, schema.SchemaError{Column: "a", Have: incoming.String(), Want: "integer"}, *conflict)
	}
	_, err := open(t, st, target.Spec{OnTypeChange: target.Widen, Fixed: true}).Fit(nil, columns(col("a", schema.Long)))
	require.ErrorContains(t, err, "schema_evolution.enabled is false")
	_, err = open(t, st, target.Spec{OnTypeChange: target.NewColumn, Fixed: true}).Fit(nil, columns(col("a", schema.Long)))
	require.ErrorContains(t, err, "schema_evolution.enabled is false")

	off := mem.New()
	made(t, off, target.Spec{Properties: map[string]string{delta.PropTypeWidening: "false"}}, col("a", schema.Integer))
	_, err = open(t, off, target.Spec{OnTypeChange: target.Widen}).Fit(nil, columns(col("a", schema.Long)))
	require.ErrorContains(t, err, "the table property delta.enableTypeWidening is false")
}

// Names of new columns give way to columns that are there, and to those that come along.
func TestNamesOfNewColumns(t *testing.T) {
	t.Parallel()
	st := mem.New()
	made(t, st, target.Spec{}, col("a", schema.Integer), col("A__long", schema.String))
	tg := open(t, st, target.Spec{OnTypeChange: target.NewColumn})
	fit, err := tg.Fit(nil, columns(col("a", schema.Long).WithComment("wide"), col("a__LONG_2", schema.Date), col("x", schema.Long)))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "a__long_3"}, fit.Columns)
	f, _ := fit.Schema.Field("a__long_3")
	require.Equal(t, "wide", f.Comment())
	require.Equal(t, "a", f.Metadata["rpconnect.source_column"])
	evolved(t, tg, fit)

	// The source gets a column with the name of such a new one.
	_, err = open(t, st, target.Spec{}).Fit(nil, columns(col("a__long_3", schema.Date)))
	require.ErrorContains(t, err, "column a__long_3 holds the values of column a since that one changed its type")
	fit, err = tg.Fit(nil, columns(col("a", schema.Long), col("a__long_3", schema.Date)))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "a__long_3", "a__long_3": "a__long_3_2"}, fit.Columns)
	evolved(t, tg, fit)
	fit, err = open(t, st, target.Spec{}).Fit(nil, columns(col("a__long_3", schema.Date), col("a", schema.Short)))
	require.NoError(t, err, "what was decided holds under every policy")
	require.Equal(t, map[string]string{"a": "a__long_3", "a__long_3": "a__long_3_2"}, fit.Columns)
	require.False(t, fit.Changed)

	own, err := tg.FitByName(tg.Snapshot().Schema())
	require.NoError(t, err, "rows whose types were taken from the table")
	require.Empty(t, own.Columns)
	require.False(t, own.Changed)
}

func TestRename(t *testing.T) {
	t.Parallel()
	rec := record(t, true)
	defer rec.Release()
	fit := &target.Fitted{Columns: map[string]string{"a": "a__long"}}
	got := fit.Rename(rec)
	defer got.Release()
	require.Equal(t, "a__long", got.ColumnName(0))
	require.Equal(t, "a", rec.ColumnName(0))
	same := (&target.Fitted{}).Rename(rec)
	require.Equal(t, rec, same)
	same.Release()
}

// Which tables get column mapping, by the choice and by whether they exist.
func TestColumnMappingChoices(t *testing.T) {
	t.Parallel()
	odd, plain := col("a b", schema.Long), col("c", schema.Long)
	byProperty := map[string]string{delta.PropColumnMappingMode: "id"}
	for name, c := range map[string]struct {
		spec   target.Spec
		exists []schema.Field // nil: no table
		add    schema.Field
		want   schema.Mapping // "" is refused
	}{
		"auto, new, odd":        {target.Spec{}, nil, odd, schema.MapByName},
		"auto, new, plain":      {target.Spec{}, nil, plain, schema.MapNone},
		"auto, exists, odd":     {target.Spec{}, []schema.Field{long("x")}, odd, ""},
		"none, new, odd":        {target.Spec{ColumnMapping: target.MapNone}, nil, odd, ""},
		"none, exists, odd":     {target.Spec{ColumnMapping: target.MapNone}, []schema.Field{long("x")}, odd, ""},
		"name, new, plain":      {target.Spec{ColumnMapping: target.MapByName}, nil, plain, schema.MapByName},
		"name, exists, odd":     {target.Spec{ColumnMapping: target.MapByName}, []schema.Field{long("x")}, odd, schema.MapByName},
		"name, exists, plain":   {target.Spec{ColumnMapping: target.MapByName}, []schema.Field{long("x")}, plain, schema.MapNone},
		"auto, mapped already":  {target.Spec{}, []schema.Field{col("x=y", schema.Long)}, odd, schema.MapByName},
		"none, mapped already":  {target.Spec{ColumnMapping: target.MapNone}, []schema.Field{col("x=y", schema.Long)}, odd, schema.MapByName},
		"auto, by the property": {target.Spec{Properties: byProperty}, nil, odd, schema.MapByID},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			if c.exists != nil {
				made(t, st, target.Spec{}, c.exists...)
			}
			tg := open(t, st, c.spec)
			fit, err := tg.Fit(nil, columns(c.add))
			if c.want == "" {
				var conflict *target.SchemaConflictError
				require.ErrorAs(t, err, &conflict)
				require.ErrorContains(t, err, `"a b"`)
				return
			}
			require.NoError(t, err)
			require.NoError(t, tg.Create(t.Context(), fit, nil, ""))
			evolved(t, tg, fit)
			s := tg.Snapshot()
			require.True(t, c.want.Same(s.Mapping()), "%s", s.Mapping())
			require.NoError(t, s.Mapping().Validate(s.Schema()))
			if c.exists != nil && c.exists[0].Name == "x" {
				require.Equal(t, "x", s.Mapping().PhysicalName(s.Schema().Fields[0]), "what was there keeps its name in files")
			}
		})
	}
}

// Rows of one window may have several layouts before there is a table.
func TestLayoutsBeforeTheTable(t *testing.T) {
	t.Parallel()
	st := mem.New()
	tg := open(t, st, target.Spec{OnTypeChange: target.Widen})
	first, err := tg.Fit(nil, columns(col("a", schema.Integer)))
	require.NoError(t, err)
	second, err := tg.Fit(first, columns(col("a", schema.Long), col("b c", schema.Long)))
	require.NoError(t, err)
	require.Equal(t, "a", second.Mapping.PhysicalName(second.Schema.Fields[0]), "files of the first have it so")
	require.NoError(t, tg.Create(t.Context(), second, nil, ""))
	fit, err := tg.Rebase(tg.Snapshot(), second)
	require.NoError(t, err)
	require.Same(t, second, fit)
	require.Nil(t, target.Metadata(tg.Snapshot(), fit, nil))
	p := tg.Snapshot().Protocol()
	require.Equal(t, []string{"columnMapping", "typeWidening"}, p.ReaderFeatures)
}

// rebased is what becomes of rows that were fitted before somebody else changed the table.
func rebased(t *testing.T, spec target.Spec, begin []schema.Field, ours, theirs *schema.Struct, theirSpec target.Spec) (*target.Fitted, *delta.Snapshot, error) {
	t.Helper()
	st := mem.New()
	made(t, st, target.Spec{}, begin...)
	tg, other := open(t, st, spec), open(t, st, theirSpec)
	fit, err := tg.Fit(nil, ours)
	require.NoError(t, err)
	change, err := other.Fit(nil, theirs)
	require.NoError(t, err)
	evolved(t, other, change)
	fit, err = tg.Rebase(other.Snapshot(), fit)
	return fit, other.Snapshot(), err
}

func TestRebase(t *testing.T) {
	t.Parallel()
	odd := col("x=y", schema.Long)
	widen, byName := target.Spec{OnTypeChange: target.Widen}, target.Spec{ColumnMapping: target.MapByName}
	for name, c := range map[string]struct {
		spec         target.Spec
		begin        []schema.Field
		ours, theirs *schema.Struct
		theirSpec    target.Spec
		want         string // names and types of the columns
		layout       string // or the LayoutError
		conflict     string // or the SchemaConflictError
	}{
		"both add columns":          {begin: []schema.Field{long("a")}, ours: columns(long("b")), theirs: columns(long("c")), want: "struct<a: long, c: long, b: long>"},
		"both add one":              {begin: []schema.Field{long("a")}, ours: columns(long("b")), theirs: columns(long("b")), want: "struct<a: long, b: long>"},
		"of different types":        {begin: []schema.Field{long("a")}, ours: columns(long("b")), theirs: columns(col("b", schema.Date)), conflict: "column b: have long, want date"},
		"both widen":                {spec: widen, begin: []schema.Field{col("a", schema.Integer)}, ours: columns(long("a")), theirs: columns(long("a")), theirSpec: widen, want: "struct<a: long>"},
		"they widen":                {begin: []schema.Field{col("a", schema.Integer)}, ours: columns(long("b")), theirs: columns(long("a")), theirSpec: widen, want: "struct<a: long, b: long>"},
		"we widen":                  {spec: widen, begin: []schema.Field{col("a", schema.Integer)}, ours: columns(long("a")), theirs: columns(long("b")), want: "struct<a: long, b: long>"},
		"they map, we do not":       {begin: []schema.Field{long("a")}, ours: columns(long("b")), theirs: columns(odd), theirSpec: byName, want: "struct<a: long, x=y: long, b: long>"},
		"we map, they do not":       {spec: byName, begin: []schema.Field{long("a")}, ours: columns(odd), theirs: columns(long("c")), want: "struct<a: long, c: long, x=y: long>"},
		"both map":                  {spec: byName, begin: []schema.Field{long("a")}, ours: columns(odd), theirs: columns(odd), theirSpec: byName, layout: "column x=y is col-"},
		"mapped, both add columns":  {begin: []schema.Field{odd}, ours: columns(long("b")), theirs: columns(long("c")), layout: "have the column id 2 both"},
		"mapped, they add a column": {begin: []schema.Field{odd}, ours: columns(odd), theirs: columns(long("c")), want: "struct<x=y: long, c: long>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fit, s, err := rebased(t, c.spec, c.begin, c.ours, c.theirs, c.theirSpec)
			var layout *target.LayoutError
			var conflict *target.SchemaConflictError
			switch {
			case c.layout != "":
				require.ErrorAs(t, err, &layout)
				require.ErrorContains(t, err, c.layout)
			case c.conflict != "":
				require.ErrorAs(t, err, &conflict)
				require.ErrorContains(t, err, c.conflict)
			default:
				require.NoError(t, err)
				require.Equal(t, c.want, fit.Schema.String())
				require.NoError(t, fit.Mapping.Validate(fit.Schema))
				require.NoError(t, schema.Follows(s.Schema(), s.Mapping(), fit.Schema, fit.Mapping))
			}
		})
	}
}

// A column that was dropped and is in files already comes back as another one.
func TestRebaseOntoADroppedColumn(t *testing.T) {
	t.Parallel()
	st := mem.New()
	tg := made(t, st, target.Spec{}, col("x=y", schema.Long), long("a"))
	fit, err := tg.Fit(nil, columns(col("x=y", schema.Long), long("a")))
	require.NoError(t, err)
	other := open(t, st, target.Spec{})
	m := other.Snapshot().Metadata()
	m.SchemaString = columns(other.Snapshot().Schema().Fields[:1]...).JSON()
	_, err = other.Table().Commit(t.Context(), delta.Change{Metadata: &m, ReadVersion: 0})
	require.NoError(t, err)
	var layout *target.LayoutError
	_, err = tg.Rebase(other.Snapshot(), fit)
	require.ErrorAs(t, err, &layout)
	fit, err = other.Fit(nil, columns(long("a")))
	require.NoError(t, err)
	evolved(t, other, fit)
	require.EqualValues(t, 3, other.Snapshot().LastColumnID())
}

// Files of mapped tables have their places, and are what the table reads.
func TestWritingToAMappedTable(t *testing.T) {
	t.Parallel()
	st := mem.New()
	tg := open(t, st, target.Spec{PartitionBy: []string{"P,Q"}})
	fit, err := tg.Fit(nil, columns(long("a"), col("p,q", schema.String)))
	require.NoError(t, err)
	w, err := tg.NewWriter(t.Context(), fit)
	require.NoError(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "a", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "p,q", Type: arrow.BinaryTypes.String, Nullable: true}}, nil))
	defer b.Release()
	b.Field(0).(*array.Int32Builder).Append(5)
	b.Field(1).(*array.StringBuilder).Append("x")
	rec := b.NewRecordBatch()
	defer rec.Release()
	require.NoError(t, w.Write(rec))
	adds, err := w.Close()
	require.NoError(t, err)
	require.NoError(t, tg.Create(t.Context(), fit, nil, ""))
	fit, err = tg.Rebase(tg.Snapshot(), fit)
	require.NoError(t, err)
	_, err = tg.Table().Commit(t.Context(), delta.Change{BlindAppend: true, Add: adds, Metadata: target.Metadata(tg.Snapshot(), fit, nil)})
	require.NoError(t, err)
	requireValues(t, st, "a", "5", "p,q", "x")
	requirePhysical(t, tg.Snapshot(), adds)
}

func requireValues(t *testing.T, st store.Store, pairs ...string) {
	t.Helper()
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	rows := 0
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		require.NoError(t, err)
		rows += int(rec.NumRows())
		for i := 0; i < len(pairs); i += 2 {
			at := rec.Schema().FieldIndices(pairs[i])
			require.Len(t, at, 1)
			require.Equal(t, pairs[i+1], rec.Column(at[0]).ValueStr(0))
		}
	}
	require.Equal(t, 1, rows)
}

func requirePhysical(t *testing.T, s *delta.Snapshot, adds []action.Add) {
	t.Helper()
	f, ok := s.Schema().Field("p,q")
	require.True(t, ok)
	for _, a := range adds {
		require.Contains(t, a.PartitionValues, s.Mapping().PhysicalName(f))
	}
}
