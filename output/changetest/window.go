package changetest

import (
	"math/rand/v2"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Cursor is where an input stands: what its resume position holds.
type Cursor struct {
	Next    int          // index of the first commit not read
	LSN     mssqlcdc.LSN // end of the last window
	DataLSN mssqlcdc.LSN // end of the last window with rows
}

// Window is a window as its parts, and where the input stands after it.
type Window struct {
	Parts []*mssqlcdc.RecordBatch
	Env   mssqlcdc.Envelope // of the last part
	After Cursor
	Rows  int

	Snapshot []Row // of a chunk
}

// Cut makes the window of the next commits, at most that many, in parts of at most
// partRows rows. No commits, or none left, is an idle window that ends a little
// behind the cursor.
func (h History) Cut(at Cursor, commits, partRows int) Window {
	var rows []Row
	end := Cursor{Next: at.Next, LSN: at.LSN.Next().Next(), DataLSN: at.DataLSN}
	extra := false
	var last Commit
	for end.Next < len(h.Commits) && end.Next-at.Next < commits {
		last = h.Commits[end.Next]
		extra = extra || h.ExtraFrom >= 0 && end.Next >= h.ExtraFrom
		rows = append(rows, last.Rows...)
		end = Cursor{Next: end.Next + 1, LSN: last.LSN, DataLSN: last.LSN}
	}
	if end.Next < len(h.Commits) && !end.LSN.Less(h.Commits[end.Next].LSN) {
		end.LSN = at.LSN // an idle window has no room here
	}
	env := mssqlcdc.Envelope{
		Version: mssqlcdc.EnvelopeVersion, Database: "shop", Table: h.Table, Instance: h.Instance, Generation: 0,
		Window:      mssqlcdc.Window{Start: at.LSN, End: end.LSN, EndTime: last.Time},
		PrevDataLSN: at.DataLSN,
	}
	w := Window{After: end, Rows: len(rows)}
	for first := true; first || len(rows) > 0; first = false {
		n := min(len(rows), partRows)
		env.Last = n == len(rows)
		if env.Last {
			env.Metrics = Metrics(last, w.Rows)
		}
		w.Parts = append(w.Parts, Batch(env, rows[:n], extra))
		w.Env = env
		rows = rows[n:]
		env.Part++
	}
	return w
}

// Attempt is the window as a reader reads it for the n-th time.
func (w Window) Attempt(n int64) Window {
	parts := make([]*mssqlcdc.RecordBatch, len(w.Parts))
	for i, part := range w.Parts {
		env := part.Envelope()
		env.Attempt = n
		again, err := mssqlcdc.NewRecordBatch(env, part.Record())
		if err != nil {
			panic(err) // it was one before
		}
		parts[i] = again
	}
	w.Parts = parts
	return w
}

// Metrics are what an input would have measured.
func Metrics(last Commit, rows int) mssqlcdc.WindowMetrics {
	at := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC)
	m := mssqlcdc.WindowMetrics{
		StartedAt: at, RTT: 1.26, ReadSeconds: 0.1234, ReadBytes: int64(rows * 100),
		MinLSN: LSN(1), MinLSNTime: at.Add(-72 * time.Hour),
		SourceMaxLSN: last.LSN, SourceMaxTime: last.Time, SourceSeenTime: last.Time.Add(1500 * time.Millisecond),
		Commits: 1,
	}
	return m
}

// Batch is a record batch of rows.
func Batch(env mssqlcdc.Envelope, rows []Row, extra bool) *mssqlcdc.RecordBatch {
	b, err := mssqlcdc.NewRecordBatch(env, Record(rows, extra))
	if err != nil {
		panic(err) // the test asks for something impossible
	}
	return b
}

// CutAll cuts a history into windows and parts of random sizes, with idle windows
// between them.
func (h History) CutAll(rng *rand.Rand, maxCommits, maxPartRows int) []Window {
	var windows []Window
	at := Cursor{}
	for at.Next < len(h.Commits) {
		commits := rng.IntN(maxCommits + 1)
		w := h.Cut(at, commits, 1+rng.IntN(maxPartRows))
		windows = append(windows, w)
		at = w.After
	}
	return windows
}
