package sqlserver_test

import (
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
)

// chosen collects who decoded the rows of each statement.
type chosen struct {
	mu  sync.Mutex
	all []rowfilter.Choice
}

func (c *chosen) note(choice rowfilter.Choice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, choice)
}

func (c *chosen) take() []rowfilter.Choice {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

func jsonOf(t *testing.T, record arrow.RecordBatch) string {
	t.Helper()
	text, err := record.MarshalJSON()
	require.NoError(t, err)
	return string(text)
}

// TestSimReader reads windows and chunks with both readers, and says who read what and why.
func TestSimReader(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.plain (id int NOT NULL PRIMARY KEY, note nvarchar(20) NULL, at datetime2(3) NULL)",
		"CREATE TABLE dbo.japanese (id int NOT NULL PRIMARY KEY, note varchar(20) COLLATE Japanese_CI_AS NULL)",
		"INSERT dbo.plain VALUES (1, N'one', '2026-01-02T03:04:05.678'), (2, NULL, NULL)", "INSERT dbo.japanese VALUES (1, N'日本')")
	tables := []mssqlcdc.TableID{{Schema: "dbo", Name: "plain"}, {Schema: "dbo", Name: "japanese"}}
	for _, table := range tables {
		l.track(table)
	}
	l.exec("INSERT dbo.plain VALUES (3, N'three', NULL)", "INSERT dbo.japanese VALUES (3, N'三')")
	l.capture()
	cases := []struct {
		reader, table string
		want          rowfilter.Choice
	}{
		{"auto", "plain", rowfilter.Choice{Reader: "filter"}},
		{"auto", "japanese", rowfilter.Choice{Reader: "driver", Reason: rowfilter.WantedPage}},
		{"driver", "plain", rowfilter.Choice{Reader: "driver", Reason: rowfilter.Configured}},
		{"driver", "japanese", rowfilter.Choice{Reader: "driver", Reason: rowfilter.Configured}},
	}
	records := map[string]string{}
	for _, c := range cases {
		var choices chosen
		client, err := sqlserver.Open(t.Context(), sqlserver.Config{ConnectionString: l.sim.DSN(), Reader: c.reader, Chosen: choices.note})
		require.NoError(t, err)
		layout := l.layout(client, "dbo_"+c.table)
		head, err := client.MaxLSN(t.Context())
		require.NoError(t, err)
		plan, err := client.Plan(t.Context(), layout, l.start(client, "dbo_"+c.table), head.LSN, sqlserver.Limits{})
		require.NoError(t, err)
		key, err := client.SnapshotKey(t.Context(), layout, nil)
		require.NoError(t, err)
		require.Empty(t, choices.take(), "metadata is the driver's and not counted")

		text := ""
		for part, err := range client.Read(t.Context(), sqlserver.ReadRequest{Layout: layout, Plan: plan, Head: head}) {
			require.NoError(t, err)
			text += jsonOf(t, part.Record)
		}
		for part, err := range client.ReadChunk(t.Context(), sqlserver.ChunkRequest{Layout: layout, Key: key, Stamp: head}) {
			require.NoError(t, err)
			text += jsonOf(t, part.Record)
		}
		all := choices.take()
		require.Len(t, all, 2, "a window and a chunk")
		for _, got := range all {
			require.Equal(t, c.want, rowfilter.Choice{Reader: got.Reader, Reason: got.Reason}, got.Detail)
		}
		if before, ok := records[c.table]; ok {
			require.Equal(t, before, text)
		}
		records[c.table] = text
		require.NoError(t, client.Close())
	}
	require.Contains(t, records["japanese"], "三")
}
