package cloud_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/cloud"
)

func TestEveryScheme(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_STORAGE_SAS_TOKEN": "sig=x", "STORAGE_EMULATOR_HOST": "127.0.0.1:4443"}
	c := cloud.FromEnvironment(func(name string) string { return environment[name] })
	require.Equal(t, "acc", c.Azure.Account)
	require.Equal(t, "http://127.0.0.1:4443", c.GCS.Endpoint)
	require.True(t, c.GCS.Anonymous)
	c.S3.Region = "eu-central-1"
	r := cloud.NewRegistry(c)
	require.Equal(t, []string{"abfs", "abfss", "az", "file", "gs", "https", "path", "s3", "s3a"}, r.Schemes())
	for uri, want := range map[string]string{
		"s3://lake/a/b":   "s3://lake/a/b",
		"s3a://lake/a/b/": "s3://lake/a/b",
		"gs://lake/a":     "gs://lake/a",
		"az://lake/a":     "az://lake/a",
		"abfss://lake@acc.dfs.core.windows.net/a": "https://acc.blob.core.windows.net/lake/a",
	} {
		st, err := r.Open(t.Context(), uri)
		require.NoError(t, err, uri)
		require.Equal(t, want, st.URL())
	}
	for _, uri := range []string{"s3://", "s3:lake", "s3://lake--usw2-az1--x-s3/a", "s3://key:secret@lake/a", "gs://", "gs://a@b/c", "s3://lake/a/../b"} {
		_, err := r.Open(t.Context(), uri)
		require.Error(t, err, uri)
	}
}
