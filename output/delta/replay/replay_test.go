package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	const v, id = "_delta_log/00000000000000000012", "80a083e8-7026-4e79-81be-64bd76c43a11"
	for path, want := range map[string]name{
		v + ".json":               {kind: commitFile, version: 12},
		v + ".checkpoint.parquet": {kind: classicCheckpoint, version: 12},
		v + ".checkpoint.0000000002.0000000003.parquet": {kind: partCheckpoint, version: 12, part: 2, parts: 3},
		v + ".checkpoint." + id + ".json":               {kind: uuidCheckpoint, version: 12, id: id},
		v + ".checkpoint." + id + ".parquet":            {kind: uuidCheckpoint, version: 12, id: id},
	} {
		require.Equal(t, want, parseName(path), path)
	}
	for _, path := range []string{
		v, v + ".", v + ".crc", v + ".json.crc", v + ".00000000000000000014.compacted.json",
		"_delta_log/." + v[11:] + ".json.crc", "_delta_log/._" + v[11:] + ".json", v + "." + id + ".json",
		v + ".checkpoint.json", v + ".checkpoint.0000000000.0000000003.parquet", v + ".checkpoint.0000000004.0000000003.parquet",
		v + ".checkpoint.1.3.parquet", v + ".checkpoint.000000000x.0000000003.parquet", v + ".checkpoint.short.parquet",
		"_delta_log/0000000000000000001.json", "_delta_log/000000000000000000x1.json", "_delta_log/99999999999999999999.json",
		"_delta_log/_last_checkpoint", "_delta_log/_staged_commits/00000000000000000012." + id + ".json",
		"_delta_log/_sidecars/x.parquet", "other/00000000000000000012.json", "",
	} {
		require.Equal(t, otherFile, parseName(path).kind, path)
	}
	require.Equal(t, name{kind: commitFile, version: 12}, parseName(CommitPath(12)))
	require.Equal(t, name{kind: classicCheckpoint, version: 12}, parseName(CheckpointPath(12)))
}

// The sample of PROTOCOL.md for the checksum of _last_checkpoint.
func TestChecksum(t *testing.T) {
	t.Parallel()
	sum, err := checksum([]byte(`{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}`))
	require.NoError(t, err)
	require.Equal(t, "6a92d155a59bf2eecbd4b4ec7fd1f875", sum)
}

func TestLastCheckpointRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<62)
		want := LastCheckpoint{Version: n.Draw(t, "version"), Size: n.Draw(t, "size"), SizeInBytes: n.Draw(t, "bytes"), NumOfAddFiles: n.Draw(t, "adds")}
		data, err := want.Encode()
		require.NoError(t, err)
		got, err := ParseLastCheckpoint(data)
		require.NoError(t, err)
		require.Equal(t, want, got)
		// A flipped digit does not go unnoticed.
		at := bytes.IndexAny(data, "123456789")
		if at >= 0 {
			data[at] ^= 1
			if again, err := ParseLastCheckpoint(data); err == nil {
				require.Equal(t, want, again)
			}
		}
	})
}

func FuzzParseLastCheckpoint(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"size":2}`, `{"version":1,"size":2,"parts":3,"checkpointSchema":{"a":[1,"b",null,true]},"checksum":"x"}`,
		`{"version":-1}`, `{"version":1e3}`, `{`, `null`, `{"version":9223372036854775808}`, "{\"version\":1,\"\xff\":1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLastCheckpoint(data)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, l.Version, int64(0))
		encoded, err := l.Encode()
		require.NoError(t, err)
		again, err := ParseLastCheckpoint(encoded)
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}

func TestLayered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]int{}
		var l Layered[int]
		olds := map[*Layered[int]]map[string]int{}
		for i := range rapid.IntRange(0, 300).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 80).Draw(t, "key"))
			if rapid.IntRange(0, 3).Draw(t, "op") == 0 {
				l = l.Without(key)
				delete(want, key)
			} else {
				l = l.With(key, i)
				want[key] = i
			}
			if i%50 == 0 {
				old, copied := l, map[string]int{}
				for k, v := range want {
					copied[k] = v
				}
				olds[&old] = copied
			}
		}
		olds[&l] = want
		for l, want := range olds {
			got := map[string]int{}
			for k, v := range l.All() {
				got[k] = v
			}
			require.Equal(t, want, got)
			for k, v := range want {
				have, ok := l.Get(k)
				require.True(t, ok)
				require.Equal(t, v, have)
			}
		}
		_, ok := l.Get("never")
		require.False(t, ok)
	})
}

// Which of several checkpoints is used, and whether it is complete (issues with
// parts that are missing, or that others are still writing).
func TestCheckpointChoice(t *testing.T) {
	t.Parallel()
	const id = "80a083e8-7026-4e79-81be-64bd76c43a11"
	part := func(v, part, parts int) string {
		return fmt.Sprintf("%s.checkpoint.%010d.%010d.parquet", versionPrefix(int64(v)), part, parts)
	}
	for name, c := range map[string]struct {
		files   []string
		empty   []string
		version int64
		want    int64 // the checkpoint's version, -1 for none
		parts   int
	}{
		"none":                        {want: -1, version: 9},
		"classic":                     {files: []string{CheckpointPath(5)}, want: 5, parts: 1, version: 9},
		"newest wins":                 {files: []string{CheckpointPath(5), CheckpointPath(7)}, want: 7, parts: 1, version: 9},
		"not above the version":       {files: []string{CheckpointPath(5), CheckpointPath(7)}, want: 5, parts: 1, version: 6},
		"empty file":                  {files: []string{CheckpointPath(5)}, empty: []string{CheckpointPath(7)}, want: 5, parts: 1, version: 9},
		"all parts":                   {files: []string{part(6, 2, 3), part(6, 1, 3), part(6, 3, 3)}, want: 6, parts: 3, version: 9},
		"a part is missing":           {files: []string{part(6, 2, 3), part(6, 1, 3), CheckpointPath(3)}, want: 3, parts: 1, version: 9},
		"a part is missing, no other": {files: []string{part(6, 2, 3), part(6, 1, 3)}, want: -1, version: 9},
		"parts of two attempts":       {files: []string{part(6, 1, 2), part(6, 2, 3), part(6, 3, 3)}, want: -1, version: 9},
		"two complete sets":           {files: []string{part(6, 1, 2), part(6, 2, 2), part(6, 1, 1)}, want: 6, parts: 1, version: 9},
		"unique name":                 {files: []string{versionPrefix(6) + ".checkpoint." + id + ".parquet"}, want: 6, parts: 1, version: 9},
		"not our business":            {files: []string{versionPrefix(6) + ".checkpoint.parquet.crc", LogDir + "." + "00000000000000000006.checkpoint.parquet.crc"}, want: -1, version: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			for v := range int64(10) {
				require.NoError(t, st.Put(t.Context(), CommitPath(v), []byte("{}")))
			}
			for _, path := range c.files {
				require.NoError(t, st.Put(t.Context(), path, []byte("x")))
			}
			for _, path := range c.empty {
				require.NoError(t, st.Put(t.Context(), path, nil))
			}
			seg, err := Load(t.Context(), st, c.version)
			require.NoError(t, err)
			require.Equal(t, c.version, seg.Version)
			if c.want < 0 {
				require.Nil(t, seg.Checkpoint)
				require.Zero(t, seg.FirstCommit())
				return
			}
			require.Equal(t, c.want, seg.Checkpoint.Version)
			require.Len(t, seg.Checkpoint.Files, c.parts)
			require.IsIncreasing(t, append([]string{""}, paths(seg.Checkpoint)...))
		})
	}
}

func paths(c *Checkpoint) []string {
	var out []string
	for _, f := range c.Files {
		out = append(out, f.Path)
	}
	return out
}

// Everything that a checkpoint can say survives writing and reading.
func TestCheckpointRoundTrip(t *testing.T) {
	t.Parallel()
	st := mem.New()
	protocol := action.Protocol{MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"deletionVectors"},
		WriterFeatures: []string{"clustering", "deletionVectors", "domainMetadata", "rowTracking"}}
	metadata := action.Metadata{ID: "i", Name: "n", Description: "d", Format: action.Format{Provider: "parquet", Options: map[string]string{"o": ""}},
		SchemaString: "{}", PartitionColumns: []string{"p", "q"}, Configuration: map[string]string{"k": "v"}, CreatedTime: new(int64(5))}
	dv := &action.DeletionVector{StorageType: "u", PathOrInlineDv: "ab^-aqEH.-t@S}K{vb[*k^", Offset: new(int32(4)), SizeInBytes: 40, Cardinality: 6}
	inline := &action.DeletionVector{StorageType: "i", PathOrInlineDv: "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", SizeInBytes: 40, Cardinality: 6}
	full := action.Add{Path: "a%20b", PartitionValues: map[string]*string{"p": nil, "q": new("")}, Size: 1 << 40, ModificationTime: 7,
		Stats: `{"numRecords":9}`, Tags: map[string]string{"t": "u"}, DeletionVector: dv, BaseRowID: new(int64(3)), DefaultRowCommitVersion: new(int64(4)), ClusteringProvider: "liquid"}
	bare := action.Add{Path: "bare", PartitionValues: map[string]*string{"p": new("1"), "q": new("2")}, DeletionVector: inline}
	gone := action.Remove{Path: "gone", DeletionTimestamp: 1000, ExtendedFileMetadata: true, PartitionValues: map[string]*string{"p": nil, "q": nil}, Size: new(int64(3)), DeletionVector: dv}
	bareGone := action.Remove{Path: "bare gone", DeletionTimestamp: 1000}
	commit := action.Commit{Protocol: &protocol, Metadata: &metadata, Adds: []action.Add{full, bare}, Removes: []action.Remove{gone, bareGone},
		Txns:    []action.Txn{{AppID: "a", Version: 1, LastUpdated: new(int64(2))}, {AppID: "b", Version: -1}},
		Domains: []action.DomainMetadata{{Domain: "x", Configuration: "{}"}, {Domain: "y", Removed: true}}}
	data, err := commit.Encode()
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), CommitPath(0), data))
	seg, err := Load(t.Context(), st, Latest)
	require.NoError(t, err)
	state, err := Replay(t.Context(), st, seg)
	require.NoError(t, err)

	last, err := WriteCheckpoint(t.Context(), st, state, seg, "", 1000)
	require.NoError(t, err)
	require.EqualValues(t, 1+1+2+1+2+2, last.Size)
	require.NoError(t, st.Delete(t.Context(), CommitPath(0)))
	seg, err = Load(t.Context(), st, Latest)
	require.NoError(t, err)
	require.EqualValues(t, 1, seg.FirstCommit())
	state, err = Replay(t.Context(), st, seg)
	require.NoError(t, err)
	require.Equal(t, protocol, *state.Protocol)
	require.Equal(t, metadata, *state.Metadata)
	require.Equal(t, commit.Txns, sorted(state.Txns))
	require.Equal(t, commit.Domains[:1], sorted(state.Domains))
	require.EqualValues(t, 2, state.NumFiles)
	require.EqualValues(t, 2, state.Tombstones)
	var adds []action.Add
	var removes []action.Remove
	for f, err := range Files(t.Context(), st, seg, "") {
		require.NoError(t, err)
		if f.Add != nil {
			adds = append(adds, *f.Add)
		} else {
			removes = append(removes, *f.Remove)
		}
	}
	require.Equal(t, []action.Add{full, bare}, adds)
	require.Equal(t, []action.Remove{gone, bareGone}, removes)
}

// Columns of features that a table does not have are not in its checkpoints: a
// column of nothing but nulls has made readers stumble (duckdb-delta 152).
func TestCheckpointSchemaHasNothingUnused(t *testing.T) {
	t.Parallel()
	plain := checkpointSchema(action.Protocol{MinReaderVersion: 1, MinWriterVersion: 2})
	for _, f := range plain.Fields() {
		for _, unused := range []string{"deletionVector", "baseRowId", "clusteringProvider", "stats_parsed"} {
			_, ok := f.Type.(*arrow.StructType).FieldByName(unused)
			require.False(t, ok, "%s.%s", f.Name, unused)
		}
	}
}

func TestStatsText(t *testing.T) {
	t.Parallel()
	field := func(name string, typ arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: typ, Nullable: true}
	}
	values := arrow.StructOf(
		field("l", arrow.PrimitiveTypes.Int64), field("i", arrow.PrimitiveTypes.Int32), field("s", arrow.PrimitiveTypes.Int16), field("b", arrow.PrimitiveTypes.Int8),
		field("d", arrow.PrimitiveTypes.Float64), field("f", arrow.PrimitiveTypes.Float32), field("t", arrow.BinaryTypes.String),
		field("dec", &arrow.Decimal128Type{Precision: 20, Scale: 3}), field("day", arrow.FixedWidthTypes.Date32),
		field("at", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}), field("ntz", &arrow.TimestampType{Unit: arrow.Microsecond}),
		field("null", arrow.BinaryTypes.String), field("ok", arrow.FixedWidthTypes.Boolean),
	)
	typ := arrow.StructOf(field("numRecords", arrow.PrimitiveTypes.Int64), field("minValues", values))
	b := array.NewStructBuilder(memory.NewGoAllocator(), typ)
	defer b.Release()
	require.NoError(t, json.Unmarshal([]byte(`[
		{"numRecords":9007199254740993,"minValues":{"l":-1,"i":2,"s":3,"b":4,"d":1e300,"f":0.1,"t":"<a\"b>","dec":"12345678901234567.891","day":"1582-10-15","at":"2020-01-02T03:04:05.123456Z","ntz":"2020-01-02T03:04:05.000001","null":null,"ok":true}},
		{"numRecords":null,"minValues":null}, null]`), b))
	arr := b.NewStructArray()
	defer arr.Release()
	require.Equal(t, `{"numRecords":9007199254740993,"minValues":{"l":-1,"i":2,"s":3,"b":4,"d":1e+300,"f":0.10000000149011612,"t":"<a\"b>","dec":12345678901234567.891,"day":"1582-10-15","at":"2020-01-02T03:04:05.123456Z","ntz":"2020-01-02T03:04:05.000001","ok":true}}`, statsText(arr, 0))
	require.Equal(t, `{}`, statsText(arr, 1))
	require.Equal(t, ``, statsText(arr, 2))
}

func TestStateApplyDoesNotChangeItsArgument(t *testing.T) {
	t.Parallel()
	s := State{Version: 3, NumFiles: 5}
	next := s.Apply(4, action.Summary{Adds: 2, Removes: 1, Txns: []action.Txn{{AppID: "a", Version: 1}},
		Domains: []action.DomainMetadata{{Domain: "d"}}, TxnID: "id", InCommitTimestamp: new(time.Now().UnixMilli())})
	require.EqualValues(t, 6, next.NumFiles)
	require.EqualValues(t, 1, next.Tombstones)
	gone := next.Apply(5, action.Summary{Domains: []action.DomainMetadata{{Domain: "d", Removed: true}}})
	_, ok := next.Domains.Get("d")
	require.True(t, ok)
	_, ok = gone.Domains.Get("d")
	require.False(t, ok)
	require.Nil(t, gone.Timestamp)
	require.Equal(t, State{Version: 3, NumFiles: 5}, s)
}

// Files below the table's root are the same in their absolute and relative form.
func TestFilesKnowTheRoot(t *testing.T) {
	t.Parallel()
	st := mem.New()
	for v, text := range []string{
		`{"add":{"path":"file:/data/t/a%20b","size":1}}` + "\n" + `{"add":{"path":"/data/t2/x","size":1}}` + "\n" + `{"add":{"path":"c","size":1}}`,
		`{"remove":{"path":"a%20b"}}` + "\n" + `{"remove":{"path":"x"}}` + "\n" + `{"remove":{"path":"/data/t/c"}}`,
	} {
		require.NoError(t, st.Put(t.Context(), CommitPath(int64(v)), []byte(text)))
	}
	var live []string
	for f, err := range Files(t.Context(), st, Segment{Version: 1}, "/data/t") {
		require.NoError(t, err)
		if f.Add != nil {
			live = append(live, f.Add.Path)
		}
	}
	require.Equal(t, []string{"/data/t2/x"}, live)
}

// Whatever a checkpoint file holds, reading it ends with actions or an error.
func FuzzReadCheckpoint(f *testing.F) {
	st := mem.New()
	commit := action.Commit{
		Protocol: &action.Protocol{MinReaderVersion: 1, MinWriterVersion: 2},
		Metadata: &action.Metadata{ID: "i", SchemaString: "{}", Configuration: map[string]string{"k": "v"}},
		Txns:     []action.Txn{{AppID: "a", Version: 1}},
		Adds:     []action.Add{{Path: "a", Stats: `{"numRecords":1}`}, {Path: "b", Tags: map[string]string{"t": "u"}}},
		Removes:  []action.Remove{{Path: "c", DeletionTimestamp: 5}},
	}
	data, err := commit.Encode()
	require.NoError(f, err)
	require.NoError(f, st.Put(f.Context(), CommitPath(0), data))
	state, err := Replay(f.Context(), st, Segment{})
	require.NoError(f, err)
	last, err := WriteCheckpoint(f.Context(), st, state, Segment{}, "", 0)
	require.NoError(f, err)
	content, err := st.Get(f.Context(), CheckpointPath(0))
	require.NoError(f, err)
	f.Add(content, uint16(0), byte(0))
	f.Add(content[:len(content)-20], uint16(40), byte(255))
	f.Add([]byte("PAR1"), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		if len(data) > 0 {
			data = bytes.Clone(data)
			data[int(at)%len(data)] ^= flip
		}
		st := mem.New()
		require.NoError(t, st.Put(t.Context(), CheckpointPath(0), data))
		_, err := readState(t.Context(), st, last.CheckpointInfo())
		for _, filesErr := range checkpointFiles(t.Context(), st, last.CheckpointInfo()) {
			err = errors.Join(err, filesErr)
		}
		if bytes.Equal(data, content) {
			require.NoError(t, err)
		}
	})
}
