package tsql_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// rewrite writes the transcripts anew: go test ./test/tsql -run Transcripts -rewrite.
var rewrite = flag.Bool("rewrite", false, "rewrite transcripts in testdata")

// textSink writes what a batch gives as lines of text.
type textSink struct {
	b strings.Builder
}

func (s *textSink) Columns(cols []tsql.ResultColumn) error {
	for i, c := range cols {
		if i > 0 {
			s.b.WriteString(" | ")
		}
		null := ""
		if !c.Nullable {
			null = " not null"
		}
		fmt.Fprintf(&s.b, "%s %s%s", c.Name, c.Type, null)
	}
	s.b.WriteByte('\n')
	return nil
}

func show(v sqltype.Value) string {
	if v.Kind().IsText() {
		return "'" + v.Str() + "'"
	}
	return v.String()
}

func (s *textSink) Row(row sqltype.Row) error {
	for i, v := range row {
		if i > 0 {
			s.b.WriteString(" | ")
		}
		s.b.WriteString(show(v))
	}
	s.b.WriteByte('\n')
	return nil
}

func (s *textSink) Done(d tsql.Done) error {
	what := "ok"
	switch {
	case d.Failed:
		what = "failed"
	case d.HasCount:
		what = fmt.Sprintf("%d rows", d.Count)
	}
	if d.Kind == tsql.DoneExec {
		what = "exec " + what
	}
	if d.InProc {
		what += ", inside"
	}
	fmt.Fprintf(&s.b, "(%s)\n", what)
	return nil
}

func (s *textSink) Message(e *tsql.Error) error {
	if e.Class == 0 && e.Number == 0 {
		fmt.Fprintf(&s.b, "PRINT %s\n", e.Message)
		return nil
	}
	fmt.Fprintln(&s.b, e.Error())
	return nil
}

func (s *textSink) ReturnStatus(n int32) error {
	fmt.Fprintf(&s.b, "status %d\n", n)
	return nil
}

// TestTranscripts runs every file of testdata/transcripts in a session of its own. A block
// is a batch, a line ----, and what it gives up to an empty line. Lines that begin with # are
// comments.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			runTranscript(t, file)
		})
	}
}

func runTranscript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	host := newFakeHost()
	session := tsql.NewSession(host)
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		block = strings.Trim(block, "\n")
		var comment strings.Builder
		for strings.HasPrefix(block, "#") && !strings.HasPrefix(block, "#t") {
			line, rest, _ := strings.Cut(block, "\n")
			comment.WriteString(line + "\n")
			block = rest
		}
		out.WriteString(comment.String())
		if block == "" {
			out.WriteByte('\n')
			continue
		}
		batch, want, _ := strings.Cut(block+"\n", "----\n")
		batch = strings.TrimSuffix(batch, "\n")
		got := runBatch(t, host, session, batch)
		fmt.Fprintf(&out, "%s\n----\n%s\n", batch, got)
		if !*rewrite {
			require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(got), "batch %q", batch)
		}
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644))
	}
}

// runBatch runs a batch; one that begins with -- scans shows the bounds of its scans too.
func runBatch(t *testing.T, host *fakeHost, session *tsql.Session, batch string) string {
	t.Helper()
	host.scans = nil
	sink := &textSink{}
	require.NoError(t, session.Run(t.Context(), batch, nil, sink), "batch %q", batch)
	if strings.HasPrefix(batch, "-- scans") {
		for _, s := range host.scans {
			sink.b.WriteString("scan " + s + "\n")
		}
	}
	return strings.ReplaceAll(sink.b.String(), "\n\n", "\n")
}
