package sqlserver_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// TestManyTablesOverFewConnections reads more windows at once, each in sub-ranges, than there are connections.
func TestManyTablesOverFewConnections(t *testing.T) {
	t.Parallel()
	s := newStub()
	commits := make([]int, 100)
	for i := range commits {
		commits[i] = 3
	}
	s.fill("t", commits...)
	client := s.start(t, func(c *sqlserver.Config) { c.MaxConnections = 2 })
	l := layout(t, t.Context(), client, "t")
	var group errgroup.Group
	for range 6 {
		group.Go(func() error {
			for position := lsn(1); position.Less(s.head().lsn); {
				w, err := readWindow(t, t.Context(), client, l, position, sqlserver.Limits{PartRows: 5, Rows: 60, Ranges: 3})
				if err != nil {
					return err
				}
				position = w.End
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.LessOrEqual(t, s.logins, 4)
}

// TestReadAheadIsBounded stops the consumer and looks how far the server got.
func TestReadAheadIsBounded(t *testing.T) {
	t.Parallel()
	s := newStub()
	commits := make([]int, 2000)
	for i := range commits {
		commits[i] = 10
	}
	s.fill("t", commits...)
	var mu sync.Mutex
	sent := 0
	s.row = func(int, mssqlcdc.LSN) error {
		mu.Lock()
		defer mu.Unlock()
		sent++
		return nil
	}
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	limits := sqlserver.Limits{PartRows: 20, Ranges: 2}
	plan, err := client.Plan(t.Context(), l, lsn(1), head.LSN, limits)
	require.NoError(t, err)
	rows := int64(0)
	for part, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Limits: limits, Head: head}) {
		require.NoError(t, err)
		rows += part.Record.NumRows()
		if part.Index == 10 {
			time.Sleep(300 * time.Millisecond)
			mu.Lock()
			// Two sub-ranges ahead of a few parts each, and what the driver and the socket hold.
			require.Less(t, sent, 4000)
			mu.Unlock()
		}
	}
	require.EqualValues(t, 20_000, rows)
}

func TestManyEmptyPolls(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("busy", 1, 1)
	s.tables["quiet"] = &stubTable{min: lsn(1)}
	client := s.start(t)
	l := layout(t, t.Context(), client, "quiet")
	for range 500 {
		_, err := readWindow(t, t.Context(), client, l, lsn(1), sqlserver.Limits{})
		require.NoError(t, err)
	}
	require.Equal(t, 1, s.logins)
}

// TestMissingColumn is O-15: the change table is not what the layout says any more.
func TestMissingColumn(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1)
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	s.before = func(statement string, _ map[string]any) error {
		if contains(statement, changeRead) {
			return &tds.ServerError{Number: 207, Class: 16, State: 1, Text: "Invalid column name '__$command_id'."}
		}
		return nil
	}
	_, err := readWindow(t, t.Context(), client, l, lsn(1), sqlserver.Limits{})
	var schema *sqlserver.SchemaError
	require.ErrorAs(t, err, &schema)
	require.Equal(t, "read its columns anew", schema.Cure)
}

// TestNoCommandID warns, once per layout, with the next window.
func TestNoCommandID(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 2)
	s.tables["t"].oldOne = true
	client := s.start(t)
	l := layout(t, t.Context(), client, "t")
	require.False(t, l.HasCommandID)
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	plan, err := client.Plan(t.Context(), l, lsn(1), head.LSN, sqlserver.Limits{})
	require.NoError(t, err)
	for part, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: l, Plan: plan, Head: head}) {
		require.NoError(t, err)
		require.Len(t, part.Warnings, 1)
		require.Contains(t, part.Warnings[0], "no __$command_id")
		require.Equal(t, 2, part.Record.Column(mssqlcdc.IdxCommandID).NullN())
	}
}

// TestClockThatStepsBack is O-17: order is by LSN, whatever the times say.
func TestClockThatStepsBack(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.fill("t", 1, 1, 1)
	s.mapping[1].wall = begin().Add(-time.Hour)
	client := s.start(t)
	w, err := readWindow(t, t.Context(), client, layout(t, t.Context(), client, "t"), lsn(1), sqlserver.Limits{})
	require.NoError(t, err)
	require.Equal(t, s.tables["t"].rows, w.rows)
}

// TestMovedInChunks asks about many tables in one statement, and about halves of them where one is gone.
func TestMovedInChunks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var cursors []sqlserver.Cursor
	for i := range 70 {
		name := fmt.Sprintf("t%d", i)
		l.exec("CREATE TABLE dbo." + name + " (id int NOT NULL PRIMARY KEY)")
		l.track(mssqlcdc.TableID{Schema: "dbo", Name: name})
	}
	l.exec("INSERT dbo.t3 VALUES (1)", "INSERT dbo.t69 VALUES (1)")
	l.capture()
	client := l.client()
	all, err := client.Instances(t.Context())
	require.NoError(t, err)
	for _, instance := range all {
		cursors = append(cursors, sqlserver.Cursor{Instance: instance, After: instance.StartLSN.Prev()})
	}
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	l.sim.ResetStatements()
	moved, err := client.Moved(t.Context(), cursors, head.LSN)
	require.NoError(t, err)
	require.Len(t, moved, 70)
	for i, m := range moved {
		require.NoError(t, m.Err)
		require.Equal(t, cursors[i].Instance.Name, m.Cursor.Instance.Name)
		require.Equal(t, m.Cursor.Instance.Name == "dbo_t3" || m.Cursor.Instance.Name == "dbo_t69", m.Moved, m.Cursor.Instance.Name)
		require.False(t, m.MinLSNTime.IsZero())
	}
	require.Equal(t, 1, len(l.sim.Statements()))

	l.exec("EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't42', @capture_instance = N'dbo_t42'")
	l.sim.ResetStatements()
	moved, err = client.Moved(t.Context(), cursors, head.LSN)
	require.NoError(t, err)
	require.Len(t, moved, 70)
	for i, m := range moved {
		require.Equal(t, cursors[i], m.Cursor)
		var loss *sqlserver.DataLossError
		require.Equal(t, m.Cursor.Instance.Name == "dbo_t42", errors.As(m.Err, &loss), "%s: %v", m.Cursor.Instance.Name, m.Err)
	}
	require.Less(t, len(l.sim.Statements()), 40, "and not one for each")
}

// TestInstancesOf lists those of some tables in one round trip, also where one of them is gone.
func TestInstancesOf(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var tables []mssqlcdc.TableID
	for i := range 20 {
		table := mssqlcdc.TableID{Schema: "dbo", Name: fmt.Sprintf("it's %d", i)}
		tables = append(tables, table)
		l.exec("CREATE TABLE " + table.Quoted() + " (id int NOT NULL PRIMARY KEY)")
		l.track(table)
	}
	l.track(tables[1], "@capture_instance = N'second'")
	client := l.client()
	names := func(tables ...mssqlcdc.TableID) []string {
		l.sim.ResetStatements()
		all, err := client.InstancesOf(t.Context(), tables)
		require.NoError(t, err)
		var names []string
		for _, instance := range all {
			if slices.Contains(tables, instance.Table) {
				names = append(names, instance.Name)
				require.Equal(t, []string{"id"}, instance.KeyColumns)
				require.False(t, instance.StartLSN.IsZero())
			}
		}
		return names
	}
	require.Empty(t, names())
	require.Equal(t, []string{"dbo_it's 1", "second", "dbo_it's 2"}, names(tables[1:3]...))
	require.Equal(t, 1, len(l.sim.Statements()))
	require.Len(t, names(tables...), 21)
	require.Equal(t, 1, len(l.sim.Statements()))
	gone := mssqlcdc.TableID{Schema: "dbo", Name: "gone"}
	require.Equal(t, []string{"dbo_it's 2"}, names(tables[2], gone))
	require.LessOrEqual(t, len(l.sim.Statements()), 3, "a session that failed is set up anew")
}
