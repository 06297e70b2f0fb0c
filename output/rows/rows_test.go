package rows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/rows"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

type object = map[string]any

func open(t require.TestingT, st store.Store, change ...func(*rows.Config)) *rows.Table {
	cfg := rows.Config{AppID: "loader", Table: target.Spec{Name: "lake/events"}}
	for _, c := range change {
		c(&cfg)
	}
	table, err := rows.Open(context.Background(), st, cfg)
	require.NoError(t, err)
	return table
}

func write(table *rows.Table, key *int64, batch ...object) (rows.Result, error) {
	staged, err := table.Stage(context.Background(), batch, key)
	if err != nil {
		return rows.Result{}, err
	}
	return staged.Commit(context.Background())
}

// read gives all rows as objects.
func read(t require.TestingT, st store.Store) []object {
	table, err := delta.Open(context.Background(), st, delta.Options{})
	require.NoError(t, err)
	var all []object
	for rec, err := range table.Read(context.Background(), table.Snapshot(), delta.ReadOptions{}) {
		require.NoError(t, err)
		for row := range mssqlcdc.Rows(rec, 0) {
			all = append(all, row)
		}
	}
	return all
}

func TestTheSchemaIsInferred(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 3, 4, 5, 6, 789000, time.UTC)
	st := mem.New()
	result, err := write(open(t, st), nil,
		object{"id": int64(1), "price": 1, "name": "a", "paid": true, "at": at, "raw": []byte{1, 2}, "tags": []any{"x", 1.5}, "address": object{"city": "Łódź"}, "nothing": nil},
		object{"id": json.Number("2"), "price": json.Number("2.50"), "Name": nil, "more": nil},
	)
	require.NoError(t, err)
	require.Equal(t, int64(2), result.Rows)
	require.Equal(t, []object{
		{"address": `{"city":"Łódź"}`, "at": at, "id": int64(1), "name": "a", "paid": true, "price": 1.0, "raw": []byte{1, 2}, "tags": `["x",1.5]`},
		{"address": nil, "at": nil, "id": int64(2), "name": nil, "paid": nil, "price": 2.5, "raw": nil, "tags": nil},
	}, read(t, st))
}

func TestColumnsCome(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := open(t, st)
	_, err := write(table, nil, object{"id": 1})
	require.NoError(t, err)
	result, err := write(table, nil, object{"ID": 2, "extra": "x", "unknown": nil})
	require.NoError(t, err)
	require.Equal(t, []string{"extra"}, result.Columns)
	require.Equal(t, []object{{"id": int64(1), "extra": nil}, {"id": int64(2), "extra": "x"}}, read(t, st))

	fixed := open(t, st, func(c *rows.Config) { c.Table.Fixed = true })
	_, err = write(fixed, nil, object{"id": 3, "another": 1})
	require.ErrorContains(t, err, "another")
	_, err = write(fixed, nil, object{"id": 3, "extra": nil})
	require.NoError(t, err)
}

func TestValuesGoIntoTheColumnsThatAreThere(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := open(t, st)
	_, err := write(table, nil, object{"n": 1, "f": 1.5, "s": "x"})
	require.NoError(t, err)
	_, err = write(table, nil, object{"n": 2.0, "f": 7, "s": 12})
	require.NoError(t, err)
	require.Equal(t, object{"n": int64(2), "f": 7.0, "s": "12"}, read(t, st)[1])

	for name, row := range map[string]object{
		"no whole number":   {"n": 1.5},
		"no number":         {"n": "one"},
		"too large":         {"n": json.Number("9223372036854775808")},
		"twice":             {"n": 1, "N": 2},
		"no float":          {"f": true},
		"without any value": {"n": nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := write(table, nil, object{"n": 5}, row)
			if name == "without any value" {
				require.NoError(t, err) // the other row has one
				return
			}
			var bad *rows.RowError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, 1, bad.Row)
		})
	}
	var conflict *target.SchemaConflictError
	_, err = write(open(t, mem.New()), nil, object{"n": nil})
	require.ErrorAs(t, err, &conflict)
	_, err = write(open(t, mem.New(), func(c *rows.Config) { c.Table.ColumnMapping = target.MapNone }), nil, object{"a b": 1})
	require.ErrorAs(t, err, &conflict)
	mapped := mem.New()
	_, err = write(open(t, mapped), nil, object{"a b": 1})
	require.NoError(t, err)
	require.Equal(t, []object{{"a b": int64(1)}}, read(t, mapped))
	_, err = write(open(t, mem.New()), nil, object{"a": 1}, object{"a": "x"})
	require.ErrorContains(t, err, "row 1: column a: have string, want long")
}

func TestEveryBadRowIsNamed(t *testing.T) {
	t.Parallel()
	table := open(t, mem.New(), func(c *rows.Config) {
		c.Schema = &schema.Struct{Fields: []schema.Field{{Name: "id", Type: schema.Integer}, {Name: "amount", Type: schema.Decimal{Precision: 6, Scale: 2}, Nullable: true}}}
	})
	_, err := write(table, nil, object{"id": 1, "amount": "12.30"}, object{"amount": "1"}, object{"id": 2, "amount": "12345.678"}, object{"id": 3}, object{"id": 1 << 40})
	for _, part := range []string{"row 1", "row 2", "row 4"} {
		require.ErrorContains(t, err, part)
	}
	require.NotContains(t, err.Error(), "row 0")
	require.NotContains(t, err.Error(), "row 3")
	_, err = write(table, nil, object{"id": 1, "other": 1})
	require.ErrorContains(t, err, `"other" is not among the declared ones`)
	result, err := write(table, nil, object{"id": 1, "amount": "12.30"})
	require.NoError(t, err)
	require.Equal(t, int64(1), result.Rows)
}

// Batches with a rising key are stored once, however often they come.
func TestKeysMakeBatchesIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		st := mem.New()
		table := open(rt, st)
		last := int64(-1)
		for range rapid.IntRange(1, 15).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "restart") {
				table = open(rt, st)
			}
			key := rapid.Int64Range(max(0, last-3), last+1).Draw(rt, "key")
			result, err := write(table, &key, object{"id": key})
			require.NoError(rt, err)
			require.Equal(rt, key <= last, result.Skipped)
			last = max(last, key)
		}
		seen := map[any]int{}
		for _, row := range read(rt, st) {
			seen[row["id"]]++
		}
		for id, n := range seen {
			require.Equal(rt, 1, n, "id %v", id)
		}
	})
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]schema.Type{
		"long": schema.Long, " BIGINT ": schema.Long, "decimal(18, 2)": schema.Decimal{Precision: 18, Scale: 2}, "timestamp_ntz": schema.TimestampNTZ, "Text": schema.String,
	} {
		got, err := rows.ParseType(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "number", "decimal", "decimal(39,0)", "decimal(2,3)", "array<long>", "void"} {
		_, err := rows.ParseType(text)
		require.Error(t, err, text)
	}
}

func TestAnUnknownValueType(t *testing.T) {
	t.Parallel()
	st := mem.New()
	_, err := write(open(t, st), nil, object{"d": 3 * time.Second, "s": []string{"a"}, "u": uint8(7), "e": fmt.Stringer(nil)})
	require.NoError(t, err)
	require.Equal(t, []object{{"d": "3000000000", "s": `["a"]`, "u": int64(7)}}, read(t, st))
	_, err = write(open(t, mem.New()), nil, object{"c": make(chan int)})
	require.ErrorContains(t, err, "chan int")
	require.False(t, errors.Is(err, delta.ErrNotTable))
}
