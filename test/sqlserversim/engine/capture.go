package engine

import (
	"context"
	"slices"
	"time"
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
