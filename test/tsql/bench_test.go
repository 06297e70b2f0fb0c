package tsql_test

import (
	"context"
	"encoding/binary"
	"iter"
	"testing"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// changeTable makes up the rows of a change table: perTx rows to a transaction.
type changeTable struct {
	cols  []sqltype.Column
	n     int
	perTx int
}

func newChangeTable(n, perTx int) *changeTable {
	lsn := sqltype.BinaryType(10)
	t := &changeTable{n: n, perTx: perTx, cols: []sqltype.Column{
		{Name: "__$start_lsn", Type: lsn}, {Name: "__$end_lsn", Type: lsn, Nullable: true}, {Name: "__$seqval", Type: lsn},
		{Name: "__$operation", Type: sqltype.Type{Kind: sqltype.KindInt}}, {Name: "__$update_mask", Type: sqltype.VarBinaryType(128), Nullable: true},
		{Name: "id", Type: sqltype.Type{Kind: sqltype.KindBigInt}, Nullable: true}, {Name: "n", Type: sqltype.Type{Kind: sqltype.KindInt}, Nullable: true},
		{Name: "a", Type: sqltype.VarCharType(20), Nullable: true}, {Name: "b", Type: sqltype.Type{Kind: sqltype.KindChar, Length: 3}, Nullable: true},
		{Name: "amount", Type: sqltype.DecimalType(18, 2), Nullable: true}, {Name: "at", Type: sqltype.Type{Kind: sqltype.KindDateTime2, Scale: 7}, Nullable: true},
		{Name: "bt", Type: sqltype.Type{Kind: sqltype.KindDateTime2, Scale: 7}, Nullable: true}, {Name: "note", Type: sqltype.NVarCharType(200), Nullable: true},
		{Name: "__$command_id", Type: sqltype.Type{Kind: sqltype.KindInt}, Nullable: true},
	}}
	return t
}

func (t *changeTable) Name() tsql.ObjectName     { return ast.Name("lab", "cdc", "x_CT") }
func (t *changeTable) Columns() []sqltype.Column { return t.cols }
func (t *changeTable) Order() []int              { return []int{0, 13, 2, 3} }
func (t *changeTable) Unique() int               { return 4 }
func lsnBytes(n int) string {
	var b [10]byte
	binary.BigEndian.PutUint64(b[2:], uint64(n))
	return string(b[:])
}

func lsnNumber(v sqltype.Value) int {
	var b [10]byte
	copy(b[:], v.Str())
	return int(binary.BigEndian.Uint64(b[2:]))
}

func (t *changeTable) Scan(_ context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		row := make(sqltype.Row, len(t.cols))
		row[3], row[4] = sqltype.Int(2), sqltype.VarBinary([]byte{0xFF})
		row[6], row[7], row[8] = sqltype.Int(7), sqltype.VarChar("some text"), sqltype.Text(sqltype.KindChar, "abc")
		row[9] = sqltype.Decimal(sqltype.Number{Lo: 12345, Scale: 2})
		row[10], row[11] = sqltype.DateTime2(738000, 1234567, 7), sqltype.DateTime2(738000, 1234567, 7)
		row[12] = sqltype.NVarChar("a note that is a bit longer")
		lsn := ""
		for i := range t.n {
			if i%t.perTx == 0 {
				lsn = lsnBytes(1000 + 10*(i/t.perTx))
			}
			row[0] = sqltype.Bytes(sqltype.KindBinary, lsn)
			row[2] = row[0]
			row[5], row[13] = sqltype.BigInt(int64(i)), sqltype.Int(int32(i%t.perTx))
			if !yield(row, nil) {
				return
			}
		}
	}
}

// mappingTable is cdc.lsn_time_mapping over the same transactions.
type mappingTable struct {
	cols  []sqltype.Column
	n     int
	scans int
}

func newMappingTable(n int) *mappingTable {
	return &mappingTable{n: n, cols: []sqltype.Column{{Name: "start_lsn", Type: sqltype.BinaryType(10)},
		{Name: "tran_begin_time", Type: sqltype.Type{Kind: sqltype.KindDateTime}, Nullable: true},
		{Name: "tran_end_time", Type: sqltype.Type{Kind: sqltype.KindDateTime}, Nullable: true}}}
}

func (t *mappingTable) Name() tsql.ObjectName     { return ast.Name("lab", "cdc", "lsn_time_mapping") }
func (t *mappingTable) Columns() []sqltype.Column { return t.cols }
func (t *mappingTable) Order() []int              { return []int{0} }
func (t *mappingTable) Unique() int               { return 1 }
func (t *mappingTable) Scan(_ context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	t.scans++
	return func(yield func(sqltype.Row, error) bool) {
		from, to := 0, t.n
		if len(spec.Lower.Values) > 0 {
			from = max(0, (lsnNumber(spec.Lower.Values[0])-1000+9)/10)
		}
		if len(spec.Upper.Values) > 0 {
			to = min(t.n, (lsnNumber(spec.Upper.Values[0])-1000)/10+1)
		}
		row := make(sqltype.Row, 3)
		for i := from; i < to; i++ {
			row[0] = sqltype.Bytes(sqltype.KindBinary, lsnBytes(1000+10*i))
			row[2] = sqltype.DateTime(45000, int32(i%1000))
			if !yield(row, nil) {
				return
			}
		}
	}
}

// benchHost knows the two tables.
type benchHost struct {
	*fakeHost
	change  *changeTable
	mapping *mappingTable
}

func (h *benchHost) Table(ctx context.Context, r tsql.TableRequest) (tsql.Table, error) {
	switch r.Name.Name {
	case "x_CT":
		return h.change, nil
	case "lsn_time_mapping":
		return h.mapping, nil
	}
	return h.fakeHost.Table(ctx, r)
}

// countSink counts rows.
type countSink struct {
	textSink
	rows int
}

func (s *countSink) Row(sqltype.Row) error { s.rows++; return nil }

const changeRead = `SELECT c.[__$start_lsn], c.[__$seqval], c.[__$operation], c.[__$update_mask], c.[__$command_id], m.tran_end_time,
c.id, c.n, c.a, c.b, c.amount, c.[at], c.bt, c.note FROM cdc.[x_CT] c LEFT JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.[__$start_lsn]
WHERE c.[__$start_lsn] > @a AND c.[__$start_lsn] <= @b ORDER BY c.[__$start_lsn], c.[__$command_id], c.[__$seqval], c.[__$operation]`

func changeArgs() []*tsql.Argument {
	lsn := sqltype.BinaryType(10)
	return []*tsql.Argument{{Name: "@a", Type: lsn, Value: sqltype.Bytes(sqltype.KindBinary, lsnBytes(0))},
		{Name: "@b", Type: lsn, Value: sqltype.Bytes(sqltype.KindBinary, lsnBytes(1<<40))}}
}

// BenchmarkChangeRead is the change read of the reader, over 200,000 rows, by rows in a transaction.
func BenchmarkChangeRead(b *testing.B) {
	const rows = 200_000
	for _, c := range []struct {
		name  string
		perTx int
	}{{"1_per_tx", 1}, {"10_per_tx", 10}, {"1000_per_tx", 1000}} {
		b.Run(c.name, func(b *testing.B) {
			h := &benchHost{newFakeHost(), newChangeTable(rows, c.perTx), newMappingTable(rows/c.perTx + 1)}
			s := tsql.NewSession(h)
			b.ReportAllocs()
			for b.Loop() {
				sink := &countSink{}
				if err := s.Run(b.Context(), changeRead, changeArgs(), sink); err != nil || sink.rows != rows {
					b.Fatal(err, sink.rows, sink.b.String())
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
		})
	}
}

// BenchmarkSegmentSort is the change read in the order of the query functions.
func BenchmarkSegmentSort(b *testing.B) {
	const rows = 200_000
	h := &benchHost{newFakeHost(), newChangeTable(rows, 10), newMappingTable(1)}
	s := tsql.NewSession(h)
	b.ReportAllocs()
	for b.Loop() {
		sink := &countSink{}
		if err := s.Run(b.Context(), "SELECT * FROM cdc.x_CT ORDER BY __$start_lsn, __$seqval, __$operation", nil, sink); err != nil || sink.rows != rows {
			b.Fatal(err, sink.rows)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

// BenchmarkAggregate counts and sums by groups.
func BenchmarkAggregate(b *testing.B) {
	const rows = 200_000
	h := &benchHost{newFakeHost(), newChangeTable(rows, 10), newMappingTable(1)}
	s := tsql.NewSession(h)
	b.ReportAllocs()
	for b.Loop() {
		sink := &countSink{}
		if err := s.Run(b.Context(), "SELECT __$command_id, COUNT_BIG(*), SUM(id), MAX(amount) FROM cdc.x_CT GROUP BY __$command_id", nil, sink); err != nil || sink.rows != 10 {
			b.Fatal(err, sink.rows)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
