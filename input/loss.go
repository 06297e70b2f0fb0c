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
		} else if s.config.onDataLoss == lossFail && !loss.Restored {
			err = fmt.Errorf("%w; %s: skip goes on with what is left, %s reads the table again", err, fieldOnDataLoss, lossResnapshot)
		}
	}
	if class == sqlserver.Transient {
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

// goOnAfter goes on after changes were lost, as on_data_loss says. What was lost is
// an event of a window without rows, which the verdict is marked by.
func (s *scheduler) goOnAfter(ctx context.Context, t *table, loss *sqlserver.DataLossError) error {
	switch switched, err := s.switchInstead(ctx, t, loss); {
	case err != nil:
		return err
	case switched:
		return nil
	case s.config.onDataLoss == lossFail, loss.Restored:
		return errLossStands // positions of another history mean nothing
	case t.snapshot != nil && t.snapshot.reading, t.reading:
		t.retryAt = time.Now().Add(retryFirst) // what is being read ends first; the loss is found again
		return nil
	}
	instance, err := s.instanceAfter(ctx, t)
	if err != nil {
		return fmt.Errorf("looking for a capture instance to go on with: %w", err)
	}
	layout := t.layout
	if instance.Name != layout.Instance.Name || !instance.CreateDate.Equal(layout.Instance.CreateDate) {
		if layout, err = s.setup.layout(ctx, instance, s.config.overrideFor(t.id)); err != nil {
			return err
		}
		event, err := switched(t.layout, layout)
		if err != nil {
			return err
		}
		t.events = append(t.events, event)
	}
	t.left, t.layout, t.next = nil, layout, nil
	if s.config.onDataLoss == lossResnapshot {
		return s.resnapshot(ctx, t, loss)
	}
	return s.skip(ctx, t, loss)
}

// switchInstead goes on in another capture instance that has everything after the
// position: the old one may have been dropped as soon as nobody needed it.
func (s *scheduler) switchInstead(ctx context.Context, t *table, loss *sqlserver.DataLossError) (bool, error) {
	if loss.Restored || t.pinned || t.reading {
		return false, nil
	}
	instances, err := s.source.Instances(ctx)
	if err != nil {
		return false, fmt.Errorf("looking for a capture instance to go on with: %w", err)
	}
	instances = slices.DeleteFunc(instances, func(i mssqlcdc.CaptureInstance) bool {
		return i.Table != t.id || byAge(i, t.layout.Instance) <= 0
	})
	if t.next = covering(instances, t.sent); t.next == nil {
		return false, nil
	}
	if err := s.switchInstance(ctx, t); err != nil {
		return false, err
	}
	t.moved = t.sent.Less(s.upto())
	return true, nil
}

// instanceAfter is the table's newest capture instance.
func (s *scheduler) instanceAfter(ctx context.Context, t *table) (mssqlcdc.CaptureInstance, error) {
	instances, err := s.source.Instances(ctx)
	if err != nil {
		return mssqlcdc.CaptureInstance{}, err
	}
	var newest mssqlcdc.CaptureInstance
	for _, instance := range instances {
		if instance.Table != t.id || t.pinned && instance.Name != t.layout.Instance.Name {
			continue
		}
		if newest.Name == "" || byAge(newest, instance) < 0 {
			newest = instance
		}
	}
	if newest.Name == "" {
		return newest, fmt.Errorf("table %s has none: %w", t.id, errLossStands)
	}
	return newest, nil
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
	event, err := s.gap(ctx, t, loss, low)
	if err != nil {
		return err
	}
	event.Event = mssqlcdc.EventDataSkipped
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
	event, err := s.gap(ctx, t, loss, fresh.LSN)
	if err != nil {
		return err
	}
	fresh.Snapshot.LostFrom, fresh.Snapshot.LostTo = event.LostFrom, event.LostTo
	state = t.tracker.openSnapshot(fresh.Snapshot)
	if err := s.save(ctx, t, state); err != nil {
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
	event, err := s.gap(ctx, t, loss, state.Snapshot.LSN)
	if err != nil {
		return err
	}
	event.LostFrom, event.LostTo = state.Snapshot.LostFrom, state.Snapshot.LostTo
	event.Event, event.MinLSN, event.MaxLSN, event.EndLSN = mssqlcdc.EventSnapshotOpen, state.Snapshot.LSN, state.Snapshot.LSN, state.Snapshot.LSN
	detail, err := openDetail(state.Generation, t.snapshot.key, loss)
	if err != nil {
		return err
	}
	event.Detail = detail
	return s.passLoss(ctx, t, state.Snapshot.LSN, event)
}

// gap is the event of a loss: when the last change before it and the first one after
// it were committed. Where the source does not know, now stands for the end: a gap
// that is too long is no false claim.
func (s *scheduler) gap(ctx context.Context, t *table, loss *sqlserver.DataLossError, upto mssqlcdc.LSN) (mssqlcdc.Fact, error) {
	fact := mssqlcdc.Fact{
		Version: mssqlcdc.FactVersion, Table: t.id, CaptureInstance: t.layout.Instance.Name,
		MinLSN: loss.From, MaxLSN: upto, EndLSN: upto,
	}
	from := t.tracker.acknowledged().CommitTime
	if from.IsZero() {
		from = t.tracker.acknowledged().CompleteFromTime
	}
	to, known, err := s.source.CommitTime(ctx, upto.Next(), false)
	if err != nil {
		return fact, fmt.Errorf("asking for the commit time of %s: %w", upto, err)
	}
	if !known || !to.After(from) {
		to = time.Now().UTC()
	}
	fact.LostFrom, fact.LostTo = &from, &to
	return fact, nil
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
