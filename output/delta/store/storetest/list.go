package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

func listOrder(t *testing.T, open func() store.Store) {
	s := open()
	// In each group the order of names and the order of whole paths differ.
	paths := []string{
		"a-b/x", "a.b", "a/b", "a/b.c/d", "a/b/c", "a0", "aa/b",
		"z/1", "z/1.5", "z/1/2", "z1", "ä", "Z",
	}
	// "a/b" and "a/b/c" cannot both be in a directory tree.
	paths = slices.DeleteFunc(paths, func(p string) bool { return p == "a/b" || p == "z/1" })
	put(t, s, paths...)
	slices.Sort(paths)
	require.Equal(t, paths, list(t, s, "", ""))
	for _, start := range append(slices.Clone(paths), "", "a", "a/", "a/b", "a/b.", "z/", "zz", "~") {
		want := []string{}
		for _, p := range paths {
			if p > start {
				want = append(want, p)
			}
		}
		require.Equal(t, want, list(t, s, "", start), "after %q", start)
	}
}

func listRanges(t *testing.T, open func() store.Store) {
	s := open()
	var paths []string
	for v := range 12 {
		paths = append(paths, fmt.Sprintf("_delta_log/%020d.json", v))
	}
	paths = append(paths,
		"_delta_log/00000000000000000010.checkpoint.parquet",
		"_delta_log/_last_checkpoint",
		"_delta_log/_sidecars/x.parquet",
		"_delta_log2/x",
		"part-0.parquet",
	)
	put(t, s, paths...)
	slices.Sort(paths)
	for _, prefix := range []string{"", "_", "_delta_log/", "_delta_log", "_delta_log/000000000000000000", "_delta_log/_", "_delta_log/_sidecars/", "part", "none", "no/ne/"} {
		for _, start := range []string{"", "_delta_log/00000000000000000010", "_delta_log/00000000000000000011.json", "_delta_log/_last_checkpoint", "q"} {
			want := []string{}
			for _, p := range paths {
				if strings.HasPrefix(p, prefix) && p > start {
					want = append(want, p)
				}
			}
			require.Equal(t, want, list(t, s, prefix, start), "prefix %q after %q", prefix, start)
		}
	}
}

func listEmpty(t *testing.T, open func() store.Store) {
	s := open()
	require.Empty(t, list(t, s, "", ""))
	require.Empty(t, list(t, s, "_delta_log/", ""))
	put(t, s, "a/b")
	require.Empty(t, list(t, s, "a/b/", ""))
	require.Empty(t, list(t, s, "b/", ""))
}

func listBreak(t *testing.T, open func() store.Store) {
	s := open()
	put(t, s, "a", "b", "c/d", "e")
	n := 0
	for _, err := range s.List(t.Context(), "", "") {
		require.NoError(t, err)
		if n++; n == 2 {
			break
		}
	}
	require.Equal(t, 2, n)
}
