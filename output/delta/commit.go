package delta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

const (
	// minRaceWait and maxRaceWait bound the pause after a lost race. Of racing
	// requests one always wins, so pausing is not needed for progress; a random
	// part of the time that a request takes keeps losers from colliding again.
	minRaceWait = 200 * time.Microsecond
	maxRaceWait = 100 * time.Millisecond

	// faultWait bounds the pause after a failed request; it is reached by
	// doubling, and the pause is a random part of it.
	faultWait = 2 * time.Second

	// settleTime is how long an attempt whose context has ended may take to find
	// out whether it had been successful.
	settleTime = 10 * time.Second
)

// Commit makes the change the table's next version. It returns when the commit
// is in the log for certain, or certainly not:
//
//   - Result with Committed or AlreadyApplied;
//   - *ConflictError: another commit came first and the two do not go together
//     (not if the change can Rebase);
//   - *FencedError: another writer uses the change's application id;
//   - *FeatureError, *ChangeError: the table, or anything, does not allow it;
//   - ErrCommitTimeout, the error of a context that ended before the request was
//     sent, or the store's error if that says that nothing was written.
//
// The exception is an *UnknownOutcomeError. It takes a store that fails from the
// request on until the time is over, and says how to settle the matter.
//
// The files in Change.Add must be complete in the store before. The cost of a
// commit does not depend on the size of the table.
func (t *Table) Commit(ctx context.Context, c Change) (Result, error) {
	start := time.Now()
	if err := c.check(); err != nil {
		return Result{}, err
	}
	select {
	case t.commits <- struct{}{}:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	defer func() { <-t.commits }()

	if c.ID == "" {
		c.ID = t.o.NewID()
	}
	a := &attempt{t: t, change: &c, deadline: start.Add(t.o.CommitTimeout)}
	version, err := a.run(ctx)
	result := Result{State: Committed, Races: a.races, Attempts: a.attempts, Took: time.Since(start)}
	switch {
	case errors.Is(err, errAlreadyApplied):
		result.Version, result.State = t.Snapshot().Version(), AlreadyApplied
		return result, nil
	case err != nil:
		return Result{}, fmt.Errorf("committing to table %s: %w", t.st.URL(), err)
	}
	result.Version = version
	t.committed.Store(true)
	t.afterCommit()
	return result, nil
}

// attempt is one call of Commit.
type attempt struct {
	t        *Table
	change   *Change
	deadline time.Time

	races, attempts int
	// request is how long the last request took.
	request time.Duration
	// open says that a request was sent for the version being tried, and that
	// nobody knows yet what became of it.
	open bool
}

// run does the attempt and returns the version it became.
func (a *attempt) run(ctx context.Context) (int64, error) {
	t := a.t
	if !t.trusted() {
		if _, err := t.refresh(ctx); err != nil {
			return 0, err
		}
	}
	if version, landed, err := a.landedBefore(ctx); err != nil || landed {
		return version, err
	}
	base := t.Snapshot()
	err := a.admit(ctx, base)
	for {
		for err == nil {
			var done bool
			version := base.Version() + 1
			if base, done, err = a.try(ctx, base); done {
				return version, nil
			}
		}
		var conflict *ConflictError
		if a.change.Rebase == nil || !errors.As(err, &conflict) {
			return 0, a.own(ctx, err)
		}
		base = t.Snapshot()
		if err = a.rebase(ctx, base); err != nil {
			return 0, err
		}
		err = a.admit(ctx, base)
	}
}

// landedBefore looks for a commit of this very attempt, if it is the repetition
// of one whose outcome was unknown.
func (a *attempt) landedBefore(ctx context.Context) (int64, bool, error) {
	u, ok := a.t.unresolved[a.change.ID]
	if !ok {
		return 0, false, nil
	}
	landed, err := a.t.settle(ctx, a.change.ID, u)
	if err != nil {
		return 0, false, &UnknownOutcomeError{ID: a.change.ID, Version: u.version, Err: err}
	}
	return u.version, landed, nil
}

// settle finds out whether an attempt has landed. It can have become one version
// only: those it was tried for before were taken by others. If nobody has taken
// that version, it may land still, and stays unresolved; then the version is the
// next one to be tried, and only one request for it can win.
func (t *Table) settle(ctx context.Context, id string, u unresolved) (landed bool, err error) {
	s, err := t.refresh(ctx)
	if err != nil {
		return false, err
	}
	if u.version > s.Version() {
		return false, nil
	}
	c, err := replay.ReadCommit(ctx, t.st, u.version)
	if err != nil {
		return false, err
	}
	delete(t.unresolved, id)
	if txnID(c) != id {
		return false, nil
	}
	for _, txn := range c.Txns {
		if txn.AppID == u.appID {
			t.fences[u.appID] = txn.Version
		}
	}
	return true, nil
}

// admit compares the change with what the table already has.
func (a *attempt) admit(ctx context.Context, base *Snapshot) error {
	c := a.change
	if c.Fenced != nil {
		have, ok := base.AppVersion(c.Fenced.AppID)
		last, before := a.t.fences[c.Fenced.AppID]
		// Having committed before, the table must be where we left it: a caller who
		// takes the number from a refreshed snapshot would overlook another writer.
		if ok && have >= c.Fenced.Version || before && have != last {
			return &FencedError{AppID: c.Fenced.AppID, Version: -1, Have: have, Want: c.Fenced.Version}
		}
	}
	if c.Keyed != nil {
		if have, ok := base.AppVersion(c.Keyed.AppID); ok && have >= c.Keyed.Version {
			return errAlreadyApplied
		}
	}
	if c.ReadVersion > base.Version() {
		return &ChangeError{Reason: fmt.Sprintf("read version %d is above the table's version %d", c.ReadVersion, base.Version())}
	}
	if c.BlindAppend && c.Metadata == nil && (c.ReadVersion == 0 || c.ReadVersion >= base.state.MetadataVersion) {
		return nil // nothing between can matter
	}
	return a.compareSince(ctx, c.ReadVersion, base)
}

// compareSince checks the change against the commits after a version up to the
// base, which were known before the attempt began.
func (a *attempt) compareSince(ctx context.Context, version int64, base *Snapshot) error {
	if version == base.Version() {
		return nil
	}
	before, err := a.t.At(ctx, version)
	if err != nil {
		return fmt.Errorf("looking for conflicts since version %d: %w", version, err)
	}
	for e, err := range replay.Commits(ctx, a.t.st, version+1, base.Version()) {
		if err != nil {
			return fmt.Errorf("looking for conflicts since version %d: %w", version, err)
		}
		after, err := before.next(e.Commit.Summary())
		if err != nil {
			return err
		}
		// Its transactions are in the base, and were compared with that.
		if err := a.change.againstTable(e.Commit, before, after); err != nil {
			return err
		}
		before = after
	}
	return nil
}

// rebase computes the change anew.
func (a *attempt) rebase(ctx context.Context, base *Snapshot) error {
	if err := a.pauseRace(ctx); err != nil {
		return err
	}
	next, err := a.change.Rebase(ctx, base)
	if err != nil {
		return fmt.Errorf("computing the change again from version %d: %w", base.Version(), err)
	}
	next.ID, next.ReadVersion = a.change.ID, base.Version()
	if next.Rebase == nil {
		next.Rebase = a.change.Rebase
	}
	if err := next.check(); err != nil {
		return err
	}
	a.change = &next
	return nil
}

// try makes one attempt to become the version after base, and reports whether it
// did. If not, it returns the snapshot of the commit that came first, provided
// that our change can come after it.
func (a *attempt) try(ctx context.Context, base *Snapshot) (next *Snapshot, done bool, err error) {
	commit, err := a.change.build(base, a.t.o, a.t.o.Now().UnixMilli())
	if err != nil {
		return nil, false, err
	}
	data, err := commit.Encode()
	if err != nil {
		return nil, false, err
	}
	at := a.t.o.Now()
	winner, err := a.create(ctx, base.Version()+1, data)
	if err != nil {
		return nil, false, err
	}
	if winner == nil {
		delete(a.t.unresolved, a.change.ID)
		if f := a.change.Fenced; f != nil {
			a.t.fences[f.AppID] = f.Version
		}
		// The commit stands, whatever may be wrong with our picture of it; then
		// the next refresh reads it.
		if next, err := base.next(commit.Summary()); err == nil {
			a.t.publish(next)
			a.t.verify(at)
		}
		return nil, true, nil
	}
	a.races++
	if next, err = a.follow(base, *winner); err != nil {
		return nil, false, err
	}
	if a.races > 1 { // we may be far behind: reading is cheaper than losing
		if next, err = a.catchUp(ctx, next); err != nil {
			return nil, false, err
		}
	}
	return next, false, a.pauseRace(ctx)
}

// catchUp follows the log to its end, or as far as it can be read: the next
// request finds out what is there.
func (a *attempt) catchUp(ctx context.Context, base *Snapshot) (*Snapshot, error) {
	for {
		c, err := replay.ReadCommit(ctx, a.t.st, base.Version()+1)
		if err != nil {
			return base, nil
		}
		a.races++
		if base, err = a.follow(base, c); err != nil {
			return nil, err
		}
	}
}

// follow moves on to the version that another commit became, and checks our
// change against that.
func (a *attempt) follow(base *Snapshot, winner action.Commit) (*Snapshot, error) {
	next, err := base.next(winner.Summary())
	if err != nil {
		return nil, err
	}
	a.t.publish(next)
	if err := a.change.against(winner, base, next); err != nil {
		return nil, err
	}
	return next, nil
}

// create puts the commit into the log. It returns nil if that is ours now, and
// the commit that is there instead. A failed request is settled by reading the
// version back: the answer may be lost and the commit there, by the request or
// by a retry inside the store's client, which then says that it exists.
func (a *attempt) create(ctx context.Context, version int64, data []byte) (*action.Commit, error) {
	for fault := 0; ; fault++ {
		if err := ctx.Err(); err != nil {
			return nil, a.unsettled(version, err)
		}
		a.attempts++
		sent := time.Now()
		err := a.t.st.PutIfAbsent(ctx, replay.CommitPath(version), data)
		a.request = time.Since(sent)
		if err == nil {
			return nil, nil
		}
		if errors.Is(err, store.ErrNotDone) {
			return nil, a.unsettled(version, err)
		}
		a.open = true
		winner, readErr := a.readBack(ctx, version)
		if readErr == nil {
			a.open = false
			if txnID(*winner) == a.change.ID {
				return nil, nil
			}
			return winner, nil
		}
		// Nothing is there, or we cannot see it. A request on its way may land
		// still, so the same bytes are sent again, for the same version: whichever
		// lands is ours, and only one can.
		if !errors.Is(readErr, store.ErrNotFound) {
			err = errors.Join(err, readErr)
		}
		if waitErr := a.pauseFault(ctx, fault); waitErr != nil {
			return nil, a.unsettled(version, errors.Join(err, waitErr))
		}
	}
}

// readBack reads what is at a version. It has time of its own where the context
// has ended.
func (a *attempt) readBack(ctx context.Context, version int64) (*action.Commit, error) {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
	}
	c, err := replay.ReadCommit(ctx, a.t.st, version)
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// unsettled is the error of an attempt that ends at a version: err if no request
// for it was sent, an UnknownOutcomeError otherwise. A request for an earlier
// version cannot land any more: that version is taken.
func (a *attempt) unsettled(version int64, err error) error {
	if !a.open {
		return err
	}
	u := unresolved{version: version}
	if a.change.Fenced != nil {
		u.appID = a.change.Fenced.AppID
	}
	a.t.unresolved[a.change.ID] = u
	return &UnknownOutcomeError{ID: a.change.ID, Version: version, Err: err}
}

// own looks into a FencedError: the other writer may have been ourselves, with
// an attempt that landed late. While that cannot be found out the error is the
// store's: committing again asks anew.
func (a *attempt) own(ctx context.Context, err error) error {
	var fenced *FencedError
	if !errors.As(err, &fenced) {
		return err
	}
	for id, u := range a.t.unresolved {
		if u.appID != fenced.AppID || fenced.Version >= 0 && fenced.Version != u.version {
			continue
		}
		landed, settleErr := a.t.settle(ctx, id, u)
		if settleErr != nil {
			return fmt.Errorf("finding out whether an earlier attempt has taken application id %q: %w", fenced.AppID, settleErr)
		}
		if landed {
			fenced.Own, fenced.Version, fenced.TxnID = true, u.version, id
			return fenced
		}
	}
	return err
}

// pauseRace pauses after a lost race.
func (a *attempt) pauseRace(ctx context.Context) error {
	return a.pause(ctx, min(max(a.request, minRaceWait), maxRaceWait))
}

// pauseFault pauses after the nth failed request, counted from 0.
func (a *attempt) pauseFault(ctx context.Context, n int) error {
	return a.pause(ctx, min(faultWait, time.Millisecond<<min(n, 20)))
}

// pause waits a random part of a time. The error is that of the context, or
// ErrCommitTimeout when the attempt has had its time.
func (a *attempt) pause(ctx context.Context, longest time.Duration) error {
	wait := rand.N(longest) + 1
	if time.Until(a.deadline) < wait {
		return fmt.Errorf("%w after %v, %d requests and %d lost races", ErrCommitTimeout, a.t.o.CommitTimeout, a.attempts, a.races)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
