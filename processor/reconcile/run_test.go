package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// fill makes dbo.t with so many rows.
func (l *lab) fill(rows int) {
	var values []string
	for i := range rows {
		values = append(values, fmt.Sprintf("(%d, %d, 'w%d')", i, i, i))
		if len(values) == 500 || i == rows-1 {
			l.exec("INSERT dbo.t VALUES " + strings.Join(values, ", "))
			values = nil
		}
	}
	l.pass()
}

// With hardly any memory the digests go through a file, which is gone afterwards, also where the comparison is broken off.
func TestSpilling(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns)
	l.fill(3000)
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	dir := t.TempDir()
	small := func(c *reconcile.Config) { c.Memory, c.Dir = 1, dir }
	result := k.requireMatch(small, buckets(700))
	require.Equal(t, int64(3000), result.SourceRows)
	require.Len(t, result.Buckets, 5)
	require.Positive(t, result.SpilledMB)
	result = k.compare(small, edit(t, func(rows []map[string]any) []map[string]any {
		kept := rows[:0]
		for _, row := range rows {
			if row["id"].(int64)%1000 != 7 {
				kept = append(kept, row)
			}
		}
		return kept
	}))
	require.Equal(t, map[reconcile.FailureType]int64{reconcile.MissingTarget: 3}, result.Counts)

	ctx, cancel := context.WithCancel(t.Context())
	c := k.config()
	small(&c)
	c.BucketRows = 100
	c.Say = func(string) { time.AfterFunc(5*time.Millisecond, cancel) }
	before := k.table.Snapshot().Version()
	_, err := reconcile.Run(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	s, err := k.table.Refresh(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, s.Version(), "nothing is written")
	_, err = reconcile.Run(t.Context(), reconcile.Config{Client: l.client, Table: k.source, Target: c.Target, Sample: 1, Memory: 1, Dir: filepath.Join(dir, "nowhere")})
	require.ErrorContains(t, err, "creating a file to spill to")
}

// The budget is kept on average, by pauses between small buckets.
func TestBudget(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns)
	l.fill(3000)
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	begin := time.Now()
	result := k.requireMatch(func(c *reconcile.Config) { c.Budget = 10_000 })
	require.Equal(t, 1, len(result.Buckets))
	require.Less(t, time.Since(begin), 10*time.Second)
	begin = time.Now()
	result = k.requireMatch(buckets(500), func(c *reconcile.Config) { c.Budget, c.Connections = 10_000, 1 })
	require.Equal(t, 6, len(result.Buckets))
	require.Greater(t, time.Since(begin), 240*time.Millisecond, "2,500 rows are paid off before the last bucket")
}

// Without the right to read the table, the error holds the grant.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	l := newLab(t, sqlserversim.WithLogin("reader", "", false))
	l.table(rowColumns, "(1, 1, 'a')")
	l.exec("CREATE USER reader FOR LOGIN reader", "GRANT SELECT ON cdc.dbo_t_CT TO reader")
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	asReader := func(c *reconcile.Config) { c.Client = l.clientOf("reader") }
	c := k.config()
	asReader(&c)
	_, err := reconcile.Run(t.Context(), c)
	require.ErrorContains(t, err, "GRANT SELECT ON")
	l.exec("GRANT SELECT ON dbo.t TO reader")
	k.requireMatch(asReader)
	require.Equal(t, reconcile.Mismatch, k.compare(asReader, edit(t, func(rows []map[string]any) []map[string]any { return nil })).Status)
}

// What is not to be compared so is refused, with the way out.
func TestRefusals(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a')")
	k := l.lake("dbo.t", reconcile.Current).read()
	for name, c := range map[string]struct {
		change func(*reconcile.Config)
		want   string
	}{
		"kind":    {func(c *reconcile.Config) { c.Target.Kind = reconcile.Bronze }, "compared as silver"},
		"table":   {func(c *reconcile.Config) { c.Table.Name = "nobody" }, "there are instances of dbo.t"},
		"key":     {func(c *reconcile.Config) { c.Keys = []string{"nobody"} }, "[nobody]"},
		"type":    {func(c *reconcile.Config) { c.Columns.Types = map[string]string{"v": "string"} }, "column types"},
		"sample":  {func(c *reconcile.Config) { c.Sample = 2 }, "want 0 to 1"},
		"deleted": {func(c *reconcile.Config) { c.Target.DeletedColumn = "_gone" }, "_gone"},
		"open": {func(c *reconcile.Config) {
			c.Target.Open = func(context.Context) (bool, string, error) { return true, "held", nil }
		}, "let the pipeline finish it"},
		"key column": {func(c *reconcile.Config) { c.Columns.Exclude = []string{"id"} }, "[id]"},
		"position": {func(c *reconcile.Config) {
			c.Target.Position = func(context.Context, *delta.Snapshot) (mssqlcdc.LSN, bool, error) { return mssqlcdc.LSN{}, false, nil }
		}, "no position"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := k.config()
			c.change(&config)
			_, err := reconcile.Run(t.Context(), config)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A column that the source converts, that the table widened, renamed, or does not have.
func TestColumnsOfOtherShapes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY, small smallint, r real, n int, d date, dec decimal(9,2), old int, left_out int", "(1, -5, 0.1, 7, '2024-02-29', -1.50, 3, 4)", "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
	k := l.lake("dbo.t", reconcile.Current)
	field := func(name string, typ schema.Type) schema.Field {
		return schema.Field{Name: name, Type: typ, Nullable: true}
	}
	wide, err := delta.Create(t.Context(), mem.New(), delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{
		field(mssqlcdc.ColStartLSN, schema.String), field("ID", schema.Long), field("small", schema.Integer), field("r", schema.Double), field("n", schema.Decimal{Precision: 20, Scale: 3}),
		field("d", schema.TimestampNTZ), field("dec", schema.Decimal{Precision: 20, Scale: 5}), field("new", schema.Integer), field("_deleted", schema.Boolean),
	}}}, delta.Options{})
	require.NoError(t, err)
	head, err := l.client.MaxLSN(t.Context())
	require.NoError(t, err)
	k.table, k.position = wide, head.LSN
	row := map[string]any{
		mssqlcdc.ColStartLSN: head.LSN.String(), "ID": int64(1), "small": int64(-5), "r": float64(float32(0.1)), "n": "7.000",
		"d": time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), "dec": "-1.50000", "new": int64(3),
	}
	k.append([]map[string]any{row, {"ID": int64(2)}, {"ID": int64(3), "_deleted": true}})
	shape := func(c *reconcile.Config) {
		c.Target.Rename, c.Target.DeletedColumn = map[string]string{"OLD": "new"}, "_deleted"
	}
	result := k.requireMatch(shape)
	require.Equal(t, []string{"left_out"}, result.NotCompared)
	for column, value := range map[string]any{"r": 0.1, "n": "7.001", "dec": "-1.50001", "new": int64(4)} {
		result := k.compare(shape, editAny(t, func(rows []map[string]any) []map[string]any {
			rows[0][column] = value
			return rows
		}))
		require.Equal(t, map[reconcile.FailureType]int64{reconcile.RecordDiff: 1}, result.Counts, column)
	}
}

// The report table holds the columns of mssql-cdc-pyspark, one commit a run, and no keys where they are hidden.
func TestReport(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	result := k.compare(buckets(2), edit(t, func(rows []map[string]any) []map[string]any {
		rows[0]["v"] = int64(100)
		rows[1]["id"] = int64(200)
		return rows
	}))
	require.Equal(t, map[reconcile.FailureType]int64{reconcile.RecordDiff: 1, reconcile.MissingTarget: 1, reconcile.MissingSource: 1}, result.Counts)
	st := mem.New()
	table, err := reconcile.OpenReport(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	require.NoError(t, result.Append(t.Context(), table))
	require.NoError(t, result.WithoutKeys().Append(t.Context(), table))
	var rows []map[string]any
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		require.NoError(t, err)
		rows = append(rows, rowsOf(rec)...)
	}
	require.Len(t, rows, 2*(3+3), "three buckets, one of them outside, and three keys")
	count := map[any]int{}
	keys, bounds := 0, 0
	for _, row := range rows {
		require.Equal(t, result.RunID, row["run_id"])
		require.Equal(t, "lake", row["silver"])
		count[row["status"]]++
		count[row["failure_type"]]++
		if row["key"] != nil {
			keys++
			require.True(t, json.Valid([]byte(row["key"].(string))))
		}
		if row["bucket_lo"] != nil || row["bucket_hi"] != nil {
			bounds++
		}
	}
	require.Equal(t, 3, keys)
	require.Equal(t, 2, bounds, "the two ranges of the run that shows them")
	require.Equal(t, 2, count["RECORD_DIFF"])
	require.Equal(t, 4, count["MISMATCH"], "the first bucket and the keys outside; the second bucket matches")
	require.Equal(t, 2, count["MATCH"])
	text, err := json.Marshal(result.WithoutKeys())
	require.NoError(t, err)
	require.NotContains(t, string(text), `"id":`)
}

// The chunks of the newest snapshot are those of the facts, with as many rows, read where the facts say.
func TestChunksAgainstFacts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
	k := l.lake("dbo.t", reconcile.Bronze).read()
	s := k.position
	for name, c := range map[string]struct {
		rows  int64
		stamp mssqlcdc.LSN
		chunk int64
		want  map[reconcile.FailureType]int64
	}{
		"right": {3, s, 0, map[reconcile.FailureType]int64{}},
		"rows":  {4, s, 0, map[reconcile.FailureType]int64{reconcile.ChunkRows: 1}},
		"stamp": {3, s.Next(), 0, map[reconcile.FailureType]int64{reconcile.ChunkStamp: 1}},
		"tiles": {3, s, 1, map[reconcile.FailureType]int64{reconcile.ChunkTiling: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := func(name string) schema.Field {
				return schema.Field{Name: name, Type: schema.String, Nullable: true}
			}
			facts, err := delta.Create(t.Context(), mem.New(), delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{
				text("app_id"), text("event"), {Name: "rows", Type: schema.Long, Nullable: true}, text("min_lsn"), text("detail"),
			}}}, delta.Options{})
			require.NoError(t, err)
			of := &lake{lab: &lab{t: t}, table: facts}
			with := func(c *reconcile.Config) { c.Facts, c.AppID = facts, app }
			chunk := fmt.Sprintf(`{"snapshot":%q,"chunk":%d,"wave":0,"last":true}`, s, c.chunk)
			of.append([]map[string]any{
				{"app_id": app, "event": "snapshot_chunk", "rows": c.rows, "min_lsn": c.stamp.String(), "detail": chunk},
				{"app_id": "another", "event": "snapshot_chunk", "rows": int64(99), "min_lsn": s.String(), "detail": chunk}, {"app_id": app, "rows": int64(1)},
			})
			result := k.compare(with)
			require.Equal(t, reconcile.Match, result.Status, "the snapshot is not known to be complete")
			require.Contains(t, strings.Join(result.Notes, " "), "chunks were not checked")
			of.append([]map[string]any{{"app_id": app, "event": "bootstrap", "detail": fmt.Sprintf(`{"snapshot":%q}`, s)}})
			result = k.compare(with)
			require.Equal(t, c.want, result.Counts, describe(result))
			require.Equal(t, len(c.want) > 0, result.Status == reconcile.Mismatch)
		})
	}
}

// A snapshot of which the log says that chunks are to come is not compared.
func TestOpenSnapshot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a'), (2, 2, 'b')")
	k := l.lake("dbo.t", reconcile.Bronze).read()
	commit := func(change delta.Change) {
		change.Operation, change.BlindAppend = delta.OpWrite, true
		_, err := k.table.Commit(t.Context(), change)
		require.NoError(t, err)
	}
	commit(delta.Change{Marks: []delta.Txn{{AppID: app + mssqlcdc.TxnSnapshotBegun, Version: 1}}})
	_, err := reconcile.Run(t.Context(), k.config())
	var open *reconcile.OpenSnapshotError
	require.ErrorAs(t, err, &open)
	require.Equal(t, k.position, open.Snapshot)
	hi, lo := k.position.Parts()
	commit(delta.Change{Marks: []delta.Txn{{AppID: app + mssqlcdc.TxnSnapshotHi, Version: hi}, {AppID: app + mssqlcdc.TxnSnapshotLo, Version: lo}}})
	k.requireMatch()

	// A table whose log does not tell: its history does, where rows are missing.
	old := l.lake("dbo.t", reconcile.Bronze).read()
	gone := edit(t, func(rows []map[string]any) []map[string]any { return rows[:1] })
	require.Equal(t, reconcile.Mismatch, old.compare(gone).Status)
	_, err = old.table.Commit(t.Context(), delta.Change{
		Operation: delta.OpWrite, BlindAppend: true, Marks: []delta.Txn{{AppID: app + "#snap." + old.position.String(), Version: 0}},
		UserMetadata: fmt.Sprintf(`{"event":"snapshot_chunk","detail":"{\"snapshot\":\"%s\",\"chunk\":0,\"last\":false}"}`, old.position),
	})
	require.NoError(t, err)
	c := old.config()
	gone(&c)
	_, err = reconcile.Run(t.Context(), c)
	require.ErrorAs(t, err, &open)
}

// Under SNAPSHOT isolation, where the database allows it.
func TestSnapshotIsolation(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(rowColumns, "(1, 1, 'a')")
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	c := k.config()
	c.Isolation = sqlserver.Snapshot
	_, err := reconcile.Run(t.Context(), c)
	require.ErrorContains(t, err, "ALLOW_SNAPSHOT_ISOLATION ON")
	l.exec("ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON")
	k.requireMatch(func(c *reconcile.Config) { c.Isolation = sqlserver.Snapshot })
}
