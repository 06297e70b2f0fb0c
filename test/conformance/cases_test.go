package conformance

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fact is something that holds for every SQL Server with change data capture.
type fact struct {
	id   string // as in docs/conformance.md
	says string
	run  func(t *testing.T, d *database)
}

func facts() []fact {
	return slices.Concat(changeFacts(), functionFacts(), definitionFacts(), serverFacts(), readerFacts())
}

func TestFacts(t *testing.T) {
	t.Parallel()
	for server, dsn := range servers(t) {
		t.Run(server, func(t *testing.T) {
			t.Logf("%s %s", server, version(t, dsn))
			for _, f := range facts() {
				t.Run(f.id, func(t *testing.T) {
					t.Parallel()
					d := newDatabase(t, dsn, fmt.Sprintf("conformance_%s_%d", strings.ReplaceAll(f.id, "-", "_"), os.Getpid()), server != "simulator")
					f.run(t, d)
				})
			}
		})
	}
	if os.Getenv(dsnVariable) == "" {
		t.Logf("no real server: %s is not set, only the simulator was asked", dsnVariable)
	}
}

// The page about conformance lists every fact once, in its words.
func TestFactsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/conformance.md")
	require.NoError(t, err)
	var listed, want []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z-]+) \| ([^|]+) \|`).FindAllStringSubmatch(string(page), -1)[1:] { // after the heads
		listed = append(listed, row[1]+": "+strings.TrimSpace(row[2]))
	}
	for _, f := range facts() {
		want = append(want, f.id+": "+f.says)
	}
	require.Equal(t, want, listed)
}
