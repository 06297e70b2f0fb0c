package input

import (
	"errors"
	"fmt"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// sink plays an output: it commits windows exactly as delta_lake promises to, and
// nacks where it is told to.
type sink struct {
	position map[mssqlcdc.TableID]mssqlcdc.LSN // end of the last committed window with rows
	staged   map[mssqlcdc.TableID][]int64
	next     map[mssqlcdc.TableID]int
	attempt  map[mssqlcdc.TableID]int64
	rows     map[mssqlcdc.TableID][]int64
	came     map[mssqlcdc.TableID]int // rows of the window at hand, those that the table has included
	reject   func() bool
	refuse   func(mssqlcdc.TableID) error // what cannot be cured
	wrote    func(mssqlcdc.Envelope)      // called with what is not rejected

	of       map[mssqlcdc.TableID]mssqlcdc.LSN // the snapshot that the next two are of
	snapshot map[mssqlcdc.TableID][]int64      // ids of committed chunks
	chunk    map[mssqlcdc.TableID]int64        // number of the last chunk with rows, plus 1
	from     map[int64]string                  // instance that a row came from
	held     map[mssqlcdc.TableID]bool         // the last window said that a snapshot is open
	final    map[mssqlcdc.TableID]mssqlcdc.LSN // end of the first window that did not, after chunks
	stamps   map[mssqlcdc.LSN]bool             // of chunks
	everHeld bool
	events   []mssqlcdc.Fact
}

func newSink() *sink {
	return &sink{
		position: map[mssqlcdc.TableID]mssqlcdc.LSN{}, staged: map[mssqlcdc.TableID][]int64{},
		next: map[mssqlcdc.TableID]int{}, attempt: map[mssqlcdc.TableID]int64{}, rows: map[mssqlcdc.TableID][]int64{}, came: map[mssqlcdc.TableID]int{}, reject: func() bool { return false },
		of: map[mssqlcdc.TableID]mssqlcdc.LSN{}, snapshot: map[mssqlcdc.TableID][]int64{}, chunk: map[mssqlcdc.TableID]int64{}, held: map[mssqlcdc.TableID]bool{},
		from: map[int64]string{}, final: map[mssqlcdc.TableID]mssqlcdc.LSN{}, stamps: map[mssqlcdc.LSN]bool{},
	}
}

var errRejected = errors.New("rejected by the test")

func (s *sink) write(batch *mssqlcdc.RecordBatch) error {
	e := batch.Envelope()
	if s.reject() {
		return errRejected
	}
	if s.refuse != nil {
		if err := s.refuse(e.Table); err != nil {
			return err
		}
	}
	if s.wrote != nil {
		s.wrote(e)
	}
	if e.Part == 0 {
		s.staged[e.Table], s.next[e.Table], s.attempt[e.Table], s.came[e.Table] = nil, 0, e.Attempt, 0
	}
	if e.Attempt != s.attempt[e.Table] {
		return fmt.Errorf("a part of another attempt at %s", e.Table)
	}
	if e.Part != s.next[e.Table] {
		return fmt.Errorf("part %d of %s, want %d", e.Part, e.Table, s.next[e.Table])
	}
	s.next[e.Table]++
	if e.Chunk != nil {
		return s.writeChunk(batch, e)
	}
	if s.position[e.Table].Less(e.PrevDataLSN) {
		return fmt.Errorf("a gap: the window follows %s, the table is at %s", e.PrevDataLSN, s.position[e.Table])
	}
	s.came[e.Table] += len(idsOf(batch))
	for _, id := range idsOf(batch) {
		if s.position[e.Table].Less(fakeLSN(int(id / 1000))) {
			s.staged[e.Table] = append(s.staged[e.Table], id)
			s.from[id] = e.Instance
		}
	}
	if !e.Last {
		batch.Mark("sink", mssqlcdc.Staged)
		return nil
	}
	s.events, s.held[e.Table] = append(s.events, e.Events...), !e.OpenSnapshot.IsZero()
	s.everHeld = s.everHeld || s.held[e.Table]
	if s.final[e.Table].IsZero() && s.chunk[e.Table] > 0 && !s.held[e.Table] {
		s.final[e.Table] = e.Window.End
	}
	if s.came[e.Table] > 0 && s.position[e.Table].Less(e.Window.End) {
		s.rows[e.Table] = append(s.rows[e.Table], s.staged[e.Table]...)
		s.position[e.Table] = e.Window.End
	}
	s.staged[e.Table], s.next[e.Table] = nil, 0
	batch.Mark("sink", mssqlcdc.Committed)
	return nil
}

// writeChunk commits a chunk of a snapshot once, however it is read again.
func (s *sink) writeChunk(batch *mssqlcdc.RecordBatch, e mssqlcdc.Envelope) error {
	if e.Chunk.Snapshot != s.of[e.Table] {
		s.of[e.Table], s.snapshot[e.Table], s.chunk[e.Table] = e.Chunk.Snapshot, nil, 0
	}
	if s.chunk[e.Table] < e.Chunk.Prev+1 {
		return fmt.Errorf("chunk %d follows %d, the table has %d chunks", e.Chunk.Number, e.Chunk.Prev, s.chunk[e.Table])
	}
	s.stamps[e.Chunk.Stamp] = true
	s.staged[e.Table] = append(s.staged[e.Table], idsOf(batch)...)
	if !e.Last {
		batch.Mark("sink", mssqlcdc.Staged)
		return nil
	}
	s.events = append(s.events, e.Events...)
	if rows := s.staged[e.Table]; len(rows) > 0 && e.Chunk.Number >= s.chunk[e.Table] {
		s.snapshot[e.Table] = append(s.snapshot[e.Table], rows...)
		s.chunk[e.Table] = e.Chunk.Number + 1
	}
	s.staged[e.Table], s.next[e.Table] = nil, 0
	batch.Mark("sink", mssqlcdc.Committed)
	return nil
}
