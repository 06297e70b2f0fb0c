package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

const (
	maxParallel = 8
	// discardTime bounds the deletion of files that were written in vain.
	discardTime = 5 * time.Second
)

// merger is one call of Run.
type merger struct {
	t     *delta.Table
	in    Source
	o     Options
	begun time.Time

	table *schema.Struct // what src, seen and staged are for
	src   *source
	seen  map[action.Key]*scanned
	// staged are all files written and not given up yet; used are those of them that the last
	// plan has.
	staged []*staged
	last   *plan
	adds   []action.Add // of the last change
}

// staged is files that were written and may be used again: of a work or, without one, of new
// rows, or a file of deletion vectors.
type staged struct {
	work  *work
	fresh []int32
	adds  []action.Add
	used  bool
}

func run(ctx context.Context, t *delta.Table, in Source, o Options) (Result, error) {
	m := &merger{t: t, in: in, o: o, begun: time.Now()}
	defer func() {
		if m.src != nil {
			m.src.release()
		}
	}()
	r, err := m.run(ctx)
	r.Metrics.Took = time.Since(m.begun)
	if err != nil {
		return Result{}, fmt.Errorf("merging into table %s: %w", t.Store().URL(), err)
	}
	return r, nil
}

func (m *merger) run(ctx context.Context) (Result, error) {
	if err := m.o.check(); err != nil {
		return Result{}, err
	}
	m.o.setDefaults()
	s, err := m.t.Refresh(ctx)
	if err != nil {
		return Result{}, err
	}
	if err := m.t.CheckWritable(); err != nil {
		return Result{}, err
	}
	if k := m.o.Keyed; k != nil && m.o.ID == "" {
		if have, ok := s.AppVersion(k.AppID); ok && have >= k.Version {
			return Result{Result: delta.Result{Version: s.Version(), State: delta.AlreadyApplied}}, nil
		}
	}
	if m.o.Strategy == DeletionVectors {
		if s, err = enableVectors(ctx, m.t, m.o.EnableDeletionVectors); err != nil {
			return Result{}, err
		}
	}
	change, err := m.compute(ctx, s)
	if err != nil {
		return Result{}, errors.Join(err, m.discard(ctx, allStaged))
	}
	if len(change.Add)+len(change.Remove) == 0 && !m.o.leavesTrace() {
		return Result{Result: delta.Result{Version: s.Version(), State: delta.Committed}, Unchanged: true, Metrics: m.last.metrics}, nil
	}
	return m.commit(ctx, change)
}

func (o *Options) check() error {
	if len(o.Keys) == 0 {
		return errors.New("no key columns are given: rows cannot be told apart")
	}
	switch o.Strategy {
	case "", CopyOnWrite, DeletionVectors:
		return nil
	default:
		return fmt.Errorf("strategy %q is none of %s, %s", o.Strategy, CopyOnWrite, DeletionVectors)
	}
}

func (o *Options) setDefaults() {
	o.Strategy = cmp.Or(o.Strategy, CopyOnWrite)
	if o.PurgeRatio <= 0 {
		o.PurgeRatio = DefaultPurgeRatio
	}
	if o.PurgeRatio >= 1 {
		o.PurgeRatio = 2 // never: a file without rows is removed
	}
	if o.Parallel <= 0 {
		o.Parallel = min(maxParallel, runtime.GOMAXPROCS(0))
	}
}

// leavesTrace reports whether the commit says more than which rows changed.
func (o *Options) leavesTrace() bool {
	return o.ID != "" || o.Fenced != nil || o.Keyed != nil || len(o.Marks) > 0 || o.UserMetadata != ""
}

// compute makes the change from a snapshot. What was found out and written for an earlier
// snapshot is used again where it still fits.
func (m *merger) compute(ctx context.Context, s *delta.Snapshot) (delta.Change, error) {
	if m.src == nil || !schema.Equal(m.table, s.Schema()) {
		if err := m.prepare(ctx, s.Schema()); err != nil {
			return delta.Change{}, err
		}
	}
	scanning := time.Now()
	sc := newScanner(m.t, s, m.src)
	files, err := m.scanFiles(ctx, s, sc)
	if err != nil {
		return delta.Change{}, err
	}
	p, err := m.makePlan(files, len(s.PartitionColumns()) > 0)
	if err != nil {
		return delta.Change{}, err
	}
	if err := p.allowed(s); err != nil {
		return delta.Change{}, err
	}
	p.metrics.ScanTime = time.Since(scanning)
	rewriting := time.Now()
	c, err := m.stage(ctx, s, sc, p)
	if err != nil {
		return delta.Change{}, err
	}
	p.metrics.RewriteTime = time.Since(rewriting)
	m.last, m.adds = p, c.Add
	p.describe(&c, m)
	return c, nil
}

// prepare reads the source for a schema.
func (m *merger) prepare(ctx context.Context, table *schema.Struct) error {
	if m.src != nil {
		m.src.release()
	}
	m.src, m.seen = nil, nil
	if err := m.discard(ctx, allStaged); err != nil {
		return err
	}
	var err error
	m.src, err = newSource(ctx, table, m.in, m.o)
	m.table = table
	return err
}

// stage writes what the plan needs and makes the change of it.
func (m *merger) stage(ctx context.Context, s *delta.Snapshot, sc *scanner, p *plan) (delta.Change, error) {
	c := delta.Change{
		ID: m.o.ID, Operation: delta.OpMerge,
		Fenced: m.o.Fenced, Keyed: m.o.Keyed, Marks: m.o.Marks, UserMetadata: m.o.UserMetadata,
		ReadVersion: s.Version(), Reads: p.depends(sc.filter), Rebase: m.compute,
	}
	for _, st := range m.staged {
		st.used = false
	}
	now := m.t.Now().UnixMilli()
	var marks []*work
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(m.o.Parallel)
	for _, w := range p.works {
		c.Remove = append(c.Remove, w.file.add.Remove(now, true))
		switch w.how {
		case mark:
			marks = append(marks, w)
		case rewrite:
			m.start(g, &staged{work: w}, func(st *staged) (err error) {
				st.adds, err = m.rewriteFile(gctx, sc, w)
				return err
			})
		}
	}
	if len(p.fresh) > 0 {
		m.start(g, &staged{fresh: p.fresh}, func(st *staged) (err error) {
			st.adds, err = m.writeFresh(gctx, p.fresh)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return c, err
	}
	for _, st := range m.staged {
		if st.used {
			c.Add = append(c.Add, st.adds...)
		}
	}
	p.count(&c)
	if len(marks) == 0 {
		return c, nil
	}
	adds, path, err := m.writeVectors(ctx, marks)
	if err != nil {
		return c, err
	}
	// Not a data file, but one to be given up like those.
	m.staged = append(m.staged, &staged{adds: []action.Add{{Path: action.EncodePath(path)}}, used: true})
	c.Add = append(c.Add, adds...)
	return c, nil
}

// start writes files on a goroutine of the group, unless the same were written before.
func (m *merger) start(g *errgroup.Group, st *staged, write func(*staged) error) {
	for _, have := range m.staged {
		if have.same(st) {
			have.used = true
			return
		}
	}
	st.used = true
	m.staged = append(m.staged, st)
	g.Go(func() error { return write(st) })
}

// commit commits the change and deletes the files that are not part of the table.
func (m *merger) commit(ctx context.Context, change delta.Change) (Result, error) {
	done, err := m.t.Commit(ctx, change)
	switch {
	case errors.Is(err, delta.ErrUnknownOutcome):
		// What the last attempt names may be the table's.
		return Result{}, errors.Join(err, m.discard(ctx, unusedStaged))
	case err != nil:
		return Result{}, errors.Join(err, m.discard(ctx, allStaged))
	case done.State == delta.AlreadyApplied:
		return Result{Result: done}, m.discard(ctx, allStaged)
	}
	r := Result{Result: done, Metrics: m.last.metrics}
	if m.o.ID == "" {
		return r, m.discard(ctx, unusedStaged)
	}
	earlier, err := m.landedEarlier(ctx, done.Version, &r.Metrics)
	if err != nil {
		return Result{}, err
	}
	if earlier {
		return r, m.discard(ctx, allStaged)
	}
	return r, m.discard(ctx, unusedStaged)
}

// landedEarlier reports whether the commit is one of the earlier Run that this one repeats; then
// the metrics become those of that.
func (m *merger) landedEarlier(ctx context.Context, version int64, metrics *Metrics) (bool, error) {
	c, err := replay.ReadCommit(ctx, m.t.Store(), version)
	if err != nil {
		return false, fmt.Errorf("reading the commit back: %w", err)
	}
	switch {
	case len(m.adds) > 0:
		// Every file that we add has a name, or a deletion vector, that no earlier attempt had.
		ours := func(a action.Add) bool { return a.Key() == m.adds[0].Key() }
		if slices.ContainsFunc(c.Adds, ours) {
			return false, nil
		}
	case len(m.last.works) > 0 || len(c.Adds)+len(c.Removes) == 0:
		return false, nil // both did the same
	}
	if c.Info != nil {
		*metrics = readMetrics(c.Info.OperationMetrics)
	}
	return true, nil
}

func (s *staged) same(o *staged) bool {
	switch {
	case s.work != nil && o.work != nil:
		return s.work.same(o.work)
	case s.work == nil && o.work == nil && len(s.fresh) > 0:
		return equalEntries(s.fresh, o.fresh)
	}
	return false
}

func allStaged(*staged) bool      { return true }
func unusedStaged(s *staged) bool { return !s.used }

// discard deletes files that are not going to be the table's, also where the context has ended.
func (m *merger) discard(ctx context.Context, which func(*staged) bool) error {
	var adds []action.Add
	kept := m.staged[:0]
	for _, st := range m.staged {
		if which(st) {
			adds = append(adds, st.adds...)
		} else {
			kept = append(kept, st)
		}
	}
	m.staged = kept
	if len(adds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	return m.t.Discard(ctx, adds)
}

func (m *merger) newUUID() [16]byte {
	if m.o.Writer.NewID != nil {
		if id, err := uuid.Parse(m.o.Writer.NewID()); err == nil {
			return id
		}
	}
	return uuid.New()
}
