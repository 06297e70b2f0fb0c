package data_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// nestedFile is a file with columns below a struct, which the Parquet library opens on
// goroutines of its own.
func nestedFile(t *testing.T) (*schema.Struct, []byte) {
	t.Helper()
	table := &schema.Struct{Fields: []schema.Field{
		{Name: "a", Type: schema.Long, Nullable: true},
		{Name: "s", Type: &schema.Struct{Fields: []schema.Field{
			{Name: "d", Type: schema.Decimal{Precision: 20, Scale: 2}, Nullable: true},
			{Name: "t", Type: schema.String, Nullable: true},
			{Name: "l", Type: &schema.Array{Element: schema.Integer}, Nullable: true},
		}}, Nullable: true},
	}}
	st := mem.New()
	rec := batch(t, memory.DefaultAllocator, table, `[{"a":1,"s":{"d":"1.25","t":"x","l":[1,2]}},{"a":2,"s":null},{"a":3,"s":{"d":null,"t":"x","l":null}}]`)
	files := write(t, st, table, data.WriterOptions{Compression: data.Uncompressed}, rec)
	content, err := st.Get(t.Context(), files[0].Path)
	require.NoError(t, err)
	return table, content
}

// A footer with any one bit flipped gives rows or an error; it never ends the process, not
// even from a goroutine of the Parquet library.
func TestCorruptFooters(t *testing.T) {
	t.Parallel()
	table, content := nestedFile(t)
	footer := len(content) - 8 - int(binary.LittleEndian.Uint32(content[len(content)-8:]))
	require.Greater(t, footer, 4)
	refused := 0
	for at := footer; at < len(content)-8; at++ {
		for bit := range 8 {
			broken := bytes.Clone(content)
			broken[at] ^= 1 << bit
			st := mem.New()
			require.NoError(t, st.Put(t.Context(), "f", broken))
			for _, err := range data.ReadFile(t.Context(), st, table, data.Input{Path: "f"}, nil) {
				if err != nil {
					refused++
				}
			}
		}
	}
	t.Logf("%d of %d broken footers were refused", refused, 8*(len(content)-8-footer))
	require.Positive(t, refused)
}
