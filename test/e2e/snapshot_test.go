package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// snapshotYAML reads small chunks beside small windows.
var snapshotYAML = strings.Replace(crashYAML, "format: record_batch", "format: record_batch\n    stream_snapshot: true\n    snapshot_chunk_rows: 7", 1)

// images are the rows of a table by key, as text.
type images map[string]string

// keyOf is the key of a row of the orders workload.
func keyOf(name string, values map[string]string) string {
	if name == "order_lines" {
		return values["order_id"] + "/" + values["line_no"]
	}
	return values["order_id"]
}

// imagesOfSource reads the source table.
func (l *lab) imagesOfSource(t *testing.T, name string, columns []sourceColumn) images {
	t.Helper()
	var selected []string
	for _, c := range columns {
		selected = append(selected, c.expression(mssqlcdc.QuoteName(c.Name)))
	}
	found := images{}
	for _, row := range l.query(t, "SELECT "+strings.Join(selected, ", ")+" FROM dbo."+name) {
		values := map[string]string{}
		for i, c := range columns {
			values[c.Name] = c.fromSource(t, row[i])
		}
		found[keyOf(name, values)] = fmt.Sprint(values)
	}
	return found
}

// imagesOfLake is the latest image of each key in bronze, from the rows of the newest
// snapshot and the changes after it: what anybody who wants the table makes of it.
func (l *lab) imagesOfLake(t *testing.T, name string, columns []sourceColumn) images {
	t.Helper()
	rows := l.rows(t, name)
	text := func(row map[string]any, column string) string { // NULL ranks below every value
		s, _ := row[column].(string)
		return s
	}
	number := func(row map[string]any, column string) int64 {
		n, ok := row[column].(int64)
		if !ok {
			return -1
		}
		return n
	}
	slices.SortStableFunc(rows, func(a, b map[string]any) int {
		return cmp.Or(
			cmp.Compare(text(a, mssqlcdc.ColStartLSN), text(b, mssqlcdc.ColStartLSN)),
			cmp.Compare(number(a, mssqlcdc.ColCommandID), number(b, mssqlcdc.ColCommandID)),
			cmp.Compare(text(a, mssqlcdc.ColSeqVal), text(b, mssqlcdc.ColSeqVal)),
			cmp.Compare(number(a, mssqlcdc.ColOperation), number(b, mssqlcdc.ColOperation)),
		)
	})
	newest := ""
	for _, row := range rows {
		newest = max(newest, text(row, mssqlcdc.ColSnapshot))
	}
	found := images{}
	for _, row := range rows {
		snapshot := text(row, mssqlcdc.ColSnapshot)
		if snapshot == "" && text(row, mssqlcdc.ColStartLSN) <= newest || snapshot != "" && snapshot != newest {
			continue
		}
		values := map[string]string{}
		for _, c := range columns {
			values[c.Name] = c.fromLake(t, row[c.Name])
		}
		switch mssqlcdc.Operation(number(row, mssqlcdc.ColOperation)) {
		case mssqlcdc.Delete, mssqlcdc.UpdateBefore:
			delete(found, keyOf(name, values))
		default:
			found[keyOf(name, values)] = fmt.Sprint(values)
		}
	}
	return found
}

// columnsOf are the captured columns of a table with their types.
func (l *lab) columnsOf(t *testing.T, name string) []sourceColumn {
	t.Helper()
	var columns []sourceColumn
	for _, row := range l.query(t, "SELECT c.name, t.name FROM sys.columns AS c JOIN sys.types AS t ON t.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID('dbo."+name+"') AND c.is_computed = 0 ORDER BY c.column_id") {
		columns = append(columns, sourceColumn{Name: row[0], Type: row[1]})
	}
	return columns
}

// requireImages checks that the lake shows the source as it is now.
func (l *lab) requireImages(t *testing.T) {
	t.Helper()
	for _, name := range crashTables() {
		columns := l.columnsOf(t, name)
		want := l.imagesOfSource(t, name, columns)
		require.NotEmpty(t, want)
		require.Equal(t, want, l.imagesOfLake(t, name, columns), "table %s", name)
	}
}

// requireChunksOnce checks that no row of a snapshot is there twice in one chunk, and
// that chunks follow each other.
func (l *lab) requireChunksOnce(t *testing.T) {
	t.Helper()
	for _, name := range crashTables() {
		seen, chunks := map[string]int64{}, map[int64]bool{}
		for _, row := range l.rows(t, name) {
			if row[mssqlcdc.ColOperation] != int64(mssqlcdc.Read) {
				continue
			}
			chunk := row[mssqlcdc.ColChunk].(int64)
			key := keyOf(name, map[string]string{"order_id": fmt.Sprint(row["order_id"]), "line_no": fmt.Sprint(row["line_no"])})
			before, twice := seen[key]
			require.False(t, twice, "%s: key %s in chunks %d and %d", name, key, before, chunk)
			seen[key], chunks[chunk] = chunk, true
		}
		require.Greater(t, len(chunks), 2, "%s: too few chunks to test anything", name)
	}
}

// A snapshot is killed after so and so many points again and again while the source
// goes on: in the end the latest image of each key is the source table, each row of
// the snapshot came once, and the verdict stood still until then.
func TestSnapshotKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	for _, points := range []int{22, 27, 34} {
		t.Run(fmt.Sprint(points), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			l.writeEvery(t, 25*time.Second, 60)
			config := l.config(t, snapshotYAML)
			begin := time.Now()
			for runs := 1; ; runs++ {
				where, err := l.crash(t.Context(), config, fmt.Sprintf("%s=%d", killAt, points))
				require.NoError(t, err)
				if where == "" {
					t.Logf("%d runs", runs)
					break
				}
				l.requireHeld(t)
				require.Less(t, time.Since(begin), 2*time.Minute, "no progress after %d runs; killed last %s", runs, where)
				if runs < 20 && rng.IntN(2) == 0 { // later it may catch up
					l.writeEvery(t, 25*time.Second, 1+rng.IntN(3))
				}
			}
			l.writeEvery(t, 25*time.Second, 10)
			require.NoError(t, l.sim.Idle(t.Context()))
			where, err := l.crash(t.Context(), config)
			require.NoError(t, err)
			require.Empty(t, where)
			l.requireImages(t)
			l.requireChunksOnce(t)
			for name, v := range l.verdicts(t) {
				require.Empty(t, v.HeldBy, name)
				require.False(t, v.FinalizedUntil.IsZero(), name)
			}
		})
	}
}

// requireHeld checks that the verdict has not moved over an open snapshot.
func (l *lab) requireHeld(t *testing.T) {
	t.Helper()
	for name, v := range l.verdicts(t) {
		table := strings.TrimPrefix(name, "dbo.")
		open := l.position(t, table).Snapshot
		if open != nil && !open.Complete {
			require.True(t, v.FinalizedUntil.IsZero(), "%s is final until %s while its snapshot is open", name, v.FinalizedUntil)
			require.Equal(t, control.NotYet, v.Answer(time.Time{}, v.CompleteFrom.Add(time.Minute)))
		}
	}
}

// Changes that clean-up deleted unread are made good by another snapshot.
func TestResnapshotAfterALoss(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l.writeEvery(t, 25*time.Second, 30)
	yaml := strings.Replace(snapshotYAML, "stream_snapshot: true", "stream_snapshot: true\n    on_data_loss: resnapshot", 1)
	config := l.config(t, yaml)
	where, err := l.crash(t.Context(), config)
	require.NoError(t, err)
	require.Empty(t, where)
	l.requireImages(t)

	l.writeEvery(t, 25*time.Second, 20)
	for _, name := range crashTables() {
		l.exec(t, "DECLARE @low binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table @capture_instance = 'dbo_"+name+"', @low_water_mark = @low")
	}
	l.writeEvery(t, 25*time.Second, 5)
	where, err = l.crash(t.Context(), config)
	require.NoError(t, err)
	require.Empty(t, where)
	l.requireImages(t)
	for _, name := range crashTables() {
		state := l.position(t, name)
		require.Equal(t, 1, state.Generation, name)
		require.True(t, state.Snapshot.Complete, name)
		require.Len(t, l.verdicts(t)["dbo."+name].Gaps, 1, "the verdict of %s is marked", name)
	}
}
