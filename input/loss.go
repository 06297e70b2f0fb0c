package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// errLossStands is that a loss was found which the policy does not go on from.
var errLossStands = errors.New("the loss cannot be gone on from")

// tableFailed decides about one table's error: nil goes on, with the table later
// or without it.
func (s *scheduler) tableFailed(ctx context.Context, t *table, err error) error {
	class := sqlserver.Classify(err)
	if errors.Is(err, context.Canceled) || class == sqlserver.Canceled {
		return err
	}
	s.metrics.errors.Incr(1, className(class))
	var loss *sqlserver.DataLossError
	if errors.As(err, &loss) {
		recovery := s.goOnAfter(ctx, t, loss)
		if recovery == nil {
			return nil
		}
		if !errors.Is(recovery, errLossStands) {
			err, class = errors.Join(err, recovery), sqlserver.Classify(recovery)
		} else if s.config.onDataLoss != lossFail {
			err = fmt.Errorf("%w; %w", err, recovery)
		} else if !loss.Restored {
			err = lossHint(err)
		}
	}
	if class == sqlserver.Transient {
		t.failed.Add(1)
		pause := t.backoff.step()
		t.retryAt = time.Now().Add(pause)
		s.log.Warnf("Trying again in %s: %v", pause, err)
		return nil
	}
	if s.config.onTableError != onErrorIsolate {
		return err
	}
	s.report(fmt.Errorf("table %s was left out: %w", t.id, err))
	return s.leaveOut(t, err)
}

// lossHint names the ways on from a loss that stands because of the policy.
func lossHint(err error) error {
	return fmt.Errorf("%w; %s: skip goes on with what is left, %s reads the table again", err, fieldOnDataLoss, lossResnapshot)
}

// goOnAfter goes on after changes were lost, as on_data_loss says. What was lost is
// an event of a window without rows, which the verdict is marked by.
func (s *scheduler) goOnAfter(ctx context.Context, t *table, loss *sqlserver.DataLossError) error {
	switch fails := s.config.onDataLoss == lossFail; {
	case loss.Restored, fails && (t.pinned || t.reading):
		return errLossStands // positions of another history mean nothing
	case t.reading:
		t.later()
		return nil
	}
	all, err := s.source.Instances(ctx)
	if err != nil {
		return fmt.Errorf("looking for a capture instance to go on with: %w", err)
	}
	switch switched, err := s.switchInstead(ctx, t, all); {
	case err != nil:
		return err
	case switched:
		return nil
	case s.config.onDataLoss == lossFail:
		return errLossStands
	case t.snapshot != nil && t.snapshot.reading > 0:
		t.later()
		return nil
	}
	if err := s.takeNewest(ctx, t, all); err != nil {
		return err
	}
	if s.config.onDataLoss == lossResnapshot {
		return s.resnapshot(ctx, t, loss)
	}
	return s.skip(ctx, t, loss)
}

// later lets what is being read end first; the loss is found again.
func (t *table) later() { t.retryAt = time.Now().Add(retryFirst) }

// switchInstead goes on in another capture instance that has everything after the
// position: the old one may have been dropped as soon as nobody needed it.
func (s *scheduler) switchInstead(ctx context.Context, t *table, all []mssqlcdc.CaptureInstance) (bool, error) {
	if t.pinned {
		return false, nil
	}
	if t.next = covering(t.newer(all), t.sent); t.next == nil {
		return false, nil
	}
	if err := s.switchInstance(ctx, t); err != nil {
		return false, err
	}
	t.moved = t.sent.Less(s.upto())
	return true, nil
}

// takeNewest goes on in the table's newest capture instance, whatever it lacks.
func (s *scheduler) takeNewest(ctx context.Context, t *table, all []mssqlcdc.CaptureInstance) error {
	own := t.instances(all)
	if t.pinned {
		own = slices.DeleteFunc(own, func(i mssqlcdc.CaptureInstance) bool { return i.Name != t.layout.Instance.Name })
	}
	if len(own) == 0 {
		return fmt.Errorf("looking for a capture instance to go on with: table %s has none: %w", t.id, errLossStands)
	}
	layout, newest := t.layout, own[len(own)-1]
	if newest.Name != layout.Instance.Name || !newest.CreateDate.Equal(layout.Instance.CreateDate) {
		var err error
		if layout, err = s.setup.layout(ctx, newest, s.config.overrideFor(t.id)); err != nil {
			return err
		}
		event, err := switched(t.layout, layout)
		if err != nil {
			return err
		}
		t.events = append(t.events, event)
	}
	t.left, t.layout, t.next = nil, layout, nil
	return nil
}

// skip goes on at the oldest change that is left.
func (s *scheduler) skip(ctx context.Context, t *table, loss *sqlserver.DataLossError) error {
	low, err := s.source.MinLSN(ctx, t.layout.Instance.Name)
	if err != nil {
		return fmt.Errorf("asking for the oldest change that is left: %w", err)
	}
	if !t.sent.Less(low.Prev()) {
		return errLossStands // nothing is left that lies after the position
	}
	event := eventAt(mssqlcdc.EventDataSkipped, t.layout.Instance, low)
	event.MinLSN = loss.From
	if event.LostFrom, event.LostTo, err = s.gap(ctx, t, low); err != nil {
		return err
	}
	detail, err := json.Marshal(map[string]any{"from": loss.From, "to": low.Prev(), "certain": true, "reason": loss.Reason})
	if err != nil {
		return err
	}
	event.Detail = string(detail)
	s.log.Warnf("Table %s: skipping what is lost: %v", t.id, loss)
	return s.passLoss(ctx, t, low.Prev(), event)
}

// resnapshot reads the table whole again: the next generation.
func (s *scheduler) resnapshot(ctx context.Context, t *table, loss *sqlserver.DataLossError) error {
	state := t.tracker.acknowledged()
	if open := state.Snapshot; open != nil {
		since := time.Since(open.Opened)
		// An open one whose changes are all left still serves: a crash, or a rejected
		// message, came before the window that passes the loss.
		reusable := !open.Complete && open.LostFrom != nil && t.sent.Less(open.LSN)
		if state.Generation > 0 && !reusable && !open.OnSwitch && since < s.config.resnapshotInterval {
			return fmt.Errorf("%w: the last snapshot was opened %s ago, and %s is %s: give the source more retention, or the pipeline more time",
				errLossStands, since.Round(time.Second), fieldResnapshotInterval, s.config.resnapshotInterval)
		}
		if reusable {
			return s.passSnapshot(ctx, t, loss, state)
		}
	}
	fresh, err := s.setup.beginSnapshot(ctx, t.layout, s.config.overrideFor(t.id).snapshotKeys)
	if err != nil {
		return err
	}
	if fresh.Snapshot.LostFrom, fresh.Snapshot.LostTo, err = s.gap(ctx, t, fresh.LSN); err != nil {
		return err
	}
	state = t.tracker.openSnapshot(fresh.Snapshot)
	if err := s.save(ctx, t); err != nil {
		return fmt.Errorf("storing that a snapshot is open: %w", err)
	}
	s.log.Warnf("Table %s is read whole again, snapshot %s: %v", t.id, fresh.LSN, loss)
	return s.passSnapshot(ctx, t, loss, state)
}

// passSnapshot goes on with the changes after a snapshot that stands for what was
// lost.
func (s *scheduler) passSnapshot(ctx context.Context, t *table, loss *sqlserver.DataLossError, state checkpoint.State) error {
	if err := s.setup.resumeSnapshot(ctx, t, nil); err != nil {
		return err
	}
	event := eventAt(mssqlcdc.EventSnapshotOpen, t.layout.Instance, state.Snapshot.LSN)
	event.LostFrom, event.LostTo = state.Snapshot.LostFrom, state.Snapshot.LostTo
	detail, err := json.Marshal(t.snapshot.openDetail(state.Generation, loss))
	if err != nil {
		return err
	}
	event.Detail = string(detail)
	return s.passLoss(ctx, t, state.Snapshot.LSN, event)
}

// gap is when the last change before a loss and the first one after it were
// committed. Where the source does not know, now stands for the end: a gap that is
// too long is no false claim.
func (s *scheduler) gap(ctx context.Context, t *table, upto mssqlcdc.LSN) (from, to *time.Time, err error) {
	begin := t.tracker.acknowledged().Time()
	end, known, err := s.source.CommitTime(ctx, upto.Next(), false)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for the commit time of %s: %w", upto, err)
	}
	if !known || !end.After(begin) {
		end = time.Now().UTC()
	}
	return &begin, &end, nil
}

// passLoss moves the table over a loss by a window without rows.
func (s *scheduler) passLoss(ctx context.Context, t *table, end mssqlcdc.LSN, event mssqlcdc.Fact) error {
	t.events = append(t.events, event)
	window := mssqlcdc.Window{Start: t.sent, End: end}
	if err := s.sendIdle(ctx, t, window, sqlserver.Movement{}); err != nil {
		return err
	}
	t.backoff.reset()
	t.moved = t.sent.Less(s.upto())
	return nil
}
