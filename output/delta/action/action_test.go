package action_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

func TestPaths(t *testing.T) {
	t.Parallel()
	for plain, encoded := range map[string]string{
		"part-0.parquet":         "part-0.parquet",
		"a b/c":                  "a%20b/c",
		"p=bar+%21/x":            "p=bar+%2521/x",
		"_2=bar+%2521/x":         "_2=bar+%252521/x", // golden table data-reader-escaped-chars
		"time=1971-07-22T03:1/x": "time=1971-07-22T03%3A1/x",
		"ü/日":                    "%C3%BC/%E6%97%A5",
		"a?b#c":                  "a%3Fb%23c",
		"*":                      "*",
	} {
		require.Equal(t, encoded, action.EncodePath(plain))
		back, err := action.DecodePath(encoded)
		require.NoError(t, err)
		require.Equal(t, plain, back)
		require.Equal(t, plain, action.CanonicalPath(encoded))
		require.False(t, action.IsAbsolutePath(encoded))
	}
	_, err := action.DecodePath("a%zz")
	require.Error(t, err)
	require.Equal(t, "a%zz", action.CanonicalPath("a%zz"))
	for _, spelling := range []string{"/some/p%20q", "file:/some/p%20q", "file:///some/p%20q", "file:////some/p%20q"} {
		require.Equal(t, "/some/p q", action.CanonicalPath(spelling))
		require.True(t, action.IsAbsolutePath(spelling))
	}
	require.True(t, action.IsAbsolutePath("s3a://bucket/x"))
	require.False(t, action.IsAbsolutePath("dir/a:b"))
	require.False(t, action.IsAbsolutePath("1a:b"))
}

func TestKeys(t *testing.T) {
	t.Parallel()
	dv := &action.DeletionVector{StorageType: "u", PathOrInlineDv: "abc", Offset: new(int32(7))}
	a := action.Add{Path: "a%20b", DeletionVector: dv}
	require.Equal(t, action.Key{Path: "a b", DV: "uabc@7"}, a.Key())
	require.Equal(t, a.Key(), a.Remove(1, true).Key())
	dv.Offset = nil
	require.Equal(t, "uabc", a.Key().DV)
	require.NotEqual(t, a.Key(), action.Add{Path: "a b"}.Key())
}

func TestDecodeIgnoresTheUnknown(t *testing.T) {
	t.Parallel()
	c, err := action.DecodeCommit([]byte("\r\n" +
		`{"commitInfo":{"timestamp":1,"operation":"X","newField":{"a":[1]}}}` + "\r\n\n" +
		`{"tomorrow":{"path":1}}` + "\n" +
		`{"add":{"path":"x","partitionValues":{"p":null,"q":""},"size":9007199254740993,"modificationTime":1,"dataChange":true,"later":1},"remove":null}` + "\n" +
		`{"txn":{"appId":"a","version":-9223372036854775808}}`))
	require.NoError(t, err)
	require.Equal(t, "X", c.Info.Operation)
	require.Len(t, c.Adds, 1)
	require.EqualValues(t, 9007199254740993, c.Adds[0].Size)
	require.Nil(t, c.Adds[0].PartitionValues["p"])
	require.Equal(t, "", *c.Adds[0].PartitionValues["q"])
	require.EqualValues(t, -9223372036854775808, c.Txns[0].Version)
	empty, err := action.DecodeCommit(nil)
	require.NoError(t, err)
	require.Zero(t, empty)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	const add, remove = `{"add":{"path":"x","size":1}}`, `{"remove":{"path":"x","dataChange":true}}`
	const protocol, metadata = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`, `{"metaData":{"id":"i"}}`
	for name, text := range map[string]string{
		"torn line":             add + "\n" + `{"add":{"path":"y"`,
		"torn inside a string":  `{"commitInfo":{"operation":"WRI`,
		"no object":             `[1]`,
		"text":                  `hello`,
		"two actions in a line": `{"add":{"path":"x","size":1},"remove":{"path":"y"}}`,
		"two objects in a line": add + add,
		"same add twice":        add + "\n" + add,
		"same add, other words": add + "\n" + `{"add":{"path":"%78","size":1}}`,
		"same remove twice":     remove + "\n" + remove,
		"two protocols":         protocol + "\n" + protocol,
		"two metadata":          metadata + "\n" + metadata,
		"two of one app":        `{"txn":{"appId":"a","version":1}}` + "\n" + `{"txn":{"appId":"a","version":2}}`,
		"two of one domain":     `{"domainMetadata":{"domain":"d"}}` + "\n" + `{"domainMetadata":{"domain":"d"}}`,
		"add without path":      `{"add":{"size":1}}`,
		"remove without path":   `{"remove":{"dataChange":true}}`,
		"txn without app":       `{"txn":{"version":1}}`,
		"domain without name":   `{"domainMetadata":{"configuration":""}}`,
		"protocol without any":  `{"protocol":{}}`,
		"version not a number":  `{"txn":{"appId":"a","version":"1"}}`,
		"version too large":     `{"txn":{"appId":"a","version":9223372036854775808}}`,
	} {
		_, err := action.DecodeCommit([]byte(text))
		require.Error(t, err, name)
		_, err = action.DecodeSummary([]byte(text))
		require.Error(t, err, name)
	}
	// Not the same file: another deletion vector, and a removal beside an add.
	_, err := action.DecodeCommit([]byte(add + "\n" + remove + "\n" + `{"add":{"path":"x","size":1,"deletionVector":{"storageType":"i","pathOrInlineDv":"z"}}}`))
	require.NoError(t, err)
}

// What other writers put into commitInfo must not make a table unreadable.
func TestCommitInfoOfOthers(t *testing.T) {
	t.Parallel()
	var info action.CommitInfo
	require.NoError(t, json.Unmarshal([]byte(`{"timestamp":"2020","operation":null,"operationParameters":{"mode":"Append","list":["a"],"n":1,"b":true,"z":null},
		"readVersion":"3","isBlindAppend":"true","operationMetrics":{"numFiles":2},"userMetadata":{"a":1},"tags":{"t":1},"engineInfo":7,"txnId":null}`), &info))
	require.Equal(t, action.CommitInfo{
		OperationParameters: map[string]string{"mode": "Append", "list": `["a"]`, "n": "1", "b": "true", "z": ""},
		OperationMetrics:    map[string]string{"numFiles": "2"},
		UserMetadata:        `{"a":1}`,
		Tags:                map[string]string{"t": "1"},
		EngineInfo:          "7",
	}, info)
	require.NoError(t, json.Unmarshal([]byte(`{"timestamp":5,"readVersion":3,"isBlindAppend":false,"inCommitTimestamp":6}`), &info))
	require.EqualValues(t, 3, *info.ReadVersion)
	require.False(t, *info.IsBlindAppend)
	require.EqualValues(t, 6, *info.InCommitTimestamp)
	require.Error(t, json.Unmarshal([]byte(`{"inCommitTimestamp":"6"}`), &info), "the protocol defines this one")
}

func TestProtocolLists(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]action.Protocol{
		`{"minReaderVersion":1,"minWriterVersion":2}`:                                               {MinReaderVersion: 1, MinWriterVersion: 2, WriterFeatures: []string{"x"}},
		`{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":[]}`:                           {MinReaderVersion: 1, MinWriterVersion: 7},
		`{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["a"],"writerFeatures":["a"]}`: {MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"a"}, WriterFeatures: []string{"a"}},
	} {
		got, err := json.Marshal(p)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestEncodeFillsWhatMustNotBeNull(t *testing.T) {
	t.Parallel()
	c := action.Commit{
		Metadata: &action.Metadata{ID: "i", SchemaString: "s"},
		Adds:     []action.Add{{Path: "a"}},
		Removes:  []action.Remove{{Path: "b", ExtendedFileMetadata: true, Size: new(int64(1))}, {Path: "c"}},
		Domains:  []action.DomainMetadata{{Domain: "d", Removed: true}},
		CDCs:     []action.CDC{{Path: "e"}},
	}
	data, err := c.Encode()
	require.NoError(t, err)
	require.Equal(t, `{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"s","partitionColumns":[],"configuration":{}}}
{"domainMetadata":{"domain":"d","configuration":"","removed":true}}
{"remove":{"path":"b","dataChange":false,"extendedFileMetadata":true,"size":1,"partitionValues":{}}}
{"remove":{"path":"c","dataChange":false}}
{"add":{"path":"a","partitionValues":{},"size":0,"modificationTime":0,"dataChange":false}}
{"cdc":{"path":"e","partitionValues":null,"size":0,"dataChange":false}}
`, string(data))
}

func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	m := action.Metadata{
		Format: action.Format{Options: map[string]string{"a": "1"}}, PartitionColumns: []string{"p"},
		Configuration: map[string]string{"c": "1"}, CreatedTime: new(int64(1)),
	}
	clone := m.Clone()
	require.Equal(t, m, clone)
	clone.Format.Options["a"], clone.PartitionColumns[0], clone.Configuration["c"], *clone.CreatedTime = "2", "q", "2", 2
	require.Equal(t, "1", m.Format.Options["a"]+strings.TrimPrefix(m.PartitionColumns[0], "p"))
	require.Equal(t, "1", m.Configuration["c"])
	require.EqualValues(t, 1, *m.CreatedTime)
}

// Whatever decodes encodes to something that decodes to the same, and the
// summary agrees with the whole.
func FuzzDecodeCommit(f *testing.F) {
	for _, seed := range []string{
		"", "\n\n", "{}", `{"add":null}`,
		`{"commitInfo":{"timestamp":1,"operationParameters":{"a":[1,2]},"userMetadata":"<&>\u2028","txnId":"t"}}`,
		`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":["x"]}}`,
		`{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{}","partitionColumns":["p"],"configuration":{"k":"v"},"createdTime":1}}`,
		`{"txn":{"appId":"a","version":9223372036854775807,"lastUpdated":1}}`,
		`{"domainMetadata":{"domain":"d","configuration":"{}","removed":false}}`,
		`{"add":{"path":"a%20b","partitionValues":{"p":null},"size":1,"modificationTime":2,"dataChange":true,"stats":"{\"numRecords\":1}","tags":{"t":null},"deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":1,"sizeInBytes":2,"cardinality":3},"baseRowId":4,"defaultRowCommitVersion":5,"clusteringProvider":"c"}}`,
		`{"remove":{"path":"x","deletionTimestamp":1,"dataChange":true,"extendedFileMetadata":true,"partitionValues":{},"size":1}}`,
		`{"cdc":{"path":"_change_data/x","partitionValues":{},"size":1,"dataChange":false}}`,
		`{"add":{"path":"x"},"add":{"path":"y"}}`, `{"ADD":{"Path":"x"}}`, "{\"add\":{\"path\":\"\xff\"}}",
		strings.Repeat(`{"a":`, 1000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := action.DecodeCommit(data)
		if err != nil {
			return
		}
		encoded, err := c.Encode()
		require.NoError(t, err)
		again, err := action.DecodeCommit(encoded)
		require.NoError(t, err, "%s", encoded)
		second, err := again.Encode()
		require.NoError(t, err)
		require.Equal(t, string(encoded), string(second))
		summary, err := action.DecodeSummary(data)
		require.NoError(t, err)
		require.Equal(t, c.Summary(), summary)
	})
}
