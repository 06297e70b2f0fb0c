package data

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// openFile is a data file being written to the store.
type openFile struct {
	*parquetFile
	object store.Writer
	path   string
	key    string // of the partition
	values map[string]*string
}

// file is the open file of a group's partition; it becomes the one written to last.
func (w *Writer) file(g group) (*openFile, error) {
	i := slices.IndexFunc(w.open, func(f *openFile) bool { return f.key == g.key })
	if i < 0 {
		return w.newFile(g)
	}
	f := w.open[i]
	w.open = append(slices.Delete(w.open, i, i+1), f)
	return f, nil
}

func (w *Writer) newFile(g group) (*openFile, error) {
	if len(w.open) >= w.o.MaxOpenFiles {
		if err := w.finishFile(w.open[0]); err != nil {
			return nil, err
		}
	}
	path := g.directory + w.o.NamePrefix + "-" + w.o.NewID() + "-c000"
	if w.o.Compression != Uncompressed && w.o.Compression != none {
		path += "." + string(w.o.Compression)
	}
	path += ".parquet"
	object, err := w.st.Create(w.ctx, path)
	if err != nil {
		return nil, fmt.Errorf("creating %s: %w", path, err)
	}
	pf, err := newParquetFile(object, w.leaves, w.pq, w.enc)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", path, err), object.Abort())
	}
	f := &openFile{parquetFile: pf, object: object, path: path, key: g.key, values: g.values}
	w.open = append(w.open, f)
	return f, nil
}

// finishFile completes a file and takes it from the open ones.
func (w *Writer) finishFile(f *openFile) error {
	if err := f.finish(); err != nil {
		return fmt.Errorf("writing %s: %w", f.path, err)
	}
	if err := f.object.Close(); err != nil {
		return fmt.Errorf("completing %s: %w", f.path, err)
	}
	totals := make([]*bounds, len(f.columns))
	for i, c := range f.columns {
		totals[i] = &c.total
	}
	w.finished = append(w.finished, File{
		Path:            f.path,
		Size:            f.sink.Tell(),
		PartitionValues: f.values,
		Stats:           statsText(w.stats, w.leaves, totals, f.rows),
		NumRecords:      f.rows,
		ModTime:         w.o.Now(),
	})
	w.open = slices.DeleteFunc(w.open, func(o *openFile) bool { return o == f })
	return nil
}
