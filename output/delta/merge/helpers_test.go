package merge_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

func field(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

func columns(fields ...schema.Field) *schema.Struct { return &schema.Struct{Fields: fields} }

func create(t *testing.T, st store.Store, spec delta.Spec) *delta.Table {
	t.Helper()
	table, err := delta.Create(t.Context(), st, spec, delta.Options{CommitTimeout: time.Minute})
	require.NoError(t, err)
	closeAtEnd(t, table)
	return table
}

func open(t *testing.T, st store.Store) *delta.Table {
	t.Helper()
	table, err := delta.Open(t.Context(), st, delta.Options{CommitTimeout: time.Minute})
	require.NoError(t, err)
	closeAtEnd(t, table)
	return table
}

func closeAtEnd(t *testing.T, table *delta.Table) {
	t.Cleanup(func() { require.NoError(t, table.Close(context.Background())) })
}

// batch makes a record batch of some of the table's columns from JSON rows.
func batch(t *testing.T, s *schema.Struct, rows string, names ...string) arrow.RecordBatch {
	t.Helper()
	if len(names) > 0 {
		var some schema.Struct
		for _, name := range names {
			f, ok := s.Field(name)
			require.True(t, ok)
			some.Fields = append(some.Fields, f)
		}
		s = &some
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, s.Arrow(), strings.NewReader(rows))
	require.NoError(t, err)
	return rec
}

func batches(recs ...arrow.RecordBatch) []arrow.RecordBatch { return recs }

// rowsOf are the rows of a table's newest version as JSON lines, sorted.
func rowsOf(t *testing.T, table *delta.Table) []string {
	t.Helper()
	s, err := table.Refresh(t.Context())
	require.NoError(t, err)
	out := []string{}
	for rec, err := range table.Read(t.Context(), s, delta.ReadOptions{}) {
		require.NoError(t, err)
		out = append(out, linesOf(t, rec)...)
	}
	slices.Sort(out)
	return out
}

func linesOf(t *testing.T, rec arrow.RecordBatch) []string {
	t.Helper()
	text, err := rec.MarshalJSON()
	require.NoError(t, err)
	return strings.Split(strings.Trim(string(text), "[]\n"), "\n,")
}

func filesOf(t *testing.T, s *delta.Snapshot) []action.Add {
	t.Helper()
	out := []action.Add{}
	for a, err := range s.Files(t.Context()) {
		require.NoError(t, err)
		out = append(out, a)
	}
	return out
}

func commitOf(t *testing.T, st store.Store, version int64) action.Commit {
	t.Helper()
	c, err := replay.ReadCommit(t.Context(), st, version)
	require.NoError(t, err)
	return c
}

// orphans are data files and files of deletion vectors that no commit of the log names.
func orphans(t *testing.T, st store.Store, table *delta.Table) []string {
	t.Helper()
	s, err := table.Refresh(t.Context())
	require.NoError(t, err)
	named := map[string]bool{}
	for v := range s.Version() + 1 {
		for _, a := range commitOf(t, st, v).Adds {
			named[action.CanonicalPath(a.Path)] = true
			if a.DeletionVector != nil {
				path, err := a.DeletionVector.Path()
				require.NoError(t, err)
				named[action.CanonicalPath(path)] = true
			}
		}
	}
	out := []string{}
	for info, err := range st.List(t.Context(), "", "") {
		require.NoError(t, err)
		if !strings.HasPrefix(info.Path, "_delta_log/") && !named[info.Path] {
			out = append(out, info.Path)
		}
	}
	return out
}

// domain is the values of a key column that tests use: ascending in the order of keys, each
// with other spellings of the same value.
type domain struct {
	typ    schema.Type
	values [][]any
}

func one(values ...any) [][]any {
	out := [][]any{{nil}}
	for _, v := range values {
		out = append(out, []any{v})
	}
	return out
}

func domains() map[string]domain {
	day := func(text string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			panic(err)
		}
		return at
	}
	small := func(n int64) decimal128.Num { return decimal128.FromI64(n) }
	huge := decimal128.New(1<<60, 7)
	negative := math.Copysign(0, -1)
	times := one(day("0001-01-01T00:00:00Z"), day("1969-12-31T23:59:59.999999Z"), day("1970-01-01T00:00:00Z"), day("2026-02-03T04:05:06.000001Z"), day("2026-02-03T04:05:06.000002Z"))
	floats := [][]any{{nil}, {math.Inf(-1)}, {-2.5}, {0.0, negative}, {1.0}, {2.5}, {math.Inf(1)}, {math.NaN(), -math.NaN(), math.Float64frombits(0x7ff8000000000007)}}
	return map[string]domain{
		"long":          {schema.Long, one(int64(math.MinInt64), int64(-3), int64(0), int64(1), int64(2), int64(300), int64(math.MaxInt64))},
		"integer":       {schema.Integer, one(int32(math.MinInt32), int32(-3), int32(0), int32(1), int32(2), int32(300), int32(math.MaxInt32))},
		"short":         {schema.Short, one(int64(-32768), int64(-1), int64(0), int64(7), int64(32767))},
		"byte":          {schema.Byte, one(int64(-128), int64(-1), int64(0), int64(7), int64(127))},
		"boolean":       {schema.Boolean, one(false, true)},
		"date":          {schema.Date, one(day("0001-01-01T00:00:00Z"), day("1969-12-31T00:00:00Z"), day("1970-01-01T00:00:00Z"), day("2026-01-01T00:00:00Z"))},
		"timestamp":     {schema.Timestamp, times},
		"timestamp_ntz": {schema.TimestampNTZ, times},
		"float":         {schema.Float, floats},
		"double":        {schema.Double, floats},
		"string":        {schema.String, one("", "\x00", "\x00\x01", "\x00\xff", "A", "A\x00", "AA", "a", "ab", "é", "\U0010ffff")},
		"binary":        {schema.Binary, one([]byte{}, []byte{0}, []byte{0, 0}, []byte{0, 1}, []byte{0, 255}, []byte{1}, []byte{255}, []byte{255, 255})},
		"decimal(9,2)":  {schema.Decimal{Precision: 9, Scale: 2}, one(small(-999999999), small(-1), small(0), small(1), small(10), small(999999999))},
		"decimal(18,4)": {schema.Decimal{Precision: 18, Scale: 4}, one(small(-999999999999999999), small(-1), small(0), small(100), small(999999999999999999))},
		"decimal(38,5)": {schema.Decimal{Precision: 38, Scale: 5}, one(huge.Negate(), small(-1), small(0), small(1), small(math.MaxInt64), huge, huge.Add(small(1)))},
	}
}

// appendValue appends a value of a domain.
func appendValue(b array.Builder, v any) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Int32Builder:
		b.Append(v.(int32))
	case *array.Int16Builder:
		b.Append(int16(v.(int64)))
	case *array.Int8Builder:
		b.Append(int8(v.(int64)))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.Date32Builder:
		b.Append(arrow.Date32FromTime(v.(time.Time)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.(time.Time).UnixMicro()))
	case *array.Float32Builder:
		b.Append(float32(v.(float64)))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.BinaryBuilder:
		b.Append(v.([]byte))
	case *array.Decimal128Builder:
		b.Append(v.(decimal128.Num))
	default:
		panic(fmt.Sprintf("no values for %T", b))
	}
}
