package merge

import (
	"bytes"
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
)

// hit is a live row of a file whose key the source has.
type hit struct {
	row   int64
	entry int32
	// outdated says that the source's row is not newer than this one.
	outdated bool
}

// scanned is what was found in a file.
type scanned struct {
	add  action.Add
	rows int64 // deleted ones included
	old  *dv.Rows
	// hits are by row, ascending. ranged are rows to delete that are in a range and not in
	// the source.
	hits   []hit
	ranged *dv.Rows
}

// scanner looks for a source's keys in the files of one snapshot.
type scanner struct {
	t       *delta.Table
	s       *delta.Snapshot
	src     *source
	filter  *filter
	columns []string // keys, then versions
}

func newScanner(t *delta.Table, s *delta.Snapshot, src *source) *scanner {
	return &scanner{
		t: t, s: s, src: src,
		filter:  newFilter(s, src.keys, src.index, src.order, src.ranges),
		columns: append(namesOf(src.keys), namesOf(src.versions)...),
	}
}

// input is what to read of a file, whose old deletion vector is read here.
func (sc *scanner) input(ctx context.Context, add action.Add) (in data.Input, old *dv.Rows, err error) {
	path, err := sc.t.StorePath(add.Path)
	if err != nil {
		return in, nil, err
	}
	in = data.Input{Path: path, Size: add.Size, PartitionValues: add.PartitionValues, Mapping: sc.s.Mapping()}
	if add.DeletionVector == nil {
		return in, &dv.Rows{}, nil
	}
	at, err := add.DeletionVector.Path()
	if err == nil && at != "" {
		at, err = sc.t.StorePath(at)
	}
	if err != nil {
		return in, nil, err
	}
	if old, err = dv.Read(ctx, sc.t.Store(), *add.DeletionVector, at); err != nil {
		return in, nil, fmt.Errorf("reading data file %s: %w", path, err)
	}
	return in, old, nil
}

// scan looks through one file.
func (sc *scanner) scan(ctx context.Context, add action.Add) (*scanned, error) {
	in, old, err := sc.input(ctx, add)
	if err != nil {
		return nil, err
	}
	f := &fileScan{scanner: sc, out: &scanned{add: add, old: old},
		keys: newKeyReader(sc.src.index.kinds), versions: newKeyReader(sc.src.versionKinds)}
	in.Skip = func(first int64, group *metadata.RowGroupMetaData) bool {
		skip := !sc.filter.keepsGroup(add, group)
		if f.next = first; skip {
			f.next += group.NumRows()
		}
		return skip
	}
	for rec, err := range data.ReadFile(ctx, sc.t.Store(), sc.s.Schema(), in, sc.columns) {
		if err == nil {
			err = f.batch(rec)
		}
		if err != nil {
			return nil, fmt.Errorf("looking for keys: %w", err)
		}
	}
	f.out.rows = f.next
	if last := old.Last(); last >= f.next {
		return nil, fmt.Errorf("looking for keys: data file %s has %d rows, and its deletion vector deletes row %d", in.Path, f.next, last)
	}
	if f.out.ranged, err = f.ranged.Rows(); err != nil {
		return nil, err
	}
	return f.out, nil
}

// fileScan is the scan of one file.
type fileScan struct {
	*scanner
	out    *scanned
	next   int64 // the row after the last one seen
	ranged dv.Builder

	keys, versions *keyReader
	versionsLoaded bool
	rec            arrow.RecordBatch
	key, version   []byte
	live           []byte // bitmap of the batch's rows; nil if all are
}

// batch looks through the next rows of the file.
func (f *fileScan) batch(rec arrow.RecordBatch) error {
	n := int(rec.NumRows())
	keyColumns := len(f.src.keys)
	if err := f.keys.load(rec.Columns()[:keyColumns]); err != nil {
		return err
	}
	f.rec, f.versionsLoaded, f.live = rec, false, nil
	if f.out.old.Len() > 0 {
		keep := bytes.Repeat([]byte{0xff}, (n+7)/8)
		if f.out.old.Clear(keep, f.next, n) > 0 {
			f.live = keep
		}
	}
	var err error
	switch {
	case len(f.src.ranges.all) > 0:
		err = f.ranges(n)
	case f.src.index.single:
		err = f.singles(n)
	default:
		err = f.lookUp(n)
	}
	f.next += int64(n)
	return err
}

func (f *fileScan) isLive(i int) bool { return f.live == nil || f.live[i/8]>>(i%8)&1 == 1 }

// singles looks for keys of a single column of integers or floats.
func (f *fileScan) singles(n int) error {
	x, column := f.src.index, &f.keys.values[0]
	for i, num := range column.fixed[:n] {
		entry := x.findNum(num)
		if column.valid != nil && column.isNull(i) {
			entry = x.null
		}
		if entry >= 0 && f.isLive(i) {
			if err := f.hit(i, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookUp looks for keys of any form.
func (f *fileScan) lookUp(n int) error {
	for i := range n {
		f.key = f.keys.append(f.key[:0], i)
		if entry := f.src.index.find(f.key); entry >= 0 && f.isLive(i) {
			if err := f.hit(i, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// ranges looks for keys and for rows of ranges.
func (f *fileScan) ranges(n int) error {
	x := f.src.index
	var failed error
	for i := range n {
		if !f.isLive(i) {
			continue
		}
		f.key = f.keys.append(f.key[:0], i)
		entry := int32(-1)
		switch {
		case !x.single:
			entry = x.find(f.key)
		case f.key[0] == tagNull:
			entry = x.null
		default:
			entry = x.findNum(f.keys.values[0].fixed[i])
		}
		if entry >= 0 {
			if err := f.hit(i, entry); err != nil {
				return err
			}
			continue
		}
		r := f.src.ranges.find(f.key, func() []byte {
			version, err := f.versionOf(i)
			if err != nil {
				failed = err
			}
			return version
		})
		if failed != nil {
			return failed
		}
		if r != nil {
			f.ranged.Add(f.next + int64(i))
		}
	}
	return nil
}

func (f *fileScan) hit(i int, entry int32) error {
	h := hit{row: f.next + int64(i), entry: entry}
	if len(f.src.versions) > 0 {
		version, err := f.versionOf(i)
		if err != nil {
			return err
		}
		h.outdated = !f.src.newer(entry, version)
	}
	f.out.hits = append(f.out.hits, h)
	return nil
}

// versionOf is the encoded version of a row of the batch, until the next call.
func (f *fileScan) versionOf(i int) ([]byte, error) {
	if !f.versionsLoaded {
		if err := f.versions.load(f.rec.Columns()[len(f.src.keys):]); err != nil {
			return nil, err
		}
		f.versionsLoaded = true
	}
	f.version = f.versions.append(f.version[:0], i)
	return f.version, nil
}
