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

// arranger brings batches into the order of the table's columns and checks them.
type arranger struct {
	table *schema.Struct
	mem   memory.Allocator

	last    *arrow.Schema // the schema of the last batch, with
	columns []int         // for each column of the table the batch's, or -1
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
		arr, err := a.column(f, rec, a.columns[i])
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
func (a *arranger) column(f schema.Field, rec arrow.RecordBatch, index int) (arrow.Array, error) {
	if index < 0 {
		return array.MakeArrayOfNull(a.mem, schema.ArrowType(f.Type), int(rec.NumRows())), nil
	}
	arr := rec.Column(index)
	d, ok := arr.(*array.Dictionary)
	if !ok || d.Dictionary().NullN() == 0 {
		arr.Retain()
		return arr, nil
	}
	// A NULL among the entries of a dictionary is one that the indices do not show.
	ctx := compute.WithAllocator(context.Background(), a.mem)
	dense, err := compute.CastArray(ctx, arr, compute.SafeCastOptions(arr.DataType().(*arrow.DictionaryType).ValueType))
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", f.Name, err)
	}
	return dense, nil
}

// matchColumns finds the table's columns in a batch.
func matchColumns(table *schema.Struct, batch *arrow.Schema) ([]int, error) {
	incoming, err := schema.FromArrow(batch)
	if err != nil {
		return nil, err
	}
	columns := make([]int, len(table.Fields))
	byName := make(map[string]int, len(table.Fields))
	for i, f := range table.Fields {
		columns[i] = -1
		byName[strings.ToLower(f.Name)] = i
	}
	for i, f := range incoming.Fields {
		at, ok := byName[strings.ToLower(f.Name)]
		if !ok {
			return nil, &schema.SchemaError{Column: f.Name, Have: f.Type.String(), Want: "no such column"}
		}
		if columns[at] >= 0 {
			return nil, fmt.Errorf("column %s comes twice in the batch (names are compared ignoring case)", f.Name)
		}
		if err := sameShape(f.Name, f.Type, table.Fields[at].Type); err != nil {
			return nil, err
		}
		columns[at] = i
	}
	for i, f := range table.Fields {
		if columns[i] < 0 && !f.Nullable {
			return nil, &schema.SchemaError{Column: f.Name, Have: "no such column", Want: f.Type.String() + " not null"}
		}
	}
	return columns, nil
}

// sameShape tells whether values of one type are values of the other: the same types in
// the same order under the same names, whatever may be NULL.
func sameShape(path string, have, want schema.Type) error {
	differ := &schema.SchemaError{Column: path, Have: have.String(), Want: want.String()}
	switch w := want.(type) {
	case *schema.Array:
		if h, ok := have.(*schema.Array); ok {
			return sameShape(path+".element", h.Element, w.Element)
		}
	case *schema.Map:
		if h, ok := have.(*schema.Map); ok {
			if err := sameShape(path+".key", h.Key, w.Key); err != nil {
				return err
			}
			return sameShape(path+".value", h.Value, w.Value)
		}
	case *schema.Struct:
		h, ok := have.(*schema.Struct)
		if !ok || len(h.Fields) != len(w.Fields) {
			return differ
		}
		for i, f := range w.Fields {
			if !schema.SameName(f.Name, h.Fields[i].Name) {
				return differ
			}
			if err := sameShape(path+"."+f.Name, h.Fields[i].Type, f.Type); err != nil {
				return err
			}
		}
		return nil
	default:
		if have == want {
			return nil
		}
	}
	return differ
}
