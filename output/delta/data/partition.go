package data

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// partColumn is a partition column of a Writer.
type partColumn struct {
	leaf
	index  int    // in the table
	name   string // for people
	stored string // in the log and in paths: the physical name
	source source
	values source // of its dictionary
}

func newPartColumn(index int, f schema.Field, m schema.Mapping) (partColumn, error) {
	switch f.Type.(type) {
	case schema.Primitive, schema.Decimal:
	default:
		return partColumn{}, fmt.Errorf("partition column %s: %s cannot be one", f.Name, f.Type)
	}
	if f.Type == schema.Binary || f.Type == schema.Void {
		return partColumn{}, fmt.Errorf("partition column %s: %s cannot be one", f.Name, f.Type)
	}
	p := partColumn{index: index, name: f.Name, stored: m.PhysicalName(f), leaf: leaf{typ: f.Type}}
	p.phys, p.width = physicalOf(f.Type)
	return p, nil
}

// group is rows of one partition.
type group struct {
	rows      arrow.RecordBatch // to be released
	key       string
	directory string // with a slash at the end, or ""
	values    map[string]*string
}

// split cuts rows by their partition, in the order of the first row of each.
func (w *Writer) split(rows arrow.RecordBatch) ([]group, error) {
	if len(w.parts) == 0 {
		rows.Retain()
		return []group{{rows: rows}}, nil
	}
	for i := range w.parts {
		if err := w.parts[i].load(rows.Column(w.parts[i].index)); err != nil {
			return nil, err
		}
	}
	var keys []string
	spans := map[string][]span{}
	first := map[string]int{}
	for _, s := range w.runs(rows) {
		key := w.keyOf(rows, s.start)
		if _, known := first[key]; !known {
			first[key] = s.start
			keys = append(keys, key)
		}
		spans[key] = append(spans[key], s)
	}
	var groups []group
	for _, key := range keys {
		g := group{key: key}
		err := w.describe(&g, rows, first[key])
		if err == nil {
			g.rows, err = takeSpans(w.ctx, w.o.Allocator, rows, spans[key])
		}
		if err != nil {
			for _, g := range groups {
				g.rows.Release()
			}
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// runs are the runs of rows with equal partition values.
func (w *Writer) runs(rows arrow.RecordBatch) []span {
	var out []span
	n := int(rows.NumRows())
	for start := 0; start < n; {
		end := start + 1
		for end < n && w.samePartition(rows, end-1, end) {
			end++
		}
		out = append(out, span{start, end})
		start = end
	}
	return out
}

func (w *Writer) samePartition(rows arrow.RecordBatch, i, j int) bool {
	for p := range w.parts {
		part := &w.parts[p]
		arr := rows.Column(part.index)
		if arr.IsNull(i) != arr.IsNull(j) || arr.IsValid(i) && !bytes.Equal(part.raw(i), part.raw(j)) {
			return false
		}
	}
	return true
}

// keyOf is what tells the partition of a row from all others.
func (w *Writer) keyOf(rows arrow.RecordBatch, i int) string {
	var key []byte
	for p := range w.parts {
		part := &w.parts[p]
		if rows.Column(part.index).IsNull(i) {
			key = append(key, 0)
			continue
		}
		raw := part.raw(i)
		key = binary.AppendUvarint(append(key, 1), uint64(len(raw)))
		key = append(key, raw...)
	}
	return string(key)
}

func (p *partColumn) load(arr arrow.Array) error {
	if err := p.source.load(&p.leaf, arr); err != nil {
		return fmt.Errorf("column %s: %w", p.name, err)
	}
	if p.source.dictionary == nil {
		return nil
	}
	if err := p.values.load(&p.leaf, p.source.dictionary); err != nil {
		return fmt.Errorf("column %s: %w", p.name, err)
	}
	return nil
}

// raw is the value of a row, which is not NULL, as bytes.
func (p *partColumn) raw(i int) []byte {
	switch {
	case p.source.dictionary != nil:
		return p.values.value(&p.leaf, int(p.source.index[i]))
	case p.phys == asBits:
		at := p.source.bitOffset + i
		return []byte{p.source.bits[at/8] >> (at & 7) & 1}
	default:
		return p.source.value(&p.leaf, i)
	}
}

// describe fills in the values and the directory of the partition of a row.
func (w *Writer) describe(g *group, rows arrow.RecordBatch, i int) error {
	g.values = make(map[string]*string, len(w.parts))
	var directory strings.Builder
	for p := range w.parts {
		part := &w.parts[p]
		text := hiveNull
		g.values[part.stored] = nil
		if arr := rows.Column(part.index); arr.IsValid(i) {
			value, err := formatPartitionValue(part.typ, arr, i)
			if err != nil {
				return fmt.Errorf("partition column %s: %w", part.name, err)
			}
			g.values[part.stored] = &value
			text = escapeHive(value)
		}
		directory.WriteString(escapeHive(part.stored) + "=" + text + "/")
	}
	g.directory = directory.String()
	return nil
}

// hiveNull stands for NULL in the name of a directory.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// escapeHive escapes a name or a value for a directory as Hive and Spark do.
func escapeHive(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == 0x7f || strings.IndexByte(`"#%'*/:=?\{[]^`, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// takeSpans is the rows of the spans as one batch.
func takeSpans(ctx context.Context, mem memory.Allocator, rows arrow.RecordBatch, spans []span) (arrow.RecordBatch, error) {
	if len(spans) == 1 {
		return rows.NewSlice(int64(spans[0].start), int64(spans[0].end)), nil
	}
	b := array.NewInt64Builder(mem)
	defer b.Release()
	for _, s := range spans {
		for i := s.start; i < s.end; i++ {
			b.Append(int64(i))
		}
	}
	indices := b.NewInt64Array()
	defer indices.Release()
	ctx = compute.WithAllocator(ctx, mem)
	arrays := make([]arrow.Array, 0, rows.NumCols())
	defer func() {
		for _, arr := range arrays {
			arr.Release()
		}
	}()
	for i, column := range rows.Columns() {
		taken, err := compute.TakeArrayOpts(ctx, column, indices, compute.TakeOptions{BoundsCheck: false})
		if err != nil {
			return nil, fmt.Errorf("column %s: sorting rows by partition: %w", rows.ColumnName(i), err)
		}
		arrays = append(arrays, taken)
	}
	return array.NewRecordBatch(rows.Schema(), arrays, int64(indices.Len())), nil
}
