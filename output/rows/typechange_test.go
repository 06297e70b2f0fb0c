package rows_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/rows"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// declared opens the table with one declared column.
func declared(t *testing.T, st store.Store, policy target.OnTypeChange, typ schema.Type) *rows.Table {
	t.Helper()
	return open(t, st, func(c *rows.Config) {
		c.Schema = &schema.Struct{Fields: []schema.Field{{Name: "a", Type: typ, Nullable: true}}}
		c.Table.OnTypeChange = policy
	})
}

// A declared type that is another than the table's is a change of the type; one that was
// inferred follows the table.
func TestDeclaredTypesChange(t *testing.T) {
	t.Parallel()
	for policy, want := range map[target.OnTypeChange][]object{
		target.Widen:     {{"a": int64(1)}, {"a": int64(5_000_000_000)}, {"a": int64(2)}, {"a": int64(7)}},
		target.NewColumn: {{"a": int64(1), "a__long": nil}, {"a": nil, "a__long": int64(5_000_000_000)}, {"a": nil, "a__long": int64(2)}, {"a": int64(7), "a__long": nil}},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			_, err := write(declared(t, st, target.Fail, schema.Integer), nil, object{"a": 1})
			require.NoError(t, err)
			var change *target.TypeChangeError
			_, err = write(declared(t, st, target.Fail, schema.Long), nil, object{"a": 2})
			require.ErrorAs(t, err, &change)
			done, err := write(declared(t, st, policy, schema.Long), nil, object{"a": 5_000_000_000})
			require.NoError(t, err)
			require.Len(t, done.Types, 1)
			done, err = write(declared(t, st, policy, schema.Short), nil, object{"a": 2})
			require.NoError(t, err)
			require.Empty(t, done.Types)
			_, err = write(open(t, st), nil, object{"a": 7})
			require.NoError(t, err)
			require.Equal(t, want, read(t, st))
		})
	}
}

// A column that two writers add to a mapped table at the same time is written again by the
// second of them, into the place that the first gave it.
func TestTheSameNewColumnOfAMappedTable(t *testing.T) {
	t.Parallel()
	st := mem.New()
	_, err := write(open(t, st), nil, object{"a b": 1})
	require.NoError(t, err)
	ours, theirs := open(t, st), open(t, st)
	late, err := ours.Stage(t.Context(), []map[string]any{{"a b": 2, "c": "ours"}}, nil)
	require.NoError(t, err)
	_, err = write(theirs, nil, object{"a b": 3, "c": "theirs"})
	require.NoError(t, err)
	_, err = late.Commit(t.Context())
	var moved *target.LayoutError
	require.ErrorAs(t, err, &moved)
	done, err := late.Commit(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, done.Rows)
	require.Equal(t, []string{"1 <nil>", "3 theirs", "2 ours"}, pairs(read(t, st)))
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	n := 0
	for _, err := range table.Snapshot().Files(t.Context()) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 3, n)
}

func pairs(list []object) []string {
	var out []string
	for _, row := range list {
		out = append(out, fmt.Sprint(row["a b"], " ", row["c"]))
	}
	return out
}
