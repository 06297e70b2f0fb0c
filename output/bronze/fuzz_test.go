package bronze

import (
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

// Whatever stands in the userMetadata of a commit, it is facts of ours, which come
// out as they went in, or it is somebody else's.
func FuzzRecorded(f *testing.F) {
	text, err := encodeFacts(mssqlcdc.Fact{Version: 1, AppID: "a", Rows: 3, MinLSN: mssqlcdc.LSN{1}}, []mssqlcdc.Fact{{Version: 1, Event: mssqlcdc.EventDataSkipped}})
	require.NoError(f, err)
	for _, seed := range []string{text, "", "null", "{}", `{"version":-1}`, `{"version":1,"events":[{}]}`, `{"rows":3,"min_commit_ts":"2026-01-01 00:00:00"}`, `{"version":1,"min_lsn":"0xZZ"}`, `[1]`, `{"version":1e99}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		table := &Table{cfg: Config{AppID: "a"}}
		got, ours := table.recorded(delta.Commit{Info: action.CommitInfo{UserMetadata: text}}, 7)
		if !ours {
			require.Zero(t, got)
			return
		}
		require.Equal(t, int64(7), got.BatchID)
		if got.Window.Version == 0 {
			require.NotEmpty(t, got.Events)
			return
		}
		again, err := encodeFacts(got.Window, got.Events)
		require.NoError(t, err)
		twice, ours := table.recorded(delta.Commit{Info: action.CommitInfo{UserMetadata: again}}, 7)
		require.True(t, ours)
		require.Equal(t, got, twice)
	})
}
