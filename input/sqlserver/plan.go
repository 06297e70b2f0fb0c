package sqlserver

import (
	"context"
	"fmt"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Plan decides the next window after start: up to upto, which must be max_lsn as seen before or an older commit. It asks
// at most one question, for the commit time of the end. The window is empty if upto is not after start.
//
// Counting the rows first would read the range twice. So the end is an upper bound: [Client.Read] ends the window at the
// commit boundary at which a limit is reached, and the last part says where. The limits are asked for here, too, so that a
// planner that counts can take the place of this one.
func (c *Client) Plan(ctx context.Context, layout Layout, start, upto mssqlcdc.LSN, _ Limits) (Plan, error) {
	plan := Plan{Window: mssqlcdc.Window{Start: start, End: start}, Rows: -1}
	if !start.Less(upto) {
		return plan, nil
	}
	// The end must be a commit of the mapping, or no restart could check that the database is still the same.
	plan.Window.End = upto
	if head := c.head.Load(); head != nil && head.LSN == upto {
		plan.Window.EndTime = head.Time
	} else {
		end, at, found, err := c.commitAt(ctx, upto, false)
		if err != nil {
			return Plan{}, fmt.Errorf("planning a window of capture instance %s: %w", layout.Instance.Name, err)
		}
		// Without an entry after start, clean-up took them all; the guard of the read will say what that means.
		if found && start.Less(end) {
			plan.Window.End, plan.Window.EndTime = end, at
		}
	}
	plan.Ranges = []Range{{From: plan.Window.From(), To: plan.Window.End, Rows: -1}}
	return plan, nil
}
