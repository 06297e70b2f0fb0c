package merge

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
)

// work is what becomes of one file that loses rows.
type work struct {
	file *scanned
	// hits are the rows that go, but for those of ranges, which all do.
	hits []hit
	// replaced are those of them in whose place a row is written, in this file.
	replaced []hit
	// gone are all rows that are deleted when this is done, those that were before included.
	gone *dv.Rows
	how  how
}

// how is what is done with a file.
type how int

const (
	remove  how = iota // no row is left
	rewrite            // the rows that are left are written anew
	mark               // a deletion vector tells which are left
)

// same reports whether two works have the same result.
func (w *work) same(o *work) bool {
	return w.file == o.file && slices.Equal(w.hits, o.hits) && slices.Equal(w.replaced, o.replaced)
}

// plan is what a merge does to one snapshot.
type plan struct {
	works []*work
	// fresh are the entries whose rows go into new files, in the order of their keys.
	fresh []int32
	// kept are files that have rows of the source and stay as they are.
	kept    []*scanned
	metrics Metrics
}

// scanFiles looks through the files that may have keys of the source. The results of those that
// were looked through before are taken from there.
func (m *merger) scanFiles(ctx context.Context, s *delta.Snapshot, sc *scanner) ([]*scanned, error) {
	var candidates []action.Add
	for add, err := range s.Files(ctx) {
		if err != nil {
			return nil, err
		}
		if sc.filter.keeps(add) {
			candidates = append(candidates, add)
		}
	}
	out := make([]*scanned, len(candidates))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(m.o.Parallel)
	for i, add := range candidates {
		if out[i] = m.seen[add.Key()]; out[i] != nil {
			continue
		}
		g.Go(func() (err error) {
			out[i], err = sc.scan(ctx, add)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	m.seen = make(map[action.Key]*scanned, len(out))
	for _, f := range out {
		m.seen[f.add.Key()] = f
	}
	return out, nil
}

// makePlan decides what to do with the files that were looked through.
func (m *merger) makePlan(files []*scanned, partitioned bool) (*plan, error) {
	p := &plan{}
	p.metrics.SourceRows, p.metrics.FilesScanned = int64(m.src.index.len()), int64(len(files))
	matched, outdated := make([]bool, m.src.index.len()), make([]bool, m.src.index.len())
	for _, f := range files {
		for _, h := range f.hits {
			matched[h.entry] = true
			outdated[h.entry] = outdated[h.entry] || h.outdated
		}
	}
	replaced := make([]bool, m.src.index.len())
	for _, f := range files {
		w, err := m.planFile(p, f, outdated, replaced, partitioned)
		if err != nil {
			return nil, err
		}
		if w != nil {
			p.works = append(p.works, w)
		} else if len(f.hits) > 0 {
			p.kept = append(p.kept, f)
		}
	}
	for _, entry := range m.src.order {
		switch {
		case outdated[entry]:
			p.metrics.RowsOutdated++
		case !m.src.isUpsert(entry):
		case !matched[entry]:
			p.metrics.RowsInserted++
			p.fresh = append(p.fresh, entry)
		default:
			p.metrics.RowsUpdated++
			p.metrics.RowsDeleted-- // it was counted with the rows that go
			if !replaced[entry] {
				p.fresh = append(p.fresh, entry)
			}
		}
	}
	return p, nil
}

// planFile decides about one file; nil is that it stays as it is.
func (m *merger) planFile(p *plan, f *scanned, outdated, replaced []bool, partitioned bool) (*work, error) {
	w := &work{file: f}
	var rows dv.Builder
	for _, h := range f.hits {
		if !outdated[h.entry] {
			w.hits = append(w.hits, h)
			rows.Add(h.row)
		}
	}
	gone, err := rows.Rows()
	if err != nil {
		return nil, err
	}
	gone = dv.Union(gone, f.ranged)
	if gone.Len() == 0 {
		return nil, nil
	}
	p.metrics.RowsDeleted += gone.Len()
	p.metrics.RowsDeletedByRange += f.ranged.Len()
	w.gone = dv.Union(f.old, gone)
	w.how = m.howFor(w)
	if w.how != rewrite || partitioned || len(w.hits) == 0 {
		// In a partitioned table the new row may be of another partition than the old one.
		return w, nil
	}
	for _, h := range w.hits {
		if m.src.isUpsert(h.entry) && !replaced[h.entry] {
			replaced[h.entry] = true
			w.replaced = append(w.replaced, h)
		}
	}
	return w, nil
}

func (m *merger) howFor(w *work) how {
	left := w.file.rows - w.gone.Len()
	switch {
	case left == 0:
		return remove
	case m.o.Strategy == CopyOnWrite, float64(w.gone.Len()) >= m.o.PurgeRatio*float64(w.file.rows):
		return rewrite
	default:
		return mark
	}
}

// depends is what the merge has read of the table: files without keys of the source do not
// matter to it, whatever else becomes of them, and neither does it when somebody else deletes
// rows that a range had spared.
func (p *plan) depends(f *filter) *delta.Reads {
	found := map[string]bool{}
	for _, k := range p.kept {
		found[action.CanonicalPath(k.add.Path)] = true
	}
	for _, w := range p.works {
		found[action.CanonicalPath(w.file.add.Path)] = true
	}
	return &delta.Reads{
		Added:   f.keeps,
		Removed: func(r action.Remove) bool { return found[action.CanonicalPath(r.Path)] },
	}
}

// allowed reports why the table does not let rows go, or be replaced, before that is done.
func (p *plan) allowed(s *delta.Snapshot) error {
	if len(p.works) == 0 {
		return nil
	}
	if isTrue(s, delta.PropAppendOnly) {
		return &delta.FeatureError{Name: delta.FeatureAppendOnly, Op: "remove rows from", Why: "the table property " + delta.PropAppendOnly + " is true"}
	}
	onlyRemoves := len(p.fresh) == 0 && !slices.ContainsFunc(p.works, func(w *work) bool { return w.how != remove })
	if isTrue(s, delta.PropChangeDataFeed) && !onlyRemoves {
		return &delta.FeatureError{Name: delta.FeatureChangeDataFeed, Op: "replace rows of",
			Why: fmt.Sprintf("change data files are not written: set the table property %s to false", delta.PropChangeDataFeed)}
	}
	return nil
}
