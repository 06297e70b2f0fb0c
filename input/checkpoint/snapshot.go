package checkpoint

import (
	"fmt"
	"slices"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Snapshot is how far the snapshot of a table has come. Values are immutable:
// methods return a changed copy.
//
// The end of a chunk is decided and stored before its rows are read: a chunk that
// is read again after a crash then has the same bounds as the one that may be in the
// output already, and no key falls between two chunks. Bounds hold values of keys,
// so whoever may read the cache may read those.
type Snapshot struct {
	LSN    mssqlcdc.LSN `json:"lsn"`    // S: the stream of changes began here
	Time   time.Time    `json:"time"`   // commit time of LSN, UTC; zero if unknown
	Opened time.Time    `json:"opened"` // when, by the reader's clock
	Keys   []string     `json:"keys,omitempty"`
	Last   []*string    `json:"last,omitempty"` // key of the last row at the open; rows behind it come as changes

	Done    int64       `json:"done"`              // chunks that are acknowledged: the number of the next one
	Prev    int64       `json:"prev"`              // the last of them that had rows, -1 for none
	Rows    int64       `json:"rows"`              // of them all
	From    []*string   `json:"from,omitempty"`    // where the next chunk begins; empty: with the first row
	Planned [][]*string `json:"planned,omitempty"` // ends of the chunks from Done on; an empty one is open
	Final   bool        `json:"final,omitempty"`   // the last planned chunk ends the snapshot

	LostFrom *time.Time `json:"lost_from,omitempty"` // commit times of a loss that it stands for
	LostTo   *time.Time `json:"lost_to,omitempty"`
	OnSwitch bool       `json:"on_switch,omitempty"` // it brings the columns of a newer capture instance; nothing is missing without it

	Whole bool `json:"whole,omitempty"` // it is read at one moment, in one chunk whose rows carry LSN

	// Through is max_lsn as it was after a chunk was read, the highest of those acknowledged: rows may show what was committed up to
	// here, so the table is consistent once its changes have come as far.
	Through mssqlcdc.LSN `json:"through"`

	Complete bool `json:"complete,omitempty"` // every chunk is acknowledged
}

// NewSnapshot is a snapshot of which nothing was read.
func NewSnapshot(lsn mssqlcdc.LSN, at, opened time.Time, keys []string, last []*string) *Snapshot {
	return &Snapshot{LSN: lsn, Time: at, Opened: opened.UTC(), Keys: keys, Last: last, Prev: -1}
}

// Plan records where the next chunk after those planned so far ends.
func (s Snapshot) Plan(to []*string, final bool) *Snapshot {
	s.Planned = append(slices.Clone(s.Planned), to)
	s.Final = final
	return &s
}

// End is where a chunk ends and whether it is the final one, false if that was not
// decided yet.
func (s Snapshot) End(number int64) (to []*string, final, planned bool) {
	at := number - s.Done
	if at < 0 || at >= int64(len(s.Planned)) {
		return nil, false, false
	}
	return s.Planned[at], s.Final && at == int64(len(s.Planned))-1, true
}

// Begin is where a chunk begins, false if that was not decided yet or there is no such chunk.
func (s Snapshot) Begin(number int64) (from []*string, known bool) {
	if number == s.Done {
		return s.From, !s.Complete
	}
	from, final, planned := s.End(number - 1)
	return from, planned && !final
}

// Holds tells whether a table whose changes are known up to an LSN lacks something that the snapshot is to bring.
func (s Snapshot) Holds(upto mssqlcdc.LSN) bool { return !s.Complete || upto.Less(s.Through) }

// Advance takes the next chunk as acknowledged, with max_lsn as it was after it was read.
func (s Snapshot) Advance(rows int64, through mssqlcdc.LSN) *Snapshot {
	to, final, planned := s.End(s.Done)
	if !planned {
		return &s // nothing that was handed out
	}
	if rows > 0 {
		s.Prev = s.Done
	}
	s.Done++
	s.Rows += rows
	if s.Through.Less(through) {
		s.Through = through
	}
	s.From, s.Planned = to, slices.Clone(s.Planned[1:])
	if final {
		s.Complete, s.Final = true, false
		s.From, s.Planned, s.Last = nil, nil, nil
	}
	return &s
}

func (s Snapshot) validate() error {
	switch {
	case s.LSN.IsZero():
		return fmt.Errorf("snapshot without an LSN")
	case s.Done < 0 || s.Prev >= s.Done || s.Prev < -1:
		return fmt.Errorf("snapshot %s with %d chunks done and chunk %d the last with rows", s.LSN, s.Done, s.Prev)
	case s.Final && len(s.Planned) == 0:
		return fmt.Errorf("snapshot %s with a final chunk that is not planned", s.LSN)
	}
	return nil
}
