package store_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

func TestStores(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(t *testing.T) func() store.Store {
			root := filepath.Join(t.TempDir(), "not", "yet", "there")
			return func() store.Store {
				s, err := file.New(root)
				require.NoError(t, err)
				return s
			}
		})
	})
	t.Run("mem", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(*testing.T) func() store.Store {
			s := mem.New()
			return func() store.Store { return s }
		})
	})
	t.Run("fault", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, func(*testing.T) func() store.Store {
			s := mem.New()
			return func() store.Store { return fault.Wrap(s, nil) }
		})
	})
}

func TestScheme(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"":                    "",
		"table":               "",
		"/data/table":         "",
		"./a:b":               "",
		`C:\data\table`:       "",
		"C:/data/table":       "",
		"file:///data/table":  "file",
		"S3://bucket/a":       "s3",
		"abfss://c@a.dfs/x":   "abfss",
		"mem:x":               "mem",
		"1s://x":              "",
		"git+ssh.a-b://x":     "git+ssh.a-b",
		"über://x":            "",
		"dir/with:colon/tail": "",
	} {
		require.Equal(t, want, store.Scheme(uri), uri)
	}
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	r := store.NewRegistry(file.Provider(), mem.Provider())
	require.Equal(t, []string{"file", "mem", "path"}, r.Schemes())

	dir := t.TempDir()
	byPath, err := r.Open(t.Context(), filepath.Join(dir, "a b"))
	require.NoError(t, err)
	byURI, err := r.Open(t.Context(), "file://"+filepath.ToSlash(dir)+"/a%20b")
	require.NoError(t, err)
	require.Equal(t, byPath.URL(), byURI.URL())

	one, err := r.Open(t.Context(), "mem://x/")
	require.NoError(t, err)
	two, err := r.Open(t.Context(), "mem://x")
	require.NoError(t, err)
	require.Same(t, one, two)

	for uri, message := range map[string]string{
		"":                "empty",
		"s3://bucket/x":   `no provider for scheme "s3" (known: file, mem, path)`,
		"file://host/x":   "three slashes",
		"file:relative":   "no absolute path",
		"file:///bad%zzx": "parsing",
	} {
		_, err := r.Open(t.Context(), uri)
		require.ErrorContains(t, err, message, uri)
	}
}
