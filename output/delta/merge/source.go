package merge

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// source is a Source made ready for a table of one schema. Its entries are the upserts and then
// the deletes; those below upserts are upserts. It is read from many goroutines.
type source struct {
	keys     []schema.Field
	versions []schema.Field

	index   *index
	order   []int32 // of all entries, by key
	upserts int
	rows    arrow.RecordBatch // the upserts, nil if there are none

	versionKinds []kind
	versionArena []byte
	versionEnds  []int

	ranges ranges
}

// newSource reads the source. Who has it releases it.
func newSource(ctx context.Context, table *schema.Struct, in Source, o Options) (src *source, err error) {
	s := &source{}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	var kinds []kind
	if s.keys, kinds, err = columnsOf(table, o.Keys); err != nil {
		return nil, fmt.Errorf("taking key columns: %w", err)
	}
	if s.versions, s.versionKinds, err = columnsOf(table, o.Versions); err != nil {
		return nil, fmt.Errorf("taking version columns: %w", err)
	}
	s.index = newIndex(kinds)
	if err := s.addUpserts(ctx, table, in.Upserts); err != nil {
		return nil, err
	}
	if err := s.addDeletes(ctx, in.Deletes); err != nil {
		return nil, err
	}
	s.order = s.index.sorted()
	if s.ranges, err = newRanges(in.Ranges, s.keys, kinds, s.versions, s.versionKinds); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *source) release() {
	if s.rows != nil {
		s.rows.Release()
		s.rows = nil
	}
}

// columnsOf finds columns of a table by name, and how their values are encoded.
func columnsOf(table *schema.Struct, names []string) ([]schema.Field, []kind, error) {
	var fields []schema.Field
	var kinds []kind
	for _, name := range names {
		f, ok := table.Field(name)
		if !ok {
			return nil, nil, &schema.SchemaError{Column: name, Have: "no such column in the table", Want: "a column to compare rows by"}
		}
		k, err := kindOf(f)
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(fields, func(have schema.Field) bool { return have.Name == f.Name }) {
			return nil, nil, fmt.Errorf("column %s is named twice", f.Name)
		}
		fields, kinds = append(fields, f), append(kinds, k)
	}
	return fields, kinds, nil
}

func (s *source) addUpserts(ctx context.Context, table *schema.Struct, batches []arrow.RecordBatch) error {
	var aligned []arrow.RecordBatch
	defer func() {
		for _, rec := range aligned {
			rec.Release()
		}
	}()
	for i, rec := range batches {
		if rec.NumRows() == 0 {
			continue
		}
		a, err := alignAll(ctx, table, rec)
		if err != nil {
			return fmt.Errorf("taking batch %d of the upserts: %w", i, err)
		}
		aligned = append(aligned, a)
		if err := s.addKeys(ctx, rec, i, false); err != nil {
			return err
		}
	}
	s.upserts = s.index.len()
	var err error
	s.rows, err = concatenate(aligned)
	return err
}

func (s *source) addDeletes(ctx context.Context, batches []arrow.RecordBatch) error {
	for i, rec := range batches {
		if rec.NumRows() == 0 {
			continue
		}
		if err := s.addKeys(ctx, rec, i, true); err != nil {
			return err
		}
	}
	return nil
}

// addKeys makes entries of the rows of a batch.
func (s *source) addKeys(ctx context.Context, rec arrow.RecordBatch, batch int, deletes bool) error {
	list := "upserts"
	if deletes {
		list = "deletes"
	}
	keys := newKeyReader(s.index.kinds)
	err := withColumns(ctx, s.keys, rec, keys.load, func() error {
		if row := s.index.add(keys, int(rec.NumRows()), false); row >= 0 {
			return &DuplicateKeyError{Keys: namesOf(s.keys), Delete: deletes, Batch: batch, Row: row}
		}
		return nil
	})
	if err != nil || len(s.versions) == 0 {
		return wrapBatch(err, batch, list)
	}
	versions := newKeyReader(s.versionKinds)
	err = withColumns(ctx, s.versions, rec, versions.load, func() error {
		for i := range int(rec.NumRows()) {
			s.versionArena = versions.append(s.versionArena, i)
			s.versionEnds = append(s.versionEnds, len(s.versionArena))
		}
		return nil
	})
	return wrapBatch(err, batch, list)
}

func wrapBatch(err error, batch int, list string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("taking batch %d of the %s: %w", batch, list, err)
}

func namesOf(fields []schema.Field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

// newer reports whether an entry's version is above an encoded one; true without versions.
func (s *source) newer(entry int32, than []byte) bool {
	if len(s.versions) == 0 {
		return true
	}
	from := 0
	if entry > 0 {
		from = s.versionEnds[entry-1]
	}
	return bytes.Compare(s.versionArena[from:s.versionEnds[entry]], than) > 0
}

func (s *source) isUpsert(entry int32) bool { return int(entry) < s.upserts }

// withColumns loads some columns of a batch, which it must have in the table's types, and calls
// then while they are there.
func withColumns(ctx context.Context, fields []schema.Field, rec arrow.RecordBatch, load func([]arrow.Array) error, then func() error) error {
	var arrays []arrow.Array
	defer func() {
		for _, a := range arrays {
			a.Release()
		}
	}()
	for _, f := range fields {
		at := columnOf(rec.Schema(), f.Name)
		if at < 0 {
			return &schema.SchemaError{Column: f.Name, Have: "no such column", Want: f.Type.String()}
		}
		a, err := align(ctx, f, rec.Column(at))
		if err != nil {
			return err
		}
		arrays = append(arrays, a)
	}
	if err := load(arrays); err != nil {
		return err
	}
	return then()
}

func columnOf(s *arrow.Schema, name string) int {
	return slices.IndexFunc(s.Fields(), func(f arrow.Field) bool { return schema.SameName(f.Name, name) })
}

// align is an array in the Arrow type of a column: a dictionary is replaced by its values. The
// caller releases it.
func align(ctx context.Context, f schema.Field, arr arrow.Array) (arrow.Array, error) {
	as, err := schema.FromArrow(arrow.NewSchema([]arrow.Field{{Name: f.Name, Type: arr.DataType(), Nullable: true}}, nil))
	if err != nil {
		return nil, err
	}
	if _, simple := f.Type.(schema.Primitive); simple || isDecimal(f.Type) {
		if have := as.Fields[0].Type; have != f.Type {
			return nil, &schema.SchemaError{Column: f.Name, Have: have.String(), Want: f.Type.String()}
		}
	}
	if d, ok := arr.(*array.Dictionary); ok {
		dense, err := compute.CastArray(ctx, arr, compute.SafeCastOptions(d.DataType().(*arrow.DictionaryType).ValueType))
		if err != nil {
			return nil, fmt.Errorf("column %s: taking a dictionary apart: %w", f.Name, err)
		}
		return dense, nil
	}
	arr.Retain()
	return arr, nil
}

func isDecimal(t schema.Type) bool {
	_, ok := t.(schema.Decimal)
	return ok
}

// alignAll is a batch with the table's columns, as far as it has them, in their order. Batches
// that it made differ only in which columns they have and in the widths of text offsets.
func alignAll(ctx context.Context, table *schema.Struct, rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	var arrays []arrow.Array
	defer func() {
		for _, a := range arrays {
			a.Release()
		}
	}()
	var fields []arrow.Field
	taken := make([]bool, rec.NumCols())
	for _, f := range table.Fields {
		if f.Type == schema.Void {
			continue
		}
		var arr arrow.Array
		if at := columnOf(rec.Schema(), f.Name); at < 0 {
			if !f.Nullable {
				return nil, &schema.SchemaError{Column: f.Name, Have: "no such column", Want: f.Type.String() + " not null"}
			}
			arr = array.MakeArrayOfNull(memory.DefaultAllocator, schema.ArrowType(f.Type), int(rec.NumRows()))
		} else {
			taken[at] = true
			var err error
			if arr, err = align(ctx, f, rec.Column(at)); err != nil {
				return nil, err
			}
		}
		arrays = append(arrays, arr)
		if arr.NullN() > 0 && !f.Nullable {
			return nil, fmt.Errorf("column %s: a row is NULL there, and the table does not allow that", f.Name)
		}
		fields = append(fields, arrow.Field{Name: f.Name, Type: arr.DataType(), Nullable: true})
	}
	for i, have := range rec.Schema().Fields() {
		if f, ok := table.Field(have.Name); !taken[i] && !(ok && f.Type == schema.Void) {
			return nil, unknownColumn(have, ok)
		}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, rec.NumRows()), nil
}

func unknownColumn(have arrow.Field, twice bool) error {
	if twice {
		return fmt.Errorf("column %s comes twice in the batch (names are compared ignoring case)", have.Name)
	}
	return &schema.SchemaError{Column: have.Name, Have: have.Type.String(), Want: "no such column"}
}

// concatenate is all batches as one; nil of none.
func concatenate(batches []arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(batches) == 0 {
		return nil, nil
	}
	if len(batches) == 1 {
		batches[0].Retain()
		return batches[0], nil
	}
	first := batches[0]
	var columns []arrow.Array
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	var rows int64
	for _, b := range batches {
		rows += b.NumRows()
	}
	for i := range int(first.NumCols()) {
		parts, release, err := partsOf(batches, i)
		if err != nil {
			return nil, err
		}
		column, err := array.Concatenate(parts, memory.DefaultAllocator)
		release()
		if err != nil {
			return nil, fmt.Errorf("column %s: putting batches of the source together: %w", first.ColumnName(i), err)
		}
		columns = append(columns, column)
	}
	fields := slices.Clone(first.Schema().Fields())
	for i, c := range columns {
		fields[i].Type = c.DataType()
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, rows), nil
}

// partsOf is one column of all batches, in one Arrow type.
func partsOf(batches []arrow.RecordBatch, column int) (parts []arrow.Array, release func(), err error) {
	release = func() {
		for _, p := range parts {
			p.Release()
		}
	}
	want := batches[0].Column(column).DataType()
	for _, b := range batches {
		arr := b.Column(column)
		switch have := arr.DataType(); {
		case arrow.TypeEqual(have, want):
			arr.Retain()
		case have.ID() == want.ID() && strings.EqualFold(have.Name(), "timestamp"):
			// Another zone, the same instant.
			data := array.NewData(want, arr.Len(), arr.Data().Buffers(), nil, arr.NullN(), arr.Data().Offset())
			arr = array.MakeFromData(data)
			data.Release()
		default:
			if arr, err = compute.CastArray(context.Background(), arr, compute.SafeCastOptions(want)); err != nil {
				release()
				return nil, nil, fmt.Errorf("column %s: batches of the source have it as %s and as %s: %w", b.ColumnName(column), want, have, err)
			}
		}
		parts = append(parts, arr)
	}
	return parts, release, nil
}
