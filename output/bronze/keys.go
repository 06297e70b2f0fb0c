package bronze

import (
	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// keyColumns are the names of the columns that a record marks as those of the source's
// unique index; nil if it marks none, as rows do that other processors made.
func keyColumns(record *arrow.Schema) []string {
	var names []string
	for _, f := range record.Fields()[mssqlcdc.FirstCaptured:] {
		if mark, ok := f.Metadata.GetValue(mssqlcdc.FieldKey); ok && mark == "true" {
			names = append(names, f.Name)
		}
	}
	return names
}

// keyProperty adds the key columns to the properties to be set, so that readers of
// the table need no connection to the source. Rows without marks leave what is there.
func (t *Table) keyProperty(properties map[string]string) {
	if t.layout.record == nil {
		return
	}
	if keys := keyColumns(t.layout.record); len(keys) > 0 {
		properties[mssqlcdc.PropKeyColumns] = mssqlcdc.EncodeKeyColumns(keys)
	}
}
