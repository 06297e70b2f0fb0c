package input

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// A table whose columns changed gets a second capture instance, which records from
// its start LSN on, while the old one goes on with the old columns. The stream
// reads the old one up to that LSN and the new one from there.

// byAge orders capture instances of one table, oldest first. Clean-up may have
// given both one start LSN; then the date tells.
func byAge(a, b mssqlcdc.CaptureInstance) int {
	return cmp.Or(a.CreateDate.Compare(b.CreateDate), a.StartLSN.Compare(b.StartLSN))
}

// lookForNewer finds out which of the tables that moved have a newer capture
// instance. It is asked after max_lsn: an instance that starts at or before that is
// listed by then, so no window passes a start unnoticed.
func (s *scheduler) lookForNewer(ctx context.Context) error {
	var moved []*table
	var ids []mssqlcdc.TableID
	for _, t := range s.tables {
		if t.moved && !t.isolated && !t.pinned {
			moved, ids = append(moved, t), append(ids, t.id)
		}
	}
	if len(moved) == 0 {
		return nil
	}
	all, err := s.source.InstancesOf(ctx, ids)
	if err != nil {
		return err
	}
	for _, t := range moved {
		t.next = nil
		if newer := t.newer(all); len(newer) > 0 {
			t.next = &newer[0]
		}
	}
	return nil
}

// instances are the table's own, oldest first.
func (t *table) instances(all []mssqlcdc.CaptureInstance) []mssqlcdc.CaptureInstance {
	own := slices.DeleteFunc(slices.Clone(all), func(i mssqlcdc.CaptureInstance) bool { return i.Table != t.id })
	slices.SortFunc(own, byAge)
	return own
}

// newer are those that are newer than the one that is read.
func (t *table) newer(all []mssqlcdc.CaptureInstance) []mssqlcdc.CaptureInstance {
	return slices.DeleteFunc(t.instances(all), func(i mssqlcdc.CaptureInstance) bool { return byAge(i, t.layout.Instance) <= 0 })
}

// uptoOf is the last LSN that the table's next window may end at.
func (s *scheduler) uptoOf(t *table) mssqlcdc.LSN {
	upto := s.upto()
	if t.next == nil || upto.Less(t.next.StartLSN) {
		return upto
	}
	if end := t.next.StartLSN.Prev(); t.sent.Less(end) {
		return end
	}
	return t.sent
}

// switchDue tells whether everything was read of the table's instance that its next
// one does not have.
func (s *scheduler) switchDue(t *table) bool {
	return t.next != nil && !t.sent.Less(t.next.StartLSN.Prev()) && t.sent.Less(s.upto())
}

// switchInstance goes on in the table's next capture instance.
func (s *scheduler) switchInstance(ctx context.Context, t *table) error {
	next := *t.next
	doing := fmt.Sprintf("going on in the newer capture instance %s", next.Name)
	if err := s.source.CheckPermissions(ctx, next); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	layout, err := s.setup.layout(ctx, next, s.config.overrideFor(t.id))
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	event, err := switched(t.layout, layout)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	s.log.Infof("Table %s: %s", t.id, switchText(t.layout, layout))
	t.left = append(t.left, t.layout)
	t.layout, t.next = layout, nil
	t.events = append(t.events, event)
	return nil
}

// switched is the event of a switch.
func switched(from, to sqlserver.Layout) (mssqlcdc.Fact, error) {
	event := eventAt(mssqlcdc.EventSwitched, to.Instance, to.Instance.StartLSN)
	detail, err := json.Marshal(map[string]any{
		"old": from.Instance.Name, "new": to.Instance.Name, "start_lsn": to.Instance.StartLSN,
		"not_captured": notCaptured(from, to), "text": switchText(from, to),
	})
	event.Detail = string(detail)
	return event, err
}

func switchText(from, to sqlserver.Layout) string {
	text := fmt.Sprintf("capture instance %s -> %s at %s", from.Instance.Name, to.Instance.Name, to.Instance.StartLSN)
	if lost := notCaptured(from, to); len(lost) > 0 {
		text += ", which does not capture " + strings.Join(lost, ", ")
	}
	return text
}

// notCaptured are the columns that rows have no value for from the switch on.
func notCaptured(from, to sqlserver.Layout) []string {
	lost := []string{}
	for _, c := range from.Columns {
		if !slices.ContainsFunc(to.Columns, func(other mssqlcdc.Column) bool { return strings.EqualFold(other.Name, c.Name) }) {
			lost = append(lost, c.Name)
		}
	}
	return lost
}

// rewindInstance goes back to the instance of the acknowledged position. The switch
// is found again.
func (t *table) rewindInstance(name string) {
	for t.layout.Instance.Name != name && len(t.left) > 0 {
		t.layout = t.left[len(t.left)-1]
		t.left = t.left[:len(t.left)-1]
		t.next, t.events = nil, nil
	}
}

// covering is the first instance that records everything after a position, nil for
// none.
func covering(instances []mssqlcdc.CaptureInstance, after mssqlcdc.LSN) *mssqlcdc.CaptureInstance {
	at := slices.IndexFunc(instances, func(i mssqlcdc.CaptureInstance) bool { return !after.Next().Less(i.StartLSN) })
	if at < 0 {
		return nil
	}
	return &instances[at]
}

// eventAt is an event of an instance's table at an LSN.
func eventAt(event mssqlcdc.Event, instance mssqlcdc.CaptureInstance, lsn mssqlcdc.LSN) mssqlcdc.Fact {
	return mssqlcdc.Fact{
		Version: mssqlcdc.FactVersion, Event: event, Table: instance.Table, CaptureInstance: instance.Name,
		MinLSN: lsn, MaxLSN: lsn, EndLSN: lsn,
	}
}
