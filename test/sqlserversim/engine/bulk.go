package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// BulkSpec describes a backlog to make at once, as if it had been written and captured.
type BulkSpec struct {
	Instance   string
	Rows       int64
	RowsPerTxn int // 1 when 0
	// Fill gives the captured columns of change row n (all of them; the slice is reused, the values are kept) and its
	// operation: 1, 2, 3 or 4, where 0 means 2. Rows 3 and 4 must come as a pair in one transaction. It must not call the
	// database.
	Fill func(n int64, values []sqltype.Value) (operation int)
	// Start and Interval set the commit times: transaction k commits at Start + k × Interval. A zero Start makes the last one
	// commit now; a zero Interval is 1 ms.
	Start    time.Time
	Interval time.Duration
}

// BulkResult says what a bulk load made.
type BulkResult struct {
	Transactions    int64
	First, Last     LSN // start LSNs
	BytesPerRow     float64
	ChangeTableRows int64
}

const bulkMapping = 4096

// BulkCaptured fills a change table and the mapping without going through the base table, for benchmarks with millions of rows. It
// first captures what is in the log, then holds the database's lock: writers wait, readers of change tables do not. All rows
// become visible at once.
func (db *Database) BulkCaptured(ctx context.Context, spec BulkSpec) (BulkResult, error) {
	if err := db.beginScan(ctx, 0, true); err != nil {
		return BulkResult{}, err
	}
	defer db.endScan()
	var scanned ScanResult
	for {
		n, err := db.scanOnce(ctx, db.CaptureJob().MaxTrans, &scanned)
		if err != nil {
			return BulkResult{}, err
		}
		if n > 0 {
			continue
		}
		db.mu.Lock()
		if len(db.backlog) == 0 {
			break
		}
		db.mu.Unlock()
	}
	defer db.mu.Unlock()
	inst, ok := db.CDC().Instance(spec.Instance)
	if !ok {
		return BulkResult{}, fail(ErrInstanceUnknown, spec.Instance, db.name)
	}
	b := &bulk{db: db, spec: spec, inst: inst, app: inst.changes.appender(), mapping: db.CDC().mapping}
	return b.run(ctx)
}

// bulk is one bulk load at work.
type bulk struct {
	db      *Database
	spec    BulkSpec
	inst    *Instance
	app     *changeAppender
	mapping Mapping
	entries []mappingEntry
	seqs    []changeRow
	values  []sqltype.Value
}

func (b *bulk) run(ctx context.Context) (BulkResult, error) {
	per := int64(max(1, b.spec.RowsPerTxn))
	txs := (b.spec.Rows + per - 1) / per
	interval := b.spec.Interval
	if interval == 0 {
		interval = time.Millisecond
	}
	start := b.spec.Start
	if start.IsZero() {
		start = b.db.server.Now().Add(-time.Duration(txs) * interval)
	}
	res := BulkResult{Transactions: txs}
	b.values = make([]sqltype.Value, len(b.inst.Columns))
	var last lsnKey
	for k := range txs {
		if k%1024 == 0 && ctx.Err() != nil {
			return BulkResult{}, ctx.Err()
		}
		var err error
		last, err = b.transaction(k*per, min(per, b.spec.Rows-k*per), start.Add(time.Duration(k)*interval))
		if err != nil {
			return BulkResult{}, err
		}
		if k == 0 {
			res.First = last.lsn()
		}
	}
	res.Last = last.lsn()
	b.publish(last)
	now, _ := b.db.CDC().Instance(b.inst.Name)
	if res.ChangeTableRows = now.Rows(); res.ChangeTableRows > 0 {
		res.BytesPerRow = float64(now.changes.size()) / float64(res.ChangeTableRows)
	}
	return res, nil
}

// transaction writes one transaction. Rows need its commit LSN, which comes after theirs, so their LSNs are taken first.
func (b *bulk) transaction(first, n int64, at time.Time) (lsnKey, error) {
	log := b.db.log
	begin := log.next(recordBytes)
	b.seqs = b.seqs[:0]
	for range n {
		b.seqs = append(b.seqs, changeRow{seq: log.next(recordBytes + 16*len(b.values)).lsn()})
	}
	commit := log.commit()
	start := commit.lsn()
	command := int32(0)
	for i := range b.seqs {
		r := &b.seqs[i]
		op := b.spec.Fill(first+int64(i), b.values)
		if op == 0 {
			op = int(opInsert)
		}
		if uint8(op) == opAfter && i > 0 {
			r.seq = b.seqs[i-1].seq
		} else {
			command++
		}
		r.command, r.op, r.mask, r.values = command, uint8(op), b.app.layout.fullMask, b.values
		for c, v := range b.values {
			if err := b.app.layout.cells[c].checkCell(v); err != nil {
				return lsnKey{}, fmt.Errorf("filling row %d, column %s: %w", first+int64(i), b.inst.Columns[c].Name, err)
			}
		}
		b.app.add(start, r)
	}
	b.db.nextTx++
	units := wallClock(at, b.db.server.loc)
	b.entries = append(b.entries, mappingEntry{start: commit, begin: begin, beginTime: units, endTime: units, tranID: b.db.nextTx})
	if len(b.entries) == bulkMapping {
		b.mapping = b.mapping.append(b.entries)
		b.entries = b.entries[:0]
	}
	return commit, nil
}

func (b *bulk) publish(last lsnKey) {
	b.mapping = b.mapping.append(b.entries)
	b.db.publish(func(v *View) {
		v.replace(b.inst.Name, func(i *Instance) { i.changes = b.app.finish(i.changes) })
		v.mapping = b.mapping
		if last != (lsnKey{}) {
			v.maxLSN, b.db.scanned = last, last
		}
		b.db.settle(v)
	})
	b.db.captured.lastEntry = b.db.server.clock.Now()
}

// SampleFill gives a Fill that makes plausible values of every type without allocating: integers count up, texts of up to the column's
// length come from a pool, every tenth value of a nullable column that is not the first is NULL.
func SampleFill(columns []CapturedColumn) func(n int64, values []sqltype.Value) int {
	pool := make([]string, 64)
	for i := range pool {
		pool[i] = strings.Repeat(string(rune('a'+i%26)), 8+i%24)
	}
	return func(n int64, values []sqltype.Value) int {
		for c := range columns {
			values[c] = sampleValue(&columns[c], n+int64(c), pool)
			if c > 0 && (n+int64(c))%10 == 9 {
				values[c] = sqltype.Value{}
			}
		}
		return int(opInsert)
	}
}

func sampleValue(c *CapturedColumn, n int64, pool []string) sqltype.Value {
	t := c.Type
	day := int32(738_000 + n/86_400%3000)
	switch k := t.Kind; {
	case c.IsComputed:
		return sqltype.Value{}
	case k == sqltype.KindBit:
		return sqltype.Bit(n&1 == 1)
	case k == sqltype.KindTinyInt:
		return sqltype.TinyInt(uint8(n))
	case k == sqltype.KindSmallInt:
		return sqltype.SmallInt(int16(n))
	case k == sqltype.KindInt:
		return sqltype.Int(int32(n))
	case k == sqltype.KindBigInt:
		return sqltype.BigInt(n)
	case k == sqltype.KindReal:
		return sqltype.Real(float32(n) / 8)
	case k == sqltype.KindFloat:
		return sqltype.Float(float64(n) / 8)
	case k == sqltype.KindDecimal:
		return sqltype.Decimal(sqltype.Number{Lo: uint64(n % 1_000_000), Scale: t.Scale})
	case k == sqltype.KindMoney:
		return sqltype.Money(n % 1_000_000_000)
	case k == sqltype.KindSmallMoney:
		return sqltype.SmallMoney(int32(n % 1_000_000))
	case k == sqltype.KindDate:
		return sqltype.Date(day)
	case k == sqltype.KindTime:
		return sqltype.Time(n%86_400*sqltype.TicksPerSecond, t.Scale)
	case k == sqltype.KindDateTime2:
		return sqltype.DateTime2(day, n%86_400*sqltype.TicksPerSecond, t.Scale)
	case k == sqltype.KindDateTimeOffset:
		return sqltype.DateTimeOffset(day, n%86_400*sqltype.TicksPerSecond, 120, t.Scale)
	case k == sqltype.KindDateTime:
		return sqltype.DateTime(day-sqltype.DaysTo1900, int32(n%86_400*300))
	case k == sqltype.KindSmallDateTime:
		return sqltype.SmallDateTime(uint16(day-sqltype.DaysTo1900), uint16(n%1440))
	case k == sqltype.KindUniqueIdentifier:
		return sqltype.UniqueIdentifier([16]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), 5: 1, 15: byte(n)})
	case k.IsText():
		return sqltype.Text(k, fit(pool[n&63], t, k == sqltype.KindChar || k == sqltype.KindNChar))
	}
	return sqltype.Bytes(t.Kind, fit(pool[n&63], t, t.Kind == sqltype.KindBinary))
}

// fit cuts a sample to the column's length, and pads it where the type pads.
func fit(s string, t sqltype.Type, pad bool) string {
	if t.Length > 0 && len(s) > t.Length {
		return s[:t.Length]
	}
	if pad && len(s) < t.Length {
		return s + strings.Repeat(" ", t.Length-len(s))
	}
	return s
}
