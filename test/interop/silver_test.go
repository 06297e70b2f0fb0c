package interop

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// strategies are those of merges, by the first part of the names of their tables.
func strategies() map[string]string {
	return map[string]string{"cow": "copy_on_write", "dv": "deletion_vectors"}
}

// silverOutput builds the current table and the history of each table, both ways, with a merge after each small commit.
func silverOutput() string {
	var b strings.Builder
	for prefix, strategy := range strategies() {
		for _, mode := range []string{"current", "history"} {
			fmt.Fprintf(&b, "      - apply_changes:\n"+
				"          bronze: %%[1]s/${! @table }\n"+
				"          target: %%[1]s/%[1]s_%[2]s_${! @table }\n"+
				"          table: %[1]s_%[2]s_${! @table }\n"+
				"          mode: %[2]s\n"+
				"          merge_strategy: %[3]s\n"+
				"          control_path: %%[1]s/_control\n"+
				"          every: 0s\n", prefix, mode, strategy)
		}
	}
	return b.String()
}

// silverTables are those of a strategy, as our reader reads them.
func (l *lake) silverTables(t *testing.T, prefix string) (list []readTable) {
	t.Helper()
	for _, mode := range []string{"current", "history"} {
		for _, table := range []string{"all_types", "orders", "order_lines"} {
			name := prefix + "_" + mode + "_" + table
			list = append(list, readTable{name, request{Path: l.path(name)}, l.own(t, name)})
		}
	}
	current := list[1]
	where := []condition{{"order_id", ">", "integer", middle(t, current.want, "order_id")}}
	list = append(list, readTable{current.name + " by key", request{current.Path, where}, above(t, current.want, "order_id", where[0][3])})
	return list
}

// middle is a value of an integer column that rows lie below and above.
func middle(t *testing.T, all rows, column string) string {
	t.Helper()
	values := all.pick(t, column)
	require.Greater(t, len(values), 2)
	least, most := values[0][0], values[0][0]
	for _, v := range values {
		least, most = min(least, v[0]), max(most, v[0]) // keys of one length
	}
	require.Len(t, least, len(most))
	for _, v := range values {
		if v[0] > least && v[0] < most {
			return v[0]
		}
	}
	require.Fail(t, "no value in the middle")
	return ""
}

// above are the rows whose integer column, of values of one length, is above a value.
func above(t *testing.T, all rows, column, value string) rows {
	t.Helper()
	out := rows{Columns: all.Columns}
	for i, v := range all.pick(t, column) {
		if v[0] > value {
			out.Rows = append(out.Rows, all.Rows[i])
		}
	}
	out.Count = int64(len(out.Rows))
	return out
}

// vectors counts the files of a table that have a deletion vector.
func (l *lake) vectors(t *testing.T, name string) (n int) {
	t.Helper()
	st, err := file.New(l.path(name))
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	for add, err := range table.Snapshot().Files(t.Context()) {
		require.NoError(t, err)
		if add.DeletionVector != nil {
			n++
		}
	}
	require.NoError(t, table.Close(t.Context()))
	return n
}

// requireReconciled lets the program compare the silver tables of a strategy with the source.
func (l *lake) requireReconciled(t *testing.T, program, prefix string) {
	t.Helper()
	for _, mode := range []string{"current", "history"} {
		for _, table := range []string{"all_types", "orders", "order_lines"} {
			name := prefix + "_" + mode + "_" + table
			cmd := exec.CommandContext(t.Context(), program, "reconcile", "--table", "dbo."+table, "--delta", l.path(name), "--control", l.path("_control"), "--target", name)
			cmd.Env = append(os.Environ(), "MSSQL_DSN="+l.sim.DSN())
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "match: ")
		}
	}
}

// refusing are the engines that do not read deletion vectors, and say so.
func refusing(engine string) bool { return engine == "pyarrow" }

// Every engine reads silver tables to the rows that our reader reads, which are those of the source. Tables with deletion vectors are
// refused by delta-rs' reader for pyarrow, and by no other.
func TestEnginesReadSilverTables(t *testing.T) {
	t.Parallel()
	interopPython(t, "pyarrow")
	program := buildProgram(t)
	l := newLake(t, program, silverOutput())
	all := map[string][]readTable{}
	for prefix := range strategies() {
		l.requireReconciled(t, program, prefix)
		all[prefix] = l.silverTables(t, prefix)
		found := 0
		for _, table := range all[prefix] {
			found += l.vectors(t, strings.Fields(table.name)[0])
		}
		require.Equal(t, prefix == "dv", found > 0, "%d deletion vectors with %s", found, prefix)
	}
	for i, table := range all["cow"] {
		require.Empty(t, difference(t, table.want, all["dv"][i].want, table.want.Columns), table.name)
	}
	for engine, module := range engines() {
		t.Run(engine, func(t *testing.T) {
			python := interopPython(t, module)
			requireSame(t, python, engine, all["cow"])
			if !refusing(engine) {
				requireSame(t, python, engine, all["dv"])
				return
			}
			t.Logf("%s does not read deletion vectors", engine)
			requireRefused(t, python, engine, all["dv"][1].request)
		})
	}
	t.Run("spark", func(t *testing.T) {
		requireSame(t, interopPython(t, "pyspark"), "spark", append(all["cow"], all["dv"]...))
	})
}
