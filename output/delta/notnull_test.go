package delta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// Spark refuses a table at writer 7 with a NOT NULL column that does not list
// invariants (DELTA_FEATURES_PROTOCOL_METADATA_MISMATCH).
func TestNotNullColumnsListInvariants(t *testing.T) {
	t.Parallel()
	for name, notNull := range map[string]bool{"not null": true, "nullable": false} {
		sc := &schema.Struct{Fields: []schema.Field{{Name: "at", Type: schema.TimestampNTZ, Nullable: !notNull}}}
		table, err := delta.Create(t.Context(), mem.New(), delta.Spec{Schema: sc}, delta.Options{})
		require.NoError(t, err)
		protocol := table.Snapshot().Protocol()
		require.Equal(t, 7, int(protocol.MinWriterVersion), name)
		if notNull {
			require.Contains(t, protocol.WriterFeatures, delta.FeatureInvariants)
		} else {
			require.NotContains(t, protocol.WriterFeatures, delta.FeatureInvariants)
		}
		require.NotContains(t, protocol.ReaderFeatures, delta.FeatureInvariants)
	}
}
