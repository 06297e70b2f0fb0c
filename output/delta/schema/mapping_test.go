package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

func TestParseMapping(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]schema.Mapping{"": schema.MapNone, "none": schema.MapNone, "NAME": schema.MapByName, "id": schema.MapByID} {
		got, err := schema.ParseMapping(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := schema.ParseMapping("position")
	require.ErrorContains(t, err, `"position" is none of none, name, id`)
}

func TestMappingCheck(t *testing.T) {
	t.Parallel()
	field := func(name, typ, metadata string) string {
		return `{"name":"` + name + `","type":` + typ + `,"nullable":true,"metadata":{` + metadata + `}}`
	}
	column := func(name string, typ, id, physical string) string {
		return field(name, typ, `"delta.columnMapping.id":`+id+`,"delta.columnMapping.physicalName":"`+physical+`"`)
	}
	table := func(fields string) string { return `{"type":"struct","fields":[` + fields + `]}` }
	const long = `"long"`
	good := column("a", long, "1", "x") + "," + column("b", table(column("a", long, "3", "x")), "2", "y")
	for _, c := range []struct{ fields, refused string }{
		{good, ""},
		{field("a", long, ""), "column a has no delta.columnMapping.physicalName"},
		{field("a", long, `"delta.columnMapping.physicalName":"x"`), "column a has no delta.columnMapping.id"},
		{column("a", long, `"1"`, "x"), "column a has no delta.columnMapping.id"},
		{column("a", long, "-1", "x"), "column a has no delta.columnMapping.id"},
		{column("a", long, "1", "x") + "," + column("b", long, "2", "X"), "columns a and b have the physical name X both"},
		{column("a", long, "1", "x") + "," + column("b", long, "1", "y"), "columns a and b have the column id 1 both"},
		{column("a", `{"type":"array","containsNull":true,"elementType":`+table(field("z", long, ""))+`}`, "1", "x"), "column a.element.z has no"},
		{column("a", `{"type":"map","valueContainsNull":true,"keyType":"long","valueType":`+table(column("z", long, "1", "x"))+`}`, "1", "x"), "columns a and a.value.z have the column id 1 both"},
	} {
		s, err := schema.Parse(table(c.fields))
		require.NoError(t, err)
		require.NoError(t, schema.MapNone.Check(s))
		for _, m := range []schema.Mapping{schema.MapByName, schema.MapByID} {
			if c.refused == "" {
				require.NoError(t, m.Check(s))
				require.Equal(t, "x", m.PhysicalName(s.Fields[0]))
				require.EqualValues(t, 1, s.Fields[0].ColumnID())
				continue
			}
			require.ErrorContains(t, m.Check(s), c.refused)
		}
		require.Equal(t, "a", schema.MapNone.PhysicalName(s.Fields[0]))
	}
}
