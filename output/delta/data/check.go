package data

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// checkColumn looks for values that the table's column does not take: a NULL where
// none may be, a decimal of too many digits.
func checkColumn(f schema.Field, arr arrow.Array) error {
	if !f.Nullable && arr.NullN() > 0 {
		return fmt.Errorf("column %s: row %d is NULL, and the column is not nullable", f.Name, firstNull(arr))
	}
	switch t := f.Type.(type) {
	case schema.Decimal:
		return checkDecimals(f.Name, t, arr)
	case schema.Primitive:
		return nil
	}
	if !hasRules(f.Type) {
		return nil
	}
	for row := range arr.Len() {
		if err := checkValue(f.Name, f.Type, arr, row); err != nil {
			return fmt.Errorf("row %d: %w", row, err)
		}
	}
	return nil
}

func firstNull(arr arrow.Array) int {
	for row := range arr.Len() {
		if arr.IsNull(row) {
			return row
		}
	}
	return -1
}

func checkDecimals(path string, t schema.Decimal, arr arrow.Array) error {
	if d, ok := arr.(*array.Dictionary); ok {
		arr = d.Dictionary()
	}
	most := decimal128.GetMaxValue(int32(t.Precision))
	least := most.Negate()
	for row, v := range arr.(*array.Decimal128).Values() {
		if (v.Greater(most) || v.Less(least)) && arr.IsValid(row) {
			return fmt.Errorf("column %s: row %d has %s, which has more than the %d digits of %s",
				path, row, v.ToString(int32(t.Scale)), t.Precision, t)
		}
	}
	return nil
}

// hasRules tells whether a part of a nested type may be violated by a value.
func hasRules(t schema.Type) bool {
	switch t := t.(type) {
	case schema.Decimal:
		return true
	case *schema.Array:
		return !t.ContainsNull || hasRules(t.Element)
	case *schema.Map:
		return true // keys are never NULL
	case *schema.Struct:
		for _, f := range t.Fields {
			if !f.Nullable || hasRules(f.Type) {
				return true
			}
		}
	}
	return false
}

// checkValue checks value i of a part of a nested column, which may be NULL.
func checkValue(path string, t schema.Type, arr arrow.Array, i int) error {
	if arr.IsNull(i) {
		return nil
	}
	switch t := t.(type) {
	case schema.Decimal:
		piece := array.NewSlice(arr, int64(i), int64(i+1))
		defer piece.Release()
		return checkDecimals(path, t, piece)
	case *schema.Struct:
		for j, f := range t.Fields {
			if err := checkPart(path+"."+f.Name, f.Type, f.Nullable, arr.(*array.Struct).Field(j), i); err != nil {
				return err
			}
		}
	case *schema.Array:
		values, start, end := elements(arr, stepList, i)
		for j := start; j < end; j++ {
			if err := checkPart(path+".element", t.Element, t.ContainsNull, values, int(j)); err != nil {
				return err
			}
		}
	case *schema.Map:
		keys, start, end := elements(arr, stepMapKey, i)
		values, _, _ := elements(arr, stepMapValue, i)
		for j := start; j < end; j++ {
			if err := checkPart(path+".key", t.Key, false, keys, int(j)); err != nil {
				return err
			}
			if err := checkPart(path+".value", t.Value, t.ValueContainsNull, values, int(j)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPart(path string, t schema.Type, nullable bool, arr arrow.Array, i int) error {
	if !nullable && arr.IsNull(i) {
		return fmt.Errorf("column %s: is NULL, and may not be", path)
	}
	return checkValue(path, t, arr, i)
}
