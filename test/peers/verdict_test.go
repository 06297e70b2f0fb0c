package peers

import (
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
)

// every minute a commit, by number: row i is committed i minutes after march.
func (l *lab) minutes(t testing.TB, table string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		l.clock.Advance(time.Minute)
		l.exec(t, fmt.Sprintf("INSERT dbo.%s VALUES (%d)", table, i))
	}
}

func minute(n int) time.Time { return march().Add(time.Duration(n) * time.Minute) }

// W-03, W-05: capture has taken a part of a backlog. The verdict stays at or before the last
// commit that is there, and no row comes later that lies before it.
func TestAVerdictInABacklog(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	l.minutes(t, "t", 1, 12)
	p := l.pipeline(t, "dbo.t").facts()
	for {
		before := len(l.changes(t, "dbo_t"))
		l.exec(t, "EXEC sys.sp_cdc_scan @maxtrans = 2, @maxscans = 1")
		captured := len(l.changes(t, "dbo_t"))
		if captured == before && captured > 0 {
			break
		}
		if captured == 0 {
			continue // the scan took entries of the enabling only
		}
		p.run(t)
		verdict := p.verdict(t, "t").FinalizedUntil
		require.False(t, verdict.After(minute(captured)), "%d commits are captured, and %s is final", captured, verdict)
	}
	l.requireSame(t, p, "t", "id")
	require.Equal(t, minute(11), p.verdict(t, "t").FinalizedUntil)
}

// W-04: a transaction that began long before it commits. Its rows have the time of their
// commit, so the verdict passes over its beginning, and never over its commit.
func TestAVerdictOverALongTransaction(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	require.NoError(t, l.sim.Idle(t.Context()))
	p := l.pipeline(t, "dbo.t").facts()
	p.run(t) // completeness begins here
	l.minutes(t, "t", 1, 2)
	db, err := sql.Open("sqlserver", l.sim.DSN())
	require.NoError(t, err)
	defer db.Close()
	long, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = long.ExecContext(t.Context(), "INSERT dbo.t VALUES (1000)")
	require.NoError(t, err)
	l.minutes(t, "t", 2, 6)
	l.capture(t)
	p.run(t)
	require.Equal(t, minute(5), p.verdict(t, "t").FinalizedUntil)
	require.NoError(t, long.Commit())
	l.minutes(t, "t", 6, 8)
	l.capture(t)
	p.run(t)
	require.Equal(t, minute(7), p.verdict(t, "t").FinalizedUntil)
	l.requireSame(t, p, "t", "id")
}

// W-13: everything was read, and the output cannot write. The verdict waits for what is in
// the table, not for what was read.
func TestAVerdictWaitsForTheTable(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, march())
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	require.NoError(t, l.sim.Idle(t.Context()))
	var down atomic.Bool
	var refused atomic.Int64
	p := l.pipeline(t, "dbo.t").facts()
	p.outputs = []output.Option{faulty(func(c fault.Call) fault.Fault {
		if down.Load() && c.Op == fault.PutIfAbsent {
			refused.Add(1)
			return fault.Fault{Before: errors.New("the network is away")}
		}
		return fault.Fault{}
	})}
	p.run(t) // completeness begins here
	l.minutes(t, "t", 1, 4)
	l.capture(t)
	p.run(t)
	stood := p.verdict(t, "t").FinalizedUntil
	require.Equal(t, minute(3), stood)
	down.Store(true)
	l.minutes(t, "t", 4, 9)
	l.capture(t)
	r := p.begin(t, "continuous")
	r.eventually(t, "failing writes", func() bool { return refused.Load() > 5 })
	require.Equal(t, stood, p.verdict(t, "t").FinalizedUntil)
	down.Store(false)
	r.eventually(t, "the verdict", func() bool { return p.verdict(t, "t").FinalizedUntil.Equal(minute(8)) })
	require.NoError(t, r.stop(t))
	l.requireSame(t, p, "t", "id")
}
