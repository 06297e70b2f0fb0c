package tsql_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
)

// FuzzRun: no batch makes the evaluator panic, and every error is one of SQL Server's with its
// text filled in.
func FuzzRun(f *testing.F) {
	for _, file := range []string{"testdata/corpus.sql", "testdata/transcripts/expressions.txt", "testdata/transcripts/functions.txt", "testdata/transcripts/plans.txt", "testdata/transcripts/control.txt", "testdata/transcripts/changes.txt"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(string(text), "\nGO\n", "\n\n"), "\n\n") {
			batch, _, _ := strings.Cut(part, "\n----")
			f.Add(batch)
		}
	}
	setup, err := os.ReadFile("testdata/catalogue.sql")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		s := tsql.NewSession(newFakeHost())
		require.NoError(t, s.Run(t.Context(), string(setup), nil, &textSink{}))
		sink := &textSink{}
		began := time.Now()
		err := s.Run(ctx, text, nil, sink)
		require.Less(t, time.Since(began), 20*time.Second, "it must notice that it was cancelled")
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%q: %v", text, err)
		}
		require.NotContains(t, sink.b.String(), "%!", text)
	})
}
