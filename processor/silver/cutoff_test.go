package silver_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// A first call that was cut off leaves images in the table, and no progress. What the next
// one learns may take them back: rows of a snapshot whose keys were inserted after it.
func TestFirstCallIsCutOff(t *testing.T) {
	t.Parallel()
	for writes := range 12 {
		t.Run(fmt.Sprint(writes, " writes"), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "id", "part")
			b.config.Mode, b.config.SliceRows = silver.History, 6
			st := newBreaking(mem.New())
			b.config.Target, b.target = st, st
			const keys = 16
			var early, updates, inserts []record
			for id := range int64(keys) {
				early = append(early, read(2, 0, 2, id, id))
				if id%2 == 0 {
					updates = append(updates, change(3, int(id)+1, mssqlcdc.UpdateBefore, id, id), change(3, int(id)+1, mssqlcdc.UpdateAfter, id, -id-1))
				} else {
					inserts = append(inserts, change(4, int(id)+1, mssqlcdc.Insert, id, id))
				}
			}
			b.lake.chunk(t.Context(), chunk{snapshot: 2, number: 0, stamp: 2, first: true, rows: early})
			b.write(3, updates...)
			dying, died := contextWithCancel(t)
			defer died()
			first, err := silver.New(b.config)
			require.NoError(t, err)
			st.dieAfter(writes, died)
			_, err = first.Apply(dying)
			st.dieAfter(-1, nil)
			require.True(t, err == nil || dying.Err() != nil, "%v", err)
			require.NoError(t, first.Close(t.Context()))

			b.write(4, inserts...)
			b.applied(nil)
			rows := readRows(t, b.target)
			require.Len(t, rows, keys/2*3)
			for _, r := range rows {
				id, start := r["id"].(int64), r[mssqlcdc.ColStartLSN]
				switch {
				case id%2 == 1:
					require.Equal(t, lsnOf(4).String(), start)
					require.Equal(t, true, r[silver.ColIsCurrent])
				case r[silver.ColIsCurrent] == true:
					require.Equal(t, lsnOf(3).String(), start)
				default:
					require.Equal(t, lsnOf(2).String(), start)
				}
			}
		})
	}
}
