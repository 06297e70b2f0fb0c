package mssqlcdc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// everyType has one captured column of each type that a record can hold.
func everyType() []mssqlcdc.Column {
	return []mssqlcdc.Column{
		{Name: "bit", Type: arrow.FixedWidthTypes.Boolean, SourceType: "bit"},
		{Name: "small", Type: arrow.PrimitiveTypes.Int16, SourceType: "smallint"},
		{Name: "id", Type: arrow.PrimitiveTypes.Int32, SourceType: "int", Key: true},
		{Name: "big", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint"},
		{Name: "real", Type: arrow.PrimitiveTypes.Float32, SourceType: "real"},
		{Name: "float", Type: arrow.PrimitiveTypes.Float64, SourceType: "float"},
		{Name: "amount", Type: &arrow.Decimal128Type{Precision: 38, Scale: 2}, SourceType: "decimal(38,2)"},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, SourceType: "date"},
		{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, SourceType: "datetime2(7)"},
		{Name: "instant", Type: &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}, SourceType: "datetimeoffset(7)"},
		{Name: "text", Type: arrow.BinaryTypes.String, SourceType: "nvarchar(max)"},
		{Name: "raw", Type: arrow.BinaryTypes.Binary, SourceType: "varbinary(max)"},
	}
}

func envelope(part int, last bool) mssqlcdc.Envelope {
	return mssqlcdc.Envelope{
		Version: mssqlcdc.EnvelopeVersion,
		Table:   mssqlcdc.TableID{Schema: "dbo", Name: "orders"},
		Window:  mssqlcdc.Window{Start: mssqlcdc.LSN{9: 1}, End: mssqlcdc.LSN{9: 9}},
		Part:    part, Last: last,
	}
}

// batchOf packs rows of captured columns, all of them inserts.
func batchOf(t require.TestingT, columns []mssqlcdc.Column, rows []map[string]any) *mssqlcdc.RecordBatch {
	schema := mssqlcdc.RecordSchema(columns)
	builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
	require.NoError(t, err)
	for i, row := range rows {
		lsn := mssqlcdc.LSN{9: byte(2 + i)}
		require.NoError(t, builder.Set(mssqlcdc.IdxStartLSN, lsn[:]))
		require.NoError(t, builder.Set(mssqlcdc.IdxSeqVal, lsn[:]))
		require.NoError(t, builder.Set(mssqlcdc.IdxOperation, int64(mssqlcdc.Insert)))
		require.NoError(t, builder.Set(mssqlcdc.IdxCommandID, nil))
		require.NoError(t, builder.Set(mssqlcdc.IdxCommitTime, time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC)))
		for c, column := range columns {
			require.NoError(t, builder.Set(mssqlcdc.FirstCaptured+c, row[column.Name]))
		}
	}
	batch, err := mssqlcdc.NewRecordBatch(envelope(0, true), builder.NewRecord())
	require.NoError(t, err)
	return batch
}

func TestRowsRoundTrip(t *testing.T) {
	t.Parallel()
	columns := everyType()
	row := rapid.Custom(func(t *rapid.T) map[string]any {
		micros := rapid.Int64Range(-62135596800000000, 253402300799999999)
		draw := map[string]func() any{
			"bit":     func() any { return rapid.Bool().Draw(t, "bit") },
			"small":   func() any { return int64(rapid.Int16().Draw(t, "small")) },
			"id":      func() any { return int64(rapid.Int32().Draw(t, "id")) },
			"big":     func() any { return rapid.Int64().Draw(t, "big") },
			"real":    func() any { return float64(rapid.IntRange(-1000, 1000).Draw(t, "real")) / 8 },
			"float":   func() any { return rapid.Float64().Draw(t, "float") },
			"amount":  func() any { return rapid.StringMatching(`-?[1-9][0-9]{0,35}\.[0-9][1-9]`).Draw(t, "amount") },
			"day":     func() any { return time.UnixMicro(micros.Draw(t, "day")).UTC().Format(time.DateOnly) },
			"at":      func() any { return time.UnixMicro(micros.Draw(t, "at")).UTC() },
			"instant": func() any { return time.UnixMicro(micros.Draw(t, "instant")).UTC() },
			"text":    func() any { return rapid.String().Draw(t, "text") },
			"raw":     func() any { return rapid.SliceOf(rapid.Byte()).Draw(t, "raw") },
		}
		values := map[string]any{}
		for _, column := range columns {
			values[column.Name] = nil
			if rapid.IntRange(0, 3).Draw(t, "null") > 0 {
				values[column.Name] = draw[column.Name]()
			}
		}
		return values
	})
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(row, 0, 5).Draw(t, "rows")
		var got []map[string]any
		for r := range batchOf(t, columns, rows).Rows() {
			got = append(got, r)
		}
		require.Len(t, got, len(rows))
		for i := range rows {
			require.Equal(t, rows[i], got[i])
		}
	})
}

func TestSetRefusesWhatWouldLoseDigits(t *testing.T) {
	t.Parallel()
	columns := everyType()
	index := map[string]int{}
	for i, c := range columns {
		index[c.Name] = mssqlcdc.FirstCaptured + i
	}
	schema := mssqlcdc.RecordSchema(columns)
	for name, tc := range map[string]struct {
		column string
		value  any
		want   string
	}{
		"too large for smallint": {"small", int64(40000), "does not fit"},
		"fraction into int":      {"id", 1.5, "not a whole number"},
		"float beyond 2^53":      {"big", float64(1 << 60), "not a whole number that a float holds exactly"},
		"third decimal":          {"amount", "1.005", "more digits after the point"},
		"39 digits":              {"amount", "1" + fmt.Sprintf("%038d", 0) + ".00", "more than 38 digits"},
		"not a number":           {"amount", "1e5", "not a decimal number"},
		"text into bit":          {"bit", "true", "want a boolean"},
		"no date":                {"day", "30.11.2026", "not a date"},
		"no time":                {"at", "noon", "not a time"},
		"no base64":              {"raw", "%", "not base64"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
			require.NoError(t, err)
			err = builder.Set(index[tc.column], tc.value)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, tc.column)
		})
	}
	builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
	require.NoError(t, err)
	require.ErrorContains(t, builder.Set(mssqlcdc.IdxStartLSN, nil), "must not be null")
}

func TestMarshalJSONHoldsTheRows(t *testing.T) {
	t.Parallel()
	columns := []mssqlcdc.Column{everyType()[2], everyType()[5], everyType()[6]}
	batch := batchOf(t, columns, []map[string]any{
		{"id": int64(1), "float": math.NaN(), "amount": "1.50"},
		{"id": nil, "float": math.Inf(-1), "amount": nil},
	})
	raw, err := json.Marshal(batch)
	require.NoError(t, err)
	require.JSONEq(t, `[{"id":1,"float":"NaN","amount":"1.50"},{"id":null,"float":"-Inf","amount":null}]`, string(raw))

	empty, err := json.Marshal(batchOf(t, columns, nil))
	require.NoError(t, err)
	require.JSONEq(t, `[]`, string(empty))
}

func TestOneLineForEveryVerb(t *testing.T) {
	t.Parallel()
	batch := batchOf(t, everyType()[2:3], []map[string]any{{"id": int64(4711)}})
	want := "record batch of dbo.orders: window (0x00000000000000000001, 0x00000000000000000009] part 0, last, 1 rows"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		require.Equal(t, want, fmt.Sprintf(verb, batch), verb)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	batch := batchOf(t, everyType()[2:3], nil)
	require.Equal(t, mssqlcdc.Unmarked, batch.MarkOf("a"))
	batch.Mark("a", mssqlcdc.Committed)
	batch.Mark("a", mssqlcdc.Staged)
	require.Equal(t, mssqlcdc.Committed, batch.MarkOf("a"), "a mark never goes back")

	derived, err := batch.WithRecord(batch.Record(), 3)
	require.NoError(t, err)
	derived.Mark("b", mssqlcdc.Skipped)
	require.Equal(t, map[string]mssqlcdc.Mark{"a": mssqlcdc.Committed, "b": mssqlcdc.Skipped}, batch.Marks(),
		"the input sees what happens to the batch that each_row made of its own")
	require.Equal(t, int64(3), derived.Envelope().Filtered)
	require.Zero(t, batch.Envelope().Filtered)
}

func TestNewRecordBatchRefuses(t *testing.T) {
	t.Parallel()
	good := batchOf(t, everyType(), nil)
	wrongVersion := envelope(0, true)
	wrongVersion.Version = 99
	_, err := mssqlcdc.NewRecordBatch(wrongVersion, good.Record())
	require.ErrorContains(t, err, "envelope version 99")

	backwards := envelope(0, true)
	backwards.Window = mssqlcdc.Window{Start: mssqlcdc.LSN{9: 9}, End: mssqlcdc.LSN{9: 1}}
	_, err = mssqlcdc.NewRecordBatch(backwards, good.Record())
	require.ErrorContains(t, err, "ends before it starts")

	foreign := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.BinaryTypes.String}}, nil)).NewRecordBatch()
	_, err = mssqlcdc.NewRecordBatch(envelope(0, true), foreign)
	require.ErrorContains(t, err, "metadata columns")
}

func TestTableNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a-z.\[\] '"_é表#$-]{1,8}`)
		table := mssqlcdc.TableID{Schema: part.Draw(t, "schema"), Name: part.Draw(t, "name")}
		back, err := mssqlcdc.ParseTableID(table.String())
		require.NoError(t, err)
		require.Equal(t, table, back)
		back, err = mssqlcdc.ParseTableID(table.Quoted())
		require.NoError(t, err)
		require.Equal(t, table, back)
	})
	for _, text := range []string{"", "orders", "dbo.", ".orders", "a.b.c", "[a.b", "[a]b.c", "a.[b]c"} {
		_, err := mssqlcdc.ParseTableID(text)
		require.ErrorIs(t, err, mssqlcdc.ErrInvalidTable, "%q", text)
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	w := mssqlcdc.Window{Start: mssqlcdc.LSN{9: 3}, End: mssqlcdc.LSN{9: 5}}
	require.False(t, w.Contains(mssqlcdc.LSN{9: 3}))
	require.True(t, w.Contains(w.From()))
	require.True(t, w.Contains(mssqlcdc.LSN{9: 5}))
	require.False(t, w.Contains(mssqlcdc.LSN{9: 6}))
	require.False(t, w.IsEmpty())
	require.True(t, mssqlcdc.Window{Start: w.End, End: w.End}.IsEmpty())
}

func TestRunState(t *testing.T) {
	t.Parallel()
	s := mssqlcdc.NewRunState()
	require.NoError(t, s.Err())
	s.Report(fmt.Errorf("isolated"))
	select {
	case <-s.Stopping():
		t.Fatal("a report must not stop the stream")
	default:
	}
	s.Fail(fmt.Errorf("fatal"))
	s.Fail(nil)
	s.Stop()
	<-s.Stopping()
	<-s.Failed()
	require.ErrorContains(t, s.Err(), "isolated\nfatal")
}

func TestRunStateFailTable(t *testing.T) {
	t.Parallel()
	orders := mssqlcdc.TableID{Schema: "dbo", Name: "orders"}
	s := mssqlcdc.NewRunState()
	s.OwnTables(func(table mssqlcdc.TableID, _ error) bool { return table == orders })
	s.FailTable(orders, errors.New("another schema"))
	select {
	case <-s.Stopping():
		t.Fatal("a table that is left out must not stop the stream")
	default:
	}
	require.ErrorContains(t, s.Err(), "table dbo.orders was left out: another schema")
	s.FailTable(mssqlcdc.TableID{Schema: "dbo", Name: "lines"}, errors.New("another writer"))
	<-s.Failed()
	require.ErrorContains(t, s.Err(), "another writer")
}
