package delta_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func TestCommitsAreWhatTheyShouldBe(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table, err := delta.Create(t.Context(), st, delta.Spec{
		Schema:      columns(t, "a", "p string", "at timestamp_ntz"),
		PartitionBy: []string{"p"},
		Properties:  map[string]string{"delta.appendOnly": "false", "mine": "<&>"},
		Name:        "orders",
		Comment:     "a > b",
	}, fixed())
	require.NoError(t, err)
	file := add("p=a%3Ab/part 1:2.parquet", 3)
	file.PartitionValues = map[string]*string{"p": new("a:b")}
	null := add("p=__HIVE_DEFAULT_PARTITION__/x", 1)
	null.PartitionValues = map[string]*string{"p": nil}
	null.Stats = ""
	commit(t, table, delta.Change{
		Operation:           delta.OpStreamingWrite,
		OperationParameters: map[string]string{"outputMode": "Append", "partitionBy": `["p"]`},
		Metrics:             map[string]int64{"numOutputRows": 4, "numFiles": 2},
		Fenced:              &delta.Txn{AppID: "app", Version: 7},
		Keyed:               &delta.Txn{AppID: "key", Version: 9007199254740993},
		Marks:               []delta.Txn{{AppID: "app#lsn.hi", Version: 1}, {AppID: "app#lsn.lo", Version: 2}},
		Add:                 []action.Add{file, null},
		UserMetadata:        `{"rows":4,"cmp":"<&>"}`,
		BlindAppend:         true,
	})
	commit(t, table, delta.Change{
		ReadVersion: 1,
		Remove:      []action.Remove{file.Remove(0, true), null.Remove(0, true)},
	})
	var transcript strings.Builder
	for version := range int64(3) {
		data, err := st.Get(t.Context(), replay.CommitPath(version))
		require.NoError(t, err)
		fmt.Fprintf(&transcript, "-- %s --\n%s", replay.CommitPath(version), data)
	}
	golden(t, "commits.txt", transcript.String())
}

func TestCommitMovesTheSnapshot(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	before := table.Snapshot()
	require.EqualValues(t, 0, before.Version())
	c := adding("f1", "f2")
	c.Fenced = &delta.Txn{AppID: "app", Version: 1}
	r := commit(t, table, c)
	require.EqualValues(t, 1, r.Version)
	require.Equal(t, 1, r.Attempts)

	for name, s := range map[string]*delta.Snapshot{"ours": table.Snapshot(), "fresh": open(t, st, delta.Options{}).Snapshot()} {
		require.EqualValues(t, 1, s.Version(), name)
		v, ok := s.AppVersion("app")
		require.True(t, ok, name)
		require.EqualValues(t, 1, v, name)
		require.EqualValues(t, 2, s.NumFiles(), name)
		n, err := s.NumRecords(t.Context())
		require.NoError(t, err, name)
		require.EqualValues(t, 2, n, name)
		require.Equal(t, []string{"f1", "f2"}, files(t, s), name)
	}
	require.Empty(t, files(t, before), "snapshots do not change")
	_, ok := before.AppVersion("app")
	require.False(t, ok)
}

func TestHistory(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{Engine: "e"})
	for i := range 40 {
		c := adding(fmt.Sprint("f", i))
		c.UserMetadata = fmt.Sprintf(`{"n":%d}`, i)
		c.Marks = []delta.Txn{{AppID: "m", Version: int64(i)}}
		commit(t, table, c)
	}
	next := int64(11)
	for c, err := range table.Commits(t.Context(), 11) {
		require.NoError(t, err)
		require.Equal(t, next, c.Version)
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, next-1), c.Info.UserMetadata)
		require.Len(t, c.Txns, 1)
		require.Equal(t, next-1, c.Txns[0].Version)
		require.Equal(t, 1, c.Adds)
		next++
	}
	require.EqualValues(t, 41, next)
	for range table.Commits(t.Context(), 41) {
		t.Fatal("no commit is above the newest")
	}
	for c, err := range table.Commits(t.Context(), -5) {
		require.NoError(t, err)
		require.Zero(t, c.Version)
		break
	}
}

func TestInvalidChanges(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	remove := add("f", 1).Remove(0, true)
	moved := add("g", 1)
	moved.DataChange = false
	empty := add("h", 1)
	empty.Size = 0
	partitioned := add("p", 1)
	partitioned.PartitionValues = map[string]*string{"a": nil}
	deleted := add("d", 1)
	deleted.DeletionVector = &action.DeletionVector{StorageType: "i", PathOrInlineDv: "0", Cardinality: 1}
	m := table.Snapshot().Metadata()
	m.ID = "another"
	repartitioned := table.Snapshot().Metadata()
	repartitioned.PartitionColumns = []string{"a"}
	broken := table.Snapshot().Metadata()
	broken.SchemaString = `{"type":"struct"`
	for name, c := range map[string]delta.Change{
		"twice the same application":  {Fenced: &delta.Txn{AppID: "x"}, Marks: []delta.Txn{{AppID: "x"}}},
		"no application id":           {Keyed: &delta.Txn{}},
		"blind append that removes":   {BlindAppend: true, Remove: []action.Remove{remove}},
		"read version below zero":     {ReadVersion: -1},
		"read version in the future":  {ReadVersion: 5},
		"file added twice":            {Add: []action.Add{add("f", 1), add("f", 2)}},
		"file added and removed":      {Add: []action.Add{add("f", 1)}, Remove: []action.Remove{remove}},
		"file without path":           {Add: []action.Add{{Size: 1, DataChange: true}}},
		"file without size":           {Add: []action.Add{empty}},
		"changes and moves rows":      {Add: []action.Add{add("f", 1), moved}},
		"values of no partition":      {Add: []action.Add{partitioned}},
		"vector without the feature":  {Add: []action.Add{deleted}},
		"another table id":            {Metadata: &m},
		"other partition columns":     {Metadata: &repartitioned},
		"schema that is none":         {Metadata: &broken},
		"protocol goes down":          {Protocol: &action.Protocol{MinReaderVersion: 1, MinWriterVersion: 1}},
		"protocol drops its features": {Protocol: &action.Protocol{MinReaderVersion: 1, MinWriterVersion: 7}},
	} {
		_, err := table.Commit(t.Context(), c)
		var change *delta.ChangeError
		require.ErrorAs(t, err, &change, name)
	}
	require.EqualValues(t, 0, open(t, st, delta.Options{}).Snapshot().Version())
}

func TestMetadataChange(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	id := table.Snapshot().Metadata().ID
	m := table.Snapshot().Metadata()
	m.SchemaString = columns(t, "a", "b string", "c timestamp_ntz").JSON()
	m.Configuration = map[string]string{"mine": "1", "delta.enableChangeDataFeed": "true"}
	c := adding("f")
	c.Metadata = &m
	commit(t, table, c)
	for _, s := range []*delta.Snapshot{table.Snapshot(), open(t, st, delta.Options{}).Snapshot()} {
		require.Equal(t, id, s.Metadata().ID, "a table keeps its id (delta-rs 3274)")
		require.Len(t, s.Schema().Fields, 3)
		v, _ := s.Property("mine")
		require.Equal(t, "1", v)
		require.Equal(t, action.Protocol{
			MinReaderVersion: 3, MinWriterVersion: 7,
			ReaderFeatures: []string{"timestampNtz"},
			WriterFeatures: []string{"appendOnly", "changeDataFeed", "invariants", "timestampNtz"},
		}, s.Protocol(), "features come along, and none is lost")
	}

	// Properties that would oblige us to what we do not do.
	for name, value := range map[string]string{
		"delta.columnMapping.mode":       "position",
		"delta.constraints.positive":     "a > 0",
		"delta.enableRowTracking":        "true",
		"delta.enableIcebergCompatV2":    "true",
		"delta.enableInCommitTimestamps": "true",
		"delta.feature.vacuumProtocol":   "supported",
	} {
		m := table.Snapshot().Metadata()
		m.Configuration[name] = value
		_, err := table.Commit(t.Context(), delta.Change{Metadata: &m, ReadVersion: 1})
		var feature *delta.FeatureError
		if name == "delta.columnMapping.mode" {
			var change *delta.ChangeError
			require.ErrorAs(t, err, &change)
			continue
		}
		require.ErrorAs(t, err, &feature, name)
	}
}

func TestInCommitTimestamps(t *testing.T) {
	t.Parallel()
	st := mem.New()
	o := fixed()
	table, err := delta.Create(t.Context(), st, delta.Spec{
		Schema:     columns(t, "a"),
		Properties: map[string]string{delta.PropInCommitTimestamps: "true"},
	}, o)
	require.NoError(t, err)
	require.Equal(t, []string{"inCommitTimestamp"}, table.Snapshot().Protocol().WriterFeatures)
	commit(t, table, adding("f1"))
	// A clock that stands still, in another process, right after a checkpoint.
	require.NoError(t, table.Checkpoint(t.Context()))
	now := o.Now()
	o.Now = func() time.Time { return now.Add(-time.Hour) }
	other := open(t, st, o)
	commit(t, other, adding("f2"))
	commit(t, other, adding("f3"))
	var last int64
	for c, err := range other.Commits(t.Context(), 0) {
		require.NoError(t, err)
		require.NotNil(t, c.Info.InCommitTimestamp)
		require.Greater(t, *c.Info.InCommitTimestamp, last)
		last = *c.Info.InCommitTimestamp
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	t.Run("opens what is there", func(t *testing.T) {
		t.Parallel()
		st := mem.New()
		first := create(t, st, delta.Options{})
		second := create(t, st, delta.Options{})
		require.Equal(t, first.Snapshot().Metadata(), second.Snapshot().Metadata())
	})
	t.Run("refuses another schema", func(t *testing.T) {
		t.Parallel()
		st := mem.New()
		create(t, st, delta.Options{})
		_, err := delta.Create(t.Context(), st, delta.Spec{Schema: columns(t, "a string")}, delta.Options{})
		var wrong *schema.SchemaError
		require.ErrorAs(t, err, &wrong)
		_, err = delta.Create(t.Context(), st, delta.Spec{Schema: columns(t, "a", "b string"), PartitionBy: []string{"a"}}, delta.Options{})
		require.ErrorContains(t, err, "partitioned by")
	})
	t.Run("does not restart a cleaned log", func(t *testing.T) {
		t.Parallel()
		st := mem.New()
		table := create(t, st, delta.Options{})
		commit(t, table, adding("f"))
		require.NoError(t, table.Checkpoint(t.Context()))
		require.NoError(t, st.Delete(t.Context(), replay.CommitPath(0)))
		again := create(t, st, delta.Options{})
		require.EqualValues(t, 1, again.Snapshot().Version())
	})
	t.Run("refuses bad specs", func(t *testing.T) {
		t.Parallel()
		for name, spec := range map[string]delta.Spec{
			"no schema":            {},
			"no columns":           {Schema: &schema.Struct{}},
			"unknown partition":    {Schema: columns(t, "a"), PartitionBy: []string{"z"}},
			"only partitions":      {Schema: columns(t, "a"), PartitionBy: []string{"a"}},
			"partition twice":      {Schema: columns(t, "a", "b", "c"), PartitionBy: []string{"a", "a"}},
			"not honoured feature": {Schema: columns(t, "a"), Properties: map[string]string{"delta.enableRowTracking": "true"}},
			"unknown mapping":      {Schema: columns(t, "a"), Properties: map[string]string{"delta.columnMapping.mode": "position"}},
		} {
			st := mem.New()
			_, err := delta.Create(t.Context(), st, spec, delta.Options{})
			require.Error(t, err, name)
			_, err = delta.Open(t.Context(), st, delta.Options{})
			require.ErrorIs(t, err, delta.ErrNotTable, name)
		}
	})
	t.Run("many at once make one table", func(t *testing.T) {
		t.Parallel()
		st := mem.New()
		const n = 16
		ids := make(chan string, n)
		for range n {
			go func() {
				table, err := delta.Create(t.Context(), st, delta.Spec{Schema: columns(t, "a")}, delta.Options{})
				if err != nil {
					ids <- err.Error()
					return
				}
				ids <- table.Snapshot().Metadata().ID
			}()
		}
		first := <-ids
		for range n - 1 {
			require.Equal(t, first, <-ids)
		}
		require.EqualValues(t, 0, open(t, st, delta.Options{}).Snapshot().Version())
	})
}

func TestCommitStopsWithItsContext(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := table.Commit(ctx, adding("f"))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, delta.ErrUnknownOutcome, "nothing was sent")
	require.Empty(t, freshFiles(t, st))
}

func TestUserMetadataIsOneString(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	c := adding("f")
	c.UserMetadata = "{\"a\":\"\\u2028 \u2028 <script> \\\"\"}\n"
	commit(t, table, c)
	data, err := st.Get(t.Context(), replay.CommitPath(1))
	require.NoError(t, err)
	var line struct {
		CommitInfo map[string]json.RawMessage `json:"commitInfo"`
	}
	first, _, _ := bytes.Cut(data, []byte{'\n'})
	require.NoError(t, json.Unmarshal(first, &line))
	var text string
	require.NoError(t, json.Unmarshal(line.CommitInfo["userMetadata"], &text))
	require.Equal(t, c.UserMetadata, text)
}
