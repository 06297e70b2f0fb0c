package sqlserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// cut is a table that a snapshot is read of.
type cut struct {
	client *sqlserver.Client
	layout sqlserver.Layout
	key    sqlserver.SnapshotKey
	stamp  sqlserver.Head
	limits sqlserver.Limits
	// helpers are the places of further connections, nil for none.
	helpers chan struct{}
	// between is called before every question, if it is set.
	between func()
	// judge is called with each chunk when it was read, if it is set.
	judge func(chunk)
}

// cutOf prepares the snapshot of a captured table, on its unique index or on named columns.
func (l *lab) cutOf(client *sqlserver.Client, instance string, names ...string) *cut {
	l.t.Helper()
	c := &cut{client: client, layout: l.layout(client, instance)}
	var err error
	c.key, err = client.SnapshotKey(l.t.Context(), c.layout, names)
	require.NoError(l.t, err)
	c.stamp, err = client.SnapshotStamp(l.t.Context(), c.layout.Instance)
	require.NoError(l.t, err)
	return c
}

// chunk is one chunk as it was read.
type chunk struct {
	from, to sqlserver.Bound
	parts    []sqlserver.Part
}

// read reads one chunk and checks the rules of its parts.
func (c *cut) read(t require.TestingT, ctx testContext, from, to sqlserver.Bound) chunk {
	found, err := c.tryRead(t, ctx, sqlserver.ChunkRequest{From: from, To: to})
	require.NoError(t, err)
	return found
}

// testContext is a test with its context.
type testContext interface{ Context() context.Context }

// tryRead is read with a request's settings, and its error.
func (c *cut) tryRead(t require.TestingT, ctx testContext, request sqlserver.ChunkRequest) (chunk, error) {
	request.Layout, request.Key, request.Stamp, request.Limits, request.Helpers = c.layout, c.key, c.stamp, c.limits, c.helpers
	found := chunk{from: request.From, to: request.To}
	last := false
	for part, err := range c.client.ReadChunk(ctx.Context(), request) {
		require.False(t, last, "a part after the last")
		if err != nil {
			return chunk{}, err
		}
		require.Equal(t, len(found.parts), part.Index)
		require.True(t, part.Record.Schema().Equal(c.layout.Schema()))
		require.Equal(t, mssqlcdc.Window{Start: c.stamp.LSN, End: c.stamp.LSN, EndTime: c.stamp.Time}, part.Window)
		checkStamped(t, part, c.stamp)
		found.parts = append(found.parts, part)
		last = part.Last
	}
	require.True(t, last, "no last part")
	if c.judge != nil {
		c.judge(found)
	}
	return found, nil
}

// checkStamped checks the metadata columns.
func checkStamped(t require.TestingT, part sqlserver.Part, stamp sqlserver.Head) {
	r, rows := part.Record, int(part.Record.NumRows())
	for i := range rows {
		require.Equal(t, stamp.LSN[:], r.Column(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinary).Value(i))
		require.Equal(t, int32(mssqlcdc.Read), r.Column(mssqlcdc.IdxOperation).(*array.Int32).Value(i))
		require.Equal(t, stamp.Time.UnixMicro(), int64(r.Column(mssqlcdc.IdxCommitTime).(*array.Timestamp).Value(i)))
	}
	require.Equal(t, rows, r.Column(mssqlcdc.IdxSeqVal).NullN())
	require.Equal(t, rows, r.Column(mssqlcdc.IdxCommandID).NullN())
	require.Zero(t, r.Column(mssqlcdc.IdxStartLSN).NullN()+r.Column(mssqlcdc.IdxOperation).NullN()+r.Column(mssqlcdc.IdxCommitTime).NullN())
}

// walk reads the table in chunks of so many rows, as a snapshot does: the last key first, then bound after bound, each of
// which goes through JSON.
func (c *cut) walk(t require.TestingT, ctx testContext, rows int64) []chunk {
	pause := func() {
		if c.between != nil {
			c.between()
		}
	}
	last, err := c.client.MaxKey(ctx.Context(), c.layout, c.key)
	require.NoError(t, err)
	if len(last) == 0 {
		return []chunk{c.read(t, ctx, nil, nil)}
	}
	last = stored(t, last)
	var chunks []chunk
	var from sqlserver.Bound
	for {
		require.Less(t, len(chunks), 10_000, "no progress")
		pause()
		next, err := c.client.NextBound(ctx.Context(), c.layout, c.key, from, last, rows)
		require.NoError(t, err)
		to := stored(t, next)
		if len(next) == 0 {
			pause()
			to, err = c.client.EndBound(ctx.Context(), c.layout, c.key, last)
			require.NoError(t, err)
		}
		pause()
		chunks = append(chunks, c.read(t, ctx, from, stored(t, to)))
		if len(next) == 0 {
			return chunks
		}
		from = stored(t, next)
	}
}

// stored is a bound after it was stored.
func stored(t require.TestingT, b sqlserver.Bound) sqlserver.Bound {
	text, err := json.Marshal(b)
	require.NoError(t, err)
	var read sqlserver.Bound
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, len(b), len(read))
	return read
}

// column reads a captured column of all rows as text.
func (c chunk) column(i int) []string {
	var list []string
	for _, row := range values(c.parts, mssqlcdc.FirstCaptured) {
		list = append(list, row[i])
	}
	return list
}

// columnOf joins a column over chunks.
func columnOf(chunks []chunk, i int) []string {
	var list []string
	for _, one := range chunks {
		list = append(list, one.column(i)...)
	}
	return list
}

// sizes are the rows of each chunk.
func sizes(chunks []chunk) []int {
	var list []int
	for _, one := range chunks {
		list = append(list, len(one.column(0)))
	}
	return list
}

// texts shows a bound.
func texts(b sqlserver.Bound) []string {
	var list []string
	for _, value := range b {
		if value == nil {
			list = append(list, "NULL")
			continue
		}
		list = append(list, *value)
	}
	return list
}

// table makes a captured table dbo.t with rows.
func (l *lab) table(definition string, rows ...string) {
	l.t.Helper()
	l.exec("CREATE TABLE dbo.t (" + definition + ")")
	if len(rows) > 0 {
		l.exec("INSERT dbo.t VALUES " + strings.Join(rows, ", "))
	}
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	l.exec("CREATE TABLE dbo.other (id int PRIMARY KEY)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "other"})
	l.exec("INSERT dbo.other VALUES (1)")
	l.capture()
}

// TestChunksOfEveryKeyType cuts tables on each type, its values given in the server's order, and compares what a bound holds.
func TestChunksOfEveryKeyType(t *testing.T) {
	t.Parallel()
	cases := []struct {
		typ      string
		literals []string // ascending
		bounds   []string // of the second value on
	}{
		{"bit", []string{"0", "1"}, []string{"1"}},
		{"tinyint", []string{"0", "7", "255"}, []string{"7", "255"}},
		{"smallint", []string{"-32768", "0", "32767"}, []string{"0", "32767"}},
		{"int", []string{"-2147483648", "-1", "2147483647"}, []string{"-1", "2147483647"}},
		{"bigint", []string{"-9223372036854775808", "0", "9223372036854775807"}, []string{"0", "9223372036854775807"}},
		{"decimal(38,0)", []string{"-99999999999999999999999999999999999999", "0", "99999999999999999999999999999999999999"}, []string{"0", "99999999999999999999999999999999999999"}},
		{"numeric(18,9)", []string{"-0.000000001", "0", "0.000000001"}, []string{"0.000000000", "0.000000001"}},
		{"money", []string{"-922337203685477.5808", "0.0001", "922337203685477.5807"}, []string{"0.0001", "922337203685477.5807"}},
		{"smallmoney", []string{"-214748.3648", "0.0001", "214748.3647"}, []string{"0.0001", "214748.3647"}},
		{"float", []string{"-1.7976931348623157E308", "0.1E0", "0.10000000000000002E0"}, []string{"1.0000000000000001e-001", "1.0000000000000002e-001"}},
		{"real", []string{"-3.4028235E38", "0.1", "0.10000001"}, nil},
		{"date", []string{"'0001-01-01'", "'1969-12-31'", "'9999-12-31'"}, []string{"1969-12-31", "9999-12-31"}},
		{"time(7)", []string{"'00:00:00'", "'00:00:00.0000001'", "'23:59:59.9999999'"}, []string{"00:00:00.0000001", "23:59:59.9999999"}},
		{"datetime", []string{"'1753-01-01'", "'2024-02-29T12:00:00.003'", "'2024-02-29T12:00:00.007'"}, []string{"2024-02-29 12:00:00.003", "2024-02-29 12:00:00.007"}},
		{"smalldatetime", []string{"'1900-01-01'", "'2024-02-29T12:00:00'", "'2079-06-06T23:59:00'"}, nil},
		{"datetime2(7)", []string{"'0001-01-01'", "'2024-02-29T12:00:00.1234567'", "'2024-02-29T12:00:00.1234568'"}, []string{"2024-02-29 12:00:00.1234567", "2024-02-29 12:00:00.1234568"}},
		{"datetime2(0)", []string{"'0001-01-01'", "'2024-02-29T12:00:01'"}, []string{"2024-02-29 12:00:01"}},
		{"datetimeoffset(7)", []string{"'0001-01-01T14:00:00+14:00'", "'2024-02-29T12:00:00.1234567+01:00'", "'2024-02-29T11:00:00.1234568+00:00'"}, []string{"2024-02-29 12:00:00.1234567 +01:00", "2024-02-29 11:00:00.1234568 +00:00"}},
		// The last six bytes count first.
		{"uniqueidentifier", []string{"'FFFFFFFF-FFFF-FFFF-FFFF-000000000001'", "'00000000-0000-0000-0000-000000000002'", "'01000000-0000-0000-0000-000000000002'"}, []string{"00000000-0000-0000-0000-000000000002", "01000000-0000-0000-0000-000000000002"}},
		{"binary(3)", []string{"0x", "0x00FF", "0xFF"}, []string{"0x00FF00", "0xFF0000"}},
		{"varbinary(8)", []string{"0x", "0x01", "0x0101"}, []string{"0x01", "0x0101"}},
		{"char(4)", []string{"''", "'ab'", "'b'"}, []string{"ab  ", "b   "}},
		{"varchar(20) COLLATE Greek_CI_AS", []string{"''", "N'α'", "N'β'", "N'ω'"}, []string{"α", "β", "ω"}},
		{"varchar(20) COLLATE Latin1_General_100_CI_AS_SC_UTF8", []string{"''", "N'a表'", "N'b'"}, []string{"a表", "b"}},
		{"nchar(3)", []string{"N''", "N'a'", "N'表'"}, nil},
		{"nvarchar(20)", []string{"N''", "N'it''s'", "N'表'"}, []string{"it's", "表"}},
		{"nvarchar(20) COLLATE Latin1_General_BIN2", []string{"N''", "N'B'", "N'a'"}, []string{"B", "a"}},
	}
	for _, c := range cases {
		t.Run(c.typ, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			var rows []string
			for i, literal := range c.literals {
				rows = append(rows, fmt.Sprintf("(%s, %d)", literal, i))
			}
			l.table("k "+c.typ+" NOT NULL PRIMARY KEY, id int", rows...)
			cut := l.cutOf(l.client(), "dbo_t")
			require.Len(t, cut.key.Columns, 1)
			require.True(t, cut.key.Unique)
			for size := 1; size <= len(rows); size++ {
				chunks := cut.walk(t, t, int64(size))
				var want []string
				for i := range rows {
					want = append(want, fmt.Sprint(i))
				}
				require.Equal(t, want, columnOf(chunks, 1))
				require.Len(t, chunks, (len(rows)+size-1)/size)
				if size == 1 && c.bounds != nil {
					var bounds []string
					for _, one := range chunks[1:] {
						bounds = append(bounds, texts(one.from)...)
					}
					require.Equal(t, c.bounds, bounds)
				}
			}
			require.Empty(t, l.sim.Refused())
		})
	}
}
