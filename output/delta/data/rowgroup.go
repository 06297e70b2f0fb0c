package data

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/pqfile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// groupReader reads one row group. Most columns come as Arrow from the Parquet library;
// flat INT96 columns are decoded here, because the library makes nanoseconds of them,
// which do not reach beyond the year 2262.
type groupReader struct {
	left    int64
	step    int64
	records pqarrow.RecordReader // nil if no column comes this way
	current arrow.RecordBatch    // of records

	mem    memory.Allocator
	int96s map[int]*int96Column // by leaf
	defs   []int16
	values []parquet.Int96
}

// int96Column is a flat INT96 column.
type int96Column struct {
	chunk   *file.Int96ColumnChunkReader
	current arrow.Array // the current rows as timestamp[us]; nil before the first
}

func (f *fileReader) newGroup(i int) (*groupReader, error) {
	g := &groupReader{
		left:   f.parquet.MetaData().RowGroup(i).NumRows(),
		step:   f.arrow.Props.BatchSize,
		mem:    f.mem,
		int96s: map[int]*int96Column{},
	}
	leaves := f.locate()
	for _, s := range f.sources {
		if s.int96 < 0 || g.int96s[s.int96] != nil {
			continue
		}
		chunk, err := f.parquet.RowGroup(i).Column(s.int96)
		if err != nil {
			return nil, err
		}
		g.int96s[s.int96] = &int96Column{chunk: chunk.(*file.Int96ColumnChunkReader)}
	}
	if len(leaves) > 0 {
		var err error
		if g.records, err = f.arrow.GetRecordReader(f.ctx, leaves, []int{i}); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// locate finds the fields in the file and returns the leaves that are read through Arrow.
func (f *fileReader) locate() []int {
	var leaves []int
	f.sources = make([]fileColumn, len(f.fields))
	columns := map[int]int{} // field of the file to column of the batch
	inFile := f.arrow.Manifest.Fields
	wanted := make([]int, len(f.fields)) // for each field the file's, or -1
	for i, field := range f.fields {
		wanted[i] = -1
		if !f.fixed[i] && field.Type != schema.Void {
			wanted[i] = find(f.mapping, field, len(inFile), func(j int) arrow.Field { return *inFile[j].Field })
		}
	}
	// The batch has the columns in the order of the file.
	for j := range inFile {
		for i := range f.fields {
			if _, have := columns[j]; wanted[i] == j && !have && f.flatInt96(inFile[j]) < 0 {
				columns[j] = len(columns)
				leaves = appendLeaves(leaves, inFile[j])
			}
		}
	}
	for i, j := range wanted {
		f.sources[i] = fileColumn{missing: j < 0, int96: -1}
		if j >= 0 {
			f.sources[i].int96 = f.flatInt96(inFile[j])
			f.sources[i].batch = columns[j]
		}
	}
	return leaves
}

// flatInt96 is the leaf of a column of the top that is INT96, or -1.
func (f *fileReader) flatInt96(field pqarrow.SchemaField) int {
	if !field.IsLeaf() {
		return -1
	}
	column := f.parquet.MetaData().Schema.Column(field.ColIndex)
	if column.PhysicalType() != parquet.Types.Int96 || column.MaxRepetitionLevel() > 0 || column.MaxDefinitionLevel() > 1 {
		return -1
	}
	return field.ColIndex
}

func appendLeaves(leaves []int, field pqarrow.SchemaField) []int {
	if field.IsLeaf() {
		return append(leaves, field.ColIndex)
	}
	for _, child := range field.Children {
		leaves = appendLeaves(leaves, child)
	}
	return leaves
}

// advance goes to the next rows of the group and returns how many they are; 0 is the end.
func (g *groupReader) advance() (int, error) {
	rows := min(g.left, g.step)
	if rows > 0 && g.records != nil {
		if !g.records.Next() {
			if err := g.records.Err(); err != nil {
				return 0, err
			}
			return 0, fmt.Errorf("the row group ends %d rows early", g.left)
		}
		g.current = g.records.RecordBatch()
		if err := pqfile.Validate(g.current); err != nil {
			return 0, err
		}
		if rows = g.current.NumRows(); rows > g.left {
			return 0, fmt.Errorf("the row group has more rows than the %d it says", g.left)
		}
	}
	g.left -= rows
	for _, c := range g.int96s {
		c.release()
		var err error
		if c.current, err = g.decode(c.chunk, int(rows)); err != nil {
			return 0, err
		}
	}
	return int(rows), nil
}

func (g *groupReader) close() {
	if g.records != nil {
		g.records.Release()
	}
	for _, c := range g.int96s {
		c.release()
		_ = c.chunk.Close() // gives buffers back only
	}
}

func (c *int96Column) release() {
	if c.current != nil {
		c.current.Release()
		c.current = nil
	}
}

// decode reads the next rows of an INT96 column as timestamp[us].
func (g *groupReader) decode(chunk *file.Int96ColumnChunkReader, rows int) (arrow.Array, error) {
	optional := chunk.Descriptor().MaxDefinitionLevel() > 0
	b := array.NewTimestampBuilder(g.mem, &arrow.TimestampType{Unit: arrow.Microsecond})
	defer b.Release()
	b.Reserve(rows)
	values, defs := resize(&g.values, rows), resize(&g.defs, rows)
	for b.Len() < rows {
		n, _, err := chunk.ReadBatch(int64(rows-b.Len()), values, defs, nil)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, errors.New("the column has fewer values than the row group has rows")
		}
		next := 0
		for i := range n {
			if optional && defs[i] == 0 {
				b.AppendNull()
				continue
			}
			b.Append(int96Micros(values[next]))
			next++
		}
	}
	return b.NewArray(), nil
}

const julianEpoch = 2440588 // the Julian day of 1970-01-01

// int96Micros is the instant: nanoseconds of the day in 8 bytes, the Julian day in 4.
func int96Micros(v parquet.Int96) arrow.Timestamp {
	nanos := int64(binary.LittleEndian.Uint64(v[:8]))
	days := int64(int32(binary.LittleEndian.Uint32(v[8:]))) - julianEpoch
	return arrow.Timestamp(days*dayMilli*1000 + floorDiv(nanos, 1000))
}
