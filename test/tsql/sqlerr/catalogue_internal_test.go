package sqlerr

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCatalogueIsSorted(t *testing.T) {
	t.Parallel()
	catalogue := catalogue()
	for i := 1; i < len(catalogue); i++ {
		require.Less(t, catalogue[i-1].number, catalogue[i].number)
	}
	for _, e := range catalogue {
		require.LessOrEqual(t, e.class, uint8(25), e.number)
		require.NotEmpty(t, e.format, e.number)
	}
}

// TestCatalogueAgreesWithTheList compares texts and classes with sys.messages as listed in the
// shared data, for the numbers that both have.
func TestCatalogueAgreesWithTheList(t *testing.T) {
	t.Parallel()
	root := os.Getenv("SHARED_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "..", "shared", "data")
	}
	b, err := os.ReadFile(filepath.Join(root, "cdc", "messages.tsv"))
	if err != nil {
		t.Skipf("no shared data: %v; set SHARED_DATA", err)
	}
	verb := regexp.MustCompile(`%[.*0-9]*(ls|I64d|s|d|ld|lu|08lx|04lx)`)
	listed := make(map[int32][]string)
	for line := range strings.SplitSeq(string(b), "\n") {
		f := strings.Split(line, "\t")
		if n, err := strconv.Atoi(f[0]); err == nil && len(f) > 2 {
			listed[int32(n)] = f
		}
	}
	both := 0
	for _, e := range catalogue() {
		f := listed[e.number]
		if f == nil {
			continue
		}
		both++
		require.Equal(t, verb.ReplaceAllString(f[2], "%"), verb.ReplaceAllString(e.format, "%"), e.number)
		require.Equal(t, f[1], strconv.Itoa(int(e.class)), e.number)
	}
	require.Greater(t, both, 5)
}
