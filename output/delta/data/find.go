package data

import (
	"errors"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// fieldIDKey is where the Parquet library puts the field id of a Parquet schema.
const fieldIDKey = "PARQUET:field_id"

// find is the position of a table's field among n fields of a file or of a struct in it, or
// -1. By name, the same spelling is preferred to one that differs in case.
func find(mapping schema.Mapping, want schema.Field, n int, at func(int) arrow.Field) int {
	if mapping == schema.MapByID {
		for i := range n {
			if id := fieldID(at(i)); id >= 0 && id == want.ColumnID() {
				return i
			}
		}
		return -1
	}
	name, found := mapping.PhysicalName(want), -1
	for i := range n {
		switch have := at(i).Name; {
		case have == name:
			return i
		case schema.SameName(have, name):
			found = i
		}
	}
	return found
}

// fieldID is the id of a file's field, -1 if it has none.
func fieldID(f arrow.Field) int64 {
	text, ok := f.Metadata.GetValue(fieldIDKey)
	if !ok {
		return -1
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return id
}

// checkIDs refuses a file without field ids in a table that finds columns by them: all its
// columns would be NULL.
func (f *fileReader) checkIDs() error {
	if f.mapping != schema.MapByID {
		return nil
	}
	for _, field := range f.arrow.Manifest.Fields {
		if fieldID(*field.Field) >= 0 {
			return nil
		}
	}
	return errors.New("it has no field ids, by which its table finds columns (column mapping mode id)")
}
