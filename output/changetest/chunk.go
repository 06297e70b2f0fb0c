package changetest

import (
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Chunk makes the parts of a chunk of a snapshot with rows of these ids.
func (h History) Chunk(chunk mssqlcdc.Chunk, ids []int64, partRows int, attempt int64) Window {
	if chunk.StampTime.IsZero() {
		chunk.StampTime = time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	}
	var rows []Row
	for _, id := range ids {
		rows = append(rows, Row{
			Position: mssqlcdc.Position{StartLSN: chunk.Stamp, Operation: mssqlcdc.Read}, Time: chunk.StampTime,
			ID: id, Name: "of the snapshot", Amount: id, Snapshot: chunk.Snapshot, Chunk: chunk.Number,
		})
	}
	env := mssqlcdc.Envelope{
		Version: mssqlcdc.EnvelopeVersion, Database: "shop", Table: h.Table, Instance: h.Instance, Attempt: attempt,
		Window: mssqlcdc.Window{Start: chunk.Stamp, End: chunk.Stamp, EndTime: chunk.StampTime}, Chunk: &chunk,
	}
	w := Window{Rows: len(rows), Snapshot: rows}
	for first := true; first || len(rows) > 0; first = false {
		n := min(len(rows), partRows)
		env.Last = n == len(rows)
		w.Parts = append(w.Parts, Batch(env, rows[:n], false))
		w.Env = env
		rows = rows[n:]
		env.Part++
	}
	return w
}
