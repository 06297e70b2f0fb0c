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
	if !slices.ContainsFunc(s.tables, func(t *table) bool { return t.moved && !t.isolated && !t.pinned }) {
		return nil
	}
	instances, err := s.source.Instances(ctx)
	if err != nil {
		return fmt.Errorf("listing capture instances: %w", err)
	}
	for _, t := range s.tables {
		if t.pinned {
			continue
		}
		t.next = nil
		for _, instance := range instances {
			if instance.Table != t.id || byAge(instance, t.layout.Instance) <= 0 {
				continue
			}
			if t.next == nil || byAge(instance, *t.next) < 0 {
				t.next = &instance
			}
		}
	}
	return nil
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
	start := to.Instance.StartLSN
	detail, err := json.Marshal(map[string]any{
		"old": from.Instance.Name, "new": to.Instance.Name, "start_lsn": start,
		"not_captured": notCaptured(from, to), "text": switchText(from, to),
	})
	if err != nil {
		return mssqlcdc.Fact{}, err
	}
	return mssqlcdc.Fact{
		Version: mssqlcdc.FactVersion, Event: mssqlcdc.EventSwitched, Table: to.Instance.Table, CaptureInstance: to.Instance.Name,
		MinLSN: start, MaxLSN: start, EndLSN: start, Detail: string(detail),
	}, nil
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

// covering is an instance that records everything after a position, nil for none.
func covering(instances []mssqlcdc.CaptureInstance, after mssqlcdc.LSN) *mssqlcdc.CaptureInstance {
	for _, instance := range slices.SortedFunc(slices.Values(instances), byAge) {
		if !after.Next().Less(instance.StartLSN) {
			return &instance
		}
	}
	return nil
}
