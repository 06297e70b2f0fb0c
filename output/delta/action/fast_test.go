package action

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lineSeeds are lines that are read fast, and the number of those comes first.
func lineSeeds() (plain int, lines []string) {
	fastOnes := []string{
		`{"add":{"path":"a%20b","partitionValues":{"p":"x","q":null},"size":12,"modificationTime":-5,"dataChange":true,"stats":"{\"numRecords\":1}","tags":{"t":"v"}}}`,
		` { "add" : { "path" : "ü" , "partitionValues" : { } , "size" : 0 } } `,
		`{"remove":{"path":"a","deletionTimestamp":1,"dataChange":false,"extendedFileMetadata":true,"partitionValues":{},"size":3,"stats":"a\nb\/c","tags":{}}}`,
		`{"txn":{"appId":"x\\y","version":123456789012345678,"lastUpdated":0}}`,
		`{"commitInfo":{"timestamp":1,"operationParameters":{"mode":"Append","n":[1,2.5,{"a":null}]},"isBlindAppend":true,"inCommitTimestamp":7,"txnId":"u"}}`,
		`{"commitInfo":{}}`,
	}
	return len(fastOnes), append(fastOnes,
		`{"add":{"path":"a","size":12345678901234567890}}`,
		`{"add":{"path":"a","size":1.5}}`,
		`{"add":{"path":"a","size":1e3}}`,
		`{"add":{"path":"a","size":01}}`,
		`{"add":{"path":"a","size":-}}`,
		`{"add":{"path":"a","path":"b"}}`,
		`{"add":{"path":"a","PATH":"b"}}`,
		`{"add":{"path":"\u00e9"}}`,
		`{"add":{"path":"\ud800"}}`,
		`{"add":{"path":"`+"\xff"+`"}}`,
		`{"add":{"path":"`+"\x01"+`"}}`,
		`{"add":{"path":null,"stats":null}}`,
		`{"add":{"path":"a","tags":{"k":null}}}`,
		`{"add":{"path":"a","deletionVector":{"storageType":"i","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1}}}`,
		`{"add":{"path":"a"},"remove":{"path":"a"}}`,
		`{"add":{"path":"a"}}x`,
		`{"add":{"path":"a",}}`,
		`{"add":{"path":"a"}`,
		`{"add":null}`,
		`{"ADD":{"path":"a"}}`,
		`{"commitInfo":{"TxnId":"v","inCommitTimestamp":null}}`,
		`{"commitInfo":{"a":"\x"}}`,
		`{"commitInfo":{"a":[1,]}}`,
		`{"commitInfo":{"a":1 2}}`,
		`{"commitInfo":[]}`,
		`{}`, `[]`, ``, `null`,
	)
}

// requireSameLine compares what is read fast with what encoding/json reads, and reports whether anything was.
func requireSameLine(t *testing.T, raw []byte) bool {
	t.Helper()
	var file, summary line
	isFile, isSummary, isOther := fastFile(raw, &file), fastSummary(raw, &summary), fastOther(raw)
	if isFile {
		var want line
		require.NoError(t, json.Unmarshal(raw, &want), "%q", raw)
		require.Equal(t, want, file, "%q", raw)
	}
	if isSummary {
		var want summaryLine
		require.NoError(t, json.Unmarshal(raw, &want), "%q", raw)
		require.Equal(t, want.full(), summary, "%q", raw)
	}
	if isOther {
		var want map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(raw, &want), "%q", raw)
		require.Len(t, want, 1)
		require.True(t, want["commitInfo"] != nil || want["txn"] != nil, "%q", raw)
	}
	return isFile || isSummary || isOther
}

func TestFastLines(t *testing.T) {
	t.Parallel()
	plain, lines := lineSeeds()
	for i, text := range lines {
		require.Equal(t, i < plain, requireSameLine(t, []byte(text)) && i < plain, "%q", text)
	}
	// Lines that were changed at random places.
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const characters = "{}[]:,\"\\-.0123456789eE \tntfal\x00\x80sxu/"
	kept := 0
	for range 30_000 {
		raw := []byte(lines[rng.IntN(plain)])
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(raw))
			switch c := characters[rng.IntN(len(characters))]; rng.IntN(3) {
			case 0:
				raw[at] = c
			case 1:
				raw = append(raw[:at], raw[at+1:]...)
			default:
				raw = append(raw[:at+1], append([]byte{c}, raw[at+1:]...)...)
			}
		}
		if requireSameLine(t, raw) {
			kept++
		}
	}
	require.Greater(t, kept, 1000, "too few of the changed lines were read")
}

func FuzzFastLines(f *testing.F) {
	_, lines := lineSeeds()
	for _, text := range lines {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { requireSameLine(t, raw) })
}

// What this package writes is read fast: a change of the encoder must not make every line slow.
func TestOwnLinesAreFast(t *testing.T) {
	t.Parallel()
	c := Commit{
		Info:    &CommitInfo{Timestamp: 1, Operation: "WRITE", TxnID: "id", ReadVersion: new(int64(3)), UserMetadata: `{"a":"b"}`},
		Txns:    []Txn{{AppID: "x", Version: 1, LastUpdated: new(int64(2))}},
		Removes: []Remove{Add{Path: "a"}.Remove(5, true)},
		Adds:    []Add{{Path: "b", Size: 1, Stats: `{"numRecords":1}`, PartitionValues: map[string]*string{"p": nil}}},
	}
	text, err := c.Encode()
	require.NoError(t, err)
	for n, raw := range lines(text) {
		require.True(t, requireSameLine(t, raw), "line %d: %s", n, raw)
	}
}

// DecodeFiles gives the file actions of DecodeCommit, for every line.
func TestDecodeFiles(t *testing.T) {
	t.Parallel()
	_, lines := lineSeeds()
	for _, text := range lines {
		whole, err := DecodeCommit([]byte(text))
		files, filesErr := DecodeFiles([]byte(text))
		if err != nil {
			continue // DecodeFiles may be content with less
		}
		require.NoError(t, filesErr, "%q", text)
		require.Equal(t, Commit{Adds: whole.Adds, Removes: whole.Removes}, files, fmt.Sprintf("%q", text))
	}
	for _, text := range []string{`{"add":{"path":""}}`, `{"add":`, "{\"add\":{\"path\":\"a\"}}\n{\"add\":{\"path\":\"a\"}}", `{"txn":{"appId":"a"}`} {
		_, err := DecodeFiles([]byte(text))
		require.ErrorContains(t, err, "decoding line", "%q", text)
	}
}
