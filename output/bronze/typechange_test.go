package bronze_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// sourceTypes are the types that a column of the source goes through.
func sourceTypes() []schema.Type {
	return []schema.Type{
		schema.Short, schema.Integer, schema.Long, schema.Float, schema.Double, schema.Date, schema.TimestampNTZ, schema.String, schema.Boolean,
		schema.Decimal{Precision: 5}, schema.Decimal{Precision: 12, Scale: 2}, schema.Decimal{Precision: 14, Scale: 4}, schema.Decimal{Precision: 30, Scale: 6},
	}
}

// drawValue appends a value of the type, or NULL.
func drawValue(rt *rapid.T, b array.Builder, t schema.Type) {
	if rapid.IntRange(0, 4).Draw(rt, "null") == 0 {
		b.AppendNull()
		return
	}
	n := rapid.Int64Range(-9999, 9999).Draw(rt, "value")
	switch b := b.(type) {
	case *array.Int16Builder:
		b.Append(int16(n))
	case *array.Int32Builder:
		b.Append(int32(n) * 200_000)
	case *array.Int64Builder:
		b.Append(n * 900_000_000_000_000)
	case *array.Float32Builder:
		b.Append(float32(n) / 3)
	case *array.Float64Builder:
		b.Append(float64(n) / 3)
	case *array.Date32Builder:
		b.Append(arrow.Date32(n))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n * 1_234_567_891))
	case *array.StringBuilder:
		b.Append(fmt.Sprint("text ", n))
	case *array.BooleanBuilder:
		b.Append(n%2 == 0)
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(n))
	default:
		rt.Fatalf("no values of %s", t)
	}
}

// valueOf is a value as text, the same in every type that it fits in: numbers as exact
// fractions, dates and times in microseconds.
func valueOf(arr arrow.Array, i int) string {
	if arr.IsNull(i) {
		return "NULL"
	}
	rat := new(big.Rat)
	switch a := arr.(type) {
	case *array.Int16:
		rat.SetInt64(int64(a.Value(i)))
	case *array.Int32:
		rat.SetInt64(int64(a.Value(i)))
	case *array.Int64:
		rat.SetInt64(a.Value(i))
	case *array.Float32:
		rat.SetFloat64(float64(a.Value(i)))
	case *array.Float64:
		rat.SetFloat64(a.Value(i))
	case *array.Decimal128:
		scale := int64(a.DataType().(*arrow.Decimal128Type).Scale)
		rat.SetFrac(a.Value(i).BigInt(), new(big.Int).Exp(big.NewInt(10), big.NewInt(scale), nil))
	case *array.Date32:
		return fmt.Sprint("at ", int64(a.Value(i))*86_400_000_000)
	case *array.Timestamp:
		return fmt.Sprint("at ", int64(a.Value(i)))
	default:
		return strings.Clone(arr.ValueStr(i))
	}
	return rat.RatString()
}

// place is a column of the table and its type.
type place struct {
	name string
	typ  schema.Type
}

// changing is a source with a column whose type changes, and what the table must be.
type changing struct {
	rt     *rapid.T
	policy target.OnTypeChange
	byDate bool
	column string
	inner  store.Store
	table  *bronze.Table

	at      changetest.Cursor
	attempt int64
	lsn     int
	typ     schema.Type
	nextID  int64
	theirs  []string // columns of other writers

	places []place             // columns for the values, oldest first
	rows   map[int64][2]string // of the table: column and value by id
	events int
	// Of the window at hand.
	winPlaces []place
	winRows   map[int64][2]string
	winEvents int
}

func (c *changing) open() {
	cfg := bronze.Config{AppID: app, QueuedParts: 1, Table: target.Spec{
		Name: "lake/t", OnTypeChange: c.policy, Delta: delta.Options{CheckpointInterval: 4}, Upkeep: maintain.Auto{NoCompact: true, NoCleanLog: true},
		Writer: data.WriterOptions{RowGroupRows: 3},
	}}
	if c.byDate {
		cfg.Table.PartitionBy = []string{bronze.ByCommitDate}
	}
	var err error
	c.table, err = bronze.Open(context.Background(), c.inner, cfg)
	require.NoError(c.rt, err)
}

// goes says by the rules in the documentation where values of a type go, "" for an error.
func (c *changing) goes(t schema.Type) string {
	if len(c.winPlaces) == 0 {
		c.winPlaces = append(c.winPlaces, place{c.column, t})
		return c.column
	}
	for i := range slices.Backward(c.winPlaces) {
		if schema.Fits(t, c.winPlaces[i].typ) {
			return c.winPlaces[i].name
		}
	}
	switch c.policy {
	case target.Widen:
		for i := range slices.Backward(c.winPlaces) {
			if schema.Widens(c.winPlaces[i].typ, t) {
				c.winPlaces[i].typ = t
				c.winEvents++
				return c.winPlaces[i].name
			}
		}
	case target.NewColumn:
		suffix := strings.NewReplacer("(", "_", ",", "_", ")", "").Replace(t.String())
		name := c.column + "__" + suffix
		c.winPlaces = append(c.winPlaces, place{name, t})
		c.winEvents++
		return name
	}
	return ""
}

// part makes a part of a window with rows of the column's type.
func (c *changing) part(env mssqlcdc.Envelope, rows int, to string) *mssqlcdc.RecordBatch {
	columns := []mssqlcdc.Column{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint", Key: true},
		{Name: c.column, Type: schema.ArrowType(c.typ), SourceType: "some type"},
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, mssqlcdc.RecordSchema(columns))
	defer b.Release()
	for i := range rows {
		lsn := env.Window.End
		b.Field(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinaryBuilder).Append(lsn[:])
		b.Field(mssqlcdc.IdxSeqVal).(*array.FixedSizeBinaryBuilder).Append(lsn[:])
		b.Field(mssqlcdc.IdxOperation).(*array.Int32Builder).Append(int32(mssqlcdc.Insert))
		b.Field(mssqlcdc.IdxCommandID).(*array.Int32Builder).Append(int32(i))
		b.Field(mssqlcdc.IdxCommitTime).(*array.TimestampBuilder).Append(arrow.Timestamp(time.Date(2026, 3, 1+c.lsn%3, 0, 0, 0, 0, time.UTC).UnixMicro()))
		b.Field(mssqlcdc.FirstCaptured).(*array.Int64Builder).Append(c.nextID)
		drawValue(c.rt, b.Field(mssqlcdc.FirstCaptured+1), c.typ)
		c.nextID++
	}
	record := b.NewRecordBatch()
	for i := range rows {
		id := record.Column(mssqlcdc.FirstCaptured).(*array.Int64).Value(i)
		c.winRows[id] = [2]string{to, valueOf(record.Column(mssqlcdc.FirstCaptured+1), i)}
	}
	batch, err := mssqlcdc.NewRecordBatch(env, record)
	require.NoError(c.rt, err)
	return batch
}

// window sends a window in parts, between which the type may change, the table is changed by
// others, or the process dies.
func (c *changing) window() {
	c.lsn += 3
	c.attempt++
	c.winPlaces, c.winRows, c.winEvents = slices.Clone(c.places), map[int64][2]string{}, 0
	env := mssqlcdc.Envelope{
		Version: mssqlcdc.EnvelopeVersion, Database: "shop", Table: mssqlcdc.TableID{Schema: "dbo", Name: "t"}, Instance: "dbo_t", Attempt: c.attempt,
		Window: mssqlcdc.Window{Start: c.at.LSN, End: changetest.LSN(c.lsn), EndTime: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}, PrevDataLSN: c.at.DataLSN,
	}
	parts := rapid.IntRange(1, 3).Draw(c.rt, "parts")
	for i := range parts {
		if rapid.IntRange(0, 2).Draw(c.rt, "changes") == 0 {
			c.typ = rapid.SampledFrom(sourceTypes()).Draw(c.rt, "type")
		}
		env.Part, env.Last = i, i == parts-1
		to := c.goes(c.typ)
		result, err := c.table.Write(context.Background(), c.part(env, rapid.IntRange(1, 4).Draw(c.rt, "rows"), to))
		if to == "" {
			c.refused(err)
			return
		}
		if moved := new(target.LayoutError); errors.As(err, &moved) {
			// Somebody else gave a column the id that files of the window have.
			require.Equal(c.rt, bronze.Resend, bronze.Decide(err))
			require.Contains(c.rt, c.column, " ")
			return
		}
		require.NoError(c.rt, err, "%s into %v", c.typ, c.winPlaces)
		if env.Last {
			c.committed(result)
			c.at = changetest.Cursor{LSN: env.Window.End, DataLSN: env.Window.End}
			return
		}
		if rapid.IntRange(0, 9).Draw(c.rt, "crash") == 0 {
			c.open()
			return
		}
		if rapid.IntRange(0, 9).Draw(c.rt, "others") == 0 {
			c.others()
		}
	}
}

func (c *changing) refused(err error) {
	var change *target.TypeChangeError
	require.ErrorAs(c.rt, err, &change)
	require.Equal(c.rt, bronze.Stop, bronze.Decide(err))
	require.Equal(c.rt, c.column, change.Column)
	require.NotEqual(c.rt, target.NewColumn, c.policy)
	c.typ = c.places0()
}

// places0 is a type that fits for certain.
func (c *changing) places0() schema.Type {
	if len(c.places) > 0 {
		return c.places[0].typ
	}
	return schema.String
}

func (c *changing) committed(result bronze.Result) {
	require.Equal(c.rt, mssqlcdc.Committed, result.Mark)
	require.Len(c.rt, result.Types, c.winEvents, "%v", result.Types)
	n := 0
	for _, event := range result.Events {
		require.Equal(c.rt, mssqlcdc.EventSchemaChange, event.Event)
		var detail map[string]string
		require.NoError(c.rt, json.Unmarshal([]byte(event.Detail), &detail))
		require.Equal(c.rt, c.column, strings.Split(detail["column"], "__")[0])
		n++
	}
	require.Equal(c.rt, c.winEvents, n)
	c.places, c.events = c.winPlaces, c.events+c.winEvents
	for id, row := range c.winRows {
		c.rows[id] = row
	}
}

// others is somebody who adds a column, or compacts the table.
func (c *changing) others() {
	if c.table.Target().Table() == nil {
		return
	}
	other, err := delta.Open(context.Background(), c.inner, delta.Options{CheckpointInterval: -1})
	require.NoError(c.rt, err)
	defer func() {
		if rapid.Bool().Draw(c.rt, "seen") { // as by the table's own upkeep
			require.NoError(c.rt, c.table.Target().Refresh(context.Background()))
		}
	}()
	if rapid.Bool().Draw(c.rt, "compacts") {
		_, err := maintain.Optimize(context.Background(), other, maintain.OptimizeOptions{MinFiles: 2})
		require.NoError(c.rt, err)
		return
	}
	s := other.Snapshot()
	name := fmt.Sprint("theirs", s.Version())
	c.theirs = append(c.theirs, name)
	merged, _, err := schema.Merge(s.Schema(), &schema.Struct{Fields: []schema.Field{{Name: name, Type: schema.Long}}})
	require.NoError(c.rt, err)
	m := s.Metadata()
	m.SchemaString = merged.JSON()
	_, err = other.Commit(context.Background(), delta.Change{Metadata: &m, ReadVersion: s.Version()})
	require.NoError(c.rt, err)
}

// check reads the table with a process of its own.
func (c *changing) check() {
	if c.table.Target().Table() == nil {
		require.Empty(c.rt, c.rows)
		return
	}
	table, err := delta.Open(context.Background(), c.inner, delta.Options{CheckpointInterval: -1})
	require.NoError(c.rt, err)
	s := table.Snapshot()
	require.Equal(c.rt, strings.Contains(c.column, " "), s.Mapping().Maps())
	for _, name := range c.theirs {
		require.GreaterOrEqual(c.rt, s.Schema().Index(name), 0, "column %s of another writer is gone", name)
	}
	for _, p := range c.places {
		f, ok := s.Schema().Field(p.name)
		require.True(c.rt, ok, "column %s of %s", p.name, s.Schema())
		require.Equal(c.rt, p.typ, f.Type)
	}
	got := map[int64][2]string{}
	for rec, err := range table.Read(context.Background(), s, delta.ReadOptions{}) {
		require.NoError(c.rt, err)
		ids := rec.Column(rec.Schema().FieldIndices("id")[0]).(*array.Int64)
		for i := range int(rec.NumRows()) {
			row := [2]string{"", "NULL"}
			for _, p := range c.places {
				if v := valueOf(rec.Column(rec.Schema().FieldIndices(p.name)[0]), i); v != "NULL" {
					require.Equal(c.rt, "NULL", row[1], "two columns have values")
					row = [2]string{p.name, v}
				}
			}
			_, twice := got[ids.Value(i)]
			require.False(c.rt, twice)
			got[ids.Value(i)] = row
		}
	}
	want := map[int64][2]string{}
	for id, row := range c.rows {
		if row[1] == "NULL" {
			row[0] = ""
		}
		want[id] = row
	}
	require.Equal(c.rt, want, got)
}

// Whatever types a column goes through, in whatever windows, over restarts and beside other
// writers: each value is there once, unchanged, where the policy says.
func TestTypesChange(t *testing.T) {
	t.Parallel()
	for _, policy := range []target.OnTypeChange{target.Fail, target.Widen, target.NewColumn} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				c := &changing{
					rt: rt, policy: policy, inner: mem.New(), rows: map[int64][2]string{}, lsn: 1,
					column: rapid.SampledFrom([]string{"v", "v, w"}).Draw(rt, "column"), byDate: rapid.Bool().Draw(rt, "by date"),
					typ: rapid.SampledFrom(sourceTypes()).Draw(rt, "first type"),
				}
				c.open()
				for range rapid.IntRange(1, 12).Draw(rt, "steps") {
					switch rapid.IntRange(0, 5).Draw(rt, "step") {
					case 0:
						c.open() // a crash: the old table is left as it is
					case 1:
						c.others()
					default:
						c.window()
					}
				}
				c.check()
			})
		})
	}
}
