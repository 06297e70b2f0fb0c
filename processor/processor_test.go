package processor_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"

	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/processor"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func columns() []mssqlcdc.Column {
	return []mssqlcdc.Column{
		{Name: "id", Type: arrow.PrimitiveTypes.Int32, SourceType: "int", Key: true},
		{Name: "amount", Type: &arrow.Decimal128Type{Precision: 18, Scale: 2}, SourceType: "decimal(18,2)"},
		{Name: "email", Type: arrow.BinaryTypes.String, SourceType: "nvarchar(100)"},
	}
}

// recordOf makes the last part of a window with n inserts, ids 1 to n, two to a
// transaction.
func recordOf(t testing.TB, n int, change ...func(*mssqlcdc.Envelope)) *mssqlcdc.RecordBatch {
	schema := mssqlcdc.RecordSchema(columns())
	builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
	require.NoError(t, err)
	for i := range n {
		start, seqval := mssqlcdc.LSN{8: 1, 9: byte(i / 2)}, mssqlcdc.LSN{9: byte(i)}
		for column, value := range []any{start[:], seqval[:], int64(2), int64(1 + i%2), noon, int64(i + 1), fmt.Sprintf("%d.50", i), fmt.Sprintf("u%d@example.com", i)} {
			require.NoError(t, builder.Set(column, value))
		}
	}
	envelope := mssqlcdc.Envelope{
		Version: mssqlcdc.EnvelopeVersion, Table: mssqlcdc.TableID{Schema: "dbo", Name: "orders"}, Instance: "dbo_orders",
		Window: mssqlcdc.Window{Start: mssqlcdc.LSN{8: 1}, End: mssqlcdc.LSN{8: 2}, EndTime: noon.Add(90 * time.Minute)},
		Last:   true,
	}
	for _, c := range change {
		c(&envelope)
	}
	batch, err := mssqlcdc.NewRecordBatch(envelope, builder.NewRecord())
	require.NoError(t, err)
	return batch
}

func messageOf(batch *mssqlcdc.RecordBatch) *service.Message {
	message := service.NewMessage(nil)
	message.SetStructured(batch)
	message.MetaSetMut(mssqlcdc.MetaFormat, mssqlcdc.FormatRecordBatch)
	message.MetaSetMut(mssqlcdc.MetaTable, "orders")
	message.MetaSetMut(mssqlcdc.MetaSchemaName, "dbo")
	message.MetaSetMut(mssqlcdc.MetaRows, batch.NumRows())
	return message
}

// run sends messages through the processors and returns what comes out.
func run(t *testing.T, yaml string, in ...*service.Message) service.MessageBatch {
	t.Helper()
	builder := service.NewStreamBuilder()
	builder.SetThreads(1)
	require.NoError(t, builder.SetLoggerYAML("level: OFF"))
	send, err := builder.AddBatchProducerFunc()
	require.NoError(t, err)
	require.NoError(t, builder.AddProcessorYAML(yaml))
	var out service.MessageBatch
	require.NoError(t, builder.AddBatchConsumerFunc(func(_ context.Context, batch service.MessageBatch) error {
		out = append(out, batch...)
		return nil
	}))
	stream, err := builder.Build()
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- stream.Run(context.Background()) }()
	require.NoError(t, send(t.Context(), in))
	require.NoError(t, stream.StopWithin(10*time.Second))
	<-done
	return out
}

func body(t *testing.T, message *service.Message) *mssqlcdc.RecordBatch {
	t.Helper()
	require.NoError(t, message.GetError())
	structured, err := message.AsStructured()
	require.NoError(t, err)
	batch, ok := structured.(*mssqlcdc.RecordBatch)
	require.True(t, ok, "%T", structured)
	return batch
}

func rowsOf(batch *mssqlcdc.RecordBatch) []map[string]any {
	var rows []map[string]any
	for row := range batch.Rows() {
		rows = append(rows, row)
	}
	return rows
}

func TestEachRowFiltersAndChanges(t *testing.T) {
	t.Parallel()
	in := recordOf(t, 6)
	out := run(t, `
each_row:
  processors:
    - mapping: 'root = if this.id % 3 == 0 { deleted() }'
    - mapping: |
        root = this
        root.email = this.email.uppercase()
        root.position = @lsn + "/" + @seqval + "/" + @command_id + "/" + @operation
        root.double = this.amount.number() * 2
    - mutation: 'root.amount = if this.id == 1 { "7.25" } else { this.amount }'
`, messageOf(in))
	require.Len(t, out, 1)
	got := body(t, out[0])
	require.Equal(t, int64(2), got.Envelope().Filtered)
	require.Equal(t, in.Envelope().Window, got.Envelope().Window)
	rows := rowsOf(got)
	require.Len(t, rows, 4)
	require.Equal(t, map[string]any{
		"id": int64(1), "amount": "7.25", "email": "U0@EXAMPLE.COM", "double": 1.0,
		"position": "0x00000000000000000100/0x00000000000000000000/1/insert",
	}, rows[0])
	ids := []any{}
	for _, row := range rows {
		ids = append(ids, row["id"])
	}
	require.Equal(t, []any{int64(1), int64(2), int64(4), int64(5)}, ids)
	// The metadata columns are those of the rows that are left.
	i := 0
	for _, change := range mssqlcdc.Changes(got.Record()) {
		number := int(ids[i].(int64)) - 1
		require.Equal(t, mssqlcdc.LSN{9: byte(number)}, change.Position.SeqVal)
		require.Equal(t, mssqlcdc.LSN{8: 1, 9: byte(number / 2)}, change.Position.StartLSN)
		require.Equal(t, noon, change.CommitTime)
		i++
	}
	// A mark on the result reaches the batch that the input knows.
	got.Mark("sink", mssqlcdc.Committed)
	require.Equal(t, mssqlcdc.Committed, in.MarkOf("sink"))
	rowCount, _ := out[0].MetaGet(mssqlcdc.MetaRows)
	require.Equal(t, "4", rowCount)
}

func TestEachRowPassesAnEmptyBatchOn(t *testing.T) {
	t.Parallel()
	yaml := `each_row: {processors: [{mapping: 'root = deleted()'}]}`
	out := run(t, yaml, messageOf(recordOf(t, 3)), messageOf(recordOf(t, 0)))
	require.Len(t, out, 2)
	require.Zero(t, body(t, out[0]).NumRows())
	require.Equal(t, int64(3), body(t, out[0]).Envelope().Filtered)
	require.Zero(t, body(t, out[1]).Envelope().Filtered)
}

func TestEachRowFailsTheBatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ processor, want string }{
		"a row that fails":             {`mapping: 'root = if this.id == 2 { throw("bad row") } else { this }'`, "bad row"},
		"a value that loses digits":    {`mutation: 'root.amount = "1.005"'`, "more digits after the point"},
		"a row that became several":    {`unarchive: {format: lines}`, ""},
		"metadata that was removed":    {`mapping: 'meta = deleted()'`, "removed the metadata"},
		"a body that is no object":     {`mapping: 'root = this.id'`, "want an object"},
		"an added field of two types":  {`mutation: 'root.x = if this.id == 1 { "a" } else { true }'`, "give it one type"},
		"an integer that does not fit": {`mutation: 'root.id = 99999999999'`, "does not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a row that became several" {
				tc.processor = `mapping: 'root = [this, this]'` + "\n    - unarchive: {format: json_array}"
				tc.want = "became several"
			}
			out := run(t, "each_row:\n  processors:\n    - "+tc.processor, messageOf(recordOf(t, 3)))
			require.Len(t, out, 1)
			require.ErrorContains(t, out[0].GetError(), tc.want)
			require.ErrorContains(t, out[0].GetError(), "dbo.orders")
		})
	}
}

func TestEachRowLeavesOtherMessagesAlone(t *testing.T) {
	t.Parallel()
	out := run(t, `each_row: {processors: [{mapping: 'root.seen = this.a'}]}`, service.NewMessage([]byte(`{"a":1}`)))
	require.Len(t, out, 1)
	raw, err := out[0].AsBytes()
	require.NoError(t, err)
	require.JSONEq(t, `{"seen":1}`, string(raw))
}

func finalizeYAML(dir, more string) string {
	return fmt.Sprintf("finalize:\n  control_path: %q\n%s", filepath.Join(dir, "control"), more)
}

func verdictOf(t *testing.T, dir, target string) control.Verdict {
	t.Helper()
	st, err := file.New(filepath.Join(dir, "control"))
	require.NoError(t, err)
	table, err := control.Open(t.Context(), st, control.Options{})
	require.NoError(t, err)
	verdict, err := table.Get(t.Context(), target)
	require.NoError(t, err)
	return verdict
}

func TestFinalizeAdvances(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lost := noon.Add(-time.Hour)
	batch := recordOf(t, 2, func(e *mssqlcdc.Envelope) {
		e.CompleteFromTime = noon.Add(-24 * time.Hour)
		e.Events = []mssqlcdc.Fact{{Event: mssqlcdc.EventDataSkipped, LostFrom: &lost, LostTo: &noon}, {Event: mssqlcdc.EventSchemaChange}}
	})
	batch.Mark("sink", mssqlcdc.Skipped)
	out := run(t, finalizeYAML(dir, ""), messageOf(batch))
	require.NoError(t, out[0].GetError())
	verdict := verdictOf(t, dir, "dbo.orders")
	require.Equal(t, noon.Add(time.Hour), verdict.FinalizedUntil)
	require.Equal(t, noon.Add(-24*time.Hour), verdict.CompleteFrom)
	require.Equal(t, []control.Gap{{From: lost, To: noon}}, verdict.Gaps)
	require.Equal(t, batch.Envelope().Window.End, verdict.EndLSN)
}

func TestFinalizeRefusesWhatIsNotInTheTable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	staged := recordOf(t, 2)
	staged.Mark("sink", mssqlcdc.Staged)
	for _, batch := range []*mssqlcdc.RecordBatch{recordOf(t, 2), staged} {
		out := run(t, finalizeYAML(dir, ""), messageOf(batch))
		require.ErrorContains(t, out[0].GetError(), "not in a table yet")
	}
	require.NoDirExists(t, filepath.Join(dir, "control"), "nothing was claimed")

	// A part before the last, a message that failed and one of another source pass.
	part := recordOf(t, 2, func(e *mssqlcdc.Envelope) { e.Last = false })
	failed := messageOf(recordOf(t, 2))
	failed.SetError(fmt.Errorf("failed before"))
	out := run(t, finalizeYAML(dir, ""), messageOf(part), failed, service.NewMessage([]byte("text")))
	require.NoError(t, out[0].GetError())
	require.ErrorContains(t, out[1].GetError(), "failed before")
	require.NoError(t, out[2].GetError())
	require.NoDirExists(t, filepath.Join(dir, "control"))
}

func TestFinalizeChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ask := func(until, more string) *service.Message {
		return run(t, finalizeYAML(dir, fmt.Sprintf("  operator: check\n  table: dbo.orders\n  until: %q\n%s", until, more)), service.NewMessage([]byte("{}")))[0]
	}
	require.ErrorContains(t, ask("2026-11-30T12:00:00Z", "").GetError(), "nothing of dbo.orders is final yet")

	batch := recordOf(t, 2, func(e *mssqlcdc.Envelope) { e.CompleteFromTime = noon.Add(-time.Hour) })
	batch.Mark("sink", mssqlcdc.Committed)
	require.NoError(t, run(t, finalizeYAML(dir, ""), messageOf(batch))[0].GetError())

	final := ask("2026-11-30T13:00:00Z", "")
	require.NoError(t, final.GetError())
	value, _ := final.MetaGet("finalized_until")
	require.Equal(t, "2026-11-30T13:00:00Z", value)
	require.ErrorContains(t, ask("2026-11-30T13:00:01Z", "").GetError(), "is final until 2026-11-30T13:00:00Z, asked for 2026-11-30T13:00:01Z")
	require.ErrorContains(t, ask("2026-11-30T10:00:00Z", "").GetError(), "complete from 2026-11-30T11:00:00Z on only")
	require.ErrorContains(t, ask("noon", "").GetError(), `"noon" is not a time`)

	flagged := ask("2026-11-30T14:00:00Z", "  on_not_final: flag\n")
	require.NoError(t, flagged.GetError())
	value, _ = flagged.MetaGet("final")
	require.Equal(t, "false", value)
}

func TestConfigurationIsLinted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ yaml, want string }{
		"check without until": {"finalize: {control_path: c, operator: check}", "field until is required"},
		"another letter case": {"finalize: {control_path: c, operator: CHECK}", "field until is required"},
		"unknown operator":    {"finalize: {control_path: c, operator: revoke}", "value revoke is not a valid option"},
		"unknown granularity": {"finalize: {control_path: c, granularity: week}", "value week is not a valid option"},
		"no control table":    {"finalize: {}", "control_path"},
		"each_row of nothing": {"each_row: {processors: []}", "at least one processor"},
		"unknown field":       {"each_row: {processors: [], rows: 1}", "rows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builder := service.NewStreamBuilder()
			require.NoError(t, builder.SetLoggerYAML("level: OFF"))
			err := builder.AddProcessorYAML(tc.yaml)
			if err == nil {
				require.NoError(t, builder.AddInputYAML("generate: {count: 1, mapping: 'root = {}'}"))
				require.NoError(t, builder.AddOutputYAML("drop: {}"))
				var stream *service.Stream
				if stream, err = builder.Build(); err == nil {
					err = stream.Run(t.Context())
				}
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}
