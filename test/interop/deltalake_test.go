// Package interop lets other engines judge what we write. setup.sh installs them;
// without them the tests are skipped.
package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// deltalakeScript counts rows and distinct identities of each table.
const deltalakeScript = `
import json, os, sys
from deltalake import DeltaTable
out = {}
for path in sys.argv[1:]:
    t = DeltaTable(path).to_pyarrow_table()
    row = {"rows": t.num_rows, "columns": t.num_columns}
    if "_seqval" in t.column_names:
        keys = set(zip(t["_start_lsn"].to_pylist(), t["_seqval"].to_pylist(), t["_operation"].to_pylist()))
        row["distinct"] = len(keys)
    out[os.path.basename(path)] = row
print(json.dumps(out))
sys.stdout.flush()
os._exit(0)
`

// delta-rs reads bronze, facts and control of a demo and finds what we count.
func TestDeltalakeReadsTheTables(t *testing.T) {
	t.Parallel()
	python, err := filepath.Abs("../../.interop/bin/python")
	require.NoError(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Skip("skipped: no .interop, run test/interop/setup.sh to install the foreign engines")
	}
	dir := filepath.Join(t.TempDir(), "demo")
	cmd := exec.CommandContext(t.Context(), "go", "run", "../../cmd/rpconnect-mssqlcdc", "demo", "--rows", "1000", "--json", "--dir", dir)
	out, err := cmd.Output()
	require.NoError(t, err)
	var demo map[string]any
	require.NoError(t, json.Unmarshal(out, &demo))
	tables := []string{"dbo.orders", "dbo.order_lines", "dbo.all_types", "_facts", "_control"}
	args := []string{"-c", deltalakeScript}
	for _, table := range tables {
		args = append(args, filepath.Join(dir, table))
	}
	out, err = exec.CommandContext(t.Context(), python, args...).Output()
	require.NoError(t, err)
	var read map[string]map[string]float64
	require.NoError(t, json.Unmarshal(out, &read))
	var rows float64
	for _, table := range tables[:3] {
		require.Equal(t, read[table]["rows"], read[table]["distinct"], table)
		rows += read[table]["rows"]
	}
	require.Equal(t, demo["bronze_rows"], rows)
	require.Equal(t, demo["facts_rows"], read["_facts"]["rows"])
	require.Equal(t, 3.0, read["_control"]["rows"])
}
