package prune_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

func table() *schema.Struct {
	field := func(name string, t schema.Type) schema.Field {
		return schema.Field{Name: name, Type: t, Nullable: true}
	}
	return &schema.Struct{Fields: []schema.Field{
		field("i", schema.Integer), field("l", schema.Long), field("f", schema.Float), field("d", schema.Double), field("b", schema.Boolean),
		field("s", schema.String), field("bin", schema.Binary), field("day", schema.Date), field("ts", schema.Timestamp), field("ntz", schema.TimestampNTZ),
		field("dec", schema.Decimal{Precision: 38, Scale: 2}), field("arr", &schema.Array{Element: schema.Long}),
		field("p", schema.Integer), field("pts", schema.Timestamp), field("ps", schema.String),
	}}
}

func keeps(t *testing.T, add action.Add, column string, op prune.Op, value any) bool {
	t.Helper()
	f, err := prune.New(table(), schema.MapNone, []string{"P", "pts", "ps"}, []prune.Condition{{Column: column, Op: op, Value: value}})
	require.NoError(t, err)
	return f.Keeps(add)
}

// For each operator: the literals for which a file with the statistics is left out, and
// those for which it stays.
func TestStatistics(t *testing.T) {
	t.Parallel()
	add := action.Add{Stats: `{"numRecords":10,
		"minValues":{"i":3,"l":-5,"f":0.1,"d":1.5,"b":false,"s":"b","bin":"b","day":"2026-01-02","ts":"2026-01-02T03:04:05.123Z","ntz":"2026-01-02T03:04:05.123","dec":12345678901234567890.12},
		"maxValues":{"i":7,"l":5,"f":0.9,"d":2.5,"b":false,"s":"d","bin":"d","day":"2026-01-04","ts":"2026-01-02T03:04:06.456Z","ntz":"2026-01-02 03:04:06.456","dec":12345678901234567895.99},
		"nullCount":{"i":0,"l":10,"s":3,"arr":0,"dec":2,"day":{"x":1}}}`}
	at := func(micros int) time.Time { return time.Date(2026, 1, 2, 3, 4, 5, micros*1000, time.UTC) }
	for _, c := range []struct {
		column  string
		op      prune.Op
		out, in []any
	}{
		{"i", prune.Equal, []any{2, 8, int64(math.MinInt64), "2"}, []any{3, 5, 7, int64(5), "7"}},
		{"i", prune.Less, []any{3, 2}, []any{4, 100}},
		{"i", prune.LessOrEqual, []any{2}, []any{3, 100}},
		{"i", prune.Greater, []any{7, 100}, []any{6, -100}},
		{"i", prune.GreaterOrEqual, []any{8}, []any{7, -100}},
		{"I", prune.IsNull, []any{nil}, nil},
		{"i", prune.IsNotNull, nil, []any{nil}},
		{"l", prune.Equal, []any{0}, nil}, // all NULL
		{"l", prune.IsNotNull, []any{nil}, nil},
		{"l", prune.IsNull, nil, []any{nil}},
		{"arr", prune.IsNull, []any{nil}, nil},
		{"arr", prune.IsNotNull, nil, []any{nil}},
		{"day", prune.IsNull, nil, []any{nil}}, // its count is no number
		{"d", prune.Equal, []any{1.4, 2.6, 1}, []any{1.5, 2, math.NaN()}},
		{"d", prune.Less, []any{1.4, 1.5}, []any{1.6, math.NaN()}},
		{"d", prune.LessOrEqual, []any{1.4}, []any{1.5}},
		{"d", prune.Greater, nil, []any{2.4, 2.5, 100.0}}, // NaN is above all and in no bound
		{"d", prune.GreaterOrEqual, nil, []any{100}},
		{"f", prune.Equal, []any{0.05}, []any{float64(float32(0.1)), float64(float32(0.9))}},
		{"b", prune.Equal, []any{true, "true"}, []any{false}},
		{"s", prune.Equal, []any{"a", "e", ""}, []any{"b", "c", "d"}},
		{"s", prune.IsNull, nil, []any{nil}},
		{"bin", prune.Equal, nil, []any{"a"}},
		{"day", prune.Equal, []any{"2026-01-01", "2026-01-05"}, []any{"2026-01-02", "2026-01-04"}},
		{"ts", prune.Equal, []any{at(0), at(122_000 - 1), at(1_457_001), "2026-01-02T03:04:04Z"}, []any{at(123_000), at(1_456_999), at(1_457_000), "2026-01-02T04:04:06+01:00"}},
		{"ntz", prune.Greater, []any{at(1_457_000)}, []any{at(1_456_999)}},
		{"dec", prune.Equal, []any{"12345678901234500000.00", "12345678901234600000", 1}, []any{"12345678901234567890.12", "12345678901234567889.00", "12345678901234567896.1"}},
	} {
		for _, v := range c.out {
			require.False(t, keeps(t, add, c.column, c.op, v), "%s %s %v", c.column, c.op, v)
		}
		for _, v := range c.in {
			require.True(t, keeps(t, add, c.column, c.op, v), "%s %s %v", c.column, c.op, v)
		}
	}
}

// What is not there, or is not what it should be, leaves nothing out.
func TestStatisticsThatSayNothing(t *testing.T) {
	t.Parallel()
	for _, stats := range []string{
		"", "x", "null", "[]", "{}", `{"numRecords":1}`, `{"minValues":{},"maxValues":{},"nullCount":{}}`,
		`{"minValues":{"i":null},"maxValues":{"i":null},"nullCount":{"i":null}}`,
		`{"minValues":{"i":{}},"maxValues":{"i":[1]},"nullCount":{"i":-1}}`,
		`{"minValues":{"i":3000000000},"maxValues":{"i":"x"}}`, // no integers
		`{"minValues":[3],"maxValues":5}`,
		`{"nullCount":{"i":1}}`,                  // of how many rows?
		`{"minValues":{"I":100},"maxValues":{}}`, // another column
	} {
		for _, op := range []prune.Op{prune.Equal, prune.Less, prune.LessOrEqual, prune.Greater, prune.GreaterOrEqual, prune.IsNull, prune.IsNotNull} {
			require.True(t, keeps(t, action.Add{Stats: stats}, "i", op, 5), "%s %s", stats, op)
		}
	}
	odd := action.Add{Stats: `{"minValues":{"d":"NaN","ts":"2026-01-02T03:04:05.123","dec":1.234},"maxValues":{"d":"NaN","ts":"2026-01-02 03:04:05.123"}}`}
	require.True(t, keeps(t, odd, "d", prune.Equal, 1.0), "some Parquet writers make NaN the bound of all values")
	require.True(t, keeps(t, odd, "ts", prune.Equal, "2020-01-01T00:00:00Z"), "in an unknown zone")
	require.True(t, keeps(t, odd, "dec", prune.Equal, 1), "more digits than the column")
	inf := action.Add{Stats: `{"minValues":{"d":"-Infinity"},"maxValues":{"d":"Infinity"}}`}
	require.True(t, keeps(t, inf, "d", prune.Equal, 1e300))
}

func TestPartitionValues(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	add := action.Add{PartitionValues: map[string]*string{"p": text("5"), "pts": text("2026-01-02 00:00:00"), "ps": nil}}
	for _, c := range []struct {
		column string
		op     prune.Op
		value  any
		keeps  bool
	}{
		{"p", prune.Equal, 5, true}, {"p", prune.Equal, 4, false}, {"p", prune.Less, 5, false}, {"p", prune.Less, 6, true},
		{"p", prune.LessOrEqual, 4, false}, {"p", prune.LessOrEqual, 5, true}, {"p", prune.Greater, 5, false}, {"p", prune.Greater, 4, true},
		{"p", prune.GreaterOrEqual, 6, false}, {"p", prune.GreaterOrEqual, 5, true}, {"p", prune.IsNull, nil, false}, {"p", prune.IsNotNull, nil, true},
		{"ps", prune.IsNull, nil, true}, {"ps", prune.IsNotNull, nil, false}, {"ps", prune.Equal, "x", false},
		{"pts", prune.Equal, "2020-01-01T00:00:00Z", true}, // in an unknown zone
	} {
		require.Equal(t, c.keeps, keeps(t, add, c.column, c.op, c.value), "%s %s %v", c.column, c.op, c.value)
	}
	add.PartitionValues = map[string]*string{"p": text("x"), "pts": text("2026-01-02T00:00:00Z")}
	require.True(t, keeps(t, add, "p", prune.Equal, 5), "reading it says what is wrong")
	require.True(t, keeps(t, add, "ps", prune.Equal, "x"), "not given")
	require.False(t, keeps(t, add, "pts", prune.Equal, "2020-01-01T00:00:00Z"))
}

func TestAllConditionsMustHold(t *testing.T) {
	t.Parallel()
	add := action.Add{PartitionValues: map[string]*string{"p": new("5")}, Stats: `{"minValues":{"i":3},"maxValues":{"i":7}}`}
	for _, c := range []struct {
		conditions []prune.Condition
		keeps      bool
	}{
		{nil, true},
		{[]prune.Condition{{"p", prune.Equal, 5}, {"i", prune.Equal, 5}}, true},
		{[]prune.Condition{{"p", prune.Equal, 6}, {"i", prune.Equal, 5}}, false},
		{[]prune.Condition{{"i", prune.Equal, 5}, {"p", prune.Equal, 5}, {"i", prune.Greater, 7}}, false},
	} {
		f, err := prune.New(table(), schema.MapNone, []string{"p"}, c.conditions)
		require.NoError(t, err)
		require.Equal(t, c.keeps, f.Keeps(add), c.conditions)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		condition prune.Condition
		want      string
	}{
		{prune.Condition{"absent", prune.Equal, 1}, "column absent is not in the table"},
		{prune.Condition{"i", "like", 1}, `operator "like" is unknown`},
		{prune.Condition{"i", prune.Equal, nil}, "cannot be compared with integer"},
		{prune.Condition{"i", prune.Equal, 1.5}, "float64 cannot be compared with integer"},
		{prune.Condition{"i", prune.Equal, "x"}, `"x" is no integer`},
		{prune.Condition{"s", prune.Equal, 1}, "cannot be compared with string"},
		{prune.Condition{"d", prune.Equal, int64(1<<53 + 1)}, "not exact"},
		{prune.Condition{"ts", prune.Equal, time.Unix(0, 1)}, "cannot be compared with timestamp"},
		{prune.Condition{"day", prune.Equal, time.Unix(0, 0)}, "cannot be compared with date"},
		{prune.Condition{"dec", prune.Equal, "1.234"}, "more than 2 digits"},
		{prune.Condition{"arr", prune.Equal, "1"}, "no single values"},
	} {
		_, err := prune.New(table(), schema.MapNone, nil, []prune.Condition{c.condition})
		require.ErrorContains(t, err, c.want)
	}
}

// Whatever statistics say, they are read without a panic, and a file that is kept for
// "is not null" and for "is null" both is kept for good reason or for none at all.
func FuzzStatistics(f *testing.F) {
	f.Add(`{"numRecords":10,"minValues":{"i":3,"d":1.5,"dec":1},"maxValues":{"i":7,"d":"NaN","dec":1e38},"nullCount":{"i":0}}`, int64(5))
	f.Add(`{"minValues":{"ts":"2026-01-02T03:04:05.123Z"}}`, int64(0))
	f.Fuzz(func(t *testing.T, stats string, literal int64) {
		add := action.Add{Stats: stats}
		for _, column := range []string{"i", "l", "dec"} {
			equal := keeps(t, add, column, prune.Equal, literal)
			if equal && keeps(t, add, column, prune.IsNotNull, nil) {
				require.True(t, keeps(t, add, column, prune.LessOrEqual, literal), "= keeps and <= does not")
				require.True(t, keeps(t, add, column, prune.GreaterOrEqual, literal), "= keeps and >= does not")
			}
		}
		keeps(t, add, "ts", prune.Less, "2026-01-02T03:04:05Z")
		keeps(t, add, "d", prune.Less, 1.5)
	})
}
