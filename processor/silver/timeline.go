package silver

import (
	"slices"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// A timeline is the images of one key, in the order in which they were valid. It is built
// from the images that the table has and from rows of bronze that it does not have yet.
//
// Changes are exact: each says what the row is after it, and those after a snapshot's S
// come all. A row of a snapshot is not: it was read at some moment after its stamp, so it
// may show a change that is yet to come. It is taken for the image at S, and the first
// change after S corrects it: an insert says that the key was not there, the image before
// an update or a delete says what was there. If a change after S is known already, the
// snapshot's row says nothing new.
//
// What happened to a key in a gap, before S, is not known. An image that a gap broke off
// ends at S, and nothing is concluded over a gap.

// image is one version of a row.
type image struct {
	values row // of the captured columns
	large  row // of columns that values leaves out, being an image before a change; may be none

	start, seq string // of the change, or the S of the snapshot and ""
	op         mssqlcdc.Operation
	from       moment
	end        string // "" while it is valid
	to         moment

	stored  bool // the table has it
	dirty   bool // the table has it otherwise, or not
	dropped bool // it never was
}

// moment is a time in microseconds since 1970 UTC, which may not be known.
type moment struct {
	micros int64
	known  bool
}

func (m moment) after(o moment) bool { return m.known && o.known && m.micros > o.micros }

// event is one change, or a row of a snapshot.
type event struct {
	op     mssqlcdc.Operation // what it is to the key: Read, Insert, Delete, UpdateAfter
	made   mssqlcdc.Operation // as bronze has it
	lsn    string             // of the commit, or the S of the snapshot
	seq    string
	at     moment
	values row // after it; of a delete before it
	before row // before an update, if it is known
}

type timeline struct {
	images []*image          // the last one is the newest
	open   *image            // nil while the key is not there
	times  map[string]moment // snapshots and when they were read
	gaps   []stretch
}

// stretch is a time of lost changes.
type stretch struct{ from, to int64 }

// gapless tells whether nothing is known to be lost between two moments.
func (t *timeline) gapless(from, to moment) bool {
	for _, g := range t.gaps {
		if !from.known || !to.known || from.micros < g.to && g.from < to.micros {
			return false
		}
	}
	return true
}

// newTimeline begins with the images that the table has and the events that come. Images
// from after the LSN up to which changes are applied are taken out, since what made them
// comes again; the second result says which. So does what ended an image after that LSN,
// but for the end that a complete snapshot made of a key that it does not have.
func newTimeline(stored []*image, events []event, applied string, snapshots map[string]moment, gaps []stretch) (t *timeline, again []*image) {
	t = &timeline{times: snapshots, gaps: gaps}
	slices.SortFunc(stored, func(a, b *image) int {
		if r := strings.Compare(a.start, b.start); r != 0 {
			return r
		}
		return strings.Compare(a.seq, b.seq)
	})
	for _, i := range stored {
		if i.start > applied {
			again = append(again, i)
			continue
		}
		t.images = append(t.images, i)
	}
	events = withReads(events, again)
	if n := len(t.images); n > 0 && (t.images[n-1].end == "" || t.images[n-1].end > applied) {
		t.open = t.images[n-1]
		if slices.ContainsFunc(events, func(e event) bool { return e.lsn == t.open.end }) {
			t.open.end, t.open.to, t.open.dirty = "", moment{}, true
		}
	}
	for _, e := range events {
		t.apply(e)
	}
	return t, again
}

// withReads puts images of snapshots that were taken out of a timeline among the events.
func withReads(events []event, again []*image) []event {
	for _, i := range again {
		if i.op == mssqlcdc.Read {
			events = append(events, event{op: i.op, made: i.op, lsn: i.start, at: i.from, values: i.values})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int {
		r := strings.Compare(a.lsn, b.lsn)
		switch {
		case r != 0:
			return r
		case a.op == mssqlcdc.Read && b.op != mssqlcdc.Read:
			return 1
		case a.op != mssqlcdc.Read && b.op == mssqlcdc.Read:
			return -1
		}
		return 0
	})
	return events
}

// apply is one more event, in order.
func (t *timeline) apply(e event) {
	if t.open != nil && t.open.end != "" && t.open.end <= e.lsn {
		t.open = nil // a snapshot ended it before
	}
	if e.op == mssqlcdc.Read {
		t.read(e)
		return
	}
	known := e.before
	if e.op == mssqlcdc.Delete {
		known = e.values
	}
	t.correct(e, known)
	t.close(e.lsn, e.at)
	if e.op == mssqlcdc.Delete {
		return
	}
	t.begin(&image{values: e.values, start: e.lsn, seq: e.seq, op: e.made, from: e.at})
}

// read is a row of a snapshot.
func (t *timeline) read(e event) {
	if t.touched() >= e.lsn || t.open != nil && sameRow(t.open, e.values) {
		return
	}
	at := t.timeOf(e.lsn, e.at)
	t.close(e.lsn, at)
	t.begin(&image{values: e.values, start: e.lsn, op: mssqlcdc.Read, from: at})
}

// touched is the LSN of the newest thing that is known of the key.
func (t *timeline) touched() string {
	newest := ""
	for _, i := range t.images {
		if !i.dropped {
			newest = max(newest, i.start)
			if i != t.open {
				newest = max(newest, i.end)
			}
		}
	}
	return newest
}

// revive takes back the end that a complete snapshot made of a key that it did not have:
// a change after it says that the key was there, and was gone when the snapshot came to it.
func (t *timeline) revive(e event, before row) bool {
	n := len(t.images)
	if t.open != nil || n == 0 || before.rec == nil || e.op == mssqlcdc.Insert {
		return false
	}
	last := t.images[n-1]
	at, isSnapshot := t.times[last.end]
	if last.dropped || !isSnapshot || !t.gapless(at, e.at) {
		return false
	}
	if sameBefore(last, before) {
		last.end, last.to, last.dirty = "", moment{}, true
		t.open = last
		return true
	}
	t.begin(&image{values: before, large: e.largeRow(last), start: last.end, op: mssqlcdc.Read, from: last.to})
	return true
}

// correct makes the last image what it was until the change.
func (t *timeline) correct(e event, before row) {
	if t.revive(e, before) {
		return
	}
	if s := t.boundary(e); s != "" {
		t.bridge(e, before, s)
		return
	}
	if t.open == nil || t.open.op != mssqlcdc.Read || !t.gapless(t.open.from, e.at) {
		return
	}
	switch {
	case e.op == mssqlcdc.Insert:
		t.open.dropped, t.open.dirty = true, true
		t.open = nil
	case before.rec != nil && !sameBefore(t.open, before):
		t.open.large, t.open.values = e.largeRow(t.open), before
		t.open.dirty = true
	}
}

// bridge corrects what a snapshot at s would have said, had its row come before the change.
func (t *timeline) bridge(e event, before row, s string) {
	at := t.timeOf(s, e.at)
	switch {
	case e.op == mssqlcdc.Insert:
		t.close(s, at)
	case before.rec == nil || t.open != nil && sameBefore(t.open, before):
	default:
		large := e.largeRow(t.open)
		t.close(s, at)
		t.begin(&image{values: before, large: large, start: s, op: mssqlcdc.Read, from: at})
	}
}

// largeRow is where large values are that the image before the change leaves out: an
// update did not touch them, so the image after it has them.
func (e event) largeRow(open *image) row {
	switch {
	case e.op == mssqlcdc.UpdateAfter:
		return e.values
	case open != nil:
		return open.largeRow()
	}
	return row{}
}

// boundary is the newest snapshot between what is known of the key and a change, "" if
// there is none.
func (t *timeline) boundary(change event) string {
	touched, found := t.touched(), ""
	for s, at := range t.times {
		if touched < s && s < change.lsn && t.gapless(at, change.at) {
			found = max(found, s)
		}
	}
	return found
}

// timeOf is the time of a snapshot, but not after that of a change that follows it.
func (t *timeline) timeOf(snapshot string, limit moment) moment {
	at := t.times[snapshot]
	if !at.known || at.after(limit) {
		return limit
	}
	return at
}

// close ends the open image, if there is one.
func (t *timeline) close(lsn string, at moment) {
	i := t.open
	t.open = nil
	if i == nil || i.end == lsn && i.to == at {
		return
	}
	i.end, i.to, i.dirty = lsn, at, true
	if i.op == mssqlcdc.Read && i.from.after(at) {
		i.from = at // the snapshot's own time is not known exactly
	}
}

func (t *timeline) begin(i *image) {
	i.dirty = true
	t.images = append(t.images, i)
	t.open = i
}

// outcome are the images to write and those to take out of the table.
func (t *timeline) outcome(again []*image) (write, remove []*image) {
	have := map[[2]string]bool{}
	for _, i := range t.images {
		switch {
		case !i.dropped:
			have[[2]string{i.start, i.seq}] = true
			if i.dirty {
				write = append(write, i)
			}
		case i.stored:
			remove = append(remove, i)
		}
	}
	for _, i := range again {
		if !have[[2]string{i.start, i.seq}] {
			remove = append(remove, i)
		}
	}
	return write, slices.DeleteFunc(remove, func(i *image) bool { return have[[2]string{i.start, i.seq}] })
}
