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

	// ThroughTime is the server's clock after a chunk was read, the latest of those acknowledged: a row may also show a commit that
	// capture had not come to yet. None of those is later. Zero once the changes have come so far, and in a state of a release that did not ask.
	ThroughTime time.Time `json:"through_time,omitzero"`

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

// tick is what commit times are rounded by: they are of the type datetime.
const tick = time.Second / 300

// Covers tells whether the changes up to a commit time hold every commit that the server's clock was not before.
func Covers(commit, clock time.Time) bool {
	return clock.IsZero() || commit.After(clock.Add(tick))
}

// Holds tells whether a table whose changes are known up to an LSN, and its commit time, lacks something that the snapshot is to bring.
// A time that is not known counts as early.
func (s Snapshot) Holds(upto mssqlcdc.LSN, at time.Time) bool {
	return !s.Complete || upto.Less(s.Through) || !Covers(at, s.ThroughTime)
}

// Cover takes the changes as having come as far as the chunks: they stay so, whether or not the time of the position is known later.
func (s Snapshot) Cover() *Snapshot {
	s.ThroughTime = time.Time{}
	return &s
}

// Advance takes the next chunk as acknowledged, with max_lsn and the server's clock as they were after it was read.
func (s Snapshot) Advance(rows int64, through mssqlcdc.LSN, clock time.Time) *Snapshot {
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
	if clock.After(s.ThroughTime) {
		s.ThroughTime = clock.UTC()
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
