package input

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEntraConfig(t *testing.T) {
	t.Parallel()
	const base = "connection_string: fake\ncheckpoint_cache: position\ntables: [ dbo.a ]\n"
	parse := func(more string) (config, error) {
		parsed, err := spec().ParseYAML(base+more, nil)
		require.NoError(t, err)
		return parseConfig(parsed)
	}
	c, err := parse("")
	require.NoError(t, err)
	require.Nil(t, c.server.AccessToken)
	c, err = parse("entra: { method: token_file, token_file: /run/token }\n")
	require.NoError(t, err)
	require.NotNil(t, c.server.AccessToken)
	_, err = parse("entra: { method: service_principal, client_id: c, tenant_id: t }\n")
	require.ErrorContains(t, err, "field entra: method service_principal needs either client_secret or certificate_file")
}
