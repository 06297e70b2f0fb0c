package data_test

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// The 12-column table of change rows that the figures of other engines were taken with:
// every value is a function of the row's number.

var (
	tableNames = []string{"dbo.orders", "dbo.order_lines", "dbo.customers", "dbo.payments"}
	statuses   = []string{"NEW", "PAID", "PACKED", "SHIPPED", "CLOSED"}
	regions    = []string{"north", "south", "east", "west", "emea", "apac", "amer", "latam"}
)

func generatorSchema() *schema.Struct {
	notNull := func(name string, t schema.Type) schema.Field { return schema.Field{Name: name, Type: t} }
	return &schema.Struct{Fields: []schema.Field{
		notNull("start_lsn", schema.String),
		notNull("seqval", schema.String),
		notNull("operation", schema.Integer),
		notNull("commit_time", schema.Timestamp),
		notNull("table_name", schema.String),
		notNull("position", schema.Long),
		notNull("id", schema.Long),
		notNull("status", schema.String),
		notNull("region", schema.String),
		notNull("amount", schema.Decimal{Precision: 18, Scale: 2}),
		notNull("updated_at", schema.Timestamp),
		{Name: "note", Type: schema.String, Nullable: true},
	}}
}

// nullable is the same schema with every column nullable, as source columns are in a
// table of changes.
func nullable(s *schema.Struct) *schema.Struct {
	out := &schema.Struct{}
	for _, f := range s.Fields {
		f.Nullable = true
		out.Fields = append(out.Fields, f)
	}
	return out
}

func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// rowDraw is the random number of row i for column k.
func rowDraw(i, k uint64) uint64 { return mix(i*16 + k) }

func lsnText(a, b uint64, c uint64) string {
	var raw [10]byte
	binary.BigEndian.PutUint32(raw[:], uint32(a))
	binary.BigEndian.PutUint32(raw[4:], uint32(b))
	binary.BigEndian.PutUint16(raw[8:], uint16(c))
	return "0x" + strings.ToUpper(hex.EncodeToString(raw[:]))
}

func noteText(q uint64) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:], mix(q))
	binary.BigEndian.PutUint64(raw[8:], mix(q+1))
	return hex.EncodeToString(raw[:])[:8+(q>>1)%24]
}

const firstCommit = 1767225600000000 // 2026-01-01T00:00:00Z in microseconds

// generate makes rows from, from+1 … as one batch of the given Arrow schema, whose
// string columns may be dictionaries.
func generate(mem memory.Allocator, as *arrow.Schema, from, n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(mem, as)
	defer b.Release()
	text := func(column int, value string) {
		switch builder := b.Field(column).(type) {
		case *array.BinaryDictionaryBuilder:
			_ = builder.AppendString(value)
		case *array.StringBuilder:
			builder.Append(value)
		}
	}
	for row := from; row < from+n; row++ {
		i := uint64(row)
		t := i / 10
		commit := int64(firstCommit + t*10000)
		text(0, lsnText(42, 16*t, 3))
		text(1, lsnText(42, 16*t+1+i%10, 1+i%10))
		b.Field(2).(*array.Int32Builder).Append(int32(1 + rowDraw(i, 3)%4))
		b.Field(3).(*array.TimestampBuilder).Append(arrow.Timestamp(commit))
		text(4, tableNames[rowDraw(i, 5)%4])
		b.Field(5).(*array.Int64Builder).Append(int64(i))
		b.Field(6).(*array.Int64Builder).Append(int64(i))
		text(7, statuses[rowDraw(i, 8)%5])
		text(8, regions[rowDraw(i, 9)%8])
		b.Field(9).(*array.Decimal128Builder).Append(decimal128.FromU64(rowDraw(i, 10) % 10000000))
		b.Field(10).(*array.TimestampBuilder).Append(arrow.Timestamp(commit - int64(rowDraw(i, 11)%60000000)))
		if q := rowDraw(i, 12); q%2 == 1 {
			b.Field(11).AppendNull()
		} else {
			text(11, noteText(q))
		}
	}
	return b.NewRecordBatch()
}

// withDictionaries is the Arrow schema of the generator with its enum-like columns as
// dictionaries.
func withDictionaries(as *arrow.Schema) *arrow.Schema {
	fields := as.Fields()
	for _, i := range []int{4, 7, 8} {
		fields[i].Type = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	}
	return arrow.NewSchema(fields, nil)
}

func TestGeneratorIsThePublishedTable(t *testing.T) {
	t.Parallel()
	rec := generate(memory.DefaultAllocator, generatorSchema().Arrow(), 123456, 1)
	defer rec.Release()
	var got []string
	for _, column := range rec.Columns() {
		got = append(got, column.ValueStr(0))
	}
	require.Equal(t, []string{
		"0x0000002A000303900003", "0x0000002A000303970007", "2", "2026-01-01T00:02:03.45Z", "dbo.order_lines",
		"123456", "123456", "NEW", "east", "18716.56", "2026-01-01T00:01:37.517515Z", "(null)",
	}, got)
}
