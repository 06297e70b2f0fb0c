package workload

import (
	"context"
	"fmt"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Shape is the kind of row that Backlog makes.
type Shape string

// The shapes.
const (
	// Narrow rows are about 150 bytes on the wire in 13 columns: five of CDC and id bigint, customer int, sku varchar(20), currency
	// char(3), amount decimal(18,2), created and updated datetime2(7), note nvarchar(200), NULL in a quarter of the rows.
	Narrow Shape = "narrow"
	// Wide rows are about 1.4 kB: an id, ten integers, ten decimals, ten times and twenty texts.
	Wide Shape = "wide"
)

// Simulator is what Backlog needs of a server: it fills change tables below T-SQL.
type Simulator interface {
	Execer
	DefaultDB() *engine.Database
}

// BacklogTruth says what Backlog made.
type BacklogTruth struct {
	Table, Instance string
	Rows            int64
	Transactions    int64
	First, Last     engine.LSN
}

// Backlog makes dbo.backlog_narrow or dbo.backlog_wide with CDC and puts rows change rows, rowsPerTxn to a transaction, into its change table,
// as if they had been inserted and captured long ago. Row n has id n+1; every column follows from it (see NarrowRow).
func Backlog(ctx context.Context, sim Simulator, shape Shape, rows int64, rowsPerTxn int) (BacklogTruth, error) {
	return backlog(ctx, sim, "backlog_"+string(shape), shape, rows, rowsPerTxn)
}

// BacklogTables makes dbo.backlog_000, dbo.backlog_001 … of narrow rows, each with its share of the change rows as Backlog would put them there.
func BacklogTables(ctx context.Context, sim Simulator, tables int, rows int64, rowsPerTxn int) ([]BacklogTruth, error) {
	all := make([]BacklogTruth, 0, tables)
	for i := range int64(tables) {
		n := int64(tables)
		truth, err := backlog(ctx, sim, fmt.Sprintf("backlog_%03d", i), Narrow, (i+1)*rows/n-i*rows/n, rowsPerTxn)
		if err != nil {
			return all, err
		}
		all = append(all, truth)
	}
	return all, nil
}

func backlog(ctx context.Context, sim Simulator, table string, shape Shape, rows int64, rowsPerTxn int) (BacklogTruth, error) {
	truth := BacklogTruth{Table: "dbo." + table, Instance: "dbo_" + table}
	var columns string
	var fill func(int64, []sqltype.Value) int
	switch shape {
	case Narrow:
		columns, fill = narrowDDL, narrowFill()
	case Wide:
		columns, fill = wideDDL(), wideFill()
	default:
		return truth, fmt.Errorf("making a backlog: shape %q is neither narrow nor wide", shape)
	}
	batch := fmt.Sprintf("CREATE TABLE %s (%s);\n%s", truth.Table, columns, enableSQL("dbo", "", table))
	if err := sim.Exec(ctx, batch); err != nil {
		return truth, fmt.Errorf("making a backlog: %w", err)
	}
	res, err := sim.DefaultDB().BulkCaptured(ctx, engine.BulkSpec{Instance: truth.Instance, Rows: rows, RowsPerTxn: rowsPerTxn, Fill: fill})
	if err != nil {
		return truth, fmt.Errorf("making a backlog of %d rows: %w", rows, err)
	}
	truth.Rows, truth.Transactions, truth.First, truth.Last = rows, res.Transactions, res.First, res.Last
	return truth, nil
}

// Grow puts more rows into the change table of a backlog that was made, and counts them in truth. Their ids go on.
func Grow(ctx context.Context, sim Simulator, truth *BacklogTruth, shape Shape, rows int64, rowsPerTxn int) error {
	fill := narrowFill()
	if shape == Wide {
		fill = wideFill()
	}
	first := truth.Rows
	res, err := sim.DefaultDB().BulkCaptured(ctx, engine.BulkSpec{Instance: truth.Instance, Rows: rows, RowsPerTxn: rowsPerTxn,
		Fill: func(n int64, v []sqltype.Value) int { return fill(first+n, v) }})
	if err != nil {
		return fmt.Errorf("growing a backlog by %d rows: %w", rows, err)
	}
	truth.Rows, truth.Transactions, truth.Last = truth.Rows+rows, truth.Transactions+res.Transactions, res.Last
	return nil
}

const narrowDDL = `id bigint NOT NULL PRIMARY KEY, customer int NOT NULL, sku varchar(20) NOT NULL, currency char(3) NOT NULL,
	amount decimal(18,2) NOT NULL, created datetime2(7) NOT NULL, updated datetime2(7) NOT NULL, note nvarchar(200) NULL`

// narrowDay is 2026-01-01, counted from 0001-01-01.
const narrowDay = 739_616

// NarrowRow gives the captured columns of change row n of a narrow backlog.
func NarrowRow(n int64) []sqltype.Value {
	out := make([]sqltype.Value, 8)
	narrowFill()(n, out)
	return out
}

// narrowFill makes rows without allocating: texts come from pools.
func narrowFill() func(int64, []sqltype.Value) int {
	var skus, notes [256]string
	for i := range skus {
		skus[i] = fmt.Sprintf("SKU-%08d", i*7919)
		notes[i] = fmt.Sprintf("note %03d of the order, %s", i, strings.Repeat("x", i%24))
	}
	currencies := [4]string{"EUR", "USD", "GBP", "JPY"}
	return func(n int64, v []sqltype.Value) int {
		v[0] = sqltype.BigInt(n + 1)
		v[1] = sqltype.Int(int32(n*31) & 0xFFFFF)
		v[2] = sqltype.VarChar(skus[n&255])
		v[3] = sqltype.Text(sqltype.KindChar, currencies[n&3])
		v[4] = sqltype.Decimal(sqltype.Number{Lo: uint64(n*37%100_000_000 + 1), Scale: 2})
		v[5] = sqltype.DateTime2(int32(narrowDay+n/86_400_000), n%86_400_000*10_000, 7)
		v[6] = sqltype.DateTime2(int32(narrowDay+n/86_400_000), n%86_400_000*10_000+5, 7)
		v[7] = sqltype.Null()
		if n&3 != 0 {
			v[7] = sqltype.NVarChar(notes[n&255])
		}
		return 2
	}
}

const wideGroup = 10

func wideDDL() string {
	var b strings.Builder
	b.WriteString("id bigint NOT NULL PRIMARY KEY")
	for i := range wideGroup {
		fmt.Fprintf(&b, ", i%02d int NULL, d%02d decimal(18,4) NULL, t%02d datetime2(6) NULL", i, i, i)
	}
	for i := range 2 * wideGroup {
		fmt.Fprintf(&b, ", s%02d varchar(80) NULL", i)
	}
	return b.String()
}

func wideFill() func(int64, []sqltype.Value) int {
	var pool [256]string
	for i := range pool {
		pool[i] = strings.Repeat(string(rune('a'+i%26)), 48) + fmt.Sprintf("%04d", i)
	}
	return func(n int64, v []sqltype.Value) int {
		v[0] = sqltype.BigInt(n + 1)
		at := 1
		for i := range int64(wideGroup) {
			v[at] = sqltype.Int(int32(n + i))
			v[at+1] = sqltype.Decimal(sqltype.Number{Lo: uint64((n + i) * 101 % 1_000_000_000), Scale: 4})
			v[at+2] = sqltype.DateTime2(int32(narrowDay+n/86_400_000), (n+i)%86_400_000*10_000, 6)
			at += 3
		}
		for i := range int64(2 * wideGroup) {
			v[at] = sqltype.VarChar(pool[(n+i*13)&255])
			at++
		}
		return 2
	}
}

// Full makes dbo.full_narrow with rows that were there before CDC was enabled: what a snapshot reads. Row n has id n+1; the number of rows
// is rounded up to a power of ten.
func Full(ctx context.Context, sim Simulator, rows int64) (int64, error) {
	digits, total := []string{}, int64(1)
	var sum strings.Builder
	for total < rows {
		name := fmt.Sprintf("d%d", len(digits))
		digits = append(digits, "(VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)) "+name+" (n)")
		fmt.Fprintf(&sum, "CONVERT(bigint, %s.n) * %d + ", name, total)
		total *= 10
	}
	insert := fmt.Sprintf(`INSERT dbo.full_narrow (id, customer, sku, currency, amount, created, updated, note)
SELECT x.id, x.id %% 100000, 'SKU-' + CONVERT(varchar(12), x.id %% 5000), 'EUR', x.id %% 1000000 / 100.0, '2026-01-01T12:00:00.1234567', '2026-01-02T12:00:00.7654321',
CASE WHEN x.id %% 3 = 0 THEN NULL ELSE N'note ' + CONVERT(nvarchar(12), x.id %% 256) END
FROM (SELECT %s1 AS id FROM %s) AS x`, sum.String(), strings.Join(digits, " CROSS JOIN "))
	for _, batch := range []string{"CREATE TABLE dbo.full_narrow (" + narrowDDL + ")", insert, enableSQL("dbo", "", "full_narrow")} {
		if err := sim.Exec(ctx, batch); err != nil {
			return 0, fmt.Errorf("making a table of %d rows: %w", total, err)
		}
	}
	return total, nil
}
