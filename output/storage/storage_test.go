package storage

import (
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/azure"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/cloud"
)

func parsed(t *testing.T, yaml string) cloud.Config {
	t.Helper()
	conf, err := service.NewConfigSpec().Field(Field()).ParseYAML(yaml, nil)
	require.NoError(t, err)
	c, err := parse(conf)
	require.NoError(t, err)
	return c
}

func TestTheConfigWinsOverTheEnvironment(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", "env")
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", "env")
	t.Setenv("STORAGE_EMULATOR_HOST", "localhost:1")
	c := parsed(t, "{}")
	require.Equal(t, azure.Config{Account: "env", ConnectionString: "env"}, c.Azure)
	require.Equal(t, "http://localhost:1", c.GCS.Endpoint)
	require.Nil(t, c.S3.PathStyle)

	c = parsed(t, `
storage:
  s3: { region: r, endpoint: "http://e", path_style: false, access_key_id: i, secret_access_key: s, session_token: t }
  azure: { account: a, endpoint: "http://z", account_key: k }
  gcs: { endpoint: "http://g", credentials_file: f, credentials_json: j, anonymous: true }
`)
	require.Equal(t, []any{"r", "http://e", "i", "s", "t", false},
		[]any{c.S3.Region, c.S3.Endpoint, c.S3.AccessKeyID, c.S3.SecretAccessKey, c.S3.SessionToken, *c.S3.PathStyle})
	require.Equal(t, azure.Config{Account: "a", Endpoint: "http://z", AccountKey: "k"}, c.Azure,
		"a connection string of the environment must not win over a key of the config")
	require.Equal(t, []any{"http://g", "f", "j", true}, []any{c.GCS.Endpoint, c.GCS.CredentialsFile, c.GCS.CredentialsJSON, c.GCS.Anonymous})
}
