package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// settle looks again at the keys that were in flight, once the table has passed their changes. It then must have of each key what its last
// change up to the table's position says. A key with a change after that is still in flight.
func (r *run) settle(ctx context.Context) error {
	if len(r.flights) == 0 || r.cfg.Settle <= 0 {
		return nil
	}
	var need mssqlcdc.LSN
	for _, f := range r.flights {
		if lsn := f.change.rank.lsn(); need.Less(lsn) {
			need = lsn
		}
	}
	target, err := r.passing(ctx, need)
	if err != nil || target == nil {
		return err
	}
	head, err := r.cfg.Client.MaxLSN(ctx)
	if err != nil {
		return err
	}
	later, err := r.laterChanges(ctx, target.position, head)
	if err != nil {
		return err
	}
	images, err := r.imagesOf(ctx, target)
	if err != nil {
		return err
	}
	for key, f := range r.flights {
		r.land(f, images[key], later[key])
	}
	r.head = head
	return nil
}

// passing waits until the table has passed an LSN, and pins that version; nil if it does not in time.
func (r *run) passing(ctx context.Context, need mssqlcdc.LSN) (*pinned, error) {
	deadline := r.cfg.Now().Add(r.cfg.Settle)
	told := false
	for {
		target, err := pin(ctx, r.cfg)
		var open *OpenSnapshotError
		switch {
		case err != nil && !errors.As(err, &open):
			return nil, err
		case err != nil || target.newest != r.target.newest:
			r.notes = append(r.notes, "a snapshot of the table began meanwhile: what was in flight was not looked at again")
			return nil, nil
		case !target.position.Less(need):
			return target, nil
		case !r.cfg.Now().Before(deadline):
			r.notes = append(r.notes, fmt.Sprintf("the table (at %s) has not passed the changes that were in flight (up to %s): is the pipeline running?", target.position, need))
			return nil, nil
		}
		if !told {
			told = true
			r.cfg.Say(fmt.Sprintf("%d keys are in flight: waiting for the table to pass %s", len(r.flights), need))
		}
		if err := pause(ctx, r.cfg.Poll); err != nil {
			return nil, err
		}
	}
}

// later is what happened to a key after the changes that are in the pile.
type later struct {
	last   changeRow // the last change up to the table's position; untouched if there is none
	beyond bool      // there is a change after it
}

// laterChanges reads the changes of keys in flight since the piles were filled.
func (r *run) laterChanges(ctx context.Context, position mssqlcdc.LSN, head sqlserver.Head) (map[digest]later, error) {
	found := map[digest]later{}
	err := r.changes.read(ctx, r.head.LSN, head, func(entries []byte) error {
		for ; len(entries) > 0; entries = entries[changeWidth:] {
			c := changeOf([][]byte{entries[:changeWidth]})
			key := digest(entries)
			if _, ours := r.flights[key]; !ours {
				continue
			}
			l := found[key]
			switch {
			case position.Less(c.rank.lsn()):
				l.beyond = true
			case !l.last.touched || l.last.rank.before(c.rank):
				l.last = c
			}
			found[key] = l
		}
		return nil
	})
	return found, err
}

// imagesOf reads the target's rows of the keys in flight.
func (r *run) imagesOf(ctx context.Context, target *pinned) (map[digest]targetRow, error) {
	var mu sync.Mutex
	found := map[digest]targetRow{}
	err := target.rows(ctx, r.plan, func(m *images) error {
		for row := range m.n {
			key := m.key(row)
			if _, ours := r.flights[key]; !ours {
				continue
			}
			place, counts, err := m.rank(row)
			if err != nil {
				return err
			}
			if !counts {
				continue
			}
			value := m.value(row)
			mu.Lock()
			if have, ok := found[key]; !ok || have.rank.before(place) {
				found[key] = targetRow{present: place.present(), rank: place, value: value}
			}
			mu.Unlock()
		}
		return nil
	})
	return found, err
}

// land decides about a key that was in flight.
func (r *run) land(f finding, t targetRow, l later) {
	want := f.change
	if l.last.touched {
		want = l.last
	}
	present := want.rank.present()
	same := present == t.present && (!present || want.known && want.value == t.value)
	if !same && (l.beyond || present && t.present && !want.known) {
		return // still in flight, or nothing to compare with
	}
	at := &r.outside
	if f.bucket != noBucket {
		at = &r.join.buckets[f.bucket].tally
	}
	at.inFlight--
	if r.counts[InFlight]--; r.counts[InFlight] == 0 {
		delete(r.counts, InFlight)
	}
	if same {
		r.settled++
		return
	}
	switch {
	case present && t.present:
		f.kind = RecordDiff
	case present:
		f.kind = MissingTarget
	default:
		f.kind = MissingSource
	}
	f.lsn, f.landed = t.rank.lsn(), true
	at.wrong++
	r.counts[f.kind]++
	if len(r.wrong) < r.cfg.MaxKeys {
		r.wrong = append(r.wrong, f)
	}
}

// checkComplete makes sure, where rows are missing, that they are not those of a snapshot that is still being read.
func (r *run) checkComplete(ctx context.Context) error {
	if r.counts[MissingTarget] == 0 {
		return nil
	}
	if _, known, err := r.target.completeSnapshot(); known || err != nil {
		return err // it was checked
	}
	open, known, err := r.target.openSnapshot(ctx)
	if err != nil || !known || !open {
		return err
	}
	return &OpenSnapshotError{Target: r.cfg.Target.Name, Snapshot: r.target.newest}
}

// openSnapshot asks the history of a table that an older release wrote whether the newest snapshot is complete. Not known is what a clean-up of the log took.
func (t *pinned) openSnapshot(ctx context.Context) (open, known bool, err error) {
	if t.newest.IsZero() {
		return false, true, nil
	}
	mark := "#snap." + t.newest.String()
	for commit, err := range t.cfg.Target.Table.Commits(ctx, 0) {
		if err != nil {
			return false, false, err
		}
		for _, txn := range commit.Txns {
			if !strings.HasSuffix(txn.AppID, mark) {
				continue
			}
			var fact struct {
				Event  mssqlcdc.Event
				Detail string
			}
			var detail struct{ Last bool }
			if json.Unmarshal([]byte(commit.Info.UserMetadata), &fact) == nil && fact.Event == mssqlcdc.EventSnapshotChunk &&
				json.Unmarshal([]byte(fact.Detail), &detail) == nil {
				open, known = !detail.Last, true
			}
		}
	}
	return open, known, nil
}
