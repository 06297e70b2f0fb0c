package input

import (
	"context"
	"fmt"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// maxDDLText bounds the text of a DDL statement in an event.
const maxDDLText = 500

// reactToDDL asks for DDL inside a window before it is read. If there was any, the
// columns are looked up again, and each statement becomes an event of the
// window. The output decides whether a changed type fits its table.
func (s *scheduler) reactToDDL(ctx context.Context, t *table, window mssqlcdc.Window) ([]mssqlcdc.Fact, error) {
	statements, err := s.source.DDL(ctx, t.layout.Instance, window.Start, window.End)
	if err != nil {
		return nil, fmt.Errorf("asking for the DDL history of %s: %w", t.layout.Instance.Name, err)
	}
	if len(statements) == 0 {
		return nil, nil
	}
	layout, err := s.setup.layout(ctx, t.layout.Instance, s.config.overrideFor(t.id))
	if err != nil {
		return nil, err
	}
	t.layout = layout
	var events []mssqlcdc.Fact
	for _, d := range statements {
		text := d.Command
		if runes := []rune(text); len(runes) > maxDDLText {
			text = string(runes[:maxDDLText])
		}
		event := eventAt(mssqlcdc.EventSchemaChange, t.layout.Instance, d.LSN)
		event.EndCommitTime, event.Detail = known(d.CommitTime), text
		events = append(events, event)
	}
	return events, nil
}

// known is nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
