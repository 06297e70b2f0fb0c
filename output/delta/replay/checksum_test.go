package replay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

const checksumText = `{"tableSizeBytes":7,"numFiles":2,"numMetadata":1,"numProtocol":1,"future":{"a":1},
	"metadata":{"id":"i","schemaString":"s","partitionColumns":["p"],"configuration":{"k":"v"}},
	"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["a"],"writerFeatures":["b","a"]},
	"setTransactions":[{"appId":"x","version":9007199254740993}],"domainMetadata":[{"domain":"d","configuration":"c","removed":false}]}`

func checksumState() State {
	return State{
		Version:  3,
		Metadata: &action.Metadata{ID: "i", SchemaString: "s", PartitionColumns: []string{"p"}, Configuration: map[string]string{"k": "v"}},
		Protocol: &action.Protocol{MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"a"}, WriterFeatures: []string{"a", "b"}},
	}
}

func TestChecksumFile(t *testing.T) {
	t.Parallel()
	c, err := ParseChecksum([]byte(checksumText))
	require.NoError(t, err)
	require.NoError(t, c.CheckState(checksumState()), "transactions and domains that one side lacks may have expired")
	require.NoError(t, c.CheckFiles(3, 2, 7))
	for want, change := range map[string]func(*State){
		"protocols":         func(s *State) { s.Protocol.WriterFeatures = []string{"a"} },
		"ids":               func(s *State) { s.Metadata.ID = "j" },
		"schemas":           func(s *State) { s.Metadata.SchemaString = "t" },
		"partition columns": func(s *State) { s.Metadata.PartitionColumns = nil },
		"properties":        func(s *State) { s.Metadata.Configuration = nil },
		`versions of application "x" (9007199254740992, 9007199254740993)`: func(s *State) {
			s.Txns = s.Txns.With("x", action.Txn{AppID: "x", Version: 9007199254740992})
		},
		`configurations of domain "d"`: func(s *State) { s.Domains = s.Domains.With("d", action.DomainMetadata{Domain: "d"}) },
	} {
		s := checksumState()
		change(&s)
		err := c.CheckState(s)
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(*ChecksumError))
		require.ErrorContains(t, err, "00000000000000000003.crc")
	}
	require.ErrorContains(t, c.CheckFiles(3, 3, 7), "numbers of files (3, 2)")
	require.ErrorContains(t, c.CheckFiles(3, 2, 8), "sizes in bytes (8, 7)")
}

func TestBrokenChecksumFiles(t *testing.T) {
	t.Parallel()
	st := mem.New()
	none, err := ReadChecksum(t.Context(), st, 0)
	require.NoError(t, err)
	require.Nil(t, none)
	for _, text := range []string{
		"", "{", "null", "[]", "malformed", `{"numFiles":1}`,
		`{"tableSizeBytes":7,"numFiles":2,"numMetadata":1,"numProtocol":2,"metadata":{},"protocol":{}}`,
		`{"tableSizeBytes":7,"numFiles":2,"metadata":{},"protocol":{}}`,
		`{"tableSizeBytes":-7,"numFiles":2,"numMetadata":1,"numProtocol":1,"metadata":{},"protocol":{}}`,
		`{"tableSizeBytes":"7","numFiles":2,"numMetadata":1,"numProtocol":1,"metadata":{},"protocol":{}}`,
		checksumText + checksumText,
	} {
		_, err := ParseChecksum([]byte(text))
		require.ErrorContains(t, err, "decoding checksum file", text)
		require.NoError(t, st.Put(t.Context(), ChecksumPath(0), []byte(text)))
		none, err := ReadChecksum(t.Context(), st, 0)
		require.NoError(t, err)
		require.Nil(t, none, "the file is optional")
	}
}

// Whatever a checksum file holds, it is a checksum that can be compared, or an error.
func FuzzParseChecksum(f *testing.F) {
	f.Add([]byte(checksumText))
	f.Add([]byte(`{"tableSizeBytes":0,"numFiles":0,"numMetadata":1,"numProtocol":1,"metadata":{"id":"i"},"protocol":{"minReaderVersion":1}}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseChecksum(data)
		if err != nil {
			return
		}
		require.NoError(t, c.CheckFiles(0, c.NumFiles, c.TableSizeBytes))
		require.Error(t, c.CheckFiles(0, c.NumFiles+1, c.TableSizeBytes))
		require.NoError(t, c.CheckState(State{Metadata: &c.Metadata, Protocol: &c.Protocol}))
	})
}
