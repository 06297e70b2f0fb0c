package peers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// readerZone, in the environment, names the file that a child of
// TestNothingDependsOnTheReadersZone writes what it has read to.
const readerZone = "PEERS_READER_ZONE"

// Z-01, Z-03, Z-05, Z-07, T-18: a server at +05:30 and readers east and west of it, each
// a process in its own zone. Values, commit times and verdict are the same in all, and
// what the writer meant.
func TestNothingDependsOnTheReadersZone(t *testing.T) {
	if into := os.Getenv(readerZone); into != "" {
		require.NoError(t, os.WriteFile(into, []byte(readInKolkata(t)), 0o600))
		return
	}
	t.Parallel()
	const want = `0|2026-03-01 06:30:00.000000|NULL|NULL|NULL|NULL|NULL|NULL
2|2026-03-01 06:31:00.000000|23:59:59.999999900|2026-03-29|2026-03-29 02:30:00.123456|2026-10-25 02:30:00.997000|2026-03-29 02:30:00.000000|2026-06-23 07:01:05.090094
final until 2026-03-01T06:31:00Z
{"d":"2026-03-29","dt":"2026-10-25T02:30:00.997Z","dt2":"2026-03-29T02:30:00.123456Z","id":2,"o":"2026-06-23T07:01:05.090094Z","s":"2026-03-29T02:30:00Z","t":"23:59:59.999999900"}
commit 1772346660000
`
	for _, zone := range []string{"Etc/GMT+12", "America/St_Johns", "UTC", "Europe/Berlin", "Asia/Kolkata", "Pacific/Kiritimati"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			into := filepath.Join(t.TempDir(), "read")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNothingDependsOnTheReadersZone$")
			cmd.Env = append(os.Environ(), "TZ="+zone, readerZone+"="+into)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			got, err := os.ReadFile(into)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
		})
	}
}

// readInKolkata is what a reader gets of a server in India, as text.
func readInKolkata(t *testing.T) string {
	t.Helper()
	require.Equal(t, os.Getenv("TZ"), time.Local.String(), "the zone is that of the process")
	kolkata, err := time.LoadLocation("Asia/Kolkata")
	require.NoError(t, err)
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, kolkata), sqlserversim.WithTimeZone("India Standard Time", kolkata))
	l.table(t, "t", "id int NOT NULL PRIMARY KEY, t time(7), d date, dt2 datetime2(7), dt datetime, s smalldatetime, o datetimeoffset(7)")
	l.exec(t, "INSERT dbo.t (id) VALUES (1)")
	l.capture(t)
	whole := l.pipeline(t, "dbo.t").with("stream_snapshot: true").facts()
	p := l.pipeline(t, "dbo.t").facts()
	whole.run(t)
	p.run(t)
	l.clock.Advance(time.Minute)
	l.exec(t, "INSERT dbo.t VALUES (2, '23:59:59.9999999', '2026-03-29', '2026-03-29T02:30:00.1234567', '2026-10-25T02:30:00.997', '2026-03-29T02:30:00', '2026-06-23T00:01:05.0900948-07:00')")
	l.capture(t)
	whole.run(t)
	p.run(t)
	var text strings.Builder
	for _, line := range whole.bronze(t, "t", "_commit_ts", "t", "d", "dt2", "dt", "s", "o") {
		text.WriteString(strings.SplitN(line, "|", 4)[3] + "\n")
	}
	fmt.Fprintf(&text, "final until %s\n", p.verdict(t, "t").FinalizedUntil.Format(time.RFC3339))
	rows := l.pipeline(t, "dbo.t").rows()
	rows.processors = []string{"mapping: 'root.row = this.format_json(no_indent: true).string()'"}
	rows.run(t)
	bodies, metas := rows.sink.rows()
	fmt.Fprintf(&text, "%s\ncommit %s\n", bodies[1]["row"], metas[1]["commit_ts_ms"])
	return text.String()
}
