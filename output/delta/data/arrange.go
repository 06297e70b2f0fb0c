package data

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// arranger brings batches into the order and the types of the table's columns and checks
// them.
type arranger struct {
	table *schema.Struct
	mem   memory.Allocator

	last    *arrow.Schema // the schema of the last batch, with
	columns []match       // for each column of the table the batch's

	// nulls are columns of NULL for those that batches do not have, long enough for the
	// batches so far; nil for the others. They lie on the Go heap.
	nulls []arrow.Array
}

// match is where a column of the table is in a batch.
type match struct {
	index   int  // -1: the batch does not have it
	convert bool // its type is another, which fits
}

// arrange is the batch with the table's columns, all of which are checked. The caller
// releases it.
func (a *arranger) arrange(rec arrow.RecordBatch) (arrow.RecordBatch, error) {
	if rec.Schema() != a.last {
		columns, err := matchColumns(a.table, rec.Schema())
		if err != nil {
			return nil, err
		}
		a.last, a.columns = rec.Schema(), columns
	}
	arrays := make([]arrow.Array, 0, len(a.columns))
	defer func() {
		for _, arr := range arrays {
			arr.Release()
		}
	}()
	fields := make([]arrow.Field, len(a.columns))
	for i, f := range a.table.Fields {
		arr, err := a.column(i, rec)
		if err != nil {
			return nil, err
		}
		arrays = append(arrays, arr)
		if err := checkColumn(f, arr); err != nil {
			return nil, err
		}
		fields[i] = arrow.Field{Name: f.Name, Type: arr.DataType(), Nullable: f.Nullable}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, rec.NumRows()), nil
}

// column is a column of the batch, retained, or NULLs.
func (a *arranger) column(i int, rec arrow.RecordBatch) (arrow.Array, error) {
	f, m := a.table.Fields[i], a.columns[i]
	if m.index < 0 {
		return a.missing(i, int(rec.NumRows())), nil
	}
	arr := rec.Column(m.index)
	d, ok := arr.(*array.Dictionary)
	if !m.convert && (!ok || d.Dictionary().NullN() == 0) {
		arr.Retain()
		return arr, nil
	}
	ctx := context.Background() // nothing here waits
	if ok {
		// A NULL among the entries of a dictionary is one that the indices do not show.
		dense, err := compute.CastArray(compute.WithAllocator(ctx, a.mem), arr, compute.SafeCastOptions(arr.DataType().(*arrow.DictionaryType).ValueType))
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		if !m.convert {
			return dense, nil
		}
		defer dense.Release()
		arr = dense
	}
	converted, err := converter{ctx: ctx, mem: a.mem}.convert(arr, f.Type)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", f.Name, err)
	}
	return converted, nil
}

// missing is a column of NULL.
func (a *arranger) missing(i, rows int) arrow.Array {
	if a.nulls == nil {
		a.nulls = make([]arrow.Array, len(a.table.Fields))
	}
	if a.nulls[i] == nil || a.nulls[i].Len() < rows {
		a.nulls[i] = array.MakeArrayOfNull(memory.DefaultAllocator, schema.ArrowType(a.table.Fields[i].Type), rows)
	}
	return array.NewSlice(a.nulls[i], 0, int64(rows))
}

// matchColumns finds the table's columns in a batch.
func matchColumns(table *schema.Struct, batch *arrow.Schema) ([]match, error) {
	incoming, err := schema.FromArrow(batch)
	if err != nil {
		return nil, err
	}
	columns := make([]match, len(table.Fields))
	byName := make(map[string]int, len(table.Fields))
	for i, f := range table.Fields {
		columns[i].index = -1
		byName[strings.ToLower(f.Name)] = i
	}
	for i, f := range incoming.Fields {
		at, ok := byName[strings.ToLower(f.Name)]
		if !ok {
			return nil, &schema.SchemaError{Column: f.Name, Have: f.Type.String(), Want: "no such column"}
		}
		if columns[at].index >= 0 {
			return nil, fmt.Errorf("column %s comes twice in the batch (names are compared ignoring case)", f.Name)
		}
		convert, err := fits(f.Name, f.Type, table.Fields[at].Type)
		if err != nil {
			return nil, err
		}
		columns[at] = match{index: i, convert: convert}
	}
	for i, f := range table.Fields {
		if columns[i].index < 0 && !f.Nullable {
			return nil, &schema.SchemaError{Column: f.Name, Have: "no such column", Want: f.Type.String() + " not null"}
		}
	}
	return columns, nil
}

// fits tells whether values of one type can be values of the other, and whether they must
// be converted for it: because a part has another type, or stands elsewhere in its struct.
// What may be NULL is looked at value by value.
func fits(path string, have, want schema.Type) (convert bool, err error) {
	switch w := want.(type) {
	case *schema.Array:
		if h, ok := have.(*schema.Array); ok {
			return fits(path+".element", h.Element, w.Element)
		}
	case *schema.Map:
		if h, ok := have.(*schema.Map); ok {
			key, err := fits(path+".key", h.Key, w.Key)
			if err != nil {
				return false, err
			}
			value, err := fits(path+".value", h.Value, w.Value)
			return key || value, err
		}
	case *schema.Struct:
		if h, ok := have.(*schema.Struct); ok {
			return fitsStruct(path, h, w)
		}
	default:
		if schema.Fits(have, want) {
			return have != want, nil
		}
	}
	return false, &schema.SchemaError{Column: path, Have: have.String(), Want: want.String()}
}

func fitsStruct(path string, have, want *schema.Struct) (convert bool, err error) {
	convert = len(have.Fields) != len(want.Fields)
	for i, f := range have.Fields {
		at := want.Index(f.Name)
		switch {
		case at < 0:
			return false, &schema.SchemaError{Column: path + "." + f.Name, Have: f.Type.String(), Want: "no such column"}
		case have.Index(f.Name) != i:
			return false, fmt.Errorf("column %s.%s comes twice in the batch (names are compared ignoring case)", path, f.Name)
		}
		part, err := fits(path+"."+f.Name, f.Type, want.Fields[at].Type)
		if err != nil {
			return false, err
		}
		convert = convert || part || at != i
	}
	for _, f := range want.Fields {
		if have.Index(f.Name) < 0 && !f.Nullable {
			return false, &schema.SchemaError{Column: path + "." + f.Name, Have: "no such column", Want: f.Type.String() + " not null"}
		}
	}
	return convert, nil
}
