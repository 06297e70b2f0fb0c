package silver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// Facts that are newer than the version of bronze at hand may speak of chunks that it does
// not have: the rows that those bring must not be taken for deleted ones.
func TestFactsAreNewerThanBronze(t *testing.T) {
	t.Parallel()
	for _, mode := range []silver.Mode{silver.Current, silver.History} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "id", "part")
			facts, once := mem.New(), false
			with := func(c *silver.Config) {
				c.Mode = mode
				c.Facts = fault.Wrap(facts, func(fault.Call) fault.Fault {
					if !once { // the snapshot ends just when the facts are asked
						once = true
						b.lake.write(t.Context(), []record{read(5, 1, 7, 1, 10)}, nil)
						factsTable(t, facts, "lake/orders", lsnOf(5).String())
					}
					return fault.Fault{}
				})
			}
			b.write(6, change(2, 1, mssqlcdc.Insert, 1, 10), change(6, 1, mssqlcdc.Insert, 9, 90))
			b.applied(with)
			b.lake.write(t.Context(), []record{read(5, 0, 6, 2, 20)}, nil)
			for _, rebuilt := range []bool{false, true} {
				r := b.applied(with)
				require.True(t, once)
				current := map[int64]int64{}
				for _, r := range readRows(t, b.target) {
					if is, inHistory := r[silver.ColIsCurrent].(bool); is || !inHistory {
						current[r["id"].(int64)] = r["amount"].(int64)
					}
				}
				require.Equal(t, map[int64]int64{1: 10, 2: 20, 9: 90}, current)
				require.Equal(t, rebuilt, r.Rebuilt)
			}
		})
	}
}
