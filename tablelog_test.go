package mssqlcdc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

func TestKeyColumnsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"id"}, {"order id", `with "quotes"`, "größe"}, {}} {
		got, err := mssqlcdc.DecodeKeyColumns(mssqlcdc.EncodeKeyColumns(names))
		require.NoError(t, err)
		require.Equal(t, names, got)
	}
	_, err := mssqlcdc.DecodeKeyColumns("id, part")
	require.Error(t, err)
}
