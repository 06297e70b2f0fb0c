package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// captured lists the identities of a change table, read in process.
func (l *lab) captured(t *testing.T, instance string) map[string]int {
	t.Helper()
	ids := map[string]int{}
	for _, row := range l.query(t, "SELECT CONVERT(varchar(22), __$start_lsn, 1), CONVERT(varchar(22), __$seqval, 1), __$operation FROM "+changeTable(instance)) {
		ids[strings.Join(row, "/")]++
	}
	return ids
}

// table opens a table of the lab, nil if there is none yet.
func (l *lab) table(t *testing.T, elements ...string) *delta.Table {
	t.Helper()
	st, err := file.New(filepath.Join(append([]string{l.dir}, elements...)...))
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{})
	if err != nil {
		require.ErrorIs(t, err, delta.ErrNotTable)
		return nil
	}
	return table
}

// rows reads columns of a table, in the order of its files. No table has no rows.
func (l *lab) rows(t *testing.T, name string, columns ...string) []map[string]any {
	t.Helper()
	table := l.table(t, "lake", name)
	if table == nil {
		return nil
	}
	var rows []map[string]any
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: columns}) {
		require.NoError(t, err)
		for row := range mssqlcdc.Rows(rec, 0) {
			for name, value := range row {
				switch v := value.(type) {
				case string:
					row[name] = strings.Clone(v) // the record's memory is taken over by the next one
				case []byte:
					row[name] = slices.Clone(v)
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// bronze lists the identities of a table.
func (l *lab) bronze(t *testing.T, name string) map[string]int {
	t.Helper()
	ids := map[string]int{}
	table := l.table(t, "lake", name)
	if table == nil {
		return ids
	}
	columns := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation}
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: columns}) {
		require.NoError(t, err)
		for i := range int(rec.NumRows()) {
			ids[fmt.Sprintf("%s/%s/%d", rec.Column(0).(*array.String).Value(i), rec.Column(1).(*array.String).Value(i), rec.Column(2).(*array.Int32).Value(i))]++
		}
	}
	return ids
}

// requireOnce checks that every row of the change tables is in the lake once.
func (l *lab) requireOnce(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		want := l.captured(t, "dbo_"+name)
		require.NotEmpty(t, want, "nothing was captured of %s: the test tests nothing", name)
		require.Empty(t, difference(want, l.bronze(t, name)), "table %s", name)
	}
}

// difference says in a line how identities differ, "" if they do not.
func difference(want, got map[string]int) string {
	missing, doubled, example := 0, 0, ""
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id] < want[id] {
			missing++
			example = "missing " + id
		}
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		if got[id] > want[id] {
			doubled++
			example = "too often " + id
		}
	}
	if missing+doubled == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d rows are missing and %d come too often; for example %s", missing, len(want), doubled, example)
}

// fact is a row of the facts table.
type fact struct {
	Start, End string
	Rows       int64
	Batch      int64 // 0: no commit
	Event      string
}

// facts are the rows of a target, windows with a commit first, in order of their ends.
func (l *lab) facts(t *testing.T, target string) (windows, others []fact) {
	t.Helper()
	for _, row := range l.rows(t, "_facts") {
		if row["target"] != target {
			continue
		}
		f := fact{Rows: row["rows"].(int64)}
		f.Start, _ = row["start_lsn"].(string)
		f.End, _ = row["end_lsn"].(string)
		f.Batch, _ = row["batch_id"].(int64)
		f.Event, _ = row["event"].(string)
		if f.Batch > 0 && f.Event == "" {
			windows = append(windows, f)
		} else {
			others = append(others, f)
		}
	}
	slices.SortFunc(windows, func(a, b fact) int { return strings.Compare(a.End, b.End) })
	return windows, others
}

// requireTiles checks that the windows of a table's commits follow each other without
// hole and overlap from a start to the last change row, and add up to its rows.
func (l *lab) requireTiles(t *testing.T, name, start string) {
	t.Helper()
	l.requireTilesOf(t, "./lake/"+name, name, start)
}

// requireTilesOf is requireTiles for a target that is not called like its table.
func (l *lab) requireTilesOf(t *testing.T, target, name, start string) {
	t.Helper()
	last := l.query(t, "SELECT MAX(__$start_lsn) FROM "+changeTable("dbo_"+name))[0][0]
	windows, _ := l.facts(t, target)
	require.NotEmpty(t, windows, "no facts of %s", target)
	var rows int64
	at := start
	for i, f := range windows {
		require.Equal(t, at, f.Start, "window %d of %s begins where the one before it ended: %+v", i, target, windows)
		require.Equal(t, int64(i+1), f.Batch, "windows are numbered without gap: %+v", windows)
		at = f.End
		rows += f.Rows
	}
	require.GreaterOrEqual(t, at, last, "the windows of %s reach the last change", target)
	require.Equal(t, int64(len(l.captured(t, "dbo_"+name))), rows, "rows of the windows of %s", target)
}

// verdicts are the rows of the control table by target.
func (l *lab) verdicts(t *testing.T) map[string]control.Verdict {
	t.Helper()
	verdicts := map[string]control.Verdict{}
	if l.table(t, "lake", "_control") == nil {
		return verdicts
	}
	st, err := file.New(filepath.Join(l.dir, "lake", "_control"))
	require.NoError(t, err)
	table, err := control.Open(t.Context(), st, control.Options{})
	require.NoError(t, err)
	all, err := table.All(t.Context())
	require.NoError(t, err)
	for _, v := range all {
		verdicts[v.Target] = v
	}
	require.Len(t, verdicts, len(all), "one row a target")
	return verdicts
}

// requireVerdictHolds checks that bronze has every row that was committed before the
// verdict of its table, for a server whose zone is UTC.
func (l *lab) requireVerdictHolds(t *testing.T, name string) {
	t.Helper()
	v, ok := l.verdicts(t)["dbo."+name]
	if !ok || v.FinalizedUntil.IsZero() {
		return
	}
	got := l.bronze(t, name)
	text := "SELECT CONVERT(varchar(22), __$start_lsn, 1), CONVERT(varchar(22), __$seqval, 1), __$operation, " +
		"CONVERT(varchar(23), sys.fn_cdc_map_lsn_to_time(__$start_lsn), 121) FROM " + changeTable("dbo_"+name)
	for _, row := range l.query(t, text) {
		at, err := time.Parse("2006-01-02 15:04:05.000", row[3])
		require.NoError(t, err)
		if at.Before(v.FinalizedUntil) {
			id := strings.Join(row[:3], "/")
			require.Equal(t, 1, got[id], "the verdict of %s is %s, and bronze has not row %s of %s", name, v.FinalizedUntil, id, at)
		}
	}
}

// newestTime is the commit time of the newest captured commit, for a server whose
// zone is UTC.
func (l *lab) newestTime(t *testing.T) time.Time {
	t.Helper()
	text := l.query(t, "SELECT CONVERT(varchar(23), sys.fn_cdc_map_lsn_to_time(sys.fn_cdc_get_max_lsn()), 121)")[0][0]
	at, err := time.Parse("2006-01-02 15:04:05.000", text)
	require.NoError(t, err)
	return at
}
