package schema_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// odd has names that need column mapping, at several depths.
func odd() *schema.Struct {
	return fields(
		null("order id", schema.Long),
		null("s", fields(null("a,b", schema.Long), null("c", schema.Date))),
		null("l", &schema.Array{Element: fields(null("x=y", schema.Long))}),
		null("m", &schema.Map{Key: fields(null("k", schema.Long)), Value: fields(null("v", schema.Long))}),
	)
}

func TestAssign(t *testing.T) {
	t.Parallel()
	n := 0
	name := func(schema.Field) string { n++; return fmt.Sprint("col-", n) }
	for _, m := range []schema.Mapping{schema.MapByName, schema.MapByID} {
		n = 0
		table := odd()
		before := table.JSON()
		got, last := m.Assign(table, 7, name)
		require.Equal(t, before, table.JSON(), "the argument is not changed")
		require.EqualValues(t, 16, last)
		require.EqualValues(t, 16, schema.MaxColumnID(got))
		require.Len(t, schema.ColumnIDs(got), 9)
		require.NoError(t, m.Validate(got))
		require.EqualValues(t, 8, got.Fields[0].ColumnID())
		require.Equal(t, "col-1", m.PhysicalName(got.Fields[0]))

		// Only what is new gets something.
		more := &schema.Struct{Fields: append(got.Fields[:len(got.Fields):len(got.Fields)], null("new", schema.Long))}
		grown, last := m.Assign(more, 30, name)
		require.EqualValues(t, 31, last)
		require.Equal(t, got.Fields, grown.Fields[:4])
		require.EqualValues(t, 31, grown.Fields[4].ColumnID())
		same, last := m.Assign(grown, 0, name)
		require.Equal(t, grown, same)
		require.EqualValues(t, 31, last)
	}
	plain, last := schema.MapNone.Assign(odd(), 3, name)
	require.Equal(t, odd(), plain)
	require.EqualValues(t, 3, last)
}

func TestNamesThatNeedMapping(t *testing.T) {
	t.Parallel()
	for _, c := range " ,;{}()\n\t=" {
		name := "a" + string(c) + "b"
		s := fields(null("l", &schema.Array{Element: fields(null(name, schema.Long))}))
		require.True(t, schema.NeedsMapping(s), "%q", name)
		require.ErrorContains(t, s.Validate(), "column mapping")
		require.NoError(t, schema.MapByName.ValidateNames(s))
		require.ErrorContains(t, schema.MapByName.Validate(s), "has no delta.columnMapping")
	}
	require.False(t, schema.NeedsMapping(fields(null("größe-µ.x$`'\"", schema.Long))))
	for _, s := range []*schema.Struct{fields(null("", schema.Long)), fields(null("a", schema.Long), null("A", schema.Long)), fields()} {
		require.Error(t, schema.MapByName.ValidateNames(s), "what has nothing to do with mapping is a rule still")
	}
}

// A table that turns column mapping on keeps the names of its files, and a schema derived
// from it by other means gets them back.
func TestUpgradeAndCarry(t *testing.T) {
	t.Parallel()
	plain := fields(null("a", schema.Long), null("s", fields(null("x", schema.Long))),
		null("l", &schema.Array{Element: fields(null("y", schema.Long))}), null("m", &schema.Map{Key: schema.Long, Value: fields(null("z", schema.Long))}))
	up := schema.MapByName.Upgrade(plain)
	require.NoError(t, schema.MapByName.Validate(up))
	require.NoError(t, schema.SamePlaces(plain, schema.MapNone, up, schema.MapByName))
	require.Equal(t, up, schema.CarryMapping(up, plain))
	grown, _, err := schema.Merge(plain, fields(null("a", schema.Long), null("b c", schema.Long)))
	require.NoError(t, err)
	carried := schema.CarryMapping(up, grown)
	require.EqualValues(t, -1, carried.Fields[4].ColumnID())
	carried, _ = schema.MapByName.Assign(carried, 0, func(schema.Field) string { return "col-new" })
	require.NoError(t, schema.Follows(plain, schema.MapNone, carried, schema.MapByName))
}

func TestSamePlaces(t *testing.T) {
	t.Parallel()
	two := func(name string) func(schema.Field) string {
		return func(f schema.Field) string { return name + f.Name }
	}
	a, _ := schema.MapByName.Assign(odd(), 0, two("p"))
	b, _ := schema.MapByName.Assign(odd(), 0, two("q"))
	c, _ := schema.MapByName.Assign(odd(), 1, two("p"))
	byName, none := schema.MapByName, schema.MapNone
	require.NoError(t, schema.SamePlaces(a, byName, a, byName))
	require.ErrorContains(t, schema.SamePlaces(a, byName, b, byName), "porder id in the files")
	require.ErrorContains(t, schema.SamePlaces(a, byName, c, byName), "has id 1 in the files, and 2 in the table")
	require.NoError(t, schema.SamePlaces(a, none, b, none), "without mapping only names count")
	require.ErrorContains(t, schema.SamePlaces(odd(), none, a, byName), "order id")
	require.ErrorContains(t, schema.SamePlaces(odd(), none, fields(odd().Fields[1:]...), none), "column order id is no more")
	for i, part := range []string{"s.a,b", "l.element.x=y", "m.key.k"} {
		mixed := fields(a.Fields...)
		mixed.Fields = append(append(append([]schema.Field{}, a.Fields[:i+1]...), b.Fields[i+1]), a.Fields[i+2:]...)
		mixed.Fields[i+1].Metadata = a.Fields[i+1].Metadata
		require.ErrorContains(t, schema.SamePlaces(a, byName, mixed, byName), "column "+part)
	}
}
