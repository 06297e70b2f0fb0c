package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// theirs makes the tables of a lab those of mssql-cdc-pyspark: rows and columns stay, but
// for columns that only we have; positions and properties of ours go, and its transactions
// come. change may alter a row of a table, or leave it out with nil.
func (l *lab) theirs(t *testing.T, change func(table string, row map[string]any) map[string]any) {
	t.Helper()
	ours := map[string][]string{
		"_facts":   {"source_table", "capture_instance", "generation", "start_lsn", "commits", "parts", "rows_filtered"},
		"_control": {"complete_from", "gap", "held_by", "path"},
	}
	for _, name := range append(crashTables(), slices.Sorted(maps.Keys(ours))...) {
		from := l.table(t, "lake", name)
		schema := from.Snapshot().Schema().Without(ours[name])
		dir := filepath.Join(l.dir, "theirs-"+name)
		st, err := file.New(dir)
		require.NoError(t, err)
		version := map[string]string{"_facts": "13", "_control": "4"}[name]
		if version == "" {
			version = "2"
		}
		to, err := delta.Create(t.Context(), st, delta.Spec{Schema: schema, Properties: map[string]string{"mssql_cdc.schema_version": version}}, delta.Options{})
		require.NoError(t, err)
		builder, err := mssqlcdc.NewRowBuilder(schema.Arrow(), array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow()))
		require.NoError(t, err)
		for _, row := range l.rows(t, name) {
			if row = change(name, row); row == nil {
				continue
			}
			for i, f := range schema.Fields {
				require.NoError(t, builder.Set(i, row[f.Name]))
			}
		}
		files, err := to.NewWriter(t.Context(), data.WriterOptions{})
		require.NoError(t, err)
		require.NoError(t, files.Write(builder.NewRecord()))
		adds, err := files.Close()
		require.NoError(t, err)
		_, err = to.Commit(t.Context(), delta.Change{Add: adds, BlindAppend: true, Keyed: &delta.Txn{AppID: "theirs-" + name, Version: 41}})
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(filepath.Join(l.dir, "lake", name)))
		require.NoError(t, os.Rename(dir, filepath.Join(l.dir, "lake", name)))
	}
	require.NoError(t, os.RemoveAll(filepath.Join(l.dir, "position")))
}

// asTheirs is a row of the facts as mssql-cdc-pyspark has it.
func asTheirs(table string, row map[string]any) map[string]any {
	if table == "_facts" {
		row["app_id"] = strings.Replace(fmt.Sprint(row["app_id"]), "e2e-", "theirs-", 1)
	}
	return row
}

// A deployment of mssql-cdc-pyspark is stopped, while the source goes on, and its tables
// are carried on here: each change is there once, the table is the source, and the verdict
// goes on from where it was.
func TestAdoptADeployment(t *testing.T) {
	t.Parallel()
	for _, begun := range []string{"with a snapshot", "with changes only"} {
		t.Run(begun, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			require.NoError(t, l.sim.Idle(t.Context()))
			yaml := boundedYAML
			if begun == "with a snapshot" {
				l.writeEvery(t, 25*time.Second, 30)
				yaml = with(t, boundedYAML, "format: record_batch", "format: record_batch\n    stream_snapshot: true\n    snapshot_chunk_rows: 7")
			}
			l.run(t, yaml)
			l.writeEvery(t, 25*time.Second, 30)
			l.run(t, yaml)
			before := l.verdicts(t)
			l.theirs(t, asTheirs)
			l.writeEvery(t, 25*time.Second, 10)
			require.Contains(t, l.fail(t, boundedYAML), "has rows")
			require.NoError(t, os.RemoveAll(filepath.Join(l.dir, "position"))) // of the attempt

			for _, name := range crashTables() {
				ok, out := l.seed(t, name, "--adopt")
				require.True(t, ok, out)
				require.Contains(t, out, "goes on at 0x")
				require.NotContains(t, out, "snapshot")
				ok, out = l.seed(t, name, "--adopt")
				require.False(t, ok, out)
				require.Contains(t, out, "has a resume position")
			}
			l.run(t, boundedYAML)
			l.requireImages(t)
			if begun == "with changes only" {
				l.requireOnce(t, crashTables()...)
			}
			for name, v := range l.verdicts(t) {
				require.False(t, before[name].FinalizedUntil.IsZero(), name)
				require.True(t, v.FinalizedUntil.After(before[name].FinalizedUntil), name)
				require.Empty(t, v.Gaps, "nothing was lost of %s", name)
				require.Empty(t, v.HeldBy, name)
			}
		})
	}
}

// What clean-up deleted before the deployment was carried on is a loss like any other: it
// is said, the pipeline ends with it, or reads the table whole again.
func TestAdoptAfterALoss(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	require.NoError(t, l.sim.Idle(t.Context()))
	l.run(t, boundedYAML)
	l.writeEvery(t, 25*time.Second, 30)
	l.run(t, boundedYAML)
	l.theirs(t, asTheirs)
	l.writeEvery(t, 25*time.Second, 20)
	for _, name := range crashTables() {
		l.exec(t, "DECLARE @low binary(10) = sys.fn_cdc_get_max_lsn(); EXEC sys.sp_cdc_cleanup_change_table @capture_instance = 'dbo_"+name+"', @low_water_mark = @low")
		ok, out := l.seed(t, name, "--adopt")
		require.True(t, ok, out)
		require.Contains(t, out, "changes after the end of bronze are lost")
	}
	require.Contains(t, l.fail(t, boundedYAML), "clean-up")
	again := with(t, boundedYAML, "format: record_batch", "format: record_batch\n    on_data_loss: resnapshot")
	l.run(t, again)
	l.writeEvery(t, 25*time.Second, 10)
	l.run(t, again)
	l.requireImages(t)
	for name, v := range l.verdicts(t) {
		require.Len(t, v.Gaps, 1, "the verdict of %s is marked", name)
	}
}

// A snapshot in chunks that is not complete is taken again: what is there of it stays, and
// the verdict stands still until the new one is complete. Its events hold keys and plan
// before release 0.7.0, and not since.
func TestAdoptAnOpenSnapshot(t *testing.T) {
	t.Parallel()
	for name, detail := range map[string]string{
		"keys in the facts": `{"mode":"chunked","kind":"bootstrap","generation":0,"lost_from_ts":null,"lost_to_ts":null,"keys":["order_id"],"plan":{"kind":"int","lo":1,"hi":90,"rows":90}}`,
		"plans table":       `{"mode":"chunked","kind":"bootstrap","generation":0,"lost_from_ts":null,"lost_to_ts":null}`,
		"before modes":      ``,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			l.writeEvery(t, 25*time.Second, 30)
			l.run(t, with(t, boundedYAML, "format: record_batch", "format: record_batch\n    stream_snapshot: true\n    snapshot_chunk_rows: 7"))
			l.writeEvery(t, 25*time.Second, 20)
			l.run(t, boundedYAML)
			dropped := 0
			l.theirs(t, func(table string, row map[string]any) map[string]any {
				chunk, of := row[mssqlcdc.ColChunk].(int64)
				switch event := row["event"]; {
				case of && chunk > 0, event == "bootstrap", event == "snapshot_chunk" && !strings.Contains(row["detail"].(string), `"chunk":0`):
					dropped++
					return nil
				case event == "snapshot_open":
					if row["detail"] = any(detail); detail == "" {
						row["detail"] = nil
					}
				}
				return asTheirs(table, row)
			})
			require.Greater(t, dropped, 20)
			for _, table := range crashTables() {
				ok, out := l.seed(t, table, "--adopt")
				require.True(t, ok, out)
				require.Contains(t, out, "was not complete")
				require.Contains(t, out, "takes the snapshot again")
				require.False(t, l.position(t, table).Snapshot.Complete)
			}
			before := l.verdicts(t)
			l.writeEvery(t, 25*time.Second, 10)
			chunks := with(t, boundedYAML, "format: record_batch", "format: record_batch\n    snapshot_chunk_rows: 7")
			l.run(t, chunks)
			for table, v := range l.verdicts(t) {
				require.NotEmpty(t, v.HeldBy, table)
				require.Equal(t, before[table].FinalizedUntil, v.FinalizedUntil, table)
			}
			l.writeEvery(t, 25*time.Second, 10)
			require.NoError(t, l.sim.Idle(t.Context()))
			l.run(t, chunks)
			l.requireImages(t)
			for table, v := range l.verdicts(t) {
				require.Empty(t, v.HeldBy, table)
				require.True(t, v.FinalizedUntil.After(before[table].FinalizedUntil), table)
			}
			for _, table := range crashTables() {
				seen := map[string]bool{}
				for _, row := range l.rows(t, table) { // each row of each snapshot, and each change, once
					id := fmt.Sprint(row[mssqlcdc.ColSnapshot], row[mssqlcdc.ColStartLSN], row[mssqlcdc.ColSeqVal], row[mssqlcdc.ColOperation])
					if row[mssqlcdc.ColSeqVal] == nil {
						id += fmt.Sprint(row["order_id"], "/", row["line_no"])
					}
					require.False(t, seen[id], "%s twice: %s", table, id)
					seen[id] = true
				}
			}
		})
	}
}
