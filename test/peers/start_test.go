package peers

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// O-10: CDC was enabled for one table long before the other, which comes first by name.
// Each table starts at its own first change.
func TestEachTableStartsAtItsOwnFirstChange(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "zeta", "id int NOT NULL PRIMARY KEY")
	for i := range 3 {
		l.exec(t, fmt.Sprintf("INSERT dbo.zeta VALUES (%d)", i))
		l.capture(t)
	}
	l.table(t, "alpha", "id int NOT NULL PRIMARY KEY")
	l.exec(t, "INSERT dbo.alpha VALUES (1)", "INSERT dbo.zeta VALUES (10)")
	l.capture(t)
	p := l.pipeline(t, "dbo.*")
	p.run(t)
	l.requireSame(t, p, "zeta", "id")
	l.requireSame(t, p, "alpha", "id")
	require.Len(t, p.bronze(t, "zeta"), 4)
}

// O-11, O-19, Z-01, Z-04: five changes an hour apart, then a start at each place that can
// be named, on servers east and west of Greenwich, and five more changes. What comes
// begins exactly there, also if the run ends before there was anything to acknowledge.
func TestEveryStart(t *testing.T) {
	t.Parallel()
	for _, server := range []struct{ name, location string }{
		{"UTC", "UTC"}, {"South Africa Standard Time", "Africa/Johannesburg"}, {"India Standard Time", "Asia/Kolkata"}, {"US Mountain Standard Time", "America/Phoenix"},
		{"Line Islands Standard Time", "Pacific/Kiritimati"},
	} {
		location, err := time.LoadLocation(server.location)
		require.NoError(t, err)
		begin := time.Date(2026, 3, 1, 12, 0, 0, 500_000_000, time.UTC)
		l := newClockedLab(t, begin, sqlserversim.WithTimeZone(server.name, location))
		l.table(t, "t", "id int NOT NULL PRIMARY KEY")
		l.exec(t, "INSERT dbo.t VALUES (0)")
		l.capture(t)
		hourly := func(from int) {
			for i := from; i < from+5; i++ {
				l.clock.Advance(time.Hour)
				l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", i))
			}
			l.capture(t)
		}
		hourly(1)
		second := l.commits(t, "dbo_t")[2].String()
		pipelines := map[string]*pipeline{}
		starts := map[string]int{ // the first row that must come
			"earliest": 0, "latest": 6, second: 3,
			"2026-03-01T14:00:00Z": 2, "2026-03-01T14:00:01Z": 3, "2026-03-01T16:00:00+02:00": 2, "2026-03-02T12:00:00Z": 6,
		}
		for start := range starts {
			pipelines[start] = l.pipeline(t, "dbo.t").with(fmt.Sprintf("start_from: %q", start))
			pipelines[start].run(t)
		}
		hourly(6)
		for start, first := range starts {
			t.Run(server.name+", "+start, func(t *testing.T) {
				t.Parallel()
				p := pipelines[start]
				p.run(t)
				var want []string
				for i := first; i < 11; i++ {
					want = append(want, fmt.Sprint(i))
				}
				require.Equal(t, want, p.column(t, "t", "id"))
				p.run(t)
				require.Equal(t, want, p.column(t, "t", "id"), "and nothing comes again")
			})
		}
	}
}

// O-11: a start that CDC cannot serve is refused and not rounded.
func TestStartThatCannotBeServed(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	for i := range 5 {
		l.clock.Advance(time.Hour)
		l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", i))
	}
	l.capture(t)
	commits := l.commits(t, "dbo_t")
	l.cleanBelow(t, "dbo_t", commits[3])
	for start, want := range map[string]string{
		"2026-03-01T14:30:00Z": "are lost", commits[0].String(): "are lost", "0xFFFFFFFF000000000001": "another database",
		"yesterday": "want earliest, latest, an LSN",
	} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			p := l.pipeline(t, "dbo.t").with(fmt.Sprintf("start_from: %q", start))
			if start == "yesterday" {
				require.ErrorContains(t, p.begin(t, "available_now").end(t), want)
				return
			}
			require.ErrorContains(t, p.fail(t), want)
			require.Empty(t, p.bronze(t, "t"))
		})
	}
	p := l.pipeline(t, "dbo.t").with(fmt.Sprintf("start_from: %q", commits[3].Prev()))
	p.run(t)
	require.Equal(t, []string{"3", "4"}, p.column(t, "t", "id"))
}

// O-17, Z-06: a transaction that was open for ten minutes commits after a short one, and
// then the server's clock is set back. Order is that of the log, the commit time is the
// end of the transaction, and the verdict never goes back.
func TestOrderIsThatOfTheLogWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	l := newClockedLab(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	l.table(t, "t", "id int NOT NULL PRIMARY KEY")
	connector, err := mssql.NewConnector(l.sim.DSN())
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	defer func() { require.NoError(t, db.Close()) }()
	// Completeness begins where the stream does, so it begins before the changes.
	p := l.pipeline(t, "dbo.t").facts()
	require.NoError(t, l.sim.Idle(t.Context()))
	p.run(t)
	l.clock.Advance(time.Minute)
	at := []string{}
	commit := func(id int) {
		l.exec(t, fmt.Sprintf("INSERT dbo.t VALUES (%d)", id))
		at = append(at, l.clock.Now().Format(stampLayout))
	}
	commit(1)
	long, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = long.ExecContext(t.Context(), "INSERT dbo.t VALUES (2)")
	require.NoError(t, err)
	l.clock.Advance(4 * time.Minute)
	commit(3)
	l.clock.Advance(6 * time.Minute)
	require.NoError(t, long.Commit())
	at = append(at, l.clock.Now().Format(stampLayout))
	l.capture(t)
	p.run(t)
	before := p.verdict(t, "t").FinalizedUntil
	require.Equal(t, l.clock.Now(), before)

	l.clock.Advance(-5 * time.Minute)
	commit(4)
	l.capture(t)
	p.run(t)
	require.Equal(t, before, p.verdict(t, "t").FinalizedUntil)
	l.clock.Advance(10 * time.Minute)
	commit(5)
	l.capture(t)
	p.run(t)
	require.Equal(t, l.clock.Now(), p.verdict(t, "t").FinalizedUntil)

	l.requireSame(t, p, "t", "id")
	require.Equal(t, []string{"1", "3", "2", "4", "5"}, p.column(t, "t", "id"))
	require.Equal(t, at, p.column(t, "t", "_commit_ts"))
}
