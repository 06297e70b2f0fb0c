package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// benchSpec is a table like the one of the wire benchmarks: 13 columns, about 150 bytes a row on the wire.
func benchSpec(name string) engine.TableSpec {
	return engine.TableSpec{
		Schema: "dbo", Name: name, Unmaterialized: true,
		Columns: []engine.ColumnSpec{
			{Name: "id", Type: sqltype.TypeOf(sqltype.KindBigInt)},
			{Name: "customer", Type: sqltype.TypeOf(sqltype.KindInt), Nullable: true},
			{Name: "status", Type: sqltype.TypeOf(sqltype.KindTinyInt), Nullable: true},
			{Name: "flag", Type: sqltype.TypeOf(sqltype.KindBit), Nullable: true},
			{Name: "amount", Type: sqltype.DecimalType(18, 2), Nullable: true},
			{Name: "price", Type: sqltype.TypeOf(sqltype.KindMoney), Nullable: true},
			{Name: "ratio", Type: sqltype.TypeOf(sqltype.KindFloat), Nullable: true},
			{Name: "day", Type: sqltype.TypeOf(sqltype.KindDate), Nullable: true},
			{Name: "at", Type: sqltype.Type{Kind: sqltype.KindDateTime2, Scale: 3}, Nullable: true},
			{Name: "code", Type: sqltype.VarCharType(12), Nullable: true},
			{Name: "note", Type: sqltype.NVarCharType(40), Nullable: true},
			{Name: "guid", Type: sqltype.TypeOf(sqltype.KindUniqueIdentifier), Nullable: true},
			{Name: "small", Type: sqltype.TypeOf(sqltype.KindSmallInt), Nullable: true},
		},
		Indexes: []engine.IndexSpec{{Columns: []string{"id"}, PrimaryKey: true, Clustered: true}},
	}
}

// backlog is a database with n captured rows of benchSpec.
func backlog(t testing.TB, n int64, perTxn int) (*engine.Database, *engine.Instance, engine.BulkResult) {
	srv := engine.NewServer(engine.Options{Seed: 1})
	t.Cleanup(srv.Close)
	db, err := srv.CreateDatabase("lab")
	require.NoError(t, err)
	ctx := context.Background()
	require.NoError(t, db.EnableCDC())
	require.NoError(t, db.Do(ctx, func(tx *engine.Tx) error { _, err := tx.CreateTable(ctx, benchSpec("orders")); return err }))
	res, err := db.EnableTable(ctx, engine.EnableTableSpec{Schema: "dbo", Table: "orders"})
	require.NoError(t, err)
	bulk, err := db.BulkCaptured(ctx, engine.BulkSpec{
		Instance: "dbo_orders", Rows: n, RowsPerTxn: perTxn, Fill: engine.SampleFill(res.Instance.Columns),
	})
	require.NoError(t, err)
	inst, _ := db.CDC().Instance("dbo_orders")
	return db, inst, bulk
}

func BenchmarkBulkCaptured(b *testing.B) {
	for b.Loop() {
		_, _, res := backlog(b, 1_000_000, 10)
		b.ReportMetric(res.BytesPerRow, "B/row")
	}
	b.ReportMetric(1e6*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkScan(b *testing.B) {
	const rows = 1_000_000
	db, inst, _ := backlog(b, rows, 10)
	all := []int(nil)
	for name, columns := range map[string][]int{
		"all18":    all,
		"driver17": {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17},
		"lsnOnly":  {0},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				cur := db.CDC().ScanChanges(inst, engine.ChangeScan{Columns: columns})
				for cur.Next() {
					n += len(cur.Row())
				}
				if n != rows*19 {
					b.Fatal(n)
				}
			}
			b.ReportMetric(rows*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkCapture is the way of a row through the base table, the log and a scan.
func BenchmarkCapture(b *testing.B) {
	l, orders := captured(b)
	ctx := context.Background()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		tx := l.db.Begin(engine.TxOptions{})
		for range 10 {
			n++
			require.NoError(b, insert(ctx, tx, orders, row(n, "note", 1)))
		}
		_, err := tx.Commit()
		require.NoError(b, err)
		if n%10_000 == 0 {
			_, err := l.db.Scan(ctx, engine.ScanLimits{})
			require.NoError(b, err)
		}
	}
	b.ReportMetric(10*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkSeek(b *testing.B) {
	db, inst, res := backlog(b, 1_000_000, 10)
	for b.Loop() {
		cur := db.CDC().ScanChanges(inst, engine.LSNRange(res.Last, res.Last, nil))
		for cur.Next() {
		}
	}
}
