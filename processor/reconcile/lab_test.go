package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// lab is a simulator, whose clock stands, with a client and tables that tests fill as the pipeline does.
type lab struct {
	t      testing.TB
	sim    *sqlserversim.Server
	clock  *engine.ManualClock
	client *sqlserver.Client
}

func newLab(t testing.TB, options ...sqlserversim.Option) *lab {
	t.Helper()
	clock := engine.NewManualClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	sim, err := sqlserversim.Start(append([]sqlserversim.Option{sqlserversim.WithoutTLS(), sqlserversim.WithCaptureInterval(0), sqlserversim.WithClock(clock)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	l := &lab{t: t, sim: sim, clock: clock}
	l.exec("EXEC sys.sp_cdc_enable_db")
	l.client = l.clientOf()
	return l
}

func (l *lab) clientOf(login ...string) *sqlserver.Client {
	l.t.Helper()
	client, err := sqlserver.Open(context.WithoutCancel(l.t.Context()), sqlserver.Config{ConnectionString: l.sim.DSN(login...)})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { require.NoError(l.t, client.Close()) })
	return client
}

func (l *lab) exec(batches ...string) {
	l.t.Helper()
	for _, batch := range batches {
		l.clock.Advance(time.Second)
		require.NoError(l.t, l.sim.Exec(l.t.Context(), batch), batch)
	}
}

func (l *lab) capture() { require.NoError(l.t, l.sim.Capture(l.t.Context())) }

// pass lets capture pass the present.
func (l *lab) pass() {
	l.clock.Advance(time.Second)
	l.capture()
	require.NoError(l.t, l.sim.Idle(l.t.Context()))
}

// table makes dbo.t with CDC.
func (l *lab) table(columns string, rows ...string) {
	l.t.Helper()
	l.exec("CREATE TABLE dbo.t ("+columns+")", "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL")
	for _, row := range rows {
		l.exec("INSERT dbo.t VALUES " + row)
	}
	l.pass()
}

func (l *lab) layout(table string) sqlserver.Layout {
	l.t.Helper()
	all, err := l.client.Instances(l.t.Context())
	require.NoError(l.t, err)
	instance, err := sqlserver.FindInstance(all, strings.ReplaceAll(table, ".", "_"))
	require.NoError(l.t, err)
	layout, err := l.client.Columns(l.t.Context(), instance, sqlserver.ColumnOptions{})
	require.NoError(l.t, err)
	return layout
}

// lake is a Delta table that is filled from the source as the pipeline does it.
type lake struct {
	*lab
	kind     reconcile.Kind
	source   mssqlcdc.TableID
	layout   sqlserver.Layout
	table    *delta.Table
	position mssqlcdc.LSN
}

const app = "lab"

// lake makes a table for the changes, or for the rows, of a source table.
func (l *lab) lake(table string, kind reconcile.Kind, more ...schema.Field) *lake {
	l.t.Helper()
	layout := l.layout(table)
	captured, err := schema.FromArrow(arrow.NewSchema(layout.Schema().Fields()[mssqlcdc.FirstCaptured:], nil))
	require.NoError(l.t, err)
	text := func(name string) schema.Field {
		return schema.Field{Name: name, Type: schema.String, Nullable: true}
	}
	whole := func(name string) schema.Field {
		return schema.Field{Name: name, Type: schema.Integer, Nullable: true}
	}
	fields := []schema.Field{text(mssqlcdc.ColStartLSN)}
	if kind == reconcile.Bronze {
		fields = append(fields, text(mssqlcdc.ColSeqVal), whole(mssqlcdc.ColOperation), whole(mssqlcdc.ColCommandID), text(mssqlcdc.ColSnapshot), whole(mssqlcdc.ColChunk))
	}
	fields = append(append(fields, captured.Fields...), more...)
	opened, err := delta.Create(l.t.Context(), mem.New(), delta.Spec{Schema: &schema.Struct{Fields: fields}}, delta.Options{})
	require.NoError(l.t, err)
	low, err := l.client.MinLSN(l.t.Context(), layout.Instance.Name)
	require.NoError(l.t, err)
	return &lake{lab: l, kind: kind, source: layout.Instance.Table, layout: layout, table: opened, position: low.Prev()}
}

// stream brings the changes that were captured.
func (k *lake) stream() *lake {
	k.t.Helper()
	ctx := k.t.Context()
	head, err := k.client.MaxLSN(ctx)
	require.NoError(k.t, err)
	limits := sqlserver.Limits{Commits: -1, Rows: -1, Bytes: -1}
	plan, err := k.client.Plan(ctx, k.layout, k.position, head.LSN, limits)
	require.NoError(k.t, err)
	var rows []map[string]any
	for part, err := range k.client.Read(ctx, sqlserver.ReadRequest{Layout: k.layout, Plan: plan, Limits: limits, Head: head}) {
		require.NoError(k.t, err)
		rows = append(rows, rowsOf(part.Record)...)
	}
	k.position = plan.Window.End
	k.append(rows)
	return k
}

// read brings the rows of the source as they are, as one chunk of a snapshot.
func (k *lake) read() *lake {
	k.t.Helper()
	ctx := k.t.Context()
	stamp, err := k.client.SnapshotStamp(ctx, k.layout.Instance)
	require.NoError(k.t, err)
	var rows []map[string]any
	for part, err := range k.client.ReadChunk(ctx, sqlserver.ChunkRequest{Layout: k.layout, Stamp: stamp}) {
		require.NoError(k.t, err)
		rows = append(rows, rowsOf(part.Record)...)
	}
	for _, row := range rows {
		row[mssqlcdc.ColSnapshot], row[mssqlcdc.ColChunk] = stamp.LSN.String(), int64(0)
	}
	k.position = stamp.LSN
	k.append(rows)
	return k
}

// append commits rows with the position.
func (k *lake) append(rows []map[string]any) {
	k.t.Helper()
	hi, lo := k.position.Parts()
	change := delta.Change{Operation: delta.OpWrite, Marks: []delta.Txn{{AppID: app + "#lsn.hi", Version: hi}, {AppID: app + "#lsn.lo", Version: lo}}, BlindAppend: true}
	if len(rows) > 0 {
		w, err := k.table.NewWriter(k.t.Context(), data.WriterOptions{})
		require.NoError(k.t, err)
		require.NoError(k.t, w.Write(pack(k.t, k.table.Snapshot().Schema().Arrow(), rows)))
		change.Add, err = w.Close()
		require.NoError(k.t, err)
	}
	_, err := k.table.Commit(k.t.Context(), change)
	require.NoError(k.t, err)
}

// rowsOf are the rows of a record as objects, LSNs as text.
func rowsOf(rec arrow.RecordBatch) []map[string]any {
	var rows []map[string]any
	for row := range mssqlcdc.Rows(rec, 0) {
		for name, value := range row {
			switch v := value.(type) {
			case string:
				row[name] = strings.Clone(v)
			case []byte:
				if (name == mssqlcdc.ColStartLSN || name == mssqlcdc.ColSeqVal) && len(v) == mssqlcdc.LSNSize {
					row[name] = mssqlcdc.LSN(v).String()
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func pack(t testing.TB, as *arrow.Schema, rows []map[string]any) arrow.RecordBatch {
	t.Helper()
	builder, err := mssqlcdc.NewRowBuilder(as, array.NewRecordBuilder(memory.DefaultAllocator, as))
	require.NoError(t, err)
	for _, row := range rows {
		for i, field := range as.Fields() {
			require.NoError(t, builder.Set(i, row[field.Name]), "%s: %v", field.Name, row[field.Name])
		}
	}
	return builder.NewRecord()
}

// config compares the lake with the source. Where the comparison waits for capture, capture passes.
func (k *lake) config() reconcile.Config {
	return reconcile.Config{
		Client: k.client, Table: k.source, Sample: 1, Poll: time.Millisecond, Dir: k.t.TempDir(),
		Target: reconcile.Target{
			Table: k.table, Kind: k.kind, Name: "lake",
			Position: func(_ context.Context, s *delta.Snapshot) (mssqlcdc.LSN, bool, error) {
				hi, ok := s.AppVersion(app + "#lsn.hi")
				lo, _ := s.AppVersion(app + "#lsn.lo")
				if !ok {
					return mssqlcdc.LSN{}, false, nil
				}
				lsn, err := mssqlcdc.LSNFromParts(hi, lo)
				return lsn, true, err
			},
		},
		Say: func(text string) {
			if strings.Contains(text, "waiting for capture") {
				k.pass()
			}
		},
	}
}

func (k *lake) compare(change ...func(*reconcile.Config)) *reconcile.Result {
	k.t.Helper()
	c := k.config()
	for _, f := range change {
		f(&c)
	}
	result, err := reconcile.Run(k.t.Context(), c)
	require.NoError(k.t, err)
	return result
}

func (k *lake) requireMatch(change ...func(*reconcile.Config)) *reconcile.Result {
	k.t.Helper()
	result := k.compare(change...)
	require.Equal(k.t, reconcile.Match, result.Status, describe(result))
	require.Equal(k.t, result.SourceRows, result.TargetRows)
	require.Zero(k.t, result.Wrong())
	return result
}

// describe is what is wrong, for messages of tests.
func describe(r *reconcile.Result) string {
	text := fmt.Sprint(r.Status, r.Counts, r.Notes)
	for _, f := range r.Failures {
		text += fmt.Sprintf("\n%s %v %v %s", f.Type, f.Key, f.Columns, f.Note)
	}
	return text
}
