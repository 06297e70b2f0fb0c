package peers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// Beside O-11 and Z-04. A stream that starts at a time has the commits of exactly that
// time, and complete_from, the time of the last commit that is left out, is no begin of a
// complete period: more commits may share its instant.
func TestNothingIsFinalWithoutTheCommitsOfItsFirstInstant(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := newClockedLab(t, noon.Add(-time.Hour))
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	l.exec(t, "INSERT dbo.t VALUES (1)")
	l.clock.Set(noon)
	l.exec(t, "INSERT dbo.t VALUES (2)")
	l.clock.Set(noon.Add(time.Minute))
	l.exec(t, "INSERT dbo.t VALUES (3)")
	l.clock.Set(noon.Add(time.Hour + time.Minute))
	l.exec(t, "INSERT dbo.t VALUES (4)")
	l.capture(t)
	p := l.pipeline(t, "dbo.t").with(`start_from: "2026-03-01T12:00:00Z"`).facts()
	p.run(t)
	if p.verdict(t, "t").Answer(noon, noon.Add(time.Hour)) == control.Final {
		require.Contains(t, p.column(t, "t", "id"), "2", "the hour from 12:00:00 on is final, and the commit of 12:00:00 is not there")
	}
}

// C-11: an instance that capture has not reached yet is asked about once per interval, on
// the connection that is there, for as long as the capture job stands.
func TestInstanceThatCaptureHasNotReachedIsAskedOncePerInterval(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, l *lab, p *pipeline, n *network) {
		l.table(t, "fresh", "id int NOT NULL PRIMARY KEY")
		p.tables = []string{"dbo.fresh"}
		p.with("poll_interval: 60s", "idle_interval: 60s", "tables_refresh_interval: 60s")
		p.begin(t, "continuous")
		time.Sleep(time.Minute)
		l.sim.ResetStatements()
		dials := n.dials()
		time.Sleep(10 * time.Minute)
		require.LessOrEqual(t, len(l.sim.Statements()), 10*10, "statements in 10 intervals")
		require.LessOrEqual(t, n.dials()-dials, 10, "logins in 10 intervals")
	})
}

// C-02: during a fail-over a server refuses logins that it has accepted before and will
// accept again, with 18456, whose reason the client is never told.
func TestLoginThatIsRefusedDuringAFailOver(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T, l *lab, p *pipeline, n *network) {
		r := p.begin(t, "continuous")
		r.reaches(t, l, 1)
		rule := l.sim.Fault(sqlserversim.Fault{When: sqlserversim.AtLogin, Times: 3, Action: sqlserversim.RaiseError(18456, 14, 1, "Login failed for user 'sa'.")})
		n.cut()
		l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", 1))
		l.capture(t)
		r.reaches(t, l, 2)
		require.NotZero(t, rule.Hits())
		require.NoError(t, r.stop(t))
	})
}

// N-09: a pattern with a typo beside an entry that matches does not go unnoticed.
func TestPatternThatMatchesNothingIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "orders", "id int NOT NULL PRIMARY KEY")
	l.table(t, "order_lines", "id int NOT NULL PRIMARY KEY")
	l.exec(t, "INSERT dbo.orders VALUES (1)", "INSERT dbo.order_lines VALUES (1)")
	l.capture(t)
	p := l.pipeline(t, "dbo.orders", "dbo.ordre_*")
	err := p.begin(t, "available_now").end(t)
	require.True(t, err != nil || strings.Contains(p.log.String(), "ordre_*"), "nothing was said:\n%s", p.log)
}
