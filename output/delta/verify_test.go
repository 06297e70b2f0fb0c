package delta_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// What Spark and others say in checksum files of their tables is what we make of the log,
// at every version that has one.
func TestGoldenChecksums(t *testing.T) {
	t.Parallel()
	sharedData(t)
	verified := 0
	for _, c := range goldenCases(t) {
		if c.want == "refused" || strings.HasPrefix(c.name, "golden/parquet-decimal") {
			continue
		}
		table := open(t, goldenTable(t, c.name), delta.Options{})
		for v := range table.Snapshot().Version() + 1 {
			if _, err := table.Store().Get(t.Context(), replay.ChecksumPath(v)); err != nil {
				continue
			}
			s, err := table.At(t.Context(), v)
			require.NoError(t, err, "%s version %d", c.name, v)
			ok, err := s.Verify(t.Context())
			if c.name == "tables/crc-full" { // its log was published without the files
				require.ErrorContains(t, err, "numbers of files (0, 10)")
				require.ErrorAs(t, err, new(*delta.ChecksumError))
				continue
			}
			require.NoError(t, err, "%s version %d", c.name, v)
			require.True(t, ok)
			verified++
		}
	}
	t.Logf("%d versions agree with their checksum files", verified)
	require.Greater(t, verified, 50)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	commit(t, table, adding("a", "b"))
	ok, err := table.Snapshot().Verify(t.Context())
	require.NoError(t, err)
	require.False(t, ok, "no checksum file")

	put := func(text string) { require.NoError(t, st.Put(t.Context(), replay.ChecksumPath(1), []byte(text))) }
	put("torn")
	ok, err = table.Snapshot().Verify(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
	sum := func(files, bytes int64) string { return checksumText(t, table.Snapshot(), files, bytes) }
	put(sum(2, 202))
	ok, err = table.Snapshot().Verify(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	put(sum(3, 202))
	_, err = table.Snapshot().Verify(t.Context())
	require.ErrorContains(t, err, "numbers of files (2, 3)")
	put(sum(2, 203))
	_, err = table.Snapshot().Verify(t.Context())
	require.ErrorContains(t, err, "sizes in bytes (202, 203)")
}

// checksumText is the checksum file of a snapshot, with these numbers.
func checksumText(t testing.TB, s *delta.Snapshot, files, bytes int64) string {
	t.Helper()
	c := action.Commit{Metadata: new(s.Metadata()), Protocol: new(s.Protocol())}
	data, err := c.Encode()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	inner := func(line, key string) string { return strings.TrimSuffix(strings.TrimPrefix(line, `{"`+key+`":`), "}") }
	return fmt.Sprintf(`{"tableSizeBytes":%d,"numFiles":%d,"numMetadata":1,"numProtocol":1,"metadata":%s,"protocol":%s}`,
		bytes, files, inner(lines[1], "metaData"), inner(lines[0], "protocol"))
}
