package silver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// forget takes all rows out of bronze, as somebody does who thinks that they are needed no more.
func (b *bench) forget() {
	b.t.Helper()
	table, err := delta.Open(b.t.Context(), b.lake.bronze, delta.Options{CheckpointInterval: -1})
	require.NoError(b.t, err)
	_, err = merge.Run(b.t.Context(), table, merge.Source{Ranges: []merge.Range{{}}}, merge.Options{Keys: []string{"id", mssqlcdc.ColStartLSN}})
	require.NoError(b.t, err)
	require.NoError(b.t, table.Close(b.t.Context()))
	_, err = b.lake.table.Refresh(b.t.Context())
	require.NoError(b.t, err)
}

// A row gives way only to a newer one, also where bronze does not have its change any more, and where one file of the
// table has newer rows and another has not.
func TestOlderRowsDoNotReplaceNewerOnes(t *testing.T) {
	t.Parallel()
	for _, strategy := range []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "id", "part")
			with := func(c *silver.Config) { c.Strategy = strategy }
			b.write(3, change(2, 1, mssqlcdc.Insert, 1, 10), change(3, 1, mssqlcdc.Insert, 2, 20))
			b.applied(with)
			b.write(20, change(20, 1, mssqlcdc.UpdateAfter, 1, 30))
			b.applied(with)
			b.forget()
			b.write(21, read(9, 1, 9, 1, 99), read(9, 1, 9, 2, 99), read(9, 1, 9, 3, 40))
			r := b.applied(with)
			require.True(t, r.Changed)
			require.Equal(t, map[int64]int64{1: 30, 2: 99, 3: 40}, b.amounts())
			b.write(22, change(22, 1, mssqlcdc.UpdateAfter, 1, 50), change(22, 2, mssqlcdc.Delete, 2, 99))
			b.applied(with)
			require.Equal(t, map[int64]int64{1: 50, 3: 40}, b.amounts())
		})
	}
}
