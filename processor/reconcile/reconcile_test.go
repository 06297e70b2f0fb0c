package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// Every type comes out equal, from the change table and from the source table.
func TestEveryTypeMatches(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	truth, err := workload.WriteTypes(t.Context(), l.sim)
	require.NoError(t, err)
	l.pass()
	for name, k := range map[string]*lake{
		"changes":  l.lake("dbo.all_types", reconcile.Bronze).stream(),
		"snapshot": l.lake("dbo.all_types", reconcile.Bronze).read(),
		"current":  l.lake("dbo.all_types", reconcile.Current).read(),
	} {
		result := k.requireMatch()
		require.Equal(t, int64(truth.Rows), result.SourceRows, name)
		require.Equal(t, int64(truth.Rows), result.Hashed, name)
		require.Empty(t, result.NotCompared)
	}
}
