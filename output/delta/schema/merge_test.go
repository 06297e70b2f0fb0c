package schema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

func fields(f ...schema.Field) *schema.Struct { return &schema.Struct{Fields: f} }

func null(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

func notNull(name string, t schema.Type) schema.Field { return schema.Field{Name: name, Type: t} }

func TestMerge(t *testing.T) {
	t.Parallel()
	dec := func(p, s int) schema.Type { return schema.Decimal{Precision: p, Scale: s} }
	for name, c := range map[string]struct {
		table, incoming *schema.Struct
		want            *schema.Struct // nil: the table
	}{
		"the same":                       {fields(null("a", schema.Long)), fields(null("a", schema.Long)), nil},
		"another case keeps the table's": {fields(null("Id", schema.Long)), fields(null("iD", schema.Long)), nil},
		"another order keeps the table's": {
			fields(null("a", schema.Long), null("b", schema.String)), fields(null("b", schema.String), null("a", schema.Long)), nil},
		"a narrower type keeps the table's": {fields(null("a", schema.Long), null("d", dec(10, 2)), null("e", dec(5, 0))),
			fields(null("a", schema.Integer), null("d", dec(9, 1)), null("e", schema.Short)), nil},
		"a missing column stays": {fields(null("a", schema.Long), null("b", schema.String)), fields(null("a", schema.Long)), nil},
		"new columns go to the end and are nullable": {
			fields(notNull("a", schema.Long)),
			fields(notNull("n1", schema.Date), notNull("a", schema.Long), null("n2", dec(5, 1)).WithComment("why")),
			fields(notNull("a", schema.Long), null("n1", schema.Date), null("n2", dec(5, 1)).WithComment("why"))},
		"not null in the table stays":  {fields(notNull("a", schema.Long)), fields(null("a", schema.Long)), nil},
		"nullable in the table stays":  {fields(null("a", schema.Long)), fields(notNull("a", schema.Long)), nil},
		"the table's metadata stays":   {fields(null("a", schema.Long).WithComment("ours")), fields(null("a", schema.Long).WithComment("theirs")), nil},
		"a void column takes the type": {fields(null("a", schema.Void)), fields(null("a", schema.Long)), fields(null("a", schema.Long))},
		"new parts of a struct": {
			fields(null("s", fields(null("x", schema.Long), null("y", schema.Long)))),
			fields(null("S", fields(null("z", schema.Date), null("X", schema.Long)))),
			fields(null("s", fields(null("x", schema.Long), null("y", schema.Long), null("z", schema.Date))))},
		"new parts of an element": {
			fields(null("l", &schema.Array{Element: fields(null("x", schema.Long)), ContainsNull: true})),
			fields(null("l", &schema.Array{Element: fields(null("x", schema.Long), notNull("y", schema.Long))})),
			fields(null("l", &schema.Array{Element: fields(null("x", schema.Long), null("y", schema.Long)), ContainsNull: true}))},
		"new parts of a value": {
			fields(null("m", &schema.Map{Key: schema.String, Value: fields(null("x", schema.Long))})),
			fields(null("m", &schema.Map{Key: schema.String, Value: fields(null("y", schema.Long)), ValueContainsNull: true})),
			fields(null("m", &schema.Map{Key: schema.String, Value: fields(null("x", schema.Long), null("y", schema.Long))}))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := c.table.JSON()
			got, changed, err := schema.Merge(c.table, c.incoming)
			require.NoError(t, err)
			require.Equal(t, c.want != nil, changed)
			if c.want == nil {
				c.want = c.table
			}
			require.Equal(t, c.want, got)
			require.Equal(t, before, c.table.JSON(), "the table's schema was modified")
			again, changed, err := schema.Merge(got, c.incoming)
			require.NoError(t, err)
			require.False(t, changed)
			require.Equal(t, got, again)
		})
	}
}

func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	array := func(e schema.Type) schema.Type { return &schema.Array{Element: e, ContainsNull: true} }
	dec := func(p, s int) schema.Type { return schema.Decimal{Precision: p, Scale: s} }
	for name, c := range map[string]struct {
		table, incoming *schema.Struct
		want            schema.SchemaError
	}{
		"another type": {fields(null("a", schema.Long)), fields(null("A", schema.String)),
			schema.SchemaError{Column: "a", Have: "string", Want: "long"}},
		"a wider type": {fields(null("a", schema.Integer)), fields(null("a", schema.Long)),
			schema.SchemaError{Column: "a", Have: "long", Want: "integer"}},
		"fewer digits before the point": {fields(null("a", dec(10, 2))), fields(null("a", dec(10, 1))),
			schema.SchemaError{Column: "a", Have: "decimal(10,1)", Want: "decimal(10,2)"}},
		"a long in a double": {fields(null("a", schema.Double)), fields(null("a", schema.Long)),
			schema.SchemaError{Column: "a", Have: "long", Want: "double"}},
		"another scale": {fields(null("a", schema.Decimal{Precision: 10, Scale: 2})), fields(null("a", schema.Decimal{Precision: 10, Scale: 3})),
			schema.SchemaError{Column: "a", Have: "decimal(10,3)", Want: "decimal(10,2)"}},
		"a time without its zone": {fields(null("a", schema.Timestamp)), fields(null("a", schema.TimestampNTZ)),
			schema.SchemaError{Column: "a", Have: "timestamp_ntz", Want: "timestamp"}},
		"a part": {fields(null("l", array(fields(null("x", schema.Long))))), fields(null("l", array(fields(null("x", schema.Date))))),
			schema.SchemaError{Column: "l.element.x", Have: "date", Want: "long"}},
		"a list for a value": {fields(null("a", schema.Long)), fields(null("a", array(schema.Long))),
			schema.SchemaError{Column: "a", Have: "array<long>", Want: "long"}},
		"a missing column that is not nullable": {fields(notNull("a", schema.Long)), fields(null("b", schema.Long)),
			schema.SchemaError{Column: "a", Have: "no such column", Want: "long not null"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := schema.Merge(c.table, c.incoming)
			var schemaError *schema.SchemaError
			require.ErrorAs(t, err, &schemaError)
			require.Equal(t, c.want, *schemaError)
		})
	}
	_, _, err := schema.Merge(fields(), fields(null("a", schema.Long), null("A", schema.Long)))
	require.ErrorContains(t, err, "comes twice")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, everything().Validate())
	require.NoError(t, fields(null("größe-µ.x$`'\"", schema.Long)).Validate())
	for name, c := range map[string]struct {
		schema *schema.Struct
		want   string
	}{
		"no columns":             {fields(), "no columns"},
		"empty name":             {fields(null("", schema.Long)), "must not be empty"},
		"names differ in case":   {fields(null("Id", schema.Long), null("iD", schema.Long)), "rename one"},
		"parts differ in case":   {fields(null("s", fields(null("a", schema.Long), null("A", schema.Long)))), "s.a and s.A"},
		"space":                  {fields(null("a b", schema.Long)), `' '`},
		"comma in a part":        {fields(null("l", &schema.Array{Element: fields(null("x,y", schema.Long))})), "l.element.x,y"},
		"line feed":              {fields(null("a\nb", schema.Long)), `'\n'`},
		"equals":                 {fields(null("a=b", schema.Long)), `'='`},
		"struct without fields":  {fields(null("s", fields())), "without fields"},
		"decimal of 39 digits":   {fields(null("d", schema.Decimal{Precision: 39})), "column d: decimal(39,0)"},
		"decimal without digits": {fields(null("d", &schema.Map{Key: schema.Long, Value: schema.Decimal{}})), "column d.value"},
		"key of nothing":         {fields(null("m", &schema.Map{Key: schema.Void, Value: schema.Long})), "cannot be void"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, c.schema.Validate(), c.want)
		})
	}
}
