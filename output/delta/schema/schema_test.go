package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// everything has each type once, nested where it can be.
func everything() *schema.Struct {
	s := &schema.Struct{}
	for _, p := range []schema.Primitive{
		schema.String, schema.Long, schema.Integer, schema.Short, schema.Byte, schema.Float, schema.Double,
		schema.Boolean, schema.Binary, schema.Date, schema.Timestamp, schema.TimestampNTZ,
	} {
		s.Fields = append(s.Fields, schema.Field{Name: "c_" + string(p), Type: p, Nullable: true})
	}
	inner := &schema.Struct{Fields: []schema.Field{
		{Name: "a", Type: schema.Decimal{Precision: 38, Scale: 38}},
		{Name: "b", Type: &schema.Array{Element: &schema.Array{Element: schema.Long}, ContainsNull: true}, Nullable: true},
	}}
	s.Fields = append(s.Fields,
		schema.Field{Name: "dec", Type: schema.Decimal{Precision: 18, Scale: 2}},
		schema.Field{Name: "list", Type: &schema.Array{Element: inner, ContainsNull: true}, Nullable: true},
		schema.Field{Name: "map", Type: &schema.Map{Key: schema.String, Value: inner, ValueContainsNull: true}, Nullable: true},
		schema.Field{Name: "inner", Type: inner},
	)
	return s
}

func TestJSONIsTheProtocolsForm(t *testing.T) {
	t.Parallel()
	s := &schema.Struct{Fields: []schema.Field{
		{Name: "id", Type: schema.Long},
		{Name: "<a>&\"b\"", Type: schema.Decimal{Precision: 10, Scale: 0}, Nullable: true, Metadata: map[string]any{"comment": "x<y"}},
		{Name: "l", Type: &schema.Array{Element: schema.Integer, ContainsNull: true}, Nullable: true},
		{Name: "m", Type: &schema.Map{Key: schema.String, Value: &schema.Struct{Fields: []schema.Field{{Name: "z", Type: schema.Date}}}}},
	}}
	require.Equal(t, `{"type":"struct","fields":[`+
		`{"name":"id","type":"long","nullable":false,"metadata":{}},`+
		`{"name":"<a>&\"b\"","type":"decimal(10,0)","nullable":true,"metadata":{"comment":"x<y"}},`+
		`{"name":"l","type":{"type":"array","elementType":"integer","containsNull":true},"nullable":true,"metadata":{}},`+
		`{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"struct","fields":[`+
		`{"name":"z","type":"date","nullable":false,"metadata":{}}]},"valueContainsNull":false},"nullable":false,"metadata":{}}]}`, s.JSON())
}

func TestParseReadsBackWhatJSONWrites(t *testing.T) {
	t.Parallel()
	s := everything()
	parsed, err := schema.Parse(s.JSON())
	require.NoError(t, err)
	require.True(t, schema.Equal(s, parsed))
	require.Equal(t, s.JSON(), parsed.JSON())
}

func TestUnknownMetadataSurvivesDigitForDigit(t *testing.T) {
	t.Parallel()
	text := `{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":` +
		`{"big":9223372036854775807,"delta.typeChanges":[{"fromType":"integer","toType":"long"}],"exact":0.1000,"list":[1,null,{"x":true}]}}]}`
	s, err := schema.Parse(text)
	require.NoError(t, err)
	require.Equal(t, text, s.JSON())
	require.Equal(t, json.Number("9223372036854775807"), s.Fields[0].Metadata["big"])
}

func TestParseTakesWhatOtherWritersLeaveOut(t *testing.T) {
	t.Parallel()
	s, err := schema.Parse(` {"type":"struct","fields":[{"name":"a","type":"decimal"},{"name":"v","type":"void","nullable":true},
		{"name":"l","type":{"type":"array","elementType":"decimal( 5 , 2 )"},"metadata":null}], "later": {}} `)
	require.NoError(t, err)
	want := &schema.Struct{Fields: []schema.Field{
		{Name: "a", Type: schema.Decimal{Precision: 10}, Nullable: true},
		{Name: "v", Type: schema.Void, Nullable: true},
		{Name: "l", Type: &schema.Array{Element: schema.Decimal{Precision: 5, Scale: 2}, ContainsNull: true}, Nullable: true},
	}}
	require.Equal(t, want, s)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	field := func(typ string) string { return `{"type":"struct","fields":[{"name":"col","type":` + typ + `}]}` }
	for name, c := range map[string]struct{ text, want string }{
		"nothing":             {"", "missing"},
		"not JSON":            {"{", "unexpected"},
		"not a struct":        {`"long"`, "want a struct"},
		"something behind":    {field(`"long"`) + "x", "something follows"},
		"variant":             {field(`"variant"`), `field "col": type "variant" is not supported`},
		"nanoseconds":         {field(`"timestamp_nanos"`), "not supported"},
		"decimal of 39":       {field(`"decimal(39,0)"`), "precision"},
		"scale above":         {field(`"decimal(3,4)"`), "precision"},
		"decimal overflow":    {field(`"decimal(99999999999999999999,0)"`), "not supported"},
		"no type":             {field(`null`), "unknown type"},
		"array of nothing":    {field(`{"type":"array"}`), "element of an array"},
		"map without a value": {field(`{"type":"map","keyType":"string"}`), "value of a map"},
		"unknown container":   {field(`{"type":"udt"}`), `unknown type "udt"`},
		"too deep":            {strings.Repeat(`{"type":"array","elementType":`, 200) + `"long"` + strings.Repeat("}", 200), "deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.Parse(c.text)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestLookupIgnoresCase(t *testing.T) {
	t.Parallel()
	s := everything()
	require.Equal(t, 1, s.Index("C_Long"))
	require.Equal(t, -1, s.Index("absent"))
	f, ok := s.Field("DEC")
	require.True(t, ok)
	require.Equal(t, "dec", f.Name)
	require.Len(t, s.Without([]string{"DEC", "absent"}).Fields, len(s.Fields)-1)
}

func TestCommentIsMetadata(t *testing.T) {
	t.Parallel()
	plain := schema.Field{Name: "a", Type: schema.Long}
	commented := plain.WithComment("why")
	require.Empty(t, plain.Comment())
	require.Nil(t, plain.Metadata)
	require.Equal(t, "why", commented.Comment())
	require.Empty(t, commented.WithComment("").Comment())
	require.Equal(t, "why", commented.Comment())
}

func TestUsesTimestampNTZ(t *testing.T) {
	t.Parallel()
	in := func(typ schema.Type) *schema.Struct {
		return &schema.Struct{Fields: []schema.Field{{Name: "x", Type: schema.Long}, {Name: "a", Type: typ}}}
	}
	require.False(t, schema.UsesTimestampNTZ(in(schema.Timestamp)))
	require.False(t, schema.UsesTimestampNTZ(in(&schema.Array{Element: schema.Timestamp})))
	for name, typ := range map[string]schema.Type{
		"column":  schema.TimestampNTZ,
		"element": &schema.Array{Element: schema.TimestampNTZ},
		"key":     &schema.Map{Key: schema.TimestampNTZ, Value: schema.Long},
		"value":   &schema.Map{Key: schema.Long, Value: schema.TimestampNTZ},
		"field":   in(schema.TimestampNTZ),
	} {
		require.True(t, schema.UsesTimestampNTZ(in(typ)), name)
	}
}

func TestHasNotNull(t *testing.T) {
	t.Parallel()
	nullable := fields(null("a", schema.Long), null("s", fields(null("x", &schema.Array{Element: schema.Long}))))
	require.False(t, schema.HasNotNull(nullable))
	for _, typ := range []schema.Type{fields(notNull("x", schema.Long)), &schema.Array{Element: fields(notNull("x", schema.Long))},
		&schema.Map{Key: schema.Long, Value: fields(notNull("x", schema.Long))}} {
		require.True(t, schema.HasNotNull(fields(null("a", typ))))
	}
	require.True(t, schema.HasNotNull(fields(notNull("a", schema.Long))))
}

func TestTypesReadLikeSQL(t *testing.T) {
	t.Parallel()
	m := &schema.Map{Key: schema.String, Value: &schema.Array{Element: schema.Decimal{Precision: 5, Scale: 1}}, ValueContainsNull: true}
	s := &schema.Struct{Fields: []schema.Field{{Name: "a", Type: m}, {Name: "b", Type: schema.Long, Nullable: true}}}
	require.Equal(t, "struct<a: map<string, array<decimal(5,1) not null>> not null, b: long>", s.String())
}

func FuzzParse(f *testing.F) {
	f.Add(everything().JSON())
	f.Add(`{"type":"struct","fields":[]}`)
	f.Add(`{"type":"struct","fields":[{"name":"","type":"decimal(38,38)","metadata":{"a":1e999}}]}`)
	f.Add(`{"type":"struct","fields":[{"name":"a","type":{"type":"map","keyType":"void","valueType":{"type":"struct"}}}]}`)
	f.Add(`{"type":"struct","fields":[{"name":"a","type":"long","metadata":{"delta.typeChanges":[{"fromType":"integer","toType":"long","fieldPath":"element"},3,{}]}}]}`)
	f.Add(`{"type":"struct","fields":[{"name":"a b","type":"long","metadata":{"delta.columnMapping.id":9223372036854775807,"delta.columnMapping.physicalName":7}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := schema.Parse(text)
		if err != nil {
			return
		}
		again, err := schema.Parse(s.JSON())
		require.NoError(t, err)
		require.True(t, schema.Equal(s, again))
		require.Equal(t, s.JSON(), again.JSON())
		_ = s.Validate()
		_ = s.String()
		_ = schema.CheckTypeChanges(s)
		mapped, last := schema.MapByName.Assign(s, 0, func(f schema.Field) string { return f.Name })
		require.NoError(t, schema.SamePlaces(mapped, schema.MapByName, mapped, schema.MapByName))
		require.LessOrEqual(t, schema.MaxColumnID(mapped), last)
		back, err := schema.FromArrow(s.Arrow())
		if err == nil {
			require.True(t, schema.Equal(s, back))
		}
	})
}

func TestRandomMetadataSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		metadata := map[string]any{}
		for key, value := range rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "metadata") {
			metadata[strings.ToValidUTF8(key, "?")] = strings.ToValidUTF8(value, "?")
		}
		name := strings.ToValidUTF8(rapid.String().Draw(t, "name"), "?")
		s := &schema.Struct{Fields: []schema.Field{{Name: name, Type: schema.Long, Metadata: metadata}}}
		parsed, err := schema.Parse(s.JSON())
		require.NoError(t, err)
		require.Equal(t, s, parsed)
	})
}
