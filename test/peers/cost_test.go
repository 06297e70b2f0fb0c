package peers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// M-07: a change table holds many rows that were read long ago. A window at its end sends
// its own rows over the wire, and nothing that grows with the rest.
func TestAWindowCostsItsOwnRows(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	insert := func(from, to int) {
		l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES %s", values(from, to, func(i int) string { return fmt.Sprint(i) })))
		l.capture(t)
	}
	p := l.pipeline(t, "dbo.t")
	sent := func() int64 {
		before := l.sim.Counters().Rows
		p.run(t)
		return l.sim.Counters().Rows - before
	}
	insert(0, 3)
	small := sent()
	for i := range 20 {
		insert(1000*(i+1), 1000*(i+1)+900)
	}
	p.run(t)
	insert(100, 103)
	require.LessOrEqual(t, sent(), small)
	l.requireSame(t, p, "t", "id")
}
