package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Execer runs a T-SQL batch: a *sqlserversim.Server, or a real server behind a small adapter.
type Execer interface {
	Exec(ctx context.Context, batch string) error
}

// OrdersConfig configures the orders workload. The zero value is usable.
type OrdersConfig struct {
	Seed int64
	// Schema holds the tables; "dbo" when empty.
	Schema string
	// Start is the time of the first order; 2026-01-01 00:00 when zero. Times in the rows never come from a clock.
	Start time.Time
	// SkipEnable leaves CDC alone: the caller enables it.
	SkipEnable bool
	// RoleName gates access to the instances; empty for none.
	RoleName string
}

// Orders writes to schema.orders and schema.order_lines: new orders with their lines in one transaction, updates (some that touch one
// table, some both, some that change nothing), NULLs coming and going, key updates, deletes, and transactions that are rolled back. It
// is not safe for concurrent use.
type Orders struct {
	db     Execer
	cfg    OrdersConfig
	rng    *rand.Rand
	rec    *recorder
	nextID int64
	ids    []int64 // of present orders
	place  map[int64]int
	batch  strings.Builder
	ticks  int64
}

// Columns of the two tables, in order.
const (
	ordersDDL = `order_id bigint NOT NULL PRIMARY KEY, customer_id int NOT NULL, status varchar(20) NOT NULL, currency char(3) NOT NULL,
	total decimal(18,2) NOT NULL, ordered_at datetime2(7) NOT NULL, updated_at datetime2(3) NULL, note nvarchar(200) NULL,
	is_gift bit NOT NULL, discount money NULL`
	linesDDL = `order_id bigint NOT NULL, line_no int NOT NULL, sku varchar(40) NOT NULL, quantity int NOT NULL, price decimal(12,4) NOT NULL,
	comment nvarchar(max) NULL, PRIMARY KEY (order_id, line_no)`
)

func orderColumns() []string {
	return []string{"order_id", "customer_id", "status", "currency", "total", "ordered_at", "updated_at", "note", "is_gift", "discount"}
}

func lineColumns() []string {
	return []string{"order_id", "line_no", "sku", "quantity", "price", "comment"}
}

const (
	lineComment = 5 // nvarchar(max): NULL in a before image unless it changed
	orderStatus = 2
	orderTotal  = 4
	orderTime   = 6
	orderNote   = 7
	maxLine     = 200 // line numbers stay below
)

// NewOrders creates the tables and, unless told otherwise, enables CDC for the database (when it is off) and for both tables.
func NewOrders(ctx context.Context, db Execer, cfg OrdersConfig) (*Orders, error) {
	if cfg.Schema == "" {
		cfg.Schema = "dbo"
	}
	if cfg.Start.IsZero() {
		cfg.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	o := &Orders{db: db, cfg: cfg, rng: rand.New(rand.NewPCG(uint64(cfg.Seed), 1)), nextID: 1000, place: map[int64]int{}}
	o.rec = newRecorder(map[string][]string{o.ordersTable(): orderColumns(), o.linesTable(): lineColumns()})
	batch := fmt.Sprintf("CREATE TABLE %s.orders (%s);\nCREATE TABLE %s.order_lines (%s);\n", cfg.Schema, ordersDDL, cfg.Schema, linesDDL)
	if !cfg.SkipEnable {
		batch += enableSQL(cfg.Schema, cfg.RoleName, "orders", "order_lines")
	}
	if err := db.Exec(ctx, batch); err != nil {
		return nil, fmt.Errorf("creating the orders workload: %w", err)
	}
	return o, nil
}

// enableSQL enables CDC for the database, when it is off, and for tables.
func enableSQL(schema, role string, tables ...string) string {
	var b strings.Builder
	b.WriteString("IF NOT EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 1) EXEC sys.sp_cdc_enable_db;\n")
	roleSQL := "NULL"
	if role != "" {
		roleSQL = quoteText(role)
	}
	for _, t := range tables {
		fmt.Fprintf(&b, "EXEC sys.sp_cdc_enable_table @source_schema = %s, @source_name = %s, @role_name = %s;\n", quoteText(schema), quoteText(t), roleSQL)
	}
	return b.String()
}

func (o *Orders) ordersTable() string { return o.cfg.Schema + ".orders" }
func (o *Orders) linesTable() string  { return o.cfg.Schema + ".order_lines" }

// Truth is what has been committed so far.
func (o *Orders) Truth() Truth { return o.rec.snapshot() }

// Run makes n transactions (rolled-back ones included).
func (o *Orders) Run(ctx context.Context, n int) error {
	for range n {
		if err := o.Step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Step makes one transaction.
func (o *Orders) Step(ctx context.Context) error {
	o.batch.Reset()
	o.batch.WriteString("SET XACT_ABORT ON; BEGIN TRANSACTION;\n")
	keep := true
	switch p := o.rng.IntN(100); {
	case len(o.ids) < 5 || p < 35:
		o.newOrder()
	case p < 60:
		o.updateOrder(o.anyOrder())
	case p < 68:
		o.updateLines(o.anyOrder())
	case p < 74:
		o.touchNothing(o.anyOrder())
	case p < 80:
		o.changeKey(o.anyOrder())
	case p < 88:
		o.deleteOrder(o.anyOrder())
	case p < 96:
		o.mixed()
	default:
		o.newOrder()
		keep = false
	}
	end := "COMMIT TRANSACTION;"
	if !keep {
		end = "ROLLBACK TRANSACTION;"
	}
	o.batch.WriteString(end)
	if err := o.db.Exec(ctx, o.batch.String()); err != nil {
		o.rec.rollback()
		return fmt.Errorf("running an order transaction (seed %d): %w", o.cfg.Seed, err)
	}
	if !keep {
		o.rec.rollback()
		return nil
	}
	for _, c := range o.rec.pending {
		if c.Table == o.ordersTable() {
			o.track(c)
		}
	}
	o.rec.commit()
	return nil
}

// track keeps the list of present orders.
func (o *Orders) track(c Change) {
	id := c.Values[0].Int64()
	switch c.Operation {
	case 2:
		o.place[id] = len(o.ids)
		o.ids = append(o.ids, id)
	case 1:
		at, last := o.place[id], len(o.ids)-1
		o.ids[at] = o.ids[last]
		o.place[o.ids[at]] = at
		o.ids = o.ids[:last]
		delete(o.place, id)
	}
}

func (o *Orders) anyOrder() int64 { return o.ids[o.rng.IntN(len(o.ids))] }

// now is a time that moves on by a random step.
func (o *Orders) now() time.Time {
	o.ticks += 1 + o.rng.Int64N(9_999_999)
	return o.cfg.Start.Add(time.Duration(o.ticks) * 100)
}

func orderKey(id int64) string { return fmt.Sprint(id) }

func lineKey(id int64, line int64) string { return fmt.Sprintf("%d/%d", id, line) }

func (o *Orders) newOrder() {
	o.nextID += 1 + o.rng.Int64N(3)
	id := o.nextID
	row := sqltype.Row{
		sqltype.BigInt(id), sqltype.Int(int32(o.rng.IntN(5000))), sqltype.VarChar("new"),
		sqltype.Text(sqltype.KindChar, []string{"EUR", "USD", "GBP", "JPY"}[o.rng.IntN(4)]), o.amount(2, 1_000_000), sqltype.FromTime(o.now()),
		sqltype.Null(), o.note(), sqltype.Bit(o.rng.IntN(4) == 0), sqltype.Null(),
	}
	if o.rng.IntN(3) == 0 {
		row[9] = sqltype.Money(o.rng.Int64N(500_000) - 100_000)
	}
	o.insert(o.ordersTable(), orderKey(id), orderColumns(), row)
	for line := range int64(1 + o.rng.IntN(4)) {
		o.insertLine(id, line+1)
	}
}

func (o *Orders) insertLine(id, line int64) {
	comment := sqltype.Null()
	if o.rng.IntN(2) == 0 {
		comment = sqltype.NVarChar(strings.Repeat("ligne n° "+fmt.Sprint(line)+" ", 1+o.rng.IntN(20)))
	}
	row := sqltype.Row{
		sqltype.BigInt(id), sqltype.Int(int32(line)), sqltype.VarChar(fmt.Sprintf("SKU-%05d", o.rng.IntN(100_000))),
		sqltype.Int(int32(1 + o.rng.IntN(20))), o.amount(4, 10_000_000), comment,
	}
	o.insert(o.linesTable(), lineKey(id, line), lineColumns(), row)
}

func (o *Orders) amount(scale uint8, limit int64) sqltype.Value {
	return sqltype.Decimal(sqltype.Number{Lo: uint64(o.rng.Int64N(limit)), Scale: scale})
}

// note is NULL in a quarter of the rows, and sometimes empty or beyond ASCII.
func (o *Orders) note() sqltype.Value {
	switch o.rng.IntN(8) {
	case 0, 1:
		return sqltype.Null()
	case 2:
		return sqltype.NVarChar("")
	case 3:
		return sqltype.NVarChar("Grüße aus Köln, 東京 und 🏭 — it's 100 %")
	}
	return sqltype.NVarChar(strings.Repeat("call before delivery ", 1+o.rng.IntN(8)))
}

// updateOrder changes one to three columns of an order that differ from what is there.
func (o *Orders) updateOrder(id int64) {
	old := o.rec.row(o.ordersTable(), orderKey(id))
	next := slices.Clone(old)
	next[orderStatus] = sqltype.VarChar([]string{"paid", "packed", "shipped", "returned"}[o.rng.IntN(4)])
	next[orderTime] = sqltype.DateTime2(sqltype.FromTime(o.now()).Days(), int64(o.ticks%86_400_000)*10_000, 3)
	if o.rng.IntN(2) == 0 {
		next[orderTotal] = o.amount(2, 1_000_000)
	}
	if o.rng.IntN(3) == 0 {
		next[orderNote] = o.note()
	}
	o.update(o.ordersTable(), orderKey(id), orderColumns(), 1, old, next)
}

func (o *Orders) updateLines(id int64) {
	for _, key := range o.linesOf(id) {
		old := o.rec.row(o.linesTable(), key)
		next := slices.Clone(old)
		next[3] = sqltype.Int(int32(old[3].Int64()) + 1)
		if o.rng.IntN(3) == 0 {
			next[lineComment] = sqltype.NVarChar(strings.Repeat("checked ", 1+o.rng.IntN(5)))
		}
		o.update(o.linesTable(), key, lineColumns(), 2, old, next)
	}
}

// touchNothing sets a column to what it is: no change row comes of it.
func (o *Orders) touchNothing(id int64) {
	fmt.Fprintf(&o.batch, "UPDATE %s SET status = status WHERE order_id = %d;\n", o.ordersTable(), id)
}

// changeKey moves a line to another number, and sometimes the whole order to another id: a delete and an insert each.
func (o *Orders) changeKey(id int64) {
	keys := o.linesOf(id)
	if len(keys) > 0 {
		old := o.rec.row(o.linesTable(), keys[0])
		next := slices.Clone(old)
		next[1] = sqltype.Int(int32(old[1].Int64()+maxLine/2) % maxLine)
		if o.rec.row(o.linesTable(), lineKey(id, next[1].Int64())) == nil {
			o.moveKey(o.linesTable(), lineColumns(), 2, old, next, lineKey(id, old[1].Int64()), lineKey(id, next[1].Int64()))
		}
	}
	if o.rng.IntN(2) == 0 {
		old := o.rec.row(o.ordersTable(), orderKey(id))
		next := slices.Clone(old)
		o.nextID += 10
		next[0] = sqltype.BigInt(o.nextID)
		o.moveKey(o.ordersTable(), orderColumns(), 1, old, next, orderKey(id), orderKey(o.nextID))
	}
}

func (o *Orders) deleteOrder(id int64) {
	for _, key := range o.linesOf(id) {
		o.delete(o.linesTable(), key, lineColumns(), 2)
	}
	o.delete(o.ordersTable(), orderKey(id), orderColumns(), 1)
}

// mixed does several things to several orders in one transaction, the same row twice included.
func (o *Orders) mixed() {
	first := o.anyOrder()
	o.updateOrder(first)
	o.newOrder()
	o.updateOrder(first)
	if other := o.anyOrder(); other != first {
		o.deleteOrder(other)
	}
	o.insertLineIfFree(first)
}

func (o *Orders) insertLineIfFree(id int64) {
	line := int64(50 + o.rng.IntN(40))
	if o.rec.row(o.linesTable(), lineKey(id, line)) == nil {
		o.insertLine(id, line)
	}
}

// linesOf lists the keys of an order's lines as the open transaction sees them, in order.
func (o *Orders) linesOf(id int64) []string {
	var keys []string
	for line := range int64(maxLine) {
		if key := lineKey(id, line); o.rec.row(o.linesTable(), key) != nil {
			keys = append(keys, key)
		}
	}
	return keys
}
