package sqlserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// TestSimChunksByRowValues are S-10 and S-11: a composite key, groups of one leading value, and chunks that end within one.
func TestSimChunksByRowValues(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var rows, want []string
	for i := range 150 {
		rows, want = append(rows, fmt.Sprintf("(%d, %d, %d)", i/50, i%50, i)), append(want, fmt.Sprint(i))
	}
	l.table("tenant int NOT NULL, id int NOT NULL, n int, PRIMARY KEY (tenant, id)", rows...)
	cut := l.cutOf(l.client(), "dbo_t")
	for _, size := range []int64{1, 7, 50, 51, 149, 150, 151} {
		chunks := cut.walk(t, t, size)
		require.Equal(t, want, columnOf(chunks, 2))
		require.Len(t, chunks, int((150+size-1)/size))
	}
}

// TestSimChunksOfCodePages is S-15: letters that other collations sort elsewhere. ƒ is 0x83 in code page 1252.
func TestSimChunksOfCodePages(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	keys := []string{"aaa", "aab", "aba", "abb", "aƒa", "aƒb"}
	var rows []string
	for _, key := range keys {
		rows = append(rows, "(N'"+key+"')")
	}
	l.table("id varchar(20) COLLATE SQL_Latin1_General_CP1_CI_AS NOT NULL PRIMARY KEY", rows...)
	cut := l.cutOf(l.client(), "dbo_t")
	require.Equal(t, []sqlserver.KeyColumn{{Name: "id", Type: "varchar(20) COLLATE SQL_Latin1_General_CP1_CI_AS"}}, cut.key.Columns)
	for size := int64(1); size <= 6; size++ {
		chunks := cut.walk(t, t, size)
		require.ElementsMatch(t, keys, columnOf(chunks, 0))
		require.Len(t, chunks, int((6+size-1)/size))
	}
}

// TestSimChunksOfLetterCase is S-17: foo and FOO are one value to the server, and two to a client.
func TestSimChunksOfLetterCase(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("name varchar(20) COLLATE Latin1_General_CI_AS NOT NULL, n int NOT NULL, id int, PRIMARY KEY (name, n)",
		"('foo', 1, 1)", "('FOO', 2, 2)", "('foo ', 3, 3)", "('Foo', 4, 4)", "('goo', 1, 5)")
	cut := l.cutOf(l.client(), "dbo_t")
	for size := int64(1); size <= 5; size++ {
		require.Equal(t, []string{"1", "2", "3", "4", "5"}, columnOf(cut.walk(t, t, size), 2))
	}

	// A column of values that are only written differently is one value, which is never split.
	named := l.cutOf(cut.client, "dbo_t", "NAME")
	require.False(t, named.key.Unique)
	chunks := named.walk(t, t, 1)
	require.Equal(t, []int{4, 1}, sizes(chunks))
}

// TestSimChunksOfNulls is S-19: NULL comes first, in the first chunk, whatever its size.
func TestSimChunksOfNulls(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY, a int NULL, b varchar(9) NULL", "(1, 3, 'x')", "(2, NULL, 'y')", "(3, 1, NULL)", "(4, NULL, NULL)", "(5, NULL, 'x')", "(6, 3, NULL)")
	client := l.client()
	cut := l.cutOf(client, "dbo_t", "a", "b")
	chunks := cut.walk(t, t, 1)
	require.Equal(t, []string{"4", "5", "2", "3", "6", "1"}, columnOf(chunks, 0))
	require.Equal(t, []int{1, 1, 1, 1, 1, 1}, sizes(chunks))
	require.Equal(t, []string{"NULL", "x"}, texts(chunks[0].to))
	require.Equal(t, []string{"3", "NULL"}, texts(chunks[3].to))

	cut = l.cutOf(client, "dbo_t", "a")
	chunks = cut.walk(t, t, 2)
	require.Equal(t, []int{3, 3}, sizes(chunks))
	require.ElementsMatch(t, []string{"2", "4", "5"}, chunks[0].column(0))

	// Nothing but NULL is one value.
	l.exec("UPDATE dbo.t SET a = NULL")
	chunks = cut.walk(t, t, 2)
	require.Equal(t, []int{6}, sizes(chunks))
	last, err := client.MaxKey(t.Context(), cut.layout, cut.key)
	require.NoError(t, err)
	require.Equal(t, []string{"NULL"}, texts(last))
}

// TestSimChunksOfOddNames is S-22, S-28 and N-03.
func TestSimChunksOfOddNames(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE SCHEMA [my schema]", "CREATE TABLE [my schema].[order]] details' é] ([order] int NOT NULL, [a]]b#.$%] nvarchar(10) NOT NULL, [k0] int, [k1] int, [q] int, [c] int, PRIMARY KEY ([order], [a]]b#.$%]))")
	l.track(mssqlcdc.TableID{Schema: "my schema", Name: "order] details' é"}, "@capture_instance = N'odd'")
	for i := range 5 {
		// The columns that are called like our own aliases run the other way.
		l.exec(fmt.Sprintf("INSERT [my schema].[order]] details' é] VALUES (%d, N'%d', %d, %d, %d, %d)", i/2, i%2, -i, -i, -i, i))
	}
	l.capture()
	cut := l.cutOf(l.client(), "odd")
	require.Equal(t, []string{"order", "a]b#.$%"}, []string{cut.key.Columns[0].Name, cut.key.Columns[1].Name})
	for size := int64(1); size <= 5; size++ {
		require.Equal(t, []string{"0", "1", "2", "3", "4"}, columnOf(cut.walk(t, t, size), 5))
	}
	require.Empty(t, l.sim.Refused())
}

// TestSimHeap reads a table without a key in one chunk, in parts.
func TestSimHeap(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NULL, note nvarchar(10)", "(1, N'a')", "(NULL, N'b')", "(1, N'a')")
	client := l.client()
	cut := l.cutOf(client, "dbo_t")
	require.Equal(t, sqlserver.SnapshotKey{}, cut.key)
	cut.limits.PartRows = 2
	one := cut.read(t, t, nil, nil)
	require.ElementsMatch(t, []string{"a", "a", "b"}, one.column(1))
	require.Len(t, one.parts, 2)
	require.Empty(t, one.parts[1].Warnings)
	for _, ask := range []func() (sqlserver.Bound, error){
		func() (sqlserver.Bound, error) { return client.MaxKey(t.Context(), cut.layout, cut.key) },
		func() (sqlserver.Bound, error) { return client.EndBound(t.Context(), cut.layout, cut.key, nil) },
		func() (sqlserver.Bound, error) {
			return client.NextBound(t.Context(), cut.layout, cut.key, nil, nil, 1)
		},
	} {
		bound, err := ask()
		require.NoError(t, err)
		require.Empty(t, bound)
	}
	// A heap can be cut on a column that is chosen.
	require.Equal(t, []int{1, 2}, sizes(l.cutOf(client, "dbo_t", "id").walk(t, t, 1)))
}

// TestSimEmptyTable has no last key, and one part without rows.
func TestSimEmptyTable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY")
	cut := l.cutOf(l.client(), "dbo_t")
	chunks := cut.walk(t, t, 1)
	require.Equal(t, []int{0}, sizes(chunks))
	require.Len(t, chunks[0].parts, 1)
	next, err := cut.client.NextBound(t.Context(), cut.layout, cut.key, nil, nil, 1)
	require.NoError(t, err)
	require.Empty(t, next)
}

// TestSimChunksEndAtTheLastKey is S-23: what is inserted behind the recorded last key is no chunk's.
func TestSimChunksEndAtTheLastKey(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY", "(1)", "(2)", "(3)")
	cut := l.cutOf(l.client(), "dbo_t")
	next := 4
	cut.between = func() {
		l.exec(fmt.Sprintf("INSERT dbo.t VALUES (%d)", next))
		next++
	}
	require.Equal(t, []string{"1", "2", "3"}, columnOf(cut.walk(t, t, 2), 0))
}

// TestSimSnapshotKey chooses the columns, and says why it does not.
func TestSimSnapshotKey(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, Name nvarchar(20) NULL, doc xml NULL, long nvarchar(max) NULL, alias sysname NULL, twice AS id * 2, gone int NULL, left_out int NULL, again int NULL)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"}, "@captured_column_list = N'[id], [Name], [doc], [long], [alias], [twice], [gone], [again]'")
	l.exec("ALTER TABLE dbo.t DROP COLUMN gone", "ALTER TABLE dbo.t DROP COLUMN again", "ALTER TABLE dbo.t ADD again int", "CREATE UNIQUE INDEX u ON dbo.t (Name)", "INSERT dbo.t (id) VALUES (1)")
	l.capture()
	client := l.client()
	layout := l.layout(client, "dbo_t")

	found, err := client.SnapshotKey(t.Context(), layout, nil)
	require.NoError(t, err)
	require.Equal(t, sqlserver.SnapshotKey{Unique: true, Columns: []sqlserver.KeyColumn{{Name: "id", Type: "int"}}}, found)
	found, err = client.SnapshotKey(t.Context(), layout, []string{"ALIAS", "name"})
	require.NoError(t, err)
	collation := strings.TrimPrefix(found.Columns[1].Type, "nvarchar(20) COLLATE ")
	require.Equal(t, sqlserver.SnapshotKey{Unique: true, Columns: []sqlserver.KeyColumn{
		{Name: "alias", Type: "nvarchar(128) COLLATE " + collation, Nullable: true}, {Name: "Name", Type: "nvarchar(20) COLLATE " + collation, Nullable: true},
	}}, found)
	text, err := json.Marshal(found)
	require.NoError(t, err)
	var read sqlserver.SnapshotKey
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, found, read)

	for name, want := range map[string]string{
		"doc": "values of type xml", "long": "values of type nvarchar(max)", "twice": "it is computed", "gone": "no longer has it",
		"again": "no longer has it", "left_out": "not captured", "nobody": "not captured",
	} {
		_, err := client.SnapshotKey(t.Context(), layout, []string{name})
		var schema *sqlserver.SchemaError
		require.ErrorAs(t, err, &schema, name)
		require.Equal(t, sqlserver.Schema, sqlserver.Classify(err))
		require.Equal(t, name, schema.Column)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "name other columns, or none")
	}
	_, err = client.SnapshotKey(t.Context(), layout, []string{"id", "ID"})
	require.ErrorContains(t, err, "named twice")
}

// TestSimIndexOfTwoDirections is cut on the columns that sort alike; the server would have to sort for more.
func TestSimIndexOfTwoDirections(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("a int NOT NULL, b int NOT NULL, c int NOT NULL, PRIMARY KEY (a DESC, b DESC, c)", "(1, 1, 1)", "(1, 1, 2)", "(1, 2, 1)", "(2, 1, 1)")
	client := l.client()
	cut := l.cutOf(client, "dbo_t")
	require.Len(t, cut.key.Columns, 2)
	require.False(t, cut.key.Unique)
	chunks := cut.walk(t, t, 1)
	require.Equal(t, []int{2, 1, 1}, sizes(chunks))
	require.Len(t, chunks[0].parts[0].Warnings, 1)
	require.Contains(t, chunks[0].parts[0].Warnings[0], "first 2 of the 3 columns")
	cut = l.cutOf(client, "dbo_t", "a", "b", "c")
	require.True(t, cut.key.Unique)
	require.Equal(t, []int{1, 1, 1, 1}, sizes(cut.walk(t, t, 1)))
}

// TestSimChunksOfRowversions are cut on a column that every update moves to the end: what moves is in the stream.
func TestSimChunksOfRowversions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY, rv rowversion", "(1, DEFAULT)", "(2, DEFAULT)", "(3, DEFAULT)")
	cut := l.cutOf(l.client(), "dbo_t", "rv")
	require.Equal(t, []sqlserver.KeyColumn{{Name: "rv", Type: "binary(8)"}}, cut.key.Columns)
	require.Equal(t, []string{"1", "2", "3"}, columnOf(cut.walk(t, t, 1), 0))
}

// TestSimInexactBound is a value that does not read back as the type that the key says.
func TestSimInexactBound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("at datetime2(7) NOT NULL PRIMARY KEY", "('2024-01-01T00:00:00.1234567')")
	cut := l.cutOf(l.client(), "dbo_t")
	cut.key.Columns[0].Type = "datetime2(3)"
	_, err := cut.client.MaxKey(t.Context(), cut.layout, cut.key)
	require.Equal(t, sqlserver.Schema, sqlserver.Classify(err))
	require.ErrorContains(t, err, "does not read back")
}

// TestSimDroppedColumn is NULL in a chunk as it is in the change table, also when its name came back.
func TestSimDroppedColumn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY, gone nvarchar(10), again int, kept int", "(1, N'x', 2, 3)")
	cut := l.cutOf(l.client(), "dbo_t")
	require.Equal(t, [][]string{{"1", "x", "2", "3"}}, values(cut.read(t, t, nil, nil).parts, mssqlcdc.FirstCaptured))
	l.exec("ALTER TABLE dbo.t DROP COLUMN gone", "ALTER TABLE dbo.t DROP COLUMN again", "ALTER TABLE dbo.t ADD again varchar(9) NOT NULL DEFAULT 'new'")
	require.Equal(t, [][]string{{"1", "NULL", "NULL", "3"}}, values(cut.read(t, t, nil, nil).parts, mssqlcdc.FirstCaptured))
}

// TestSimChunkOptions applies the columns option to a chunk as to the stream.
func TestSimChunkOptions(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("id int NOT NULL PRIMARY KEY, at datetime2(7), secret nvarchar(10), twice AS id * 2, utf8 varchar(20) COLLATE Latin1_General_100_CI_AS_SC_UTF8",
		"(1, '2024-02-29T12:00:00.1234567', N'x', N'表')")
	client := l.client()
	layout := l.layout(client, "dbo_t", sqlserver.ColumnOptions{Exclude: []string{"id", "secret"}, Types: map[string]string{"at": "string"}})
	cut := l.cutOf(client, "dbo_t")
	cut.layout = layout
	require.Equal(t, [][]string{{"2024-02-29 12:00:00.1234567", "表"}}, values(cut.read(t, t, nil, nil).parts, mssqlcdc.FirstCaptured))
}

// TestSimParts are bounded by rows and bytes, and the last one knows what the read cost.
func TestSimParts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var rows []string
	for i := range 100 {
		rows = append(rows, fmt.Sprintf("(%d, REPLICATE(N'x', 100))", i))
	}
	l.table("id int NOT NULL PRIMARY KEY, note nvarchar(200)", rows...)
	cut := l.cutOf(l.client(), "dbo_t")
	for _, limits := range []sqlserver.Limits{{PartRows: 7}, {PartBytes: 700}, {PartRows: 100}, {}} {
		cut.limits = limits
		one := cut.read(t, t, nil, nil)
		require.Len(t, one.column(0), 100)
		for _, part := range one.parts {
			require.Positive(t, part.Record.NumRows())
			require.True(t, limits.PartRows == 0 || part.Record.NumRows() <= limits.PartRows)
			require.True(t, limits.PartBytes == 0 || part.Record.NumRows() <= 7)
			if !part.Last {
				require.Zero(t, part.Metrics)
			}
		}
		metrics := one.parts[len(one.parts)-1].Metrics
		require.EqualValues(t, 100*(4+4+100), metrics.ReadBytes)
		require.Positive(t, metrics.ReadSeconds)
		require.Positive(t, metrics.RTT)
		require.NotNil(t, metrics.NetworkWait)
		require.Equal(t, cut.stamp.LSN, metrics.SourceMaxLSN)
		require.Equal(t, cut.stamp.Time, metrics.SourceMaxTime)
		require.False(t, metrics.StartedAt.IsZero())
	}
}

// TestSimStamp is the later of max_lsn and the LSN before the instance's first.
func TestSimStamp(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"})
	client := l.client()
	_, err := client.SnapshotStamp(t.Context(), l.instance(client, "dbo_t"))
	require.ErrorIs(t, err, sqlserver.ErrNotYetCaptured)
	require.Equal(t, sqlserver.Transient, sqlserver.Classify(err))

	l.exec("INSERT dbo.t VALUES (1)")
	l.capture()
	head, err := client.MaxLSN(t.Context())
	require.NoError(t, err)
	stamp, err := client.SnapshotStamp(t.Context(), l.instance(client, "dbo_t"))
	require.NoError(t, err)
	require.Equal(t, head.LSN, stamp.LSN)
	require.Equal(t, head.Time, stamp.Time)
	require.False(t, stamp.SeenTime.IsZero())

	// A second instance that capture has not reached.
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "t"}, "@capture_instance = N'newer'")
	newer := l.instance(client, "newer")
	require.True(t, head.LSN.Less(newer.StartLSN.Prev()))
	stamp, err = client.SnapshotStamp(t.Context(), newer)
	require.NoError(t, err)
	require.Equal(t, newer.StartLSN.Prev(), stamp.LSN)
	require.Equal(t, head.Time, stamp.Time)
}

// TestSimChunkRequestsAreChecked refuses what would read other rows than were meant.
func TestSimChunkRequestsAreChecked(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("a int NOT NULL, b int NOT NULL, PRIMARY KEY (a, b)", "(1, 1)")
	cut := l.cutOf(l.client(), "dbo_t")
	one := "1"
	_, err := cut.tryRead(t, t, sqlserver.ChunkRequest{From: sqlserver.Bound{&one}})
	require.ErrorContains(t, err, "a bound of 1 values for a key of 2 columns")
	_, err = cut.client.NextBound(t.Context(), cut.layout, cut.key, sqlserver.Bound{&one}, nil, 1)
	require.ErrorContains(t, err, "a bound of 1 values for a key of 2 columns")
	_, err = cut.client.NextBound(t.Context(), cut.layout, cut.key, nil, nil, 0)
	require.ErrorContains(t, err, "want at least 1")
	for _, typ := range []string{"", "xml", "INT", "int; DROP TABLE t", "varchar(10) COLLATE x; DROP TABLE t", "varchar(max)"} {
		_, err = cut.client.MaxKey(t.Context(), cut.layout, sqlserver.SnapshotKey{Columns: []sqlserver.KeyColumn{{Name: "a", Type: typ}}})
		require.Error(t, err, typ)
	}
	cut.stamp = sqlserver.Head{}
	_, err = cut.tryRead(t, t, sqlserver.ChunkRequest{})
	require.ErrorContains(t, err, "max_lsn that was seen before")
}
