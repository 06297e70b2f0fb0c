package processor_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// bronzeTable makes a table of n inserts, ids 1 to n.
func bronzeTable(t *testing.T, path string, n int) {
	t.Helper()
	st, err := file.New(path)
	require.NoError(t, err)
	text := func(name string, typ schema.Type) schema.Field {
		return schema.Field{Name: name, Type: typ, Nullable: true}
	}
	sc := &schema.Struct{Fields: []schema.Field{
		text(mssqlcdc.ColStartLSN, schema.String), text(mssqlcdc.ColSeqVal, schema.String), text(mssqlcdc.ColOperation, schema.Integer),
		text(mssqlcdc.ColCommitTime, schema.TimestampNTZ), text("id", schema.Long),
	}}
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: sc, Properties: map[string]string{
		mssqlcdc.PropKeyColumns: mssqlcdc.EncodeKeyColumns([]string{"id"}),
	}}, delta.Options{})
	require.NoError(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, sc.Arrow())
	for i := range n {
		for field, value := range []string{(mssqlcdc.LSN{9: byte(i + 1)}).String(), (mssqlcdc.LSN{9: byte(i + 1)}).String(), "2", noon.Format(time.RFC3339), fmt.Sprint(i + 1)} {
			require.NoError(t, b.Field(field).AppendValueFromString(strings.TrimSuffix(value, "Z")))
		}
	}
	w, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Write(b.NewRecordBatch()))
	adds, err := w.Close()
	require.NoError(t, err)
	_, err = table.Commit(t.Context(), delta.Change{Operation: delta.OpStreamingWrite, Add: adds, BlindAppend: true, ReadVersion: table.Snapshot().Version()})
	require.NoError(t, err)
}

func countRows(t *testing.T, path string) int {
	t.Helper()
	st, err := file.New(path)
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	n, err := table.Snapshot().NumRecords(t.Context())
	require.NoError(t, err)
	return int(n)
}

// A message that is no record batch is one call, which it waits for.
func TestApplyChangesOnACall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bronzeTable(t, filepath.Join(dir, "bronze"), 7)
	yaml := fmt.Sprintf(`
apply_changes:
  bronze: %[1]s/bronze
  target: %[1]s/${! @mode }
  control_path: %[1]s/_control
  table: ${! @mode }.dbo.orders
  bronze_table: dbo.orders
  columns: { rename: { id: order_id } }
`, dir)
	message := service.NewMessage([]byte("now"))
	message.MetaSetMut("mode", "current")
	out := run(t, yaml, message)
	require.NoError(t, out[0].GetError())
	rows, _ := out[0].MetaGetMut("applied_rows")
	require.EqualValues(t, 7, rows)
	lsn, _ := out[0].MetaGet("applied_lsn")
	require.Equal(t, (mssqlcdc.LSN{9: 7}).String(), lsn)
	require.Equal(t, 7, countRows(t, filepath.Join(dir, "current")))
	st, err := file.New(filepath.Join(dir, "_control"))
	require.NoError(t, err)
	table, err := control.Open(t.Context(), st, control.Options{})
	require.NoError(t, err)
	verdict, err := table.Get(t.Context(), "current.dbo.orders")
	require.NoError(t, err)
	require.Equal(t, mssqlcdc.LSN{9: 7}, verdict.AppliedLSN)
	require.True(t, verdict.FinalizedUntil.IsZero(), "bronze has no verdict")
}

// A record batch that is in a table makes a call beside the stream, at the latest when the
// stream ends; one that is in no table is refused.
func TestApplyChangesAfterCommit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bronzeTable(t, filepath.Join(dir, "bronze"), 5)
	yaml := fmt.Sprintf("apply_changes: { bronze: %[1]s/bronze, target: %[1]s/silver, every: 1h }", dir)
	committed := recordOf(t, 2)
	committed.Mark("orders@bronze", mssqlcdc.Committed)
	out := run(t, yaml, messageOf(committed))
	require.NoError(t, out[0].GetError())
	require.Equal(t, 5, countRows(t, filepath.Join(dir, "silver")))

	out = run(t, yaml, messageOf(recordOf(t, 2)))
	require.ErrorContains(t, out[0].GetError(), "is not in a table yet: put apply_changes into after_commit")
	part := recordOf(t, 2, func(e *mssqlcdc.Envelope) { e.Last = false })
	require.NoError(t, run(t, yaml, messageOf(part))[0].GetError())
}

// A failure beside the stream never fails a message.
func TestApplyChangesFailsBesideTheStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bronzeTable(t, filepath.Join(dir, "bronze"), 5)
	yaml := fmt.Sprintf("apply_changes: { bronze: %[1]s/bronze, target: %[1]s/silver, keys: [ nothing ] }", dir)
	committed := recordOf(t, 2)
	committed.Mark("orders@bronze", mssqlcdc.Committed)
	message := messageOf(committed)
	require.NoError(t, run(t, yaml, message)[0].GetError())
}

func TestApplyChangesConfig(t *testing.T) {
	t.Parallel()
	env := service.GlobalEnvironment()
	for yaml, want := range map[string]string{
		"apply_changes: { bronze: a, target: b, mode: history, deletes: soft }": "has no meaning with mode: history",
		"apply_changes: { bronze: a, target: b, every: -1s }":                   "must not be negative",
	} {
		b := env.NewStreamBuilder()
		require.NoError(t, b.SetLoggerYAML("level: OFF"))
		require.NoError(t, b.AddInputYAML("generate: { count: 1, interval: '', mapping: 'root = {}' }"))
		require.NoError(t, b.AddOutputYAML("drop: {}"))
		require.NoError(t, b.AddProcessorYAML(yaml))
		s, err := b.Build()
		if err == nil {
			err = s.Run(t.Context())
		}
		require.ErrorContains(t, err, want, yaml)
	}
	conf, ok := env.GetProcessorConfig("apply_changes")
	require.True(t, ok)
	doc, err := conf.TemplateData()
	require.NoError(t, err)
	for _, f := range doc.Fields {
		require.NotEmpty(t, strings.TrimSpace(f.Description), f.FullName)
	}
	for _, example := range doc.Examples {
		lints, err := env.FullConfigSchema("", "").NewStreamConfigLinter().LintYAML([]byte(example.Config))
		require.NoError(t, err)
		for _, lint := range lints {
			require.Contains(t, lint.Error(), "delta_lake", "%s", example.Config) // another package's
		}
	}
}
