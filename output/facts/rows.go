package facts

import (
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// record is the Arrow record of the rows, written at the given time.
func record(rows []row, writtenAt time.Time) (arrow.RecordBatch, error) {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, Schema().Arrow())
	defer builder.Release()
	packer, err := mssqlcdc.NewRowBuilder(builder.Schema(), builder)
	if err != nil {
		return nil, fmt.Errorf("packing facts: %w", err)
	}
	all := columns()
	for i := range rows {
		for at, c := range all {
			var v any = writtenAt.UTC()
			if c.value != nil {
				v = c.value(&rows[i].fact)
			}
			if err := packer.Set(at, v); err != nil {
				return nil, fmt.Errorf("packing facts: %w", err)
			}
		}
	}
	return packer.NewRecord(), nil
}
