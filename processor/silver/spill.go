package silver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// maxPiles bounds the files open at a time; each has a buffer of pileBuffer.
const (
	maxPiles   = 256
	pileBuffer = 32 << 10
)

// piles split rows by the hash of their keys: all rows of a key come to the same pile. One
// pile stays in memory; several are files in a folder of their own, in Arrow's IPC format.
type piles struct {
	keys []string
	seed maphash.Seed
	dir  string // "" while nothing is on disk

	kept  []arrow.RecordBatch // of one pile
	files []*pile
	key   []byte
	rows  [][]int64
}

type pile struct {
	file   *os.File
	buffer *bufio.Writer
	writer *ipc.Writer
}

// newPiles makes n piles, several in a new folder under dir. Who has them closes them.
func newPiles(dir string, n int, keys []string, seed maphash.Seed) (*piles, error) {
	p := &piles{keys: keys, seed: seed, files: make([]*pile, n), rows: make([][]int64, n)}
	if n == 1 {
		return p, nil
	}
	var err error
	if p.dir, err = os.MkdirTemp(dir, "rpconnect-apply-"); err != nil {
		return nil, fmt.Errorf("making a folder for rows that do not fit into memory: %w", err)
	}
	return p, nil
}

func (p *piles) len() int { return len(p.files) }

// add takes rows in; the batch stays the caller's.
func (p *piles) add(ctx context.Context, rec arrow.RecordBatch) error {
	if rec.NumRows() == 0 {
		return nil
	}
	if p.len() == 1 {
		rec.Retain()
		p.kept = append(p.kept, rec)
		return nil
	}
	keys, err := newKeyReader(rec, p.keys)
	if err != nil {
		return err
	}
	for i := range p.rows {
		p.rows[i] = p.rows[i][:0]
	}
	for row := range int(rec.NumRows()) {
		p.key = keys.of(p.key[:0], row)
		at := maphash.Bytes(p.seed, p.key) % uint64(p.len())
		p.rows[at] = append(p.rows[at], int64(row))
	}
	for i, rows := range p.rows {
		if len(rows) == 0 {
			continue
		}
		part, err := take(ctx, rec, rows)
		if err != nil {
			return err
		}
		err = p.write(i, part)
		part.Release()
		if err != nil {
			return fmt.Errorf("writing rows that do not fit into memory to %s: %w", p.dir, err)
		}
	}
	return nil
}

func (p *piles) write(i int, rec arrow.RecordBatch) error {
	if p.files[i] == nil {
		f, err := os.Create(filepath.Join(p.dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		// Without a name nothing is left of it whatever happens; where the system refuses
		// that of an open file, close removes it.
		_ = os.Remove(f.Name())
		buffer := bufio.NewWriterSize(f, pileBuffer)
		p.files[i] = &pile{file: f, buffer: buffer, writer: ipc.NewWriter(buffer, ipc.WithSchema(rec.Schema()))}
	}
	return p.files[i].writer.Write(rec)
}

// read yields the rows of a pile, once, when no more are added. A batch is the sequence's
// and is released when the loop asks for the next one.
func (p *piles) read(i int) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		if p.len() == 1 {
			for _, rec := range p.kept {
				if !yield(rec, nil) {
					return
				}
			}
			return
		}
		if p.files[i] == nil {
			return
		}
		if err := p.readFile(p.files[i], yield); err != nil {
			yield(nil, fmt.Errorf("reading rows back from %s: %w", p.dir, err))
		}
	}
}

func (p *piles) readFile(f *pile, yield func(arrow.RecordBatch, error) bool) error {
	if err := errors.Join(f.writer.Close(), f.buffer.Flush()); err != nil {
		return err
	}
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, err := ipc.NewReader(bufio.NewReaderSize(f.file, pileBuffer))
	if err != nil {
		return err
	}
	defer r.Release()
	for r.Next() {
		if !yield(r.RecordBatch(), nil) {
			return nil
		}
	}
	return r.Err()
}

// close deletes the files.
func (p *piles) close() error {
	for _, rec := range p.kept {
		rec.Release()
	}
	p.kept = nil
	var errs []error
	for _, f := range p.files {
		if f != nil {
			errs = append(errs, f.file.Close())
		}
	}
	if p.dir != "" {
		errs = append(errs, os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

// take is some rows of a batch, in the order asked for.
func take(ctx context.Context, rec arrow.RecordBatch, rows []int64) (arrow.RecordBatch, error) {
	b := array.NewInt64Data(array.NewData(arrow.PrimitiveTypes.Int64, len(rows),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(rows))}, nil, 0, 0))
	defer b.Release()
	columns := make([]arrow.Array, 0, rec.NumCols())
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, column := range rec.Columns() {
		taken, err := compute.TakeArrayOpts(ctx, column, b, compute.TakeOptions{BoundsCheck: false})
		if err != nil {
			return nil, fmt.Errorf("taking rows of column %s: %w", rec.ColumnName(i), err)
		}
		columns = append(columns, taken)
	}
	return array.NewRecordBatch(rec.Schema(), columns, int64(len(rows))), nil
}
