package data_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

func TestZZEngines(t *testing.T) {
	dir := os.Getenv("ENGINE_DIR")
	if dir == "" {
		t.Skip("no ENGINE_DIR")
	}
	os.RemoveAll(dir)
	n := 0
	make := func(name string, table *schema.Struct, parts []string, o data.WriterOptions, rows int, rt *rapid.T) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(path, 0o777))
		st, err := file.New(path)
		require.NoError(t, err)
		tab, err := delta.Create(t.Context(), st, delta.Spec{Schema: table, PartitionBy: parts}, delta.Options{})
		require.NoError(t, err)
		w, err := tab.NewWriter(t.Context(), o)
		require.NoError(t, err)
		rec := drawBatch(rt, memory.DefaultAllocator, table, rows)
		require.NoError(t, w.Write(rec))
		adds, err := w.Close()
		require.NoError(t, err)
		_, err = tab.Commit(t.Context(), delta.Change{Operation: delta.OpWrite, Add: adds, BlindAppend: true})
		require.NoError(t, err)
		require.NoError(t, tab.Close(t.Context()))
		js, _ := rec.MarshalJSON()
		_ = js
		out := [][]string{}
		for _, r := range rowsOf(rec) {
			out = append(out, r)
		}
		b, _ := json.Marshal(out)
		require.NoError(t, os.WriteFile(path+".json", b, 0o666))
	}
	rapid.Check(t, func(rt *rapid.T) {
		if n > 12 {
			return
		}
		n++
		flat := &schema.Struct{}
		for i, p := range primitives {
			for j, nullable := range []bool{true, false} {
				flat.Fields = append(flat.Fields, schema.Field{Name: fmt.Sprintf("c%d_%d", i, j), Type: p, Nullable: nullable})
			}
		}
		for i, d := range []schema.Decimal{{1, 0}, {9, 4}, {10, 0}, {18, 2}, {19, 4}, {38, 0}, {38, 38}, {38, 10}} {
			flat.Fields = append(flat.Fields, schema.Field{Name: fmt.Sprintf("d%d", i), Type: d, Nullable: i%2 == 0})
		}
		for i, o := range []data.WriterOptions{{}, {Encodings: data.Compact}, {Compression: data.Snappy}, {Compression: data.Uncompressed}} {
			o.Stats.First = data.AllColumns
			o.RowGroupRows = 150
			if n%2 == 0 {
				o = data.WithLimits(o, 50, 500, 600, 20)
			}
			make(fmt.Sprintf("flat_%d_%d", n, i), flat, nil, o, 400, rt)
			nested := drawStruct(rt, 3)
			make(fmt.Sprintf("nested_%d_%d", n, i), nested, nil, o, 300, rt)
		}
	})
}
