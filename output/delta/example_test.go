package delta_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// A writer that appends every batch exactly once: its sequence number is in the
// table, so that after a crash it knows where to go on.
func Example() {
	ctx := context.Background()
	table, err := delta.Create(ctx, mem.New(), delta.Spec{
		Schema: &schema.Struct{Fields: []schema.Field{
			{Name: "id", Type: schema.Long, Nullable: true},
			{Name: "status", Type: schema.String, Nullable: true},
		}},
		Comment: "orders as they came",
	}, delta.Options{Engine: "example/1.0"})
	if err != nil {
		log.Fatal(err)
	}

	last, _ := table.Snapshot().AppVersion("orders-pipeline")
	for i, rows := range []string{`[{"id":1,"status":"NEW"}]`, `[{"id":1,"status":"PAID"},{"id":2,"status":"NEW"}]`} {
		w, err := table.NewWriter(ctx, data.WriterOptions{})
		if err != nil {
			log.Fatal(err)
		}
		rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, table.Snapshot().Schema().Arrow(), strings.NewReader(rows))
		if err != nil {
			log.Fatal(err)
		}
		if err := w.Write(rec); err != nil {
			log.Fatal(err)
		}
		files, err := w.Close()
		if err != nil {
			log.Fatal(err)
		}
		result, err := table.Commit(ctx, delta.Change{
			Operation:   delta.OpStreamingWrite,
			Fenced:      &delta.Txn{AppID: "orders-pipeline", Version: last + int64(i) + 1},
			Add:         files,
			BlindAppend: true,
		})
		if errors.Is(err, delta.ErrFenced) {
			log.Fatal("another writer uses our name: ", err)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("version", result.Version, result.State)
	}

	n, err := table.Snapshot().NumRecords(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, "rows in", table.Snapshot().NumFiles(), "files")
	if err := table.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// version 1 committed
	// version 2 committed
	// 3 rows in 2 files
}
