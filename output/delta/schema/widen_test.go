package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

func dec(p, s int) schema.Type { return schema.Decimal{Precision: p, Scale: s} }

// The supported type changes of the section "Type Widening" in PROTOCOL.md, one by one, and
// everything else.
func TestWidens(t *testing.T) {
	t.Parallel()
	primitives := []schema.Type{
		schema.String, schema.Long, schema.Integer, schema.Short, schema.Byte, schema.Float, schema.Double, schema.Boolean,
		schema.Binary, schema.Date, schema.Timestamp, schema.TimestampNTZ, schema.Void,
	}
	want := map[[2]schema.Type]bool{
		{schema.Byte, schema.Short}: true, {schema.Byte, schema.Integer}: true, {schema.Byte, schema.Long}: true,
		{schema.Short, schema.Integer}: true, {schema.Short, schema.Long}: true, {schema.Integer, schema.Long}: true,
		{schema.Float, schema.Double}: true, {schema.Byte, schema.Double}: true, {schema.Short, schema.Double}: true, {schema.Integer, schema.Double}: true,
		{schema.Date, schema.TimestampNTZ}: true,
	}
	for _, from := range primitives {
		for _, to := range primitives {
			require.Equal(t, want[[2]schema.Type{from, to}], schema.Widens(from, to), "%s to %s", from, to)
			require.Equal(t, from == to || want[[2]schema.Type{from, to}], schema.Fits(from, to), "%s in %s", from, to)
		}
	}
	for _, c := range []struct {
		from, to     schema.Type
		widens, fits bool
	}{
		{dec(10, 2), dec(11, 2), true, true},
		{dec(10, 2), dec(11, 3), true, true},
		{dec(10, 2), dec(10, 3), false, false},
		{dec(10, 2), dec(10, 2), false, true},
		{dec(10, 2), dec(12, 1), false, false},
		{dec(10, 2), dec(9, 1), false, false},
		{schema.Byte, dec(10, 0), true, true},
		{schema.Byte, dec(4, 1), false, true},
		{schema.Byte, dec(3, 1), false, false},
		{schema.Short, dec(5, 0), false, true},
		{schema.Short, dec(4, 0), false, false},
		{schema.Integer, dec(12, 2), true, true},
		{schema.Integer, dec(11, 2), false, false},
		{schema.Long, dec(20, 0), true, true},
		{schema.Long, dec(19, 0), false, true},
		{schema.Long, dec(18, 0), false, false},
		{schema.Long, dec(39, 0), false, false},
		{schema.Float, dec(38, 10), false, false},
		{dec(10, 0), schema.Long, false, false},
		{&schema.Array{Element: schema.Byte}, schema.Long, false, false},
	} {
		require.Equal(t, c.widens, schema.Widens(c.from, c.to), "%s to %s", c.from, c.to)
		require.Equal(t, c.fits, schema.Fits(c.from, c.to), "%s in %s", c.from, c.to)
	}
}

func TestMergeWidens(t *testing.T) {
	t.Parallel()
	widen := schema.Evolution{Widen: true}
	table := fields(
		null("a", schema.Integer).WithComment("ours"),
		null("s", fields(null("x", schema.Short), null("y", schema.String))),
		null("l", &schema.Array{Element: schema.Byte, ContainsNull: true}),
		null("m", &schema.Map{Key: schema.Short, Value: &schema.Array{Element: schema.Float}}),
	)
	incoming := fields(
		null("A", schema.Long),
		null("s", fields(null("x", schema.Integer), null("y", schema.String))),
		null("l", &schema.Array{Element: schema.Double}),
		null("m", &schema.Map{Key: schema.Integer, Value: &schema.Array{Element: schema.Double, ContainsNull: true}}),
	)
	before := table.JSON()
	got, changed, err := widen.Merge(table, incoming)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, before, table.JSON())
	require.False(t, schema.HasTypeChanges(table))
	require.True(t, schema.HasTypeChanges(got))
	require.NoError(t, schema.CheckTypeChanges(got))
	require.NoError(t, schema.Follows(table, schema.MapNone, got, schema.MapNone))
	again, changed, err := widen.Merge(got, incoming)
	require.NoError(t, err)
	require.False(t, changed)
	require.Equal(t, got, again)

	read, err := schema.Parse(got.JSON())
	require.NoError(t, err)
	require.Equal(t, "ours", read.Fields[0].Comment())
	require.JSONEq(t, `[{"fromType":"integer","toType":"long"}]`, metadata(t, read.Fields[0]))
	require.Equal(t, "{}", metadata(t, read.Fields[1]), "the record is at the field that changed")
	require.JSONEq(t, `[{"fromType":"short","toType":"integer"}]`, metadata(t, read.Fields[1].Type.(*schema.Struct).Fields[0]))
	require.JSONEq(t, `[{"fromType":"byte","toType":"double","fieldPath":"element"}]`, metadata(t, read.Fields[2]))
	require.JSONEq(t, `[{"fromType":"short","toType":"integer","fieldPath":"key"},{"fromType":"float","toType":"double","fieldPath":"value.element"}]`, metadata(t, read.Fields[3]))
	changes, err := read.Fields[3].TypeChanges()
	require.NoError(t, err)
	require.Equal(t, []schema.TypeChange{{From: schema.Short, To: schema.Integer, Path: "key"}, {From: schema.Float, To: schema.Double, Path: "value.element"}}, changes)

	// A second change is recorded behind the first.
	got, changed, err = widen.Merge(read, fields(null("a", dec(22, 2))))
	require.NoError(t, err)
	require.True(t, changed)
	require.JSONEq(t, `[{"fromType":"integer","toType":"long"},{"fromType":"long","toType":"decimal(22,2)"}]`, metadata(t, got.Fields[0]))
	require.NoError(t, schema.Follows(read, schema.MapNone, got, schema.MapNone))

	var conflict *schema.SchemaError
	_, _, err = widen.Merge(fields(null("a", schema.Long)), fields(null("a", schema.String)))
	require.ErrorAs(t, err, &conflict)
	_, _, err = schema.Merge(table, fields(null("a", schema.Long)))
	require.ErrorAs(t, err, &conflict, "only if asked to")
}

// metadata is the record of type changes as JSON, {} if there is none.
func metadata(t *testing.T, f schema.Field) string {
	t.Helper()
	text := fields(schema.Field{Name: "f", Type: schema.Void, Nullable: true, Metadata: f.Metadata}).JSON()
	const key = `"delta.typeChanges":`
	at := len(key)
	for i := range text {
		if len(text)-i >= at && text[i:i+at] == key {
			end := i
			for text[end] != ']' {
				end++
			}
			return text[i+at : end+1]
		}
	}
	return "{}"
}

func TestMergeRelaxes(t *testing.T) {
	t.Parallel()
	table := fields(notNull("a", schema.Long), notNull("b", schema.Long), null("c", schema.Long),
		null("l", &schema.Array{Element: fields(notNull("x", schema.Long))}), null("m", &schema.Map{Key: schema.String, Value: schema.Long}))
	incoming := fields(null("a", schema.Long), notNull("c", schema.Long),
		null("l", &schema.Array{Element: fields(null("x", schema.Long)), ContainsNull: true}), null("m", &schema.Map{Key: schema.String, Value: schema.Long, ValueContainsNull: true}))
	got, changed, err := schema.Evolution{Relax: true}.Merge(table, incoming)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, fields(null("a", schema.Long), null("b", schema.Long), null("c", schema.Long),
		null("l", &schema.Array{Element: fields(null("x", schema.Long)), ContainsNull: true}), null("m", &schema.Map{Key: schema.String, Value: schema.Long, ValueContainsNull: true})), got)
	require.NoError(t, schema.Follows(table, schema.MapNone, got, schema.MapNone))
	require.ErrorContains(t, schema.Follows(got, schema.MapNone, table, schema.MapNone), "cannot become not null")
	_, changed, err = schema.Evolution{Relax: true}.Merge(got, table)
	require.NoError(t, err)
	require.False(t, changed, "it never tightens")
}

func TestFollowsRefuses(t *testing.T) {
	t.Parallel()
	byName := schema.MapByName
	mapped := byName.Upgrade(fields(null("a", schema.Integer)))
	for name, c := range map[string]struct {
		before   *schema.Struct
		beforeBy schema.Mapping
		after    *schema.Struct
		afterBy  schema.Mapping
		want     string // "" is fine
	}{
		"another type":         {fields(null("a", schema.Long)), "", fields(null("a", schema.String)), "", "have string, want long"},
		"a narrower type":      {fields(null("a", schema.Long)), "", fields(null("a", schema.Integer)), "", "have integer, want long"},
		"widened, no record":   {fields(null("a", schema.Integer)), "", fields(null("a", schema.Long)), "", "its metadata do not say so"},
		"a part":               {fields(null("l", &schema.Array{Element: schema.Integer})), "", fields(null("l", &schema.Array{Element: schema.Long})), "", "column l.element"},
		"a value":              {fields(null("m", &schema.Map{Key: schema.Long, Value: schema.Long})), "", fields(null("m", &schema.Map{Key: schema.Long, Value: schema.Date})), "", "column m.value"},
		"another kind":         {fields(null("a", &schema.Array{Element: schema.Long})), "", fields(null("a", schema.Long)), "", "have long, want array<long not null>"},
		"void takes any":       {fields(null("a", schema.Void)), "", fields(null("a", schema.Long)), "", ""},
		"dropped and new":      {fields(null("a", schema.Void)), "", fields(null("b", schema.Long)), "", ""},
		"renamed, mapped":      {mapped, byName, renamed(mapped, "b"), byName, ""},
		"replaced, mapped":     {mapped, byName, assigned(fields(null("a", schema.String))), byName, ""},
		"upgraded":             {fields(null("a", schema.Integer)), "", mapped, byName, ""},
		"upgraded, lost names": {fields(null("a", schema.Integer)), "", assigned(fields(null("a", schema.Integer))), byName, "under its name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := schema.Follows(c.before, c.beforeBy, c.after, c.afterBy)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func renamed(s *schema.Struct, name string) *schema.Struct {
	f := s.Fields[0]
	f.Name = name
	return fields(f)
}

func assigned(s *schema.Struct) *schema.Struct {
	out, _ := schema.MapByName.Assign(s, 0, func(f schema.Field) string { return "col-" + f.Name })
	return out
}
