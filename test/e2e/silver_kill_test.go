package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// silverYAML is snapshotYAML with the current table and the history beside bronze.
var silverYAML = strings.Replace(snapshotYAML, "      - finalize: { control_path: ./lake/_control, granularity: minute }\n", `      - finalize: { control_path: ./lake/_control, granularity: minute }
      - apply_changes:
          bronze: ./lake/${! @table }
          target: ./lake/silver-${! @table }
          control_path: ./lake/_control
          every: 0s
      - apply_changes:
          bronze: ./lake/${! @table }
          target: ./lake/history-${! @table }
          table: history.${! @database_schema }.${! @table }
          mode: history
          control_path: ./lake/_control
          every: 0s
`, 1)

// imagesOf are the rows of a derived table by key; a key that is there twice fails.
func (l *lab) imagesOf(t *testing.T, name string, columns []sourceColumn, rows []map[string]any) images {
	t.Helper()
	found := images{}
	for _, row := range rows {
		values := map[string]string{}
		for _, c := range columns {
			values[c.Name] = c.fromLake(t, row[c.Name])
		}
		key := keyOf(name, values)
		require.NotContains(t, found, key, "table %s has two rows of a key", name)
		found[key] = fmt.Sprint(values)
	}
	return found
}

// asOf are the images of a history that were valid at an LSN.
func asOf(rows []map[string]any, lsn string) (valid []map[string]any) {
	for _, row := range rows {
		end, ended := row[silver.ColEndLSN].(string)
		if row[mssqlcdc.ColStartLSN].(string) <= lsn && (!ended || lsn < end) {
			valid = append(valid, row)
		}
	}
	return valid
}

// moment is the source at an LSN.
type moment struct {
	lsn    string
	tables map[string]images
	sure   map[string]images // without (max) columns
}

// sureColumns are those of which a change row always says what they were before. A (max)
// column that was NULL and one that was left alone look the same there, so the history of
// a row that a snapshot has read late may show such a value too early.
func (l *lab) sureColumns(t *testing.T, name string) []sourceColumn {
	t.Helper()
	large := map[string]bool{}
	for _, row := range l.query(t, "SELECT name FROM sys.columns WHERE object_id = OBJECT_ID('dbo."+name+"') AND max_length = -1") {
		large[row[0]] = true
	}
	return slices.DeleteFunc(l.columnsOf(t, name), func(c sourceColumn) bool { return large[c.Name] })
}

func (l *lab) now(t *testing.T) moment {
	t.Helper()
	m := moment{tables: map[string]images{}, sure: map[string]images{}}
	m.lsn = strings.ToUpper(l.query(t, "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0])
	m.lsn = "0x" + strings.TrimPrefix(m.lsn, "0X")
	for _, name := range crashTables() {
		m.tables[name] = l.imagesOfSource(t, name, l.columnsOf(t, name))
		m.sure[name] = l.imagesOfSource(t, name, l.sureColumns(t, name))
	}
	return m
}

// requireDerived checks both tables against the source as it is, and the history against
// the source as it was.
func (l *lab) requireDerived(t *testing.T, moments []moment) {
	t.Helper()
	now := l.now(t)
	for _, name := range crashTables() {
		columns := l.columnsOf(t, name)
		require.NotEmpty(t, now.tables[name])
		require.Equal(t, now.tables[name], l.imagesOf(t, name, columns, l.rows(t, "silver-"+name)), "current table of %s", name)
		history := l.rows(t, "history-"+name)
		require.Equal(t, now.tables[name], l.imagesOf(t, name, columns, asOf(history, now.lsn)), "history of %s", name)
		sure := l.sureColumns(t, name)
		for _, m := range moments {
			require.Equal(t, m.sure[name], l.imagesOf(t, name, sure, asOf(history, m.lsn)), "history of %s at %s", name, m.lsn)
		}
	}
}

// The program dies after so and so many points again and again, also within
// apply_changes, while a snapshot is read and the source goes on. In the end the current
// table is the source, the history is what the source was at each moment, and no verdict
// was ever ahead of that of bronze.
func TestSilverKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	var within atomic.Int64
	t.Cleanup(func() {
		require.Positive(t, within.Load(), "no process died within a derived table: the test tests nothing")
	})
	for _, points := range []int{45, 71, 130} {
		t.Run(fmt.Sprint(points), func(t *testing.T) {
			t.Parallel()
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			l.writeEvery(t, 25*time.Second, 40)
			config := l.config(t, silverYAML)
			moments := []moment{}
			begin := time.Now()
			for runs := 1; ; runs++ {
				where, err := l.crash(t.Context(), config, fmt.Sprintf("%s=%d", killAt, points))
				require.NoError(t, err)
				if where == "" {
					t.Logf("%d runs", runs)
					break
				}
				if strings.Contains(where, "silver-") || strings.Contains(where, "history-") {
					within.Add(1)
				}
				l.requireFollows(t)
				require.Less(t, time.Since(begin), 3*time.Minute, "no progress after %d runs; killed last %s", runs, where)
				if runs < 12 && rng.IntN(2) == 0 { // later it may catch up
					l.writeEvery(t, 25*time.Second, 1+rng.IntN(3))
					moments = append(moments, l.now(t))
				}
			}
			l.writeEvery(t, 25*time.Second, 10)
			require.NoError(t, l.sim.Idle(t.Context()))
			where, err := l.crash(t.Context(), config)
			require.NoError(t, err)
			require.Empty(t, where)
			l.requireDerived(t, moments)
			verdicts := l.verdicts(t)
			for _, name := range crashTables() {
				for _, derived := range []string{"silver.dbo." + name, "history.dbo." + name} {
					require.Equal(t, verdicts["dbo."+name].FinalizedUntil, verdicts[derived].FinalizedUntil, derived)
					require.Empty(t, verdicts[derived].HeldBy)
				}
			}
		})
	}
}

// requireFollows checks that no derived table is final before bronze, nor while its own
// snapshot is open.
func (l *lab) requireFollows(t *testing.T) {
	t.Helper()
	verdicts := l.verdicts(t)
	for _, name := range crashTables() {
		for _, derived := range []string{"silver.dbo." + name, "history.dbo." + name} {
			require.False(t, verdicts[derived].FinalizedUntil.After(verdicts["dbo."+name].FinalizedUntil), derived)
		}
	}
}

// A gap is healed in the current table by the snapshot after it, and until then its
// verdict is marked.
func TestSilverAfterALoss(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l.writeEvery(t, 25*time.Second, 30)
	yaml := with(t, silverYAML, "stream_snapshot: true", "stream_snapshot: true\n    on_data_loss: resnapshot")
	l.run(t, yaml)
	before := l.now(t)
	l.requireDerived(t, []moment{before})
	l.writeEvery(t, 25*time.Second, 40)
	for _, name := range crashTables() {
		l.exec(t, "DECLARE @now binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_"+name+"', @low_water_mark = @now")
	}
	l.writeEvery(t, 25*time.Second, 10)
	l.run(t, yaml)
	l.writeEvery(t, 25*time.Second, 10)
	require.NoError(t, l.sim.Idle(t.Context()))
	l.run(t, yaml)
	l.requireDerived(t, []moment{before})
	verdicts := l.verdicts(t)
	for _, name := range crashTables() {
		gaps := verdicts["silver.dbo."+name].Gaps
		require.Len(t, gaps, 1, name)
		require.True(t, gaps[0].To.Year() < 9999, "the snapshot ended the gap of %s: %v", name, gaps)
	}
}
