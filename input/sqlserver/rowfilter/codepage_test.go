package rowfilter_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// TestCodePages compares every byte in every collation: the filter decodes it as the driver does, or leaves it to the driver.
func TestCodePages(t *testing.T) {
	t.Parallel()
	var collations []tds.Collation
	for id := range 256 {
		collations = append(collations, tds.NewCollation(0x0409, uint8(id)))
	}
	for language := range uint32(0x100) {
		for _, sub := range []uint32{0x0400, 0x0800, 0x0C00, 0x1000, 0x1400, 0x1800, 0x1C00, 0x2000, 0x10400, 0x20800, 0x30400, 0x21400, 0x40400} {
			collations = append(collations, tds.NewCollation(sub|language, 0))
		}
	}
	h := newHost(t, tds.Config{})
	plain, filter := h.open(t, false), h.open(t, true)
	every := make([]byte, 0, 512)
	for b := range 256 {
		every = append(every, byte(b))
	}
	statement := wants(10, 1<<20, fetch.Column{Kind: fetch.Text})
	pages := map[string]int{}
	for _, c := range collations {
		h.says(oneText(c, every))
		got := read(t.Context(), filter, statement)
		require.NoError(t, got.err)
		pages[got.choice.Reader]++
		if got.choice.Reader == "driver" {
			require.Equal(t, rowfilter.WantedPage, got.choice.Reason)
			continue
		}
		want := read(t.Context(), plain, statement)
		require.NoError(t, want.err)
		require.Equal(t, fmt.Sprintf("%q", want.batches[0].Record.Column(0).ValueStr(0)), fmt.Sprintf("%q", got.batches[0].Record.Column(0).ValueStr(0)), "collation %s", c)
	}
	require.Greater(t, pages["filter"], 100)
	require.Positive(t, pages["driver"])
}

// oneText answers with one varchar(256) of these bytes.
func oneText(c tds.Collation, bytes []byte) answer {
	return func(_ context.Context, w *tds.Writer) error {
		w.Columns([]tds.Column{{Name: "c", Type: tds.TypeVarChar(256, c), Flags: tds.FlagsNullableOfTable}})
		return w.RawRow(append([]byte{0xD1, byte(len(bytes)), byte(len(bytes) >> 8)}, bytes...))
	}
}
