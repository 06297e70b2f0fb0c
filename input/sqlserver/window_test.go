package sqlserver_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// statementsWith counts the statements that hold a text.
func (s *stub) statementsWith(part string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, statement := range s.statements {
		if contains(statement, part) {
			n++
		}
	}
	return n
}

const changeRead = "LEFT JOIN cdc.lsn_time_mapping"

func TestPurgedRangeIsRefusedBeforeARowIsRead(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1, 1, 1, 1)
	s.tables["t"].min = lsn(4)
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")

	_, err := readWindow(t, t.Context(), client, l, lsn(2), sqlserver.Limits{})
	var loss *sqlserver.DataLossError
	require.ErrorAs(t, err, &loss)
	require.Equal(t, sqlserver.DataLoss, sqlserver.Classify(err))
	require.Equal(t, sqlserver.DataLossError{
		Instance: "t", Table: mssqlcdc.TableID{Schema: "dbo", Name: "t"}, From: lsn(2).Next(), MinLSN: lsn(4),
		MinTime: begin().Add(2 * time.Second), Reason: "CDC clean-up purged them",
	}, *loss)
	require.Zero(t, s.statementsWith(changeRead))

	// The comparison is strict: a range that begins exactly at min_lsn is whole.
	w, err := readWindow(t, t.Context(), client, l, lsn(4).Prev(), sqlserver.Limits{})
	require.NoError(t, err)
	require.Len(t, w.rows, 2)
	require.Equal(t, lsn(4), w.metrics.MinLSN)
	require.Equal(t, begin().Add(2*time.Second), w.metrics.MinLSNTime)
}

func TestCleanUpDuringTheReadIsDataLoss(t *testing.T) {
	t.Parallel()
	for name, ranges := range map[string]int{"one range": 1, "two ranges": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStub()
			s.fill("t", 5, 5, 5, 5)
			s.row = func(int, mssqlcdc.LSN) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.tables["t"].min = lsn(3)
				return nil
			}
			client := s.start(t)
			l := layout(t, t.Context(), client, "t")
			_, err := readWindow(t, t.Context(), client, l, lsn(1), sqlserver.Limits{PartRows: 2, Ranges: ranges})
			var loss *sqlserver.DataLossError
			require.ErrorAs(t, err, &loss)
			require.True(t, loss.During)

			// Clean-up up to the start of the range, and not beyond, took nothing of it.
			s.tables["t"].min = lsn(1)
			s.row = func(int, mssqlcdc.LSN) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.tables["t"].min = lsn(2).Next()
				return nil
			}
			w, err := readWindow(t, t.Context(), client, l, lsn(2), sqlserver.Limits{PartRows: 2, Ranges: ranges})
			require.NoError(t, err)
			require.Len(t, w.rows, 15)
		})
	}
}

func TestQuietWindowHasOnePartWithoutRows(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("busy", 1, 1, 1)
	s.tables["quiet"] = &stubTable{min: lsn(1)}
	client := s.start(t)
	w, err := readWindow(t, t.Context(), client, layout(t, t.Context(), client, "quiet"), lsn(1), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, []int{0}, w.parts)
	require.Equal(t, mssqlcdc.Window{Start: lsn(1), End: lsn(4), EndTime: begin().Add(2 * time.Second)}, w.Window)
}

func TestErrorsEndTheWindowWithoutALastPart(t *testing.T) {
	t.Parallel()
	fault := func(after int, err error) func(int, mssqlcdc.LSN) error {
		return func(n int, _ mssqlcdc.LSN) error {
			if n == after {
				return err
			}
			return nil
		}
	}
	cases := map[string]struct {
		err  error
		want sqlserver.Class
	}{
		"deadlock":         {&tds.ServerError{Number: 1205, Class: 13, State: 51, Text: "deadlocked"}, sqlserver.Transient},
		"lock timeout":     {&tds.ServerError{Number: 1222, Class: 16, State: 51, Text: "lock"}, sqlserver.Transient},
		"failover":         {&tds.ServerError{Number: 40613, Class: 17, State: 1, Text: "not available"}, sqlserver.Transient},
		"class 20":         {&tds.ServerError{Number: 40197, Class: 20, State: 1, Text: "processing"}, sqlserver.Transient},
		"killed":           {&tds.ServerError{Number: 596, Class: 21, State: 1, Text: "killed"}, sqlserver.Transient},
		"cut connection":   {errors.New("gone"), sqlserver.Transient},
		"denied meanwhile": {&tds.ServerError{Number: 229, Class: 14, State: 5, Text: "denied"}, sqlserver.Permission},
		"conversion":       {&tds.ServerError{Number: 8115, Class: 16, State: 2, Text: "overflow"}, sqlserver.Schema},
		"unknown":          {&tds.ServerError{Number: 50000, Class: 16, State: 2, Text: "?"}, sqlserver.Fatal},
	}
	for name, c := range cases {
		for ranges := 1; ranges <= 2; ranges++ {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := newStub()
				s.fill("t", 10, 10, 10)
				client := s.start(t)
				l := layout(t, t.Context(), client, "t")
				s.row = fault(7, c.err)
				_, err := readWindow(t, t.Context(), client, l, lsn(1), sqlserver.Limits{PartRows: 3, Ranges: ranges})
				require.Error(t, err)
				require.Equal(t, c.want, sqlserver.Classify(err), "%v", err)
				require.ErrorContains(t, err, "reading change table cdc.[t_CT]")

				// The next window works, whatever state the connection was left in.
				s.row = nil
				w, err := readWindow(t, t.Context(), client, l, lsn(1), sqlserver.Limits{Ranges: ranges})
				require.NoError(t, err)
				require.Len(t, w.rows, 30)
			})
		}
	}
}

func TestLimitsAndStoppingKeepTheConnections(t *testing.T) {
	t.Parallel()
	s := newStub()
	commits := make([]int, 400)
	for i := range commits {
		commits[i] = 5
	}
	s.fill("t", commits...)
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	limits := sqlserver.Limits{PartRows: 10, Rows: 100, Ranges: 2}
	position := lsn(1)
	for range 10 {
		w, err := readWindow(t, t.Context(), client, l, position, limits)
		require.NoError(t, err)
		position = w.End
	}
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	plan, err := client.Plan(t.Context(), l, position, head.LSN, limits)
	require.NoError(t, err)
	for _, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Limits: limits, Head: head}) {
		require.NoError(t, err)
		break // the consumer has enough
	}
	_, err = readWindow(t, t.Context(), client, l, position, limits)
	require.NoError(t, err)
	require.LessOrEqual(t, s.logins, 3)
}

func TestRowsOutOfOrderAreAnError(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1, 1, 1)
	rows := s.tables["t"].rows
	rows[0], rows[1] = rows[1], rows[0]
	client := s.start(t)
	_, err := readWindow(t, t.Context(), client, layout(t, t.Context(), client, "t"), lsn(1), sqlserver.Limits{})
	require.ErrorContains(t, err, "out of order")
}

func TestWindowBeyondTheHeadIsRefused(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1, 1)
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	plan := sqlserver.Plan{Window: mssqlcdc.Window{Start: lsn(1), End: lsn(9)}, Ranges: []sqlserver.Range{{From: lsn(1).Next(), To: lsn(9)}}}
	for _, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Head: head}) {
		require.ErrorContains(t, err, "after max_lsn")
	}
	empty, err := client.Plan(t.Context(), l, lsn(3), lsn(3), sqlserver.Limits{})
	require.NoError(t, err)
	require.True(t, empty.Window.IsEmpty())
}

func TestCommitsWithoutMappingHaveNoTime(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1, 1, 1)
	s.mapping = s.mapping[2:]
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	plan, err := client.Plan(t.Context(), l, lsn(1), head.LSN, sqlserver.Limits{})
	require.NoError(t, err)
	for part, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Head: head}) {
		require.NoError(t, err)
		times := part.Record.Column(mssqlcdc.IdxCommitTime).(*array.Timestamp)
		require.Equal(t, 2, times.NullN())
		require.True(t, times.IsValid(2))
	}
	// A window that ends at such a commit has no end time either.
	plan, err = client.Plan(t.Context(), l, lsn(1), head.LSN, sqlserver.Limits{Commits: 1})
	require.NoError(t, err)
	for part, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Head: head, Limits: sqlserver.Limits{Commits: 1}}) {
		require.NoError(t, err)
		require.True(t, part.Window.EndTime.IsZero())
	}
}

func TestCancelStopsARead(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1000)
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	s.row = func(n int, _ mssqlcdc.LSN) error {
		if n == 500 {
			once.Do(cancel)
		}
		return nil
	}
	started := time.Now()
	_, err := readWindow(t, ctx, client, l, lsn(1), sqlserver.Limits{PartRows: 100})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, sqlserver.Canceled, sqlserver.Classify(err))
	require.Less(t, time.Since(started), 5*time.Second)
}

func TestStatementTextDoesNotDependOnPositions(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1, 1, 1, 1, 1, 1, 1, 1)
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	texts := map[string]bool{}
	for i := 1; i < 8; i++ {
		s.statements = nil
		_, err := readWindow(t, t.Context(), client, l, lsn(i), sqlserver.Limits{Ranges: 1})
		require.NoError(t, err)
		_, err = client.Moved(t.Context(), []sqlserver.Cursor{{Instance: mssqlcdc.CaptureInstance{Name: "t"}, After: lsn(i)}}, lsn(8))
		require.NoError(t, err)
		for _, statement := range s.statements {
			texts[statement] = true
		}
	}
	require.LessOrEqual(t, len(texts), 8, "%v", texts)
}
