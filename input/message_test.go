package input

import (
	"fmt"
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// A message's metadata is that of its row, whatever messages share behind it, and a
// change of one message is in no other.
func TestRowMessages(t *testing.T) {
	t.Parallel()
	columns := []mssqlcdc.Column{{Name: "id", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint", Key: true}}
	schema := mssqlcdc.RecordSchema(columns)
	rapid.Check(t, func(t *rapid.T) {
		position := rapid.Bool().Draw(t, "position")
		builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
		require.NoError(t, err)
		rows := rapid.IntRange(0, 12).Draw(t, "rows")
		commits, noCommand, noSeqVal := 1, rapid.Bool().Draw(t, "without command ids"), rapid.Bool().Draw(t, "snapshot")
		var want []map[string]any
		for i := range rows {
			commits += rapid.IntRange(0, 1).Draw(t, "next commit")
			lsn, seqval := fakeLSN(commits), mssqlcdc.LSN{9: byte(i)}
			op := mssqlcdc.Operation(rapid.IntRange(0, 4).Draw(t, "operation"))
			meta := map[string]any{
				"mssql_cdc_format": "rows", "table": "orders", "database_schema": "dbo", "capture_instance": "dbo_orders",
				"operation": op.String(), "lsn": lsn.String(), "transaction_id": lsn.String(),
			}
			values := []any{lsn[:], seqval[:], int64(op), int64(i % 3), nil, int64(i)}
			if commits%2 == 0 {
				at := fakeTime(lsn)
				values[4] = at
				meta["commit_ts_ms"] = strconv.FormatInt(at.UnixMilli(), 10)
				meta["source_ts_ms"] = meta["commit_ts_ms"]
			}
			if noSeqVal {
				values[1] = nil
			} else if position {
				meta["seqval"] = seqval.String()
			}
			if noCommand {
				values[3] = nil
			} else if position {
				meta["command_id"] = strconv.Itoa(i % 3)
			}
			for column, value := range values {
				require.NoError(t, builder.Set(column, value))
			}
			want = append(want, meta)
		}
		s := &stream{config: config{includePosition: position}}
		envelope := mssqlcdc.Envelope{Table: mssqlcdc.TableID{Schema: "dbo", Name: "orders"}, Instance: "dbo_orders"}
		batch, err := s.rowMessages(envelope, sqlserver.Part{Record: builder.NewRecord()})
		require.NoError(t, err)
		require.Len(t, batch, rows)
		check := func(changed int) {
			for i, message := range batch {
				if i == changed {
					continue
				}
				body, err := message.AsStructured()
				require.NoError(t, err)
				require.Equal(t, map[string]any{"id": int64(i)}, body)
				got := metaOf(t, message)
				require.NotNil(t, got["schema"])
				delete(got, "schema")
				require.Equal(t, want[i], got, "row %d", i)
			}
		}
		check(-1)
		if rows == 0 {
			return
		}
		changed := rapid.IntRange(0, rows-1).Draw(t, "changed")
		body, err := batch[changed].AsStructuredMut()
		require.NoError(t, err)
		body.(map[string]any)["id"] = "changed"
		batch[changed].MetaSetMut("lsn", "changed")
		batch[changed].MetaDelete("table")
		check(changed)
	})
}

func metaOf(t require.TestingT, message *service.Message) map[string]any {
	all := map[string]any{}
	require.NoError(t, message.MetaWalkMut(func(key string, value any) error {
		all[key] = value
		return nil
	}))
	return maps.Clone(all)
}

// BenchmarkRowMessages makes the messages of a part of 1,000 rows.
func BenchmarkRowMessages(b *testing.B) {
	for _, perTxn := range []int{1, 20} {
		for _, position := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d rows to a transaction, position %t", perTxn, position), func(b *testing.B) {
				columns := []mssqlcdc.Column{
					{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "sku", Type: arrow.BinaryTypes.String},
					{Name: "amount", Type: &arrow.Decimal128Type{Precision: 18, Scale: 2}}, {Name: "updated", Type: &arrow.TimestampType{Unit: arrow.Microsecond}},
				}
				schema := mssqlcdc.RecordSchema(columns)
				builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
				require.NoError(b, err)
				const rows = 1000
				for i := range rows {
					lsn, seqval, at := fakeLSN(1+i/perTxn), mssqlcdc.LSN{8: byte(i >> 8), 9: byte(i)}, time.Unix(int64(i), 0).UTC()
					for column, value := range []any{lsn[:], seqval[:], int64(2), int64(i % perTxn), at, int64(i), "SKU-00012345", "1234.50", at} {
						require.NoError(b, builder.Set(column, value))
					}
				}
				s := &stream{config: config{includePosition: position}}
				part := sqlserver.Part{Record: builder.NewRecord()}
				b.ReportAllocs()
				for b.Loop() {
					_, err := s.rowMessages(mssqlcdc.Envelope{Table: mssqlcdc.TableID{Schema: "dbo", Name: "orders"}}, part)
					require.NoError(b, err)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
			})
		}
	}
}
