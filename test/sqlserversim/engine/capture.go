package engine

import (
	"context"
	"slices"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// captureState is what the capture process remembers; guarded by db.mu.
type captureState struct {
	lastEntry time.Time // when the mapping got its newest entry
	sessions  []ScanSession
	errors    []CaptureError
	inject    []error // the next scans fail with these
	sessionNo int32
}

// Scan is one cycle of the capture process: up to MaxScans scans of up to MaxTrans transactions each, until the log is
// exhausted; then, when the mapping has had no entry for the idle interval, an idle entry. Everything that a scan captured
// becomes visible at once: all change tables, the mapping, the DDL history. One at a time: 22903 while another scans. 22901
// when CDC is off.
func (db *Database) Scan(ctx context.Context, limits ScanLimits) (ScanResult, error) {
	var res ScanResult
	if err := db.beginScan(ctx, limits.SessionID, limits.Wait); err != nil {
		return res, err
	}
	defer db.endScan()
	job := db.CaptureJob()
	maxTrans, maxScans := limits.MaxTrans, limits.MaxScans
	if maxTrans <= 0 {
		maxTrans = job.MaxTrans
	}
	if maxScans <= 0 {
		maxScans = job.MaxScans
	}
	for range maxScans {
		n, err := db.scanOnce(ctx, maxTrans, &res)
		if err != nil {
			return res, err
		}
		if n == 0 {
			res.Exhausted = true
			res.Idle = db.writeIdle(false)
			break
		}
	}
	if lsn, ok := db.CDC().MaxLSN(); ok {
		res.MaxLSN = lsn
	}
	if !res.Exhausted {
		res.Exhausted = db.Backlog() == 0
	}
	return res, nil
}

// Idle captures what is in the log and adds an idle entry to the mapping, whatever time it is. It gives the entry's LSN.
func (db *Database) Idle(ctx context.Context) (LSN, error) {
	if err := db.beginScan(ctx, 0, true); err != nil {
		return LSN{}, err
	}
	defer db.endScan()
	var res ScanResult
	for {
		n, err := db.scanOnce(ctx, db.CaptureJob().MaxTrans, &res)
		if err != nil {
			return LSN{}, err
		}
		if n == 0 && db.writeIdle(true) {
			lsn, _ := db.CDC().MaxLSN()
			return lsn, nil
		}
	}
}

// beginScan takes the one log-scan session of the database.
func (db *Database) beginScan(ctx context.Context, session int, wait bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	for db.scanBusy {
		if !wait {
			return fail(ErrScanBusy, int64(db.scanning))
		}
		idle := db.scanIdle
		db.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
		}
		db.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if !db.CDC().enabled {
		return fail(ErrNotEnabled, db.name)
	}
	db.scanBusy, db.scanning, db.scanIdle = true, session, make(chan struct{})
	return nil
}

func (db *Database) endScan() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.scanBusy = false
	close(db.scanIdle)
}

// scanOnce captures up to maxTrans transactions and returns how many log entries it consumed, markers included.
func (db *Database) scanOnce(ctx context.Context, maxTrans int, res *ScanResult) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	db.mu.Lock()
	started := db.server.Now()
	batch := db.nextBatch(maxTrans)
	if err := db.injected(); err != nil {
		db.noteError(err, batch)
		db.mu.Unlock()
		return 0, err
	}
	if len(batch) == 0 {
		db.noteEmptyScan(started)
		db.mu.Unlock()
		return 0, nil
	}
	c := newCapture(db, db.CDC())
	db.mu.Unlock()

	for _, tx := range batch {
		if err := c.transaction(tx); err != nil {
			db.mu.Lock()
			db.noteError(err, batch)
			db.mu.Unlock()
			return 0, err
		}
	}
	hooks := db.hooks.Load()
	if hooks.ScanPrepared != nil {
		hooks.ScanPrepared(c.transactions)
	}
	db.mu.Lock()
	c.publish(batch)
	db.noteScan(started, c, batch)
	db.mu.Unlock()
	if hooks.ScanPublished != nil {
		hooks.ScanPublished(c.transactions)
	}
	if c.transactions > 0 {
		res.Scans++
	}
	res.Transactions += c.transactions
	res.Commands += c.commands
	res.Rows += c.rows
	return len(batch), nil
}

// nextBatch gives the log entries of the next scan: up to maxTrans transactions, and the markers among them.
func (db *Database) nextBatch(maxTrans int) []*logTx {
	n := 0
	for i, tx := range db.backlog {
		if !tx.marker {
			if n == maxTrans {
				return slices.Clone(db.backlog[:i])
			}
			n++
		}
	}
	return slices.Clone(db.backlog)
}

// Backlog is the number of committed transactions that capture has not read.
func (db *Database) Backlog() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	n := 0
	for _, tx := range db.backlog {
		if !tx.marker {
			n++
		}
	}
	return n
}

func (db *Database) backlogRecords() int {
	n := 0
	for _, tx := range db.backlog {
		n += len(tx.records)
	}
	return n
}

// capture is one scan at work. It is not visible to anyone until publish.
type capture struct {
	db           *Database
	targets      map[int32][]*captureTarget // by source object, instances by creation
	mapping      []mappingEntry
	ddl          []DDLEntry
	transactions int
	commands     int
	rows         int64
	command      int32 // last __$command_id of the present transaction
}

// captureTarget is an instance that a scan writes to.
type captureTarget struct {
	inst    *Instance
	columns []CapturedColumn // changed by ALTER COLUMN
	altered bool
	app     *changeAppender // nil until the first row
	def     *TableDef       // that ordinals is for
	ords    []int           // of the captured columns in def, -1 when gone or computed
	before  []sqltype.Value
	after   []sqltype.Value
	mask    []byte
}

func newCapture(db *Database, view *View) *capture {
	c := &capture{db: db, targets: map[int32][]*captureTarget{}}
	for _, i := range view.instances {
		c.targets[i.SourceObjectID] = append(c.targets[i.SourceObjectID], &captureTarget{
			inst: i, columns: i.Columns,
		})
	}
	return c
}

// transaction captures one transaction. Its commands are numbered through all its instances in the order of the log: with two
// instances of a table the first one's commands are 1, 3, 5 and the second one's 2, 4, 6 [M22].
func (c *capture) transaction(tx *logTx) error {
	if tx.marker {
		return nil
	}
	c.transactions++
	c.command = 0
	tracked := false
	for i := range tx.records {
		r := &tx.records[i]
		for _, t := range c.targets[r.def.ObjectID] {
			if !t.inst.enableLSN.less(r.lsn) {
				continue
			}
			if r.ddl != nil {
				if err := c.ddlRecord(t, r); err != nil {
					return err
				}
				continue
			}
			tracked = true
			if err := c.record(t, tx, r); err != nil {
				return err
			}
		}
	}
	if tracked {
		loc := c.db.server.loc
		c.mapping = append(c.mapping, mappingEntry{
			start: tx.commit, begin: tx.begin, tranID: tx.id,
			beginTime: wallClock(tx.beginTime, loc), endTime: wallClock(tx.endTime, loc),
		})
	}
	return nil
}

// open starts to write.
func (t *captureTarget) open() {
	if t.app != nil {
		return
	}
	n := len(t.columns)
	t.app = t.inst.changes.appender()
	t.before, t.after, t.mask = make([]sqltype.Value, n), make([]sqltype.Value, n), make([]byte, (n+7)/8)
}

// record captures a row's change for one instance.
func (c *capture) record(t *captureTarget, tx *logTx, r *logRecord) error {
	t.open()
	t.bind(r.def)
	start := tx.commit.lsn()
	row := changeRow{seq: r.seq.lsn(), mask: t.app.layout.fullMask}
	switch {
	case r.before == nil:
		row.op, row.values = opInsert, t.after
		t.image(t.after, r.after)
	case r.after == nil:
		row.op, row.values = opDelete, t.before
		t.image(t.before, r.before)
		t.hideOldLOBs(t.before)
	default:
		return c.update(t, start, row, r)
	}
	return c.write(t, start, &row, true)
}

// update writes the rows 3 and 4, unless no captured column changed [M22].
func (c *capture) update(t *captureTarget, start LSN, row changeRow, r *logRecord) error {
	clear(t.mask)
	changed := false
	for i, o := range t.ords {
		if o >= 0 && r.before[o] != r.after[o] {
			setMaskBit(t.mask, i)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	t.image(t.before, r.before)
	t.image(t.after, r.after)
	t.hideOldLOBs(t.before)
	for i := range t.columns {
		if t.columns[i].large && !maskBit(t.mask, i) {
			t.before[i] = sqltype.Value{}
		}
	}
	row.mask = t.mask
	row.op, row.values = opBefore, t.before
	if err := c.write(t, start, &row, true); err != nil {
		return err
	}
	row.op, row.values = opAfter, t.after
	return c.write(t, start, &row, false)
}

// write appends a change row; the first one of a command takes the next command id.
func (c *capture) write(t *captureTarget, start LSN, row *changeRow, first bool) error {
	if first {
		c.command++
		c.commands++
	}
	row.command = c.command
	cells := t.app.layout.cells
	for i, v := range row.values {
		if err := cells[i].checkCell(v); err != nil {
			stored, convErr := convertColumn(v, t.columns[i].Type, t.inst.ChangeTableName(), t.columns[i].Name)
			if convErr != nil {
				return convErr
			}
			row.values[i] = stored
		}
	}
	t.app.add(start, row)
	c.rows++
	return nil
}

// bind looks up where the captured columns are in rows of a definition. A column that was dropped from the table is NULL from then
// on; one that was dropped and made again has another id and is not captured [M22].
func (t *captureTarget) bind(def *TableDef) {
	if t.def == def {
		return
	}
	t.def, t.ords = def, t.ords[:0]
	for _, c := range t.columns {
		o := def.OrdinalOf(c.ColumnID)
		if c.IsComputed {
			o = -1
		}
		t.ords = append(t.ords, o)
	}
}

// image takes the captured columns out of a row.
func (t *captureTarget) image(out []sqltype.Value, row sqltype.Row) {
	for i, o := range t.ords {
		if o < 0 {
			out[i] = sqltype.Value{}
			continue
		}
		out[i] = row[o]
	}
}

// hideOldLOBs makes text, ntext and image NULL, as in operations 1 and 3 [D].
func (t *captureTarget) hideOldLOBs(values []sqltype.Value) {
	for i := range t.columns {
		if t.columns[i].oldLOB {
			values[i] = sqltype.Value{}
		}
	}
}

// ddlRecord captures a DDL statement: the history's row, and for a captured column whose type changed the change table itself.
func (c *capture) ddlRecord(t *captureTarget, r *logRecord) error {
	entry := DDLEntry{
		SourceObjectID: t.inst.SourceObjectID, ObjectID: t.inst.ObjectID, Command: r.ddl.command, LSN: r.lsn.lsn(), Time: r.ddl.time,
	}
	col := t.column(r.ddl.columnID)
	if r.ddl.columnID != 0 && col >= 0 {
		entry.RequiredColumnUpdate = true
		if err := t.alter(col, r.ddl.newType); err != nil {
			return err
		}
	}
	c.ddl = append(c.ddl, entry)
	return nil
}

func (t *captureTarget) column(id int32) int {
	return slices.IndexFunc(t.columns, func(x CapturedColumn) bool { return x.ColumnID == id })
}

// alter changes the type of a captured column and converts the change table's rows [M22, M25].
func (t *captureTarget) alter(col int, typ sqltype.Type) error {
	t.open()
	columns := slices.Clone(t.columns)
	columns[col].setType(typ)
	table, name := t.inst.ChangeTableName(), columns[col].Name
	err := t.app.convert(newLayout(columns), col, func(v sqltype.Value) (sqltype.Value, error) {
		return convertColumn(v, columns[col].Type, table, name)
	})
	if err != nil {
		return err
	}
	t.columns, t.altered, t.def = columns, true, nil
	return nil
}

// publish makes the scan's work visible and takes the batch out of the log; db.mu is held.
func (c *capture) publish(batch []*logTx) {
	db := c.db
	db.publish(func(v *View) {
		for _, targets := range c.targets {
			for _, t := range targets {
				if t.app == nil {
					continue
				}
				v.replace(t.inst.Name, func(i *Instance) {
					if i.ObjectID != t.inst.ObjectID {
						return
					}
					i.changes = t.app.finish(i.changes)
					if t.altered {
						i.Columns = t.columns
					}
				})
			}
		}
		c.publishMetadata(v)
		db.scanned = batch[len(batch)-1].commit
		db.settle(v)
	})
	if len(c.mapping) > 0 {
		db.captured.lastEntry = db.server.clock.Now()
	}
	clear(db.backlog[:len(batch)])
	db.backlog = db.backlog[len(batch):]
}

// publishMetadata adds the mapping entries and the DDL history, but nothing for instances that were disabled meanwhile.
func (c *capture) publishMetadata(v *View) {
	if len(v.instances) > 0 {
		v.mapping = v.mapping.append(c.mapping)
		if n := len(c.mapping); n > 0 {
			v.maxLSN = c.mapping[n-1].start
		}
	}
	if len(c.ddl) == 0 {
		return
	}
	ddl := slices.Clone(v.ddl)
	for _, d := range c.ddl {
		if slices.ContainsFunc(v.instances, func(i *Instance) bool { return i.ObjectID == d.ObjectID }) {
			ddl = append(ddl, d)
		}
	}
	v.ddl = ddl
}

// settle ends the pending state of instances that capture has caught up with.
func (db *Database) settle(v *View) {
	reached := db.scanned
	if db.server.opts.MinLSN == MinLSNAfterMapping {
		reached = v.maxLSN
	}
	for _, i := range slices.Clone(v.instances) {
		if i.Pending && !reached.less(i.enableLSN) {
			v.replace(i.Name, func(i *Instance) { i.Pending = false })
		}
	}
}

// writeIdle adds an idle entry when one is due, or always with force; not while something is left in the log, since it would
// hide what is captured later below it. The dummy transaction logs a begin, a savepoint and a commit [repltalk sample].
func (db *Database) writeIdle(force bool) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.backlog) > 0 {
		return false
	}
	now := db.server.Now()
	every := db.server.opts.IdleInterval
	if every == 0 {
		every = 305 * time.Second
	}
	if !force && (every < 0 || now.Sub(db.captured.lastEntry) < every) {
		return false
	}
	begin := db.log.next(recordBytes)
	db.log.next(recordBytes)
	commit := db.log.commit()
	at := wallClock(now, db.server.loc)
	db.publish(func(v *View) {
		v.mapping = v.mapping.append([]mappingEntry{{start: commit, begin: begin, beginTime: at, endTime: at}})
		v.maxLSN = commit
		db.scanned = commit
		db.settle(v)
	})
	db.captured.lastEntry = now
	return true
}
