package sqlserver_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// begin is when the first commit of a history happened.
func begin() time.Time { return time.Date(2025, 7, 1, 12, 0, 0, 0, time.UTC) }

// fill gives the stub a table with commits of the given numbers of rows; 0 is a commit of another table.
func (s *stub) fill(instance string, rowsPerCommit ...int) {
	table := &stubTable{min: lsn(1)}
	id := int64(0)
	for i, rows := range rowsPerCommit {
		commit := lsn(2 + i)
		s.mapping = append(s.mapping, entry{commit, begin().Add(time.Duration(i) * time.Second)})
		for row := range rows {
			id++
			var note any = fmt.Sprintf("note of %d", id)
			if id%3 == 0 {
				note = nil
			}
			table.rows = append(table.rows, change{
				pos: mssqlcdc.Position{StartLSN: commit, CommandID: int32(row + 1), SeqVal: lsn(2 + i).Prev(), Operation: mssqlcdc.Insert},
				id:  id, note: note,
			})
		}
	}
	s.tables[instance] = table
}

// layout asks for the layout of an instance.
func layout(t require.TestingT, ctx context.Context, c *sqlserver.Client, instance string) sqlserver.Layout {
	l, err := c.Columns(ctx, mssqlcdc.CaptureInstance{Name: instance, Table: mssqlcdc.TableID{Schema: "dbo", Name: instance}}, sqlserver.ColumnOptions{})
	require.NoError(t, err)
	return l
}

// rowsOf reads the rows back out of a part.
func rowsOf(part sqlserver.Part) []change {
	var rows []change
	r := part.Record
	start, seq := r.Column(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinary), r.Column(mssqlcdc.IdxSeqVal).(*array.FixedSizeBinary)
	op, cmd := r.Column(mssqlcdc.IdxOperation).(*array.Int32), r.Column(mssqlcdc.IdxCommandID).(*array.Int32)
	id, note := r.Column(mssqlcdc.FirstCaptured).(*array.Int64), r.Column(mssqlcdc.FirstCaptured+1).(*array.String)
	for i := range int(r.NumRows()) {
		c := change{pos: mssqlcdc.Position{
			StartLSN: mssqlcdc.LSN(start.Value(i)), SeqVal: mssqlcdc.LSN(seq.Value(i)),
			Operation: mssqlcdc.Operation(op.Value(i)),
		}, id: id.Value(i)}
		if cmd.IsValid(i) {
			c.pos.CommandID = cmd.Value(i)
		}
		if note.IsValid(i) {
			c.note = note.Value(i)
		}
		rows = append(rows, c)
	}
	return rows
}

// window is a window as it was read.
type window struct {
	mssqlcdc.Window
	rows    []change
	parts   []int
	metrics mssqlcdc.WindowMetrics
}

// readWindow reads one window and checks the rules of its parts.
func readWindow(t require.TestingT, ctx context.Context, c *sqlserver.Client, l sqlserver.Layout, start mssqlcdc.LSN, limits sqlserver.Limits) (window, error) {
	head, err := c.MaxLSN(ctx)
	if err != nil {
		return window{}, err
	}
	plan, err := c.Plan(ctx, l, start, head.LSN, limits)
	if err != nil {
		return window{}, err
	}
	var w window
	last := false
	for part, err := range c.Read(ctx, sqlserver.ReadRequest{Layout: l, Plan: plan, Limits: limits, Head: head}) {
		if err != nil {
			return window{}, err
		}
		require.False(t, last, "a part after the last")
		require.Equal(t, len(w.parts), part.Index)
		require.Equal(t, start, part.Window.Start)
		require.False(t, plan.Window.End.Less(part.Window.End), "a part ends after the plan")
		require.True(t, part.Record.Schema().Equal(l.Schema()))
		w.rows, w.parts = append(w.rows, rowsOf(part)...), append(w.parts, int(part.Record.NumRows()))
		if last = part.Last; last {
			w.Window, w.metrics = part.Window, part.Metrics
		}
	}
	require.True(t, last, "no last part")
	return w, nil
}

// TestEveryCommitOnceWhateverTheLimits reads random histories with random limits and restart points.
func TestEveryCommitOnceWhateverTheLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := newStub()
		s.tables["t"] = &stubTable{}
		commits := rapid.SliceOfN(rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 4), rapid.IntRange(1, 60)), 1, 60).Draw(rt, "commits")
		s.fill("t", commits...)
		s.tables["t"].oldOne = rapid.Bool().Draw(rt, "without command id")
		limits := sqlserver.Limits{
			Commits:  rapid.SampledFrom([]int64{0, 1, 2, 7}).Draw(rt, "commits per window"),
			Rows:     rapid.SampledFrom([]int64{0, 1, 3, 50}).Draw(rt, "rows per window"),
			Bytes:    rapid.SampledFrom([]int64{0, 1, 500, 5000}).Draw(rt, "bytes per window"),
			PartRows: rapid.SampledFrom([]int64{0, 1, 3, 5, 7, 12, 100}).Draw(rt, "rows per part"),
			Ranges:   rapid.IntRange(1, 3).Draw(rt, "ranges"),
		}
		client := s.start(t)
		l := layout(rt, t.Context(), client, "t")
		var got []change
		position := lsn(1)
		for windows := 0; position.Less(s.head().lsn); windows++ {
			require.Less(rt, windows, len(commits)+1, "no progress")
			w, err := readWindow(rt, t.Context(), client, l, position, limits)
			require.NoError(rt, err)
			checkWindow(rt, s, position, limits, w)
			got = append(got, w.rows...)
			position = w.End
			if rapid.Bool().Draw(rt, "restart") {
				require.NoError(rt, client.Close())
				client = s.start(t)
			}
		}
		want := slices.Clone(s.tables["t"].rows)
		if s.tables["t"].oldOne {
			for i := range want {
				want[i].pos.CommandID = 0
			}
		}
		require.Equal(rt, want, got)
	})
}

// checkWindow compares one window with the limits and the history.
func checkWindow(t require.TestingT, s *stub, start mssqlcdc.LSN, limits sqlserver.Limits, w window) {
	i := slices.IndexFunc(s.mapping, func(e entry) bool { return e.lsn == w.End })
	require.GreaterOrEqual(t, i, 0, "the window ends at no commit")
	require.True(t, start.Less(w.End))
	require.Equal(t, s.mapping[i].wall, w.EndTime)
	commits := int64(0)
	var last mssqlcdc.LSN
	for _, row := range w.rows {
		if row.pos.StartLSN != last {
			commits, last = commits+1, row.pos.StartLSN
		}
	}
	require.Equal(t, commits, w.metrics.Commits)
	if limits.Commits > 0 {
		require.LessOrEqual(t, commits, limits.Commits)
	}
	if limits.Rows > 0 && int64(len(w.rows)) > limits.Rows {
		tail := slices.IndexFunc(w.rows, func(c change) bool { return c.pos.StartLSN == last })
		require.Less(t, int64(tail), limits.Rows, "more than one commit beyond the limit")
	}
	for k, part := range w.parts {
		if limits.PartRows > 0 {
			require.LessOrEqual(t, int64(part), limits.PartRows)
		}
		require.True(t, part > 0 || len(w.parts) == 1, "part %d of %d is empty", k, len(w.parts))
	}
}
