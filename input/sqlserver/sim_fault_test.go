package sqlserver_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

func mssqlcdcLSN(l mssqlcdc.LSN) engine.LSN { return engine.LSN(l) }

// reads matches the statement that reads changes.
func reads() *regexp.Regexp { return regexp.MustCompile(`LEFT JOIN cdc\.lsn_time_mapping`) }

// filled is a lab with a table of commits of ten rows.
func filled(t *testing.T, commits int) (*lab, *sqlserver.Client, sqlserver.Layout, mssqlcdc.LSN) {
	clock := newClock(time.Date(2025, 7, 1, 12, 0, 0, 0, time.UTC))
	l := newLab(t, sqlserversim.WithClock(clock))
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, note nvarchar(100) NULL)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	for i := range commits {
		text := "INSERT dbo.t VALUES "
		for k := range 10 {
			if k > 0 {
				text += ", "
			}
			text += fmt.Sprintf("(%d, N'note %d')", i*10+k, k)
		}
		clock.Advance(time.Second) // clean-up counts commits of one time as one
		l.exec(text)
	}
	l.capture()
	client := l.client()
	return l, client, l.layout(client, "dbo_t"), l.start(client, "dbo_t")
}

// TestSimFaults breaks the read of changes in every way that a server or a network can.
func TestSimFaults(t *testing.T) {
	t.Parallel()
	raise := func(number int32, class uint8) sqlserversim.Action {
		return sqlserversim.RaiseError(number, class, 1, "injected")
	}
	cases := map[string]struct {
		action sqlserversim.Action
		want   sqlserver.Class
	}{
		"closed":               {sqlserversim.CloseConnection(), sqlserver.Transient},
		"reset":                {sqlserversim.ResetConnection(), sqlserver.Transient},
		"half a packet":        {sqlserversim.HalfPacket(), sqlserver.Transient},
		"end without done":     {sqlserversim.EndWithoutDone(), sqlserver.Transient},
		"unknown token":        {sqlserversim.UnknownToken(), sqlserver.Transient},
		"severe":               {sqlserversim.SevereDone(), sqlserver.Transient},
		"deadlock":             {raise(1205, 13), sqlserver.Transient},
		"class 20":             {raise(40197, 20), sqlserver.Transient},
		"killed":               {raise(596, 21), sqlserver.Transient},
		"division":             {raise(8134, 16), sqlserver.Fatal},
		"denied in the middle": {raise(229, 14), sqlserver.Permission},
	}
	for name, c := range cases {
		for _, after := range []int64{0, 25} {
			for _, ranges := range []int{1, 2} {
				t.Run(fmt.Sprintf("%s after %d rows in %d ranges", name, after, ranges), func(t *testing.T) {
					t.Parallel()
					l, client, layout, start := filled(t, 6)
					l.sim.Fault(sqlserversim.Fault{Statement: reads(), AfterRows: after, Action: c.action})
					_, err := l.parts(client, layout, start, sqlserver.Limits{PartRows: 10, Ranges: ranges})
					require.Error(t, err)
					require.Equal(t, c.want, sqlserver.Classify(err), "%v", err)
					parts, err := l.parts(client, layout, start, sqlserver.Limits{PartRows: 10, Ranges: ranges})
					require.NoError(t, err)
					require.Len(t, values(parts, 0), 60)
				})
			}
		}
	}
}

// TestSimCleanUpDuringTheRead is R-10: the clean-up job runs after some rows were sent.
func TestSimCleanUpDuringTheRead(t *testing.T) {
	t.Parallel()
	l, client, layout, start := filled(t, 6)
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	l.sim.Fault(sqlserversim.Fault{Statement: reads(), AfterRows: 15, Action: sqlserversim.Run(func(ctx context.Context) error {
		return l.sim.CleanupBelow(ctx, "dbo_t", mssqlcdcLSN(head.LSN))
	})})
	_, err = l.parts(client, layout, start, sqlserver.Limits{PartRows: 5})
	var loss *sqlserver.DataLossError
	require.ErrorAs(t, err, &loss)
	require.True(t, loss.During)
	require.Equal(t, head.LSN, loss.MinLSN)
	// From the new low watermark on, it goes on.
	parts, err := l.parts(client, layout, head.LSN.Prev(), sqlserver.Limits{})
	require.NoError(t, err)
	require.Len(t, values(parts, 0), 10)
}

// TestSimKilledBetweenPolls is C-01.
func TestSimKilledBetweenPolls(t *testing.T) {
	t.Parallel()
	l, client, layout, start := filled(t, 2)
	for range 3 {
		for spid := 50; spid < 60; spid++ {
			l.sim.Kill(spid)
		}
		parts, err := l.parts(client, layout, start, sqlserver.Limits{})
		require.NoError(t, err)
		require.Len(t, values(parts, 0), 20)
	}
}

// TestSimTransientNumbers is C-02: every number is tried at a question, which is asked again.
func TestSimTransientNumbers(t *testing.T) {
	t.Parallel()
	l, client, _, _ := filled(t, 1)
	head := regexp.MustCompile(`fn_cdc_get_max_lsn`)
	for number, class := range map[int32]uint8{
		1205: 13, 1222: 16, 3960: 16, 40197: 20, 40501: 20, 40613: 17, 49918: 16, 10928: 16, 10929: 16, 233: 20, 10053: 20, 10054: 20, 10060: 20, 983: 14,
	} {
		rule := l.sim.Fault(sqlserversim.Fault{Statement: head, Action: sqlserversim.RaiseError(number, class, 1, "injected")})
		_, err := client.MaxLSN(t.Context())
		require.NoError(t, err, "%d", number)
		rule.Remove()
	}
}

// TestSimHang is C-03b: the server falls silent in the middle of the rows.
func TestSimHang(t *testing.T) {
	t.Parallel()
	l, client, layout, start := filled(t, 6)
	l.sim.Fault(sqlserversim.Fault{Statement: reads(), AfterRows: 25, Action: sqlserversim.Hang()})
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	plan, err := client.Plan(t.Context(), layout, start, head.LSN, sqlserver.Limits{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	var last error
	for _, err := range client.Read(ctx, sqlserver.ReadRequest{Layout: layout, Plan: plan, Head: head, Limits: sqlserver.Limits{PartRows: 10}}) {
		last = err
	}
	require.ErrorIs(t, last, context.DeadlineExceeded)
	require.Less(t, time.Since(begin), 8*time.Second)
	_, err = l.parts(client, layout, start, sqlserver.Limits{})
	require.NoError(t, err)
}

// TestSimLockTimeout is C-03: a statement fails in the middle, and the next one on the pool must not hang.
func TestSimLockTimeout(t *testing.T) {
	t.Parallel()
	l, client, layout, start := filled(t, 3)
	for range 5 {
		l.sim.Fault(sqlserversim.Fault{Statement: reads(), AfterRows: 3, Action: sqlserversim.RaiseError(1222, 16, 51, "Lock request time out period exceeded.")})
		_, err := l.parts(client, layout, start, sqlserver.Limits{})
		require.Equal(t, sqlserver.Transient, sqlserver.Classify(err), "%v", err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = client.MaxLSN(ctx)
		cancel()
		require.NoError(t, err)
	}
}

// TestSimNothingBlocksTheOwner is R-12: a reader that is idle holds nothing that disabling waits for.
func TestSimNothingBlocksTheOwner(t *testing.T) {
	t.Parallel()
	l, client, layout, start := filled(t, 3)
	_, err := l.parts(client, layout, start, sqlserver.Limits{})
	require.NoError(t, err)
	begin := time.Now()
	l.exec("EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'dbo_t'")
	require.Less(t, time.Since(begin), 5*time.Second)
}

// TestSimReadsWhileCaptureWrites is O-22: windows that end at max_lsn as seen before hold whole commits, while capture
// goes on.
func TestSimReadsWhileCaptureWrites(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	l.exec("INSERT dbo.t VALUES (-1)")
	l.capture()
	client := l.client()
	layout := l.layout(client, "dbo_t")
	position := l.start(client, "dbo_t")
	done := make(chan error, 1)
	const commits, rows = 60, 40
	go func() {
		for i := range commits {
			text := "INSERT dbo.t VALUES "
			for k := range rows {
				if k > 0 {
					text += ", "
				}
				text += fmt.Sprintf("(%d)", i*rows+k)
			}
			if err := l.sim.Exec(t.Context(), text); err != nil {
				done <- err
				return
			}
			if err := l.sim.Capture(t.Context()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	perCommit := map[string]int{}
	finished := false
	for {
		parts, err := l.parts(client, layout, position, sqlserver.Limits{PartRows: 17, Ranges: 2})
		if finished && err != nil {
			require.ErrorContains(t, err, "empty")
			break
		}
		if err == nil {
			for _, line := range lines(parts) {
				perCommit[line[0]]++
			}
			position = parts[len(parts)-1].Window.End
		}
		if !finished {
			select {
			case err := <-done:
				require.NoError(t, err)
				finished = true
			case <-time.After(time.Millisecond):
			}
		}
	}
	require.Len(t, perCommit, commits+1)
	n := 0
	for _, found := range perCommit {
		n += found
		require.Contains(t, []int{1, rows}, found)
	}
	require.Equal(t, commits*rows+1, n)
}
