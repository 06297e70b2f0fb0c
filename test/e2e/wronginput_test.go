package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// requireAnswer checks that the last line says all of these, of which each can be a
// choice ("this or that"), and that nothing printed holds the password.
func requireAnswer(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		said := func(choice string) bool { return strings.Contains(lastLine(text), choice) }
		require.True(t, slices.ContainsFunc(strings.Split(want, " or "), said), "the last line does not say %q; all of it:\n%s", want, text)
	}
	require.NotContains(t, text, sqlserversim.DefaultPassword)
}

// Wrong configurations: exit code not 0, and a last line that names the cause and the
// way out, without the password. What the linter of the engine finds stands in the
// lines before its last one. Put right, the run loses nothing.
func TestWrongConfiguration(t *testing.T) {
	t.Parallel()
	const mapped = "\npipeline: { processors: [ { mapping: '%' } ] }\noutput:"
	for name, tc := range map[string]struct {
		change, to string
		lint       bool
		wants      []string
	}{
		"unknown table":     {change: "dbo.orders, dbo.order_lines", to: "dbo.nobody", wants: []string{"tables", "nobody", "dbo.order_lines"}},
		"no table matches":  {change: "dbo.orders, dbo.order_lines", to: "sales.*", wants: []string{"tables", "no table matches", "dbo.orders"}},
		"no table":          {change: "dbo.orders, dbo.order_lines", to: "", wants: []string{"tables", "dbo.*"}},
		"no server":         {change: "${MSSQL_DSN}", to: "", wants: []string{"connection_string", "${MSSQL_DSN}"}},
		"wrong start":       {change: "run: available_now", to: "start_from: yesterday", wants: []string{"start_from", "yesterday", "earliest"}},
		"no cache":          {change: "checkpoint_cache: position", to: "checkpoint_cache: elsewhere", wants: []string{"checkpoint_cache", "elsewhere", "atomic_file"}},
		"unknown format":    {change: "format: record_batch", to: "format: columns", lint: true, wants: []string{".yaml(7,", "columns"}},
		"unknown run":       {change: "run: available_now", to: "run: sometimes", lint: true, wants: []string{".yaml(6,", "sometimes"}},
		"unknown period":    {change: "granularity: minute", to: "granularity: second", lint: true, wants: []string{".yaml(17,", "second"}},
		"unknown field":     {change: "granularity: minute", to: "granularty: minute", lint: true, wants: []string{"granularty"}},
		"never flushed":     {change: "facts_path:", to: "batching: { count: 5 }\n    facts_path:", lint: true, wants: []string{"batching", "period"}},
		"bytes counted":     {change: "facts_path:", to: "batching: { byte_size: 5, period: 1s }\n    facts_path:", lint: true, wants: []string{"byte_size", "batching.count"}},
		"rows into delta":   {change: "format: record_batch", to: "format: rows", wants: []string{"format: record_batch", "delivery: at_least_once"}},
		"numeric secret":    {change: "tables:", to: "user: sa\n    password: 20261130\n    tables:", wants: []string{"password", "quotes"}},
		"rows in a mapping": {change: "\noutput:", to: strings.Replace(mapped, "%", "root.a = 1", 1), wants: []string{"each_row", "format: rows"}},
		"batch dropped":     {change: "\noutput:", to: strings.Replace(mapped, "%", "root = deleted()", 1), wants: []string{"dbo.order", "each_row", "require_commit: false"}},
		"one table for two": {change: "path: ./lake/${! @table }", to: "path: ./lake/orders", wants: []string{"./lake/orders", "dbo.order_lines", "path of its own"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write(t, 8)
			text := l.fail(t, with(t, boundedYAML, tc.change, tc.to))
			if tc.lint {
				for _, want := range tc.wants {
					require.Contains(t, text, want)
				}
				requireAnswer(t, text, "linter")
			} else {
				requireAnswer(t, text, tc.wants...)
			}
			require.NotContains(t, text, "20261130")
			if name == "one table for two" {
				require.NoError(t, os.RemoveAll(filepath.Join(l.dir, "lake"))) // one of them has it now
				require.NoError(t, os.RemoveAll(filepath.Join(l.dir, "position")))
			}
			l.run(t, boundedYAML)
			l.requireOnce(t, "orders", "order_lines")
		})
	}
}

// Sources that are not ready for the reader.
func TestWrongSource(t *testing.T) {
	t.Parallel()
	const enable = " EXEC sys.sp_cdc_enable_table @source_schema = 'dbo', @source_name = 'odd', @role_name = NULL;"
	yaml := with(t, boundedYAML, "dbo.orders, dbo.order_lines", "dbo.odd")
	for name, tc := range map[string]struct {
		before, cure string
		dsn          func(*sqlserversim.Server) string
		wants        []string
	}{
		"CDC is off in the database": {
			before: "EXEC sys.sp_cdc_disable_db", cure: "EXEC sys.sp_cdc_enable_db; CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY);" + enable,
			wants: []string{"lab", "sp_cdc_enable_db or sql/enable_database.sql"},
		},
		"CDC is off for the table": {
			before: "CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY)", cure: enable, wants: []string{"dbo.odd", "sp_cdc_enable_table or sql/enable_table.sql"},
		},
		"a type that cannot be read": {
			before: "CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY, v sql_variant NULL);" + enable,
			cure: "EXEC sys.sp_cdc_disable_table @source_schema = 'dbo', @source_name = 'odd', @capture_instance = 'all'; EXEC sys.sp_cdc_enable_table @source_schema = 'dbo', @source_name = 'odd', " +
				"@role_name = NULL, @captured_column_list = 'id'",
			wants: []string{"dbo.odd", "[v]", "sql_variant", "exclude"},
		},
		"unknown database": {
			before: "CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY);" + enable,
			dsn:    func(sim *sqlserversim.Server) string { return sim.DSNFor("sa", "nowhere") },
			wants:  []string{"nowhere", "does not exist"},
		},
		"wrong password": {
			before: "CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY);" + enable,
			dsn:    func(sim *sqlserversim.Server) string { return strings.Replace(sim.DSN(), "sa:", "sa:x", 1) },
			wants:  []string{"Login failed for user 'sa'"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.exec(t, tc.before)
			dsn := l.sim.DSN()
			if tc.dsn != nil {
				dsn = tc.dsn(l.sim)
			}
			if !strings.HasSuffix(tc.before, "disable_db") {
				require.NoError(t, l.sim.Capture(t.Context()))
			}
			requireAnswer(t, l.fail(t, yaml, "MSSQL_DSN="+dsn), tc.wants...)
			if tc.cure != "" {
				l.exec(t, tc.cure)
			}
			l.exec(t, "INSERT INTO dbo.odd (id) VALUES (1), (2)")
			require.NoError(t, l.sim.Capture(t.Context()))
			l.run(t, yaml)
			l.requireOnce(t, "odd")
		})
	}
}

// A login without the rights is told the statement that gives them, which then does.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	l := newLab(t, sqlserversim.WithLogin("reader", "", false))
	l.write(t, 8)
	l.exec(t, "CREATE USER reader FOR LOGIN reader; GRANT SELECT ON dbo.orders TO reader; GRANT SELECT ON dbo.order_lines TO reader")
	dsn := "MSSQL_DSN=" + l.sim.DSN("reader")
	for _, table := range []string{"order_lines", "orders"} {
		text := l.fail(t, boundedYAML, dsn)
		grant := "GRANT SELECT ON cdc.[dbo_" + table + "_CT] TO [reader]"
		requireAnswer(t, text, grant)
		l.exec(t, grant)
	}
	cmd, out := l.command(t.Context(), "-c", l.config(t, boundedYAML))
	cmd.Env = append(cmd.Env, dsn)
	require.NoError(t, cmd.Run(), "%s", out)
	l.requireOnce(t, "orders", "order_lines")

	// A right that is taken away while the stream runs.
	cmd, out = l.command(t.Context(), "-c", l.config(t, continuousYAML(t)))
	cmd.Env = append(cmd.Env, dsn)
	require.NoError(t, cmd.Start())
	l.write(t, 20)
	eventually(t, "rows", out, func() bool { return len(l.bronze(t, "orders")) == len(l.captured(t, "dbo_orders")) })
	l.exec(t, "REVOKE SELECT ON cdc.dbo_orders_CT FROM reader")
	l.write(t, 20)
	require.Error(t, cmd.Wait(), "%s", out)
	requireAnswer(t, out.String(), "GRANT SELECT ON cdc.[dbo_orders_CT] TO [reader]")
	l.run(t, boundedYAML)
	l.requireOnce(t, "orders", "order_lines")
}

// Targets that are not what the pipeline left behind.
func TestWrongTarget(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, l *lab)
		cure  func(t *testing.T, l *lab) (yaml string) // nil: the table and its position are thrown away
		wants []string
	}{
		"dropped behind the resume position": {
			spoil: func(t *testing.T, l *lab) {
				l.run(t, boundedYAML)
				l.write(t, 40)
				require.NoError(t, os.RemoveAll(filepath.Join(l.dir, "lake", "orders")))
			},
			wants: []string{"./lake/orders", "e2e-orders", "continues from", "start_from"},
		},
		"restored behind the resume position": {
			spoil: func(t *testing.T, l *lab) {
				l.run(t, boundedYAML)
				lake := filepath.Join(l.dir, "lake", "orders")
				require.NoError(t, os.CopyFS(filepath.Join(l.dir, "old"), os.DirFS(lake)))
				l.write(t, 20)
				l.run(t, boundedYAML)
				l.write(t, 40)
				require.NoError(t, os.Rename(lake, filepath.Join(l.dir, "new")))
				require.NoError(t, os.Rename(filepath.Join(l.dir, "old"), lake))
			},
			cure: func(t *testing.T, l *lab) string { // from its position, as the message says
				at, ok, err := bronze.Position(l.table(t, "lake", "orders").Snapshot(), "e2e-orders")
				require.NoError(t, err)
				require.True(t, ok)
				l.forget(t, "orders")
				return with(t, boundedYAML, "tables:", "table_overrides: [ { table: dbo.orders, start_from: \""+at.String()+"\" } ]\n    tables:")
			},
			wants: []string{"./lake/orders", "is at 0x", "continues from 0x", "restore the table", "start_from"},
		},
		"rows of somebody else": {
			spoil: func(t *testing.T, l *lab) {
				l.run(t, "input: { generate: { count: 3, interval: '', mapping: 'root.id = counter()' } }\noutput: { delta_lake: { path: ./lake/orders } }\nhttp: { enabled: false }\n")
			},
			wants: []string{"./lake/orders", "e2e-orders", "adopt"},
		},
		"another schema": {
			spoil: func(t *testing.T, l *lab) {
				st, err := file.New(filepath.Join(l.dir, "lake", "orders"))
				require.NoError(t, err)
				_, err = delta.Create(t.Context(), st, delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{{Name: "order_id", Type: schema.Date, Nullable: true}}}}, delta.Options{})
				require.NoError(t, err)
			},
			wants: []string{"./lake/orders", "order_id", "date"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write(t, 20)
			tc.spoil(t, l)
			before := l.commits(t, "orders")
			// Many windows are on their way when the first is refused.
			text := l.fail(t, with(t, boundedYAML, "max_commits_per_window: 5", "max_commits_per_window: 1"))
			requireAnswer(t, text, tc.wants...)
			require.LessOrEqual(t, strings.Count(text, "Sending again"), 3, "it tried too often:\n%s", text)
			require.Equal(t, before, l.commits(t, "orders"), "something was written")
			yaml := boundedYAML
			if tc.cure != nil {
				yaml = tc.cure(t, l)
			} else {
				require.NoError(t, os.RemoveAll(filepath.Join(l.dir, "lake", "orders")))
				l.forget(t, "orders")
			}
			l.run(t, yaml)
			l.requireOnce(t, "orders", "order_lines")
		})
	}
}

// slots are the files of a table's resume position.
func (l *lab) slots(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.dir, "position", "*dbo."+name+"%*"))
	require.NoError(t, err)
	return files
}

// forget deletes a table's resume position.
func (l *lab) forget(t *testing.T, name string) {
	t.Helper()
	for _, slot := range l.slots(t, name) {
		require.NoError(t, os.Remove(slot))
	}
}

// One damaged slot of a resume position costs nothing; two are an error that names them,
// and the way out that it names loses and doubles nothing.
func TestTornPosition(t *testing.T) {
	t.Parallel()
	for name, tear := range map[string]func(raw []byte) []byte{
		"cut":     func(raw []byte) []byte { return raw[:len(raw)/2] },
		"empty":   func([]byte) []byte { return nil },
		"garbage": func(raw []byte) []byte { return make([]byte, len(raw)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			damage := func(slot string) {
				raw, err := os.ReadFile(slot)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(slot, tear(raw), 0o600))
			}
			l.write(t, 20)
			l.run(t, boundedYAML)
			require.Len(t, l.slots(t, "orders"), 2)
			for n := range 2 {
				l.write(t, 20)
				damage(l.slots(t, "orders")[n])
				l.run(t, boundedYAML)
				l.requireOnce(t, "orders", "order_lines")
			}
			l.write(t, 20)
			for _, slot := range l.slots(t, "orders") {
				damage(slot)
			}
			requireAnswer(t, l.fail(t, boundedYAML), "dbo.orders", "mssql_cdc/dbo.orders/0", "mssql_cdc/dbo.orders/1", "delete both keys")
			l.forget(t, "orders")
			l.run(t, boundedYAML)
			l.requireOnce(t, "orders", "order_lines")
		})
	}
}

// Two runs write to one table under one application id: one of them is told so and
// ends, and the table has every row once.
func TestSecondWriter(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	other := l.elsewhere(t.TempDir())
	require.NoError(t, os.Mkdir(filepath.Join(l.dir, "lake"), 0o700))
	require.NoError(t, os.Symlink(filepath.Join(l.dir, "lake"), filepath.Join(other.dir, "lake")))
	first, firstOut := l.start(t, continuousYAML(t))
	second, secondOut := other.start(t, continuousYAML(t))
	ended := make(chan error, 2)
	go func() { ended <- first.Wait() }()
	go func() { ended <- second.Wait() }()
	var err error
	eventually(t, "one to end", firstOut, func() bool {
		l.write(t, 5)
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	require.Error(t, err, "%s\n%s", firstOut, secondOut)
	told := firstOut
	if first.ProcessState == nil {
		told = secondOut
	}
	requireAnswer(t, told.String(), "e2e-order", "another writer")
	for _, cmd := range []interface{ Signal(os.Signal) error }{first.Process, second.Process} {
		_ = cmd.Signal(syscall.SIGTERM) // the one that still runs, or none: both can have been told
	}
	<-ended
	l.run(t, boundedYAML)
	l.requireOnce(t, "orders", "order_lines")
}
