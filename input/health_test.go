package input

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// Capture is asked how it is doing every two minutes, and no more by a login that may
// not see it.
func TestHealth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err         error
		least, most int
	}{
		"visible":     {nil, 3, 4},
		"hidden":      {&sqlserver.PermissionError{Object: "the state of capture"}, 1, 1},
		"unreachable": {errTimeout{}, 3, 4},
		"unknown":     {errors.New("a view that this server does not have"), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := filled(3, "a")
				source.hidden = c.err
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				run := newTestRun(testConfig(t, "tables: [ dbo.* ]\nformat: record_batch\n"), resources(), source)
				require.ErrorIs(t, run.drain(ctx, newSink(), newDice(1)), context.DeadlineExceeded)
				require.NoError(t, run.state.Err())
				require.NoError(t, run.Close(t.Context()))
				require.GreaterOrEqual(t, source.asked, c.least)
				require.LessOrEqual(t, source.asked, c.most)
			})
		})
	}
}
