package engine

import (
	"context"
	"time"
)

// blocker is a transaction in the way, and when it stops being in the way before its end.
type blocker struct {
	tx   *Tx
	gone <-chan struct{} // nil: at its end only
}

// wait is waitFor a transaction's end.
func (tx *Tx) wait(ctx context.Context, owner *Tx) error { return tx.waitFor(ctx, blocker{tx: owner}) }

// waitFor lets db.mu go until the blocker is out of the way, the lock timeout passes (1222), a deadlock is found (1205, the caller's
// transaction is rolled back) or ctx ends. The caller looks again afterwards.
func (tx *Tx) waitFor(ctx context.Context, b blocker) error {
	owner := b.tx
	if owner.ended {
		return nil
	}
	for w := owner; w != nil; w = w.waitsFor {
		if w == tx {
			err := fail(ErrDeadlock)
			tx.abort(err)
			return err
		}
	}
	var timeout <-chan time.Time
	if tx.opts.FailAtFirstLock {
		return fail(ErrLockTimeout)
	}
	if tx.opts.LockTimeout > 0 {
		timer := time.NewTimer(tx.opts.LockTimeout)
		defer timer.Stop()
		timeout = timer.C
	}
	tx.waitsFor = owner
	tx.db.mu.Unlock()
	var err error
	select {
	case <-owner.done:
	case <-b.gone:
	case <-tx.killed:
	case <-timeout:
		err = fail(ErrLockTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	tx.db.mu.Lock()
	tx.waitsFor = nil
	if err == nil {
		err = tx.usable()
	}
	return err
}

// lockWrite takes the intent to change rows of a table; db.mu is held.
func (tx *Tx) lockWrite(ctx context.Context, t *Table) error {
	return tx.acquire(ctx, t, func() blocker {
		// Behind a schema lock that waits, so that enabling CDC on a busy table gets its turn.
		if next := t.lock.waiting; next != nil && next != tx && !next.ended && !t.lock.writers[tx] {
			return blocker{next, t.lock.gaveUp}
		}
		return blocker{tx: otherOf(t.lock.shared, tx)}
	}, func() {
		if t.lock.writers == nil {
			t.lock.writers = map[*Tx]bool{}
		}
		t.lock.writers[tx] = true
	})
}

// lockShared keeps writers out of a table to the transaction's end; db.mu is held.
func (tx *Tx) lockShared(ctx context.Context, t *Table) error {
	return tx.acquire(ctx, t, func() blocker { return blocker{tx: otherOf(t.lock.writers, tx)} }, func() {
		if t.lock.shared == nil {
			t.lock.shared = map[*Tx]bool{}
		}
		t.lock.shared[tx] = true
	})
}

// lockSchema takes the whole table: DDL, TABLOCKX, and the moment of enabling CDC; db.mu is held.
func (tx *Tx) lockSchema(ctx context.Context, t *Table) error {
	if t.lock.waiting == nil || t.lock.waiting.ended {
		gaveUp := make(chan struct{})
		t.lock.waiting, t.lock.gaveUp = tx, gaveUp
		defer func() {
			if t.lock.gaveUp == gaveUp {
				t.lock.waiting = nil
			}
			close(gaveUp)
		}()
	}
	return tx.acquire(ctx, t, func() blocker {
		if o := otherOf(t.lock.writers, tx); o != nil {
			return blocker{tx: o}
		}
		return blocker{tx: otherOf(t.lock.shared, tx)}
	}, func() { t.lock.schema = tx })
}

// otherOf picks the oldest other transaction, so that the choice repeats.
func otherOf(set map[*Tx]bool, tx *Tx) (first *Tx) {
	for o := range set {
		if o != tx && (first == nil || o.id < first.id) {
			first = o
		}
	}
	return first
}

// acquire waits until nobody is in the way, then grants.
func (tx *Tx) acquire(ctx context.Context, t *Table, conflict func() blocker, grant func()) error {
	for {
		if err := tx.usable(); err != nil {
			return err
		}
		if t.dropped {
			return fail(ErrInvalidObject, t.def.Load().FullName())
		}
		var in blocker
		if s := t.lock.schema; s != nil && s != tx {
			in.tx = s
		} else {
			in = conflict()
		}
		if in.tx == nil {
			grant()
			tx.tables[t] = true
			return nil
		}
		if err := tx.waitFor(ctx, in); err != nil {
			return err
		}
	}
}
