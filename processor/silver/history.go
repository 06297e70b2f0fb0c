package silver

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
)

// history keeps every image of each key.
//
// Of bronze only new rows are read, and, the first time that a snapshot shows, the changes
// after it. What came before is in the table: the images of the keys at hand that were
// valid at the LSN from which on changes are applied, or after it. So a slice that comes
// again gives the same images, and takes the place of what it wrote the first time.
type history struct {
	*call
	befores bool // bronze has images before updates
}

func (m *history) from() string { return min(m.plan.base, m.plan.since) }

func (m *history) wants(c *changes, row int) bool {
	op := c.op(row)
	m.befores = m.befores || op == mssqlcdc.UpdateBefore
	if op == mssqlcdc.Read {
		return m.plan.isNew(c, row)
	}
	return c.start.Value(row) > m.plan.since
}

// moved are the rows of one pile, and the places of each key's.
type moved struct {
	batches   []arrow.RecordBatch // of bronze
	projected []arrow.RecordBatch // the same by the names of the table
	changes   []*changes
	keys      map[string][]place
	first     [][]int64 // the first row of each key, by batch
	lowest    string    // lowest S of rows of snapshots, "" if there are none
}

func (p *moved) release() {
	release(p.batches)
	release(p.projected)
}

func (m *history) pile(ctx context.Context, rows iter.Seq2[arrow.RecordBatch, error], last bool) (err error) {
	p := &moved{keys: map[string][]place{}}
	defer p.release()
	if err := m.gather(p, rows); err != nil || len(p.keys) == 0 {
		return err
	}
	stored, batches, err := m.stored(ctx, p)
	defer func() { release(batches) }()
	if err != nil {
		return err
	}
	w := &writer{history: m, source: &merge.Source{}}
	defer w.clear()
	snapshots, gaps := m.snapshots(), m.gaps()
	for key, places := range p.keys {
		timeline, again := newTimeline(stored[key], m.events(p, places), m.plan.since, snapshots, gaps)
		write, remove := timeline.outcome(again)
		w.write = append(w.write, write...)
		w.remove = append(w.remove, remove...)
	}
	return w.flush(ctx, last)
}

// gather reads a pile.
func (m *history) gather(p *moved, rows iter.Seq2[arrow.RecordBatch, error]) error {
	var key []byte
	for rec, err := range rows {
		if err != nil {
			return err
		}
		rec.Retain()
		b := len(p.batches)
		p.batches = append(p.batches, rec)
		p.projected = append(p.projected, m.layout.project(rec, nil, nil))
		changes, err := newChanges(rec)
		if err != nil {
			return err
		}
		keys, err := newKeyReader(rec, m.layout.bronze)
		if err != nil {
			return err
		}
		p.changes, p.first = append(p.changes, changes), append(p.first, nil)
		m.result.Rows += rec.NumRows()
		for row := range int(rec.NumRows()) {
			key = keys.of(key[:0], row)
			places, ok := p.keys[string(key)]
			if !ok {
				p.first[b] = append(p.first[b], int64(row))
			}
			p.keys[string(key)] = append(places, place{b, row})
			if changes.op(row) != mssqlcdc.Read {
				continue
			}
			if s := changes.snapshotOf(row); p.lowest == "" || s < p.lowest {
				p.lowest = strings.Clone(s)
			}
		}
	}
	return nil
}

// snapshots are those that are known, and when they were read.
func (m *history) snapshots() map[string]moment {
	out := map[string]moment{}
	for _, s := range []mssqlcdc.LSN{m.plan.before.snapshot, m.plan.before.open, m.plan.after.snapshot, m.plan.after.open} {
		if !s.IsZero() {
			out[s.String()] = moment{}
		}
	}
	for s, micros := range m.plan.times {
		out[s] = moment{micros, true}
	}
	return out
}

func (m *history) gaps() []stretch {
	var out []stretch
	for _, g := range m.source.Gaps {
		out = append(out, stretch{g.From.UnixMicro(), g.To.UnixMicro()})
	}
	return out
}

// events are the rows of one key in the order in which they happened; a row of a snapshot
// at its S, behind the changes up to there.
func (m *history) events(p *moved, places []place) []event {
	lsn := func(at place) string {
		c := p.changes[at.batch]
		if c.op(at.row) == mssqlcdc.Read {
			return c.snapshotOf(at.row)
		}
		return c.start.Value(at.row)
	}
	slices.SortFunc(places, func(a, b place) int {
		aRead, bRead := p.changes[a.batch].op(a.row) == mssqlcdc.Read, p.changes[b.batch].op(b.row) == mssqlcdc.Read
		r := strings.Compare(lsn(a), lsn(b))
		switch {
		case r != 0:
			return r
		case aRead != bRead && aRead:
			return 1
		case aRead != bRead:
			return -1
		}
		return p.changes[a.batch].compare(a.row, p.changes[b.batch], b.row)
	})
	var events []event
	var before *place
	for n, at := range places {
		c := p.changes[at.batch]
		e := event{
			op: c.op(at.row), made: c.op(at.row), lsn: strings.Clone(lsn(at)), seq: strings.Clone(text(c.seq, at.row)), at: momentOf(c.at, at.row),
			values: m.rowOf(p, at),
		}
		switch e.op {
		case mssqlcdc.UpdateBefore:
			if n+1 < len(places) && m.samePair(p, at, places[n+1]) {
				before = &places[n]
				continue
			}
			e.op = mssqlcdc.Delete // the update has moved the row to another key
		case mssqlcdc.UpdateAfter:
			switch {
			case before != nil:
				e.before = m.rowOf(p, *before)
			case m.befores: // the update has moved the row here from another key
				e.op = mssqlcdc.Insert
			}
		}
		before = nil
		events = append(events, e)
	}
	return events
}

func (m *history) rowOf(p *moved, at place) row {
	return row{rec: p.projected[at.batch], at: at.row, layout: m.layout}
}

// samePair tells whether two rows are those before and after one update.
func (m *history) samePair(p *moved, a, b place) bool {
	before, after := p.changes[a.batch], p.changes[b.batch]
	return after.op(b.row) == mssqlcdc.UpdateAfter && before.start.Value(a.row) == after.start.Value(b.row) &&
		text(before.seq, a.row) == text(after.seq, b.row) && before.commandOf(a.row) == after.commandOf(b.row)
}

func momentOf(a *array.Timestamp, row int) moment {
	if a.IsNull(row) {
		return moment{}
	}
	return moment{int64(a.Value(row)), true}
}

// stored are the images in the table, of the keys of a pile, that were valid after the
// last change applied, or after the lowest snapshot of the pile. They refer to the batches.
func (m *history) stored(ctx context.Context, p *moved) (images map[string][]*image, batches []arrow.RecordBatch, err error) {
	images = map[string][]*image{}
	s := m.target.Snapshot()
	if s.NumFiles() == 0 {
		return images, nil, nil
	}
	var wanted []arrow.RecordBatch
	defer func() { release(wanted) }()
	for b, rows := range p.first {
		if len(rows) == 0 {
			continue
		}
		part, err := take(ctx, p.projected[b], rows)
		if err != nil {
			return nil, nil, err
		}
		wanted = append(wanted, part)
	}
	since := m.plan.since
	if p.lowest != "" {
		since = min(since, p.lowest)
	}
	l := &lookup{history: m, images: images}
	err = l.find(ctx, wanted, prune.Condition{Column: ColEndLSN, Op: prune.IsNull}, func(end string) bool { return end == "" })
	if err == nil {
		err = l.find(ctx, wanted, condition(ColEndLSN, prune.GreaterOrEqual, since), func(end string) bool { return end != "" && end >= since })
	}
	if ended := lsnText(m.plan.before.snapshot); err == nil && ended != "" && ended < since {
		err = l.findEnded(ctx, p, ended)
	}
	return images, l.batches, err
}

// lookup gathers images of the table by key.
type lookup struct {
	*history
	images  map[string][]*image
	batches []arrow.RecordBatch // that the images refer to
}

// findEnded looks for images that the last snapshot ended, of keys that have none now but
// were there before their first change.
func (l *lookup) findEnded(ctx context.Context, p *moved, ended string) error {
	rows := make([][]int64, len(p.batches))
	for key, places := range p.keys {
		first := slices.MinFunc(places, func(a, b place) int { return p.changes[a.batch].compare(a.row, p.changes[b.batch], b.row) })
		op := p.changes[first.batch].op(first.row)
		if len(l.images[key]) == 0 && (op == mssqlcdc.Delete || op == mssqlcdc.UpdateBefore) {
			rows[first.batch] = append(rows[first.batch], int64(first.row))
		}
	}
	var wanted []arrow.RecordBatch
	defer func() { release(wanted) }()
	for b, some := range rows {
		if len(some) == 0 {
			continue
		}
		part, err := take(ctx, p.projected[b], some)
		if err != nil {
			return err
		}
		wanted = append(wanted, part)
	}
	if len(wanted) == 0 {
		return nil
	}
	return l.find(ctx, wanted, condition(ColEndLSN, prune.Equal, ended), func(end string) bool { return end == ended })
}

// find takes the images of some keys that end as asked for.
func (l *lookup) find(ctx context.Context, wanted []arrow.RecordBatch, c prune.Condition, ends func(end string) bool) error {
	options := merge.LookupOptions{Keys: l.layout.keys, Prune: []prune.Condition{c}}
	for rec, err := range merge.Lookup(ctx, l.target, l.target.Snapshot(), wanted, options) {
		if err != nil {
			return err
		}
		rec.Retain()
		l.batches = append(l.batches, rec)
		if err := l.takeImages(rec, ends); err != nil {
			return err
		}
	}
	return nil
}

func (l *lookup) takeImages(rec arrow.RecordBatch, ends func(end string) bool) error {
	m, images := l.history, l.images
	keys, err := newKeyReader(rec, m.layout.keys)
	if err != nil {
		return err
	}
	o, err := newOwn(rec)
	if err != nil {
		return &ConfigError{Target: m.cfg.TargetName, Reason: err.Error()}
	}
	for at := range int(rec.NumRows()) {
		if !ends(text(o.end, at)) {
			continue
		}
		key := string(keys.of(nil, at))
		images[key] = append(images[key], o.image(row{rec: rec, at: at, layout: m.layout}))
	}
	return nil
}

// own are the columns of a history table beside the captured ones.
type own struct {
	start, seq, end *array.String
	operation       *array.Int32
	from, to        *array.Timestamp
}

func newOwn(rec arrow.RecordBatch) (*own, error) {
	o := &own{}
	ok := [6]bool{}
	o.start, ok[0] = named[*array.String](rec, mssqlcdc.ColStartLSN, true)
	o.seq, ok[1] = named[*array.String](rec, mssqlcdc.ColSeqVal, true)
	o.end, ok[2] = named[*array.String](rec, ColEndLSN, true)
	o.operation, ok[3] = named[*array.Int32](rec, mssqlcdc.ColOperation, true)
	o.from, ok[4] = named[*array.Timestamp](rec, ColValidFrom, true)
	o.to, ok[5] = named[*array.Timestamp](rec, ColValidTo, true)
	if ok != [6]bool{true, true, true, true, true, true} {
		return nil, errors.New("its own columns are of other types than apply_changes makes them")
	}
	return o, nil
}

func (o *own) image(r row) *image {
	at := r.at
	return &image{
		values: r, start: strings.Clone(text(o.start, at)), seq: strings.Clone(text(o.seq, at)), end: strings.Clone(text(o.end, at)),
		op: mssqlcdc.Operation(o.operation.Value(at)), from: momentOf(o.from, at), to: momentOf(o.to, at), stored: true,
	}
}
