package maintain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// The defaults of [OptimizeOptions].
const (
	DefaultTargetBytes  = 128 << 20
	DefaultDeletedRatio = 0.05

	// commitBytes is how much is rewritten before it is committed.
	commitBytes = 1 << 30
	// maxConflicts is how often in a row other writers may delete what is being
	// rewritten.
	maxConflicts = 5
	// discardTime bounds the deletion of files that were written in vain.
	discardTime = 5 * time.Second
)

// ErrBusy reports that other writers removed again and again what was being
// rewritten. Nothing is wrong with the table.
var ErrBusy = errors.New("other writers keep removing what is being rewritten: try again when the table is quieter")

// OptimizeOptions are the choices of [Optimize]. The zero value is a good one.
type OptimizeOptions struct {
	// TargetBytes is the size of the files to make; 0 is the table's property
	// delta.targetFileSize, or 128 MB without it.
	TargetBytes int64
	// SmallBytes is the size below which files are packed; 0 is three quarters of
	// TargetBytes.
	SmallBytes int64
	// MinFiles is how many small files a partition must have for them to be packed;
	// 0 is 2.
	MinFiles int
	// DeletedRatio is the share of deleted rows above which a file with a deletion
	// vector is rewritten; 0 is 0.05.
	DeletedRatio float64
	// MaxBytes ends the work when that much was rewritten; 0 is no bound.
	MaxBytes int64
	// Writer are the choices for the new files. Their size is TargetBytes.
	Writer data.WriterOptions
	// DryRun only tells what there is to do.
	DryRun bool

	tiered, auto bool // see Auto
	maxPlanned   int
}

// OptimizeResult is what [Optimize] did, or what it would do.
type OptimizeResult struct {
	// Version is the last one committed, -1 for none.
	Version int64 `json:"version"`
	Commits int   `json:"commits"`
	// Bins are groups of files that became one.
	Bins         int   `json:"bins"`
	FilesRemoved int64 `json:"filesRemoved"`
	// FilesAdded and BytesAdded are estimates in a dry run.
	FilesAdded   int64 `json:"filesAdded"`
	BytesRemoved int64 `json:"bytesRemoved"`
	BytesAdded   int64 `json:"bytesAdded"`
	// VectorsRemoved counts deletion vectors that are gone with their rows.
	VectorsRemoved int64 `json:"deletionVectorsRemoved"`
	// Conflicts counts the bins that were rewritten in vain, since another writer
	// had removed one of their files.
	Conflicts int           `json:"conflicts"`
	Took      time.Duration `json:"-"`
}

// Optimize packs small files of each partition into files of about TargetBytes.
// Rows stay in the order in which they came into the table. It runs beside other
// writers: appends do not matter to it, and where somebody removes a file that is
// being rewritten, that part of the work is given up and planned again. Memory is
// bounded by the row groups written and read. ErrBusy is that this never succeeded.
//
// On an error the result tells what was committed before it.
func Optimize(ctx context.Context, t *delta.Table, o OptimizeOptions) (OptimizeResult, error) {
	begun := time.Now()
	r := &optimizer{t: t, o: o, result: OptimizeResult{Version: -1}}
	err := r.run(ctx)
	r.result.Took = time.Since(begun)
	if err != nil {
		return r.result, fmt.Errorf("optimizing table %s: %w", t.Store().URL(), err)
	}
	return r.result, nil
}

// optimizer is one call of Optimize.
type optimizer struct {
	t *delta.Table
	o OptimizeOptions
	// rewritten counts bytes read.
	rewritten int64
	result    OptimizeResult
}

func (r *optimizer) run(ctx context.Context) error {
	if err := r.t.CheckWritable(); err != nil && !r.o.DryRun {
		return err
	}
	for conflicts := 0; conflicts < maxConflicts; {
		before := r.result
		more, err := r.round(ctx)
		if err != nil || !more {
			return err
		}
		if r.result.Conflicts > before.Conflicts && r.result.Commits == before.Commits {
			conflicts++
		}
	}
	return ErrBusy
}

// round plans and does it. It tells whether there may be more to do.
func (r *optimizer) round(ctx context.Context) (more bool, err error) {
	s, err := r.t.Refresh(ctx)
	if err != nil {
		return false, err
	}
	o, err := r.o.withDefaults(s)
	if err != nil {
		return false, err
	}
	p, err := makePlan(ctx, s, o)
	if err != nil {
		return false, err
	}
	if o.DryRun {
		r.result.expect(p.bins)
		return false, nil
	}
	before, pending := r.result, group{}
	defer func() { err = errors.Join(err, r.discard(ctx, pending.bins...)) }()
	for _, b := range p.bins {
		if o.MaxBytes > 0 && r.rewritten >= o.MaxBytes {
			break
		}
		if err := r.rewrite(ctx, s, o, b); err != nil {
			return false, err
		}
		r.rewritten += b.bytes
		if len(b.adds) >= len(b.files) && b.vectors() == 0 { // nothing gained
			if err := r.discard(ctx, b); err != nil {
				return false, err
			}
			continue
		}
		pending.bins = append(pending.bins, b)
		if pending.bytes += b.bytes; pending.bytes >= commitBytes {
			if err := r.commit(ctx, s, &pending); err != nil {
				return false, err
			}
		}
	}
	if err := r.commit(ctx, s, &pending); err != nil {
		return false, err
	}
	done := o.MaxBytes > 0 && r.rewritten >= o.MaxBytes
	return !done && (r.result.Conflicts > before.Conflicts || p.partial && r.result.Commits > before.Commits), nil
}

// withDefaults fills in what the table says.
func (o OptimizeOptions) withDefaults(s *delta.Snapshot) (OptimizeOptions, error) {
	if o.TargetBytes <= 0 {
		o.TargetBytes = DefaultTargetBytes
		if text, ok := s.Property(delta.PropTargetFileSize); ok {
			size, err := ParseBytes(text)
			if err != nil {
				return o, fmt.Errorf("reading table property %s: %w", delta.PropTargetFileSize, err)
			}
			o.TargetBytes = size
		}
	}
	if o.SmallBytes <= 0 {
		o.SmallBytes = o.TargetBytes / 4 * 3
	}
	o.SmallBytes = min(o.SmallBytes, o.TargetBytes)
	o.MinFiles = max(2, o.MinFiles)
	if o.DeletedRatio <= 0 {
		o.DeletedRatio = DefaultDeletedRatio
	}
	if o.maxPlanned <= 0 {
		o.maxPlanned = maxPlanned
	}
	return o, nil
}

// ParseBytes reads a size as engines write it into table properties: a number of
// bytes, or one with a unit of powers of 1024 such as "128mb".
func ParseBytes(text string) (int64, error) {
	lower := strings.ToLower(strings.TrimSpace(text))
	digits := strings.TrimRight(lower, "abcdefghijklmnopqrstuvwxyz ")
	unit := strings.TrimSpace(lower[len(digits):])
	n, err := strconv.ParseInt(digits, 10, 64)
	shift := 0
	if unit != "" && unit != "b" {
		shift = 10 * (1 + slices.Index([]string{"k", "m", "g", "t"}, strings.TrimSuffix(unit, "b")))
		if shift == 0 {
			err = errors.New("unknown unit")
		}
	}
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is no size: want a number of bytes, or one like 128mb", text)
	}
	return n << shift, nil
}

// expect fills in what a plan will come to.
func (r *OptimizeResult) expect(bins []*bin) {
	r.Bins = len(bins)
	for _, b := range bins {
		r.FilesRemoved += int64(len(b.files))
		r.FilesAdded++
		r.BytesRemoved += b.bytes
		r.BytesAdded += b.bytes
		r.VectorsRemoved += b.vectors()
	}
}

// group is bins that are rewritten and not committed yet.
type group struct {
	bins  []*bin
	bytes int64
}

// commit commits a group, but for bins of which another writer has removed a file:
// those are given up. It empties the group, unless its files must be deleted.
func (r *optimizer) commit(ctx context.Context, s *delta.Snapshot, g *group) error {
	for tries := 0; len(g.bins) > 0; tries++ {
		now, err := r.keepValid(ctx, s, g)
		if err != nil || len(g.bins) == 0 {
			return err
		}
		change := r.change(g.bins, now)
		done, err := r.t.Commit(ctx, change)
		var conflict *delta.ConflictError
		switch {
		case err == nil:
			r.count(g.bins, change, done.Version)
			*g = group{}
			return nil
		case errors.Is(err, delta.ErrUnknownOutcome):
			*g = group{} // the files may belong to the table
			return err
		case !errors.As(err, &conflict) || tries >= maxConflicts:
			return err
		}
		// Which bins it is about is looked up in the commit that came first.
	}
	return nil
}

// keepValid gives up the bins that the commits since the plan do not let be. It
// returns the snapshot at which the others can be committed, so that the commit
// itself has little to compare.
func (r *optimizer) keepValid(ctx context.Context, s *delta.Snapshot, g *group) (*delta.Snapshot, error) {
	now, err := r.t.Refresh(ctx)
	if err != nil {
		return nil, err
	}
	var lost []*bin
	if !schema.Equal(s.Schema(), now.Schema()) || !slices.Equal(s.PartitionColumns(), now.PartitionColumns()) {
		lost, g.bins = g.bins, nil
	}
	removed := map[string]bool{}
	for e, err := range replay.Commits(ctx, r.t.Store(), s.Version()+1, now.Version()) {
		if err != nil {
			return nil, fmt.Errorf("looking for conflicts since version %d: %w", s.Version(), err)
		}
		for _, rm := range e.Commit.Removes {
			removed[action.CanonicalPath(rm.Path)] = true
		}
	}
	var kept []*bin
	for _, b := range g.bins {
		if slices.ContainsFunc(b.files, func(f file) bool { return removed[action.CanonicalPath(f.add.Path)] }) {
			lost = append(lost, b)
		} else {
			kept = append(kept, b)
		}
	}
	g.bins = kept
	r.result.Conflicts += len(lost)
	return now, r.discard(ctx, lost...)
}

// change is the commit of bins onto a snapshot.
func (r *optimizer) change(bins []*bin, s *delta.Snapshot) delta.Change {
	c := delta.Change{
		Operation: delta.OpOptimize,
		OperationParameters: map[string]string{
			"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": strconv.FormatBool(r.o.auto),
		},
		ReadVersion: s.Version(),
	}
	m := map[string]int64{}
	var sizes []int64
	now := r.t.Now().UnixMilli()
	for _, b := range bins {
		for _, f := range b.files {
			c.Remove = append(c.Remove, f.add.Remove(now, false))
			m["numRemovedBytes"] += f.add.Size
		}
		for _, a := range b.adds {
			c.Add = append(c.Add, a)
			m["numAddedBytes"] += a.Size
			sizes = append(sizes, a.Size)
		}
		m["numDeletionVectorsRemoved"] += b.vectors()
	}
	m["numRemovedFiles"], m["numAddedFiles"] = int64(len(c.Remove)), int64(len(c.Add))
	if n := len(sizes); n > 0 {
		slices.Sort(sizes)
		m["minFileSize"], m["maxFileSize"] = sizes[0], sizes[n-1]
		m["p25FileSize"], m["p50FileSize"], m["p75FileSize"] = sizes[n/4], sizes[n/2], sizes[n*3/4]
	}
	c.Metrics = m
	return c
}

func (r *optimizer) count(bins []*bin, c delta.Change, version int64) {
	r.result.Version = version
	r.result.Commits++
	r.result.Bins += len(bins)
	r.result.FilesRemoved += c.Metrics["numRemovedFiles"]
	r.result.FilesAdded += c.Metrics["numAddedFiles"]
	r.result.BytesRemoved += c.Metrics["numRemovedBytes"]
	r.result.BytesAdded += c.Metrics["numAddedBytes"]
	r.result.VectorsRemoved += c.Metrics["numDeletionVectorsRemoved"]
}

// discard deletes the files that were written for bins, also where the context has
// ended. The bins forget them.
func (r *optimizer) discard(ctx context.Context, bins ...*bin) error {
	var adds []action.Add
	for _, b := range bins {
		adds = append(adds, b.adds...)
		b.adds = nil
	}
	if len(adds) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	return r.t.Discard(ctx, adds)
}
