package silver_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// key is a key of two columns, the second of which may be NULL in tables whose keys
// somebody chose.
type key struct {
	id   int64
	part string
}

// values are the other columns; note is nvarchar(max), extra comes later.
type values struct {
	amount      int64
	note        string
	extra       int64
	extraIsNull bool
}

// record is one change row, or a row of a snapshot.
type record struct {
	lsn, seq int
	command  int
	op       mssqlcdc.Operation
	key      key
	values   values
	noNote   bool // the image leaves the large value out

	snapshot, chunk int
}

// source is a table with its history.
type source struct {
	rng    *rand.Rand
	rows   map[key]values
	states []map[key]values // by LSN
	log    [][]record       // by LSN
	wide   bool             // the column extra is captured
}

func newSource(rng *rand.Rand) *source {
	return &source{rng: rng, rows: map[key]values{}, states: []map[key]values{{}}, log: [][]record{nil}}
}

func (s *source) now() int { return len(s.log) - 1 }

func lsnOf(n int) mssqlcdc.LSN {
	if n == 0 {
		return mssqlcdc.LSN{}
	}
	l, err := mssqlcdc.LSNFromParts(int64(n/7)+1, int64(n)<<20)
	if err != nil {
		panic(err) // only numbers of a test come here
	}
	return l
}

func timeOf(n int) time.Time {
	return time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC).Add(time.Duration(n) * 20 * time.Second)
}

// commit makes one transaction of up to that many statements.
func (s *source) commit(statements int) {
	lsn := len(s.log)
	var log []record
	seq := 0
	for command := range 1 + s.rng.IntN(statements) {
		seq++
		add := func(op mssqlcdc.Operation, k key, v values, noNote bool) {
			log = append(log, record{lsn: lsn, seq: seq, command: command + 1, op: op, key: k, values: v, noNote: noNote})
		}
		k := key{id: s.rng.Int64N(8), part: string('a' + rune(s.rng.IntN(2)))}
		old, there := s.rows[k]
		v := values{amount: s.rng.Int64N(4), note: fmt.Sprint("note ", s.rng.IntN(1000)), extra: s.rng.Int64N(9), extraIsNull: !s.wide}
		switch {
		case !there:
			add(mssqlcdc.Insert, k, v, false)
			s.rows[k] = v
		case s.rng.IntN(4) == 0:
			add(mssqlcdc.Delete, k, old, false)
			delete(s.rows, k)
		case s.rng.IntN(4) == 0:
			s.moveKey(k, old, v, add)
		default:
			v.extraIsNull = !s.wide
			keeps := s.rng.IntN(2) == 0
			if keeps {
				v.note = old.note
				v.amount = old.amount + 1
			}
			add(mssqlcdc.UpdateBefore, k, old, keeps)
			add(mssqlcdc.UpdateAfter, k, v, false)
			s.rows[k] = v
		}
	}
	s.log = append(s.log, log)
	s.states = append(s.states, maps.Clone(s.rows))
}

// moveKey updates a key, which is recorded in one of two ways.
func (s *source) moveKey(k key, old, v values, add func(mssqlcdc.Operation, key, values, bool)) {
	to := key{id: s.rng.Int64N(8), part: "moved"}
	if _, taken := s.rows[to]; taken || to == k {
		return
	}
	delete(s.rows, k)
	s.rows[to] = v
	if s.rng.IntN(2) == 0 {
		add(mssqlcdc.Delete, k, old, false)
		add(mssqlcdc.Insert, to, v, false)
		return
	}
	add(mssqlcdc.UpdateBefore, k, old, false)
	add(mssqlcdc.UpdateAfter, to, v, false)
}

// lake is a bronze table and the control table beside it, as the output writes them.
type lake struct {
	t       testing.TB
	bronze  store.Store
	table   *delta.Table
	control *control.Table
	batch   int64
	end     int  // the stream's position
	wide    bool // the column extra is in the table
	held    string
	gaps    []control.Gap
	keys    []string
}

func newLake(t testing.TB, st, controlStore store.Store) *lake {
	t.Helper()
	c, err := control.Create(t.Context(), controlStore, control.Options{})
	require.NoError(t, err)
	return &lake{t: t, bronze: st, control: c, keys: []string{"id", "part"}}
}

const bronzeApp = "orders"

func bronzeSchema(wide bool) *schema.Struct {
	field := func(name string, t schema.Type, comment string) schema.Field {
		return schema.Field{Name: name, Type: t, Nullable: true}.WithComment(comment)
	}
	s := &schema.Struct{Fields: []schema.Field{
		field(mssqlcdc.ColCaptureInstance, schema.String, ""), field(mssqlcdc.ColStartLSN, schema.String, ""), field(mssqlcdc.ColSeqVal, schema.String, ""),
		field(mssqlcdc.ColOperation, schema.Integer, ""), field(mssqlcdc.ColCommandID, schema.Integer, ""), field(mssqlcdc.ColCommitTime, schema.TimestampNTZ, ""),
		field("id", schema.Long, "SQL Server bigint"), field("part", schema.String, "SQL Server nvarchar(20)"),
		field("amount", schema.Long, "SQL Server bigint"), field("note", schema.String, "SQL Server nvarchar(max)"),
		field(mssqlcdc.ColBatchID, schema.Integer, ""), field(mssqlcdc.ColSnapshot, schema.String, ""), field(mssqlcdc.ColChunk, schema.Integer, ""),
	}}
	if wide {
		s.Fields = append(s.Fields, field("extra", schema.Long, "SQL Server bigint"))
	}
	return s
}

// open makes the bronze table, or gives it the column extra.
func (l *lake) open(ctx context.Context) {
	if l.table == nil {
		table, err := delta.Create(ctx, l.bronze, delta.Spec{Schema: bronzeSchema(l.wide), Properties: map[string]string{
			mssqlcdc.PropKeyColumns: mssqlcdc.EncodeKeyColumns(l.keys), mssqlcdc.PropSourceTable: "dbo.orders",
		}}, delta.Options{CheckpointInterval: 10})
		require.NoError(l.t, err)
		l.table = table
	}
	if l.wide && l.table.Snapshot().Schema().Index("extra") < 0 {
		m := l.table.Snapshot().Metadata()
		m.SchemaString = bronzeSchema(true).JSON()
		_, err := l.table.Commit(ctx, delta.Change{Operation: delta.OpAddColumns, Metadata: &m, ReadVersion: l.table.Snapshot().Version()})
		require.NoError(l.t, err)
	}
}

// write commits rows with transactions of the output.
func (l *lake) write(ctx context.Context, records []record, marks []delta.Txn) {
	l.open(ctx)
	change := delta.Change{Operation: delta.OpStreamingWrite, BlindAppend: true, ReadVersion: l.table.Snapshot().Version(), Marks: marks}
	if len(records) > 0 {
		w, err := l.table.NewWriter(ctx, data.WriterOptions{})
		require.NoError(l.t, err)
		rec := l.records(records)
		require.NoError(l.t, w.Write(rec))
		rec.Release()
		change.Add, err = w.Close()
		require.NoError(l.t, err)
	}
	_, err := l.table.Commit(ctx, change)
	require.NoError(l.t, err)
}

func marksOf(app, hi, lo string, n int) []delta.Txn {
	high, low := lsnOf(n).Parts()
	return []delta.Txn{{AppID: app + hi, Version: high}, {AppID: app + lo, Version: low}}
}

// window brings the changes up to an LSN, and moves bronze's verdict.
func (l *lake) window(ctx context.Context, s *source, end int) {
	var records []record
	for n := l.end + 1; n <= end; n++ {
		records = append(records, s.log[n]...)
	}
	l.end = end
	l.batch++
	l.write(ctx, records, marksOf(bronzeApp, mssqlcdc.TxnPositionHi, mssqlcdc.TxnPositionLo, end))
	l.finalize(ctx)
}

// finalize moves bronze's verdict to the stream's position.
func (l *lake) finalize(ctx context.Context) {
	_, _, err := l.control.Advance(ctx, control.Candidate{
		Target: "dbo.orders", Granularity: control.Minute, EndLSN: lsnOf(l.end), EndCommitTime: timeOf(l.end), HeldBy: l.held, Gaps: l.gaps,
	})
	require.NoError(l.t, err)
}

// chunk brings a chunk of a snapshot.
func (l *lake) chunk(ctx context.Context, c chunk) {
	marks := []delta.Txn{{AppID: fmt.Sprintf("%s#snap.%s", bronzeApp, lsnOf(c.snapshot)), Version: int64(c.number)}}
	if c.first {
		marks = append(marks, delta.Txn{AppID: bronzeApp + mssqlcdc.TxnSnapshotBegun, Version: timeOf(c.stamp).UnixMicro()})
	}
	if c.final {
		begun, _ := l.table.Snapshot().AppVersion(bronzeApp + mssqlcdc.TxnSnapshotBegun)
		if c.first {
			begun = timeOf(c.stamp).UnixMicro()
		}
		marks = append(marks, marksOf(bronzeApp, mssqlcdc.TxnSnapshotHi, mssqlcdc.TxnSnapshotLo, c.snapshot)...)
		marks = append(marks, delta.Txn{AppID: bronzeApp + mssqlcdc.TxnSnapshotTime, Version: begun})
	}
	l.write(ctx, c.rows, marks)
}

// chunk is rows of a snapshot.
type chunk struct {
	snapshot, number, stamp int
	first, final            bool
	rows                    []record
}

// records are rows as Arrow.
func (l *lake) records(records []record) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, bronzeSchema(l.wide).Arrow())
	defer b.Release()
	for _, r := range records {
		text := func(i int, v string) { b.Field(i).(*array.StringBuilder).Append(v) }
		number := func(i int, v int64) { b.Field(i).(*array.Int64Builder).Append(v) }
		small := func(i, v int) { b.Field(i).(*array.Int32Builder).Append(int32(v)) }
		text(0, "dbo_orders")
		text(1, lsnOf(r.lsn).String())
		small(3, int(r.op))
		b.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(timeOf(r.lsn).UnixMicro()))
		number(6, r.key.id)
		text(7, r.key.part)
		number(8, r.values.amount)
		if r.noNote {
			b.Field(9).AppendNull()
		} else {
			text(9, r.values.note)
		}
		if r.op == mssqlcdc.Read {
			b.Field(2).AppendNull()
			b.Field(4).AppendNull()
			b.Field(10).AppendNull()
			text(11, lsnOf(r.snapshot).String())
			if r.chunk < 0 {
				b.Field(12).AppendNull()
			} else {
				small(12, r.chunk)
			}
		} else {
			text(2, fmt.Sprintf("0x%020X", r.lsn<<8|r.seq))
			small(4, r.command)
			small(10, int(l.batch))
			b.Field(11).AppendNull()
			b.Field(12).AppendNull()
		}
		switch {
		case !l.wide:
		case r.values.extraIsNull:
			b.Field(13).AppendNull()
		default:
			number(13, r.values.extra)
		}
	}
	return b.NewRecordBatch()
}

// readRows reads a table as rows of values by column name.
func readRows(t testing.TB, st store.Store) []map[string]any {
	t.Helper()
	table, err := delta.Open(t.Context(), st, delta.Options{CheckpointInterval: -1})
	require.NoError(t, err)
	defer func() { require.NoError(t, table.Close(context.Background())) }()
	var rows []map[string]any
	for rec, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{}) {
		require.NoError(t, err)
		for r := range mssqlcdc.Rows(rec, 0) {
			for name, v := range r {
				if text, ok := v.(string); ok {
					r[name] = string([]byte(text))
				}
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func image(r map[string]any) (key, values) {
	k := key{id: r["id"].(int64)}
	k.part, _ = r["part"].(string)
	v := values{amount: r["amount"].(int64)}
	v.note, _ = r["note"].(string)
	if extra, ok := r["extra"].(int64); ok {
		v.extra = extra
	} else {
		v.extraIsNull = true
	}
	return k, v
}

// plain drops what a table does not hold.
func plain(state map[key]values) map[key]values {
	out := map[key]values{}
	for k, v := range state {
		if v.extraIsNull {
			v.extra = 0
		}
		out[k] = v
	}
	return out
}

// describe says how two states differ.
func describe(want, got map[key]values) string {
	want, got = plain(want), plain(got)
	var lines []string
	for k, v := range want {
		if have, ok := got[k]; !ok {
			lines = append(lines, fmt.Sprintf("missing %v %v", k, v))
		} else if have != v {
			lines = append(lines, fmt.Sprintf("%v is %v, want %v", k, have, v))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			lines = append(lines, fmt.Sprintf("too much %v %v", k, v))
		}
	}
	slices.Sort(lines)
	return fmt.Sprint(lines)
}
