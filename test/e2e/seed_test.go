package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
)

// seed runs the command for a table of the lab; it tells whether it went well, and what
// it printed.
func (l *lab) seed(t *testing.T, table string, args ...string) (ok bool, out string) {
	t.Helper()
	args = append([]string{
		"seed", "--table", "dbo." + table, "--delta", "./lake/" + table, "--app-id", "e2e-" + table, "--facts", "./lake/_facts", "--position", "./position",
	}, args...)
	cmd, printed := l.command(t.Context(), args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err, "%s", printed)
	}
	return err == nil, printed.String()
}

// maxLSN is the newest commit that was captured.
func (l *lab) maxLSN(t *testing.T) string {
	t.Helper()
	return "0x" + strings.TrimPrefix(l.query(t, "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0], "0x")
}

// copied makes a copy of the lab's tables, and tells the folder that it is in: a Delta
// table each, with columns beside those of the source.
func (l *lab) copied(t *testing.T) string {
	t.Helper()
	other := l.elsewhere(t.TempDir())
	other.run(t, with(t, boundedYAML, "run: available_now", "run: snapshot_only"))
	return filepath.Join(other.dir, "lake")
}

// asParquet are the files of a Delta table alone.
func asParquet(t *testing.T, table string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(table, "*.parquet"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	dir := t.TempDir()
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), raw, 0o600))
	}
	return dir
}

// A copy that was made some time after a commit, while more was committed, begins a table
// at that commit: with the changes after it the table is the source, and the verdict waits
// for what the copy may show.
func TestSeedAndStream(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"delta", "parquet", "time"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			l.writeEvery(t, 25*time.Second, 40)
			at := []string{"--lsn", l.maxLSN(t)}
			if kind == "time" {
				l.clock.Advance(2 * time.Second)
				at = []string{"--time", l.clock.Now().UTC().Format(time.RFC3339)}
				l.clock.Advance(2 * time.Second)
			}
			l.writeEvery(t, 25*time.Second, 10)
			for range 3 { // not captured when the copy is made
				require.NoError(t, l.orders.Step(t.Context()))
			}
			dir := l.copied(t)
			for _, name := range crashTables() {
				from := filepath.Join(dir, name)
				if kind == "parquet" {
					from = asParquet(t, from)
				}
				ok, out := l.seed(t, name, append([]string{"--copy", from}, at...)...)
				require.True(t, ok, out)
				require.Contains(t, out, "goes on with the changes after it")
			}
			l.run(t, boundedYAML)
			for name, v := range l.verdicts(t) {
				require.NotEmpty(t, v.HeldBy, "%s: not everything that the copy shows is here", name)
				require.True(t, v.FinalizedUntil.IsZero(), name)
			}
			l.writeEvery(t, 25*time.Second, 10)
			require.NoError(t, l.sim.Idle(t.Context()))
			l.run(t, boundedYAML)
			l.requireImages(t)
			for name, v := range l.verdicts(t) {
				require.Empty(t, v.HeldBy, name)
				require.False(t, v.FinalizedUntil.IsZero(), name)
			}
			for _, name := range crashTables() {
				windows, others := l.facts(t, "./lake/"+name)
				require.NotEmpty(t, windows, "the changes after it")
				begun := slices.DeleteFunc(others, func(f fact) bool { return f.Event != string(mssqlcdc.EventBootstrap) })
				require.Len(t, begun, 1)
				require.Positive(t, begun[0].Rows)
				ok, out := l.seed(t, name, append([]string{"--copy", filepath.Join(dir, name)}, at...)...)
				require.True(t, ok, out)
				require.Contains(t, out, "nothing to do")
			}
		})
	}
}

// A crash between the rows and the resume position is repaired by the same command; and
// nothing comes twice.
func TestSeedAgainAfterACrash(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l.writeEvery(t, 25*time.Second, 30)
	lsn, dir := l.maxLSN(t), l.copied(t)
	for range 2 {
		for _, name := range crashTables() {
			ok, out := l.seed(t, name, "--copy", filepath.Join(dir, name), "--lsn", lsn)
			require.True(t, ok, out)
		}
		require.NoError(t, os.RemoveAll(filepath.Join(l.dir, "position")))
	}
	for _, name := range crashTables() {
		ok, out := l.seed(t, name, "--copy", filepath.Join(dir, name), "--lsn", lsn)
		require.True(t, ok, out)
		require.Len(t, l.rows(t, name), len(l.imagesOfSource(t, name, l.columnsOf(t, name))))
	}
	l.writeEvery(t, 25*time.Second, 10)
	l.run(t, boundedYAML)
	l.requireImages(t)
}

// What cannot be sound is refused before anything is written.
func TestSeedIsRefused(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l.writeEvery(t, 25*time.Second, 30)
	dir := l.copied(t)
	orders := filepath.Join(dir, "orders")
	old := l.maxLSN(t)
	l.writeEvery(t, 25*time.Second, 10)
	l.exec(t, "DECLARE @low binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table @capture_instance = 'dbo_orders', @low_water_mark = @low")
	lsn := l.maxLSN(t)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"below retention":       {[]string{"--copy", orders, "--lsn", old}, "CDC no longer has"},
		"of the future":         {[]string{"--copy", orders, "--lsn", "0x0000FFFF000000010001"}, "lies after the newest change"},
		"columns missing":       {[]string{"--copy", filepath.Join(dir, "order_lines"), "--lsn", lsn}, "the copy has no column"},
		"no copy":               {[]string{"--copy", t.TempDir(), "--lsn", lsn}, "neither a Delta table nor files"},
		"no moment":             {[]string{"--copy", orders}, "set one of --lsn and --time"},
		"a time without a zone": {[]string{"--copy", orders, "--time", "2026-03-01T12:00:00"}, "want a time with its zone"},
		"unknown instance":      {[]string{"--copy", orders, "--lsn", lsn, "--capture-instance", "nobody"}, "nobody"},
		"too much":              {[]string{"--adopt", "--copy", orders}, "takes no --copy"},
	} {
		ok, out := l.seed(t, "orders", test.args...)
		require.False(t, ok, "%s: %s", name, out)
		require.Contains(t, lastLine(out), test.want, name)
		require.Nil(t, l.table(t, "lake", "orders"), name)
	}

	ok, out := l.seed(t, "orders", "--copy", orders, "--lsn", lsn)
	require.True(t, ok, out)
	l.writeEvery(t, 25*time.Second, 5)
	ok, out = l.seed(t, "orders", "--copy", orders, "--lsn", l.maxLSN(t))
	require.False(t, ok, out)
	require.Contains(t, out, "it was begun already")
	ok, out = l.seed(t, "order_lines", "--delta", "./lake/orders", "--app-id", "e2e-orders", "--copy", filepath.Join(dir, "order_lines"), "--lsn", l.maxLSN(t))
	require.False(t, ok, "rows of another table: %s", out)
}

// A newer copy over a table whose changes were lost: the table is the source again, and
// what was lost is recorded.
func TestReseed(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	require.NoError(t, l.sim.Idle(t.Context()))
	l.run(t, boundedYAML)
	l.writeEvery(t, 25*time.Second, 30)
	l.run(t, boundedYAML)
	l.writeEvery(t, 25*time.Second, 10)
	lsn := l.maxLSN(t)
	for _, name := range crashTables() {
		l.exec(t, "DECLARE @low binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table @capture_instance = 'dbo_"+name+"', @low_water_mark = @low")
	}
	require.Contains(t, l.fail(t, boundedYAML), "clean-up")
	dir := l.copied(t)
	for _, name := range crashTables() {
		ok, out := l.seed(t, name, "--copy", filepath.Join(dir, name), "--lsn", lsn, "--reseed")
		require.True(t, ok, out)
	}
	l.writeEvery(t, 25*time.Second, 10)
	l.clock.Advance(time.Minute)
	require.NoError(t, l.sim.Idle(t.Context()))
	l.run(t, boundedYAML)
	l.requireImages(t)
	for _, name := range crashTables() {
		require.Equal(t, 1, l.position(t, name).Generation)
		v := l.verdicts(t)["dbo."+name]
		require.Empty(t, v.HeldBy)
		require.Len(t, v.Gaps, 1, "the verdict of %s is marked", name)
		position, ok, err := bronze.Position(l.table(t, "lake", name).Snapshot(), "e2e-"+name)
		require.NoError(t, err)
		require.True(t, ok)
		require.False(t, position.Less(parsedLSN(t, lsn)))
	}
	ok, out := l.seed(t, "orders", "--copy", filepath.Join(dir, "orders"), "--lsn", l.query(t, fmt.Sprintf("SELECT CONVERT(varchar(22), sys.fn_cdc_increment_lsn(%s), 1)", lsn))[0][0], "--reseed")
	require.False(t, ok, out)
	require.Contains(t, out, "brings nothing")
}

func parsedLSN(t *testing.T, text string) mssqlcdc.LSN {
	t.Helper()
	lsn, err := mssqlcdc.ParseLSN(text)
	require.NoError(t, err)
	return lsn
}
