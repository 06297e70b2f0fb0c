package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/stretchr/testify/require"
)

// The rows are the published ones: the digest is that of other programs that make them.
func TestRowsAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	rec := makeRows(0, 1000, nil)
	defer rec.Release()
	lines := canonicalRows(rec)
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	require.Equal(t, "6033555aeee553d8", hex.EncodeToString(sum[:])[:16])

	one := makeRows(123456, 1, nil)
	defer one.Release()
	require.Equal(t, `{"amount": "18716.56", "commit_time": "2026-01-01T00:02:03.450000Z", "id": 123456, "note": null, "operation": 2, "position": 123456, `+
		`"region": "east", "seqval": "0x0000002A000303970007", "start_lsn": "0x0000002A000303900003", "status": "NEW", "table_name": "dbo.order_lines", `+
		`"updated_at": "2026-01-01T00:01:37.517515Z"}`, canonicalRows(one)[0])

	var amounts int64 // of operation 2 in five million rows
	for i := range uint64(5_000_000) {
		if draw(i, 3)%4 == 1 {
			amounts += int64(draw(i, 10) % 10_000_000)
		}
	}
	require.EqualValues(t, 62470433435_00, amounts)
}

func TestMergeSourceIsHalfNew(t *testing.T) {
	t.Parallel()
	rec := mergeSource(10_000)
	defer rec.Release()
	ids := rec.Column(6).(*array.Int64)
	seen, known := map[int64]bool{}, 0
	for i := range ids.Len() {
		require.False(t, seen[ids.Value(i)])
		seen[ids.Value(i)] = true
		if ids.Value(i) < mergeTarget {
			known++
		}
	}
	require.Equal(t, 5000, known)
	require.EqualValues(t, mergeTarget-200, ids.Value(9998), "the known ids are spread evenly")
	require.EqualValues(t, firstMerged, rec.Column(5).(*array.Int64).Value(0))
}

// canonicalRows are JSON objects in the spelling of Python's json module, keys sorted.
func canonicalRows(rec arrow.RecordBatch) []string {
	lines := make([]string, rec.NumRows())
	for i := range lines {
		var parts []string
		for c, column := range rec.Columns() {
			parts = append(parts, fmt.Sprintf("%q: %s", rec.ColumnName(c), canonicalValue(column, i)))
		}
		slices.Sort(parts)
		lines[i] = "{" + strings.Join(parts, ", ") + "}"
	}
	return lines
}

func canonicalValue(column arrow.Array, i int) string {
	if column.IsNull(i) {
		return "null"
	}
	switch c := column.(type) {
	case *array.Timestamp:
		return time.UnixMicro(int64(c.Value(i))).UTC().Format(`"2006-01-02T15:04:05.000000Z"`)
	case *array.String:
		return fmt.Sprintf("%q", c.Value(i))
	case *array.Decimal128:
		return fmt.Sprintf("%q", c.Value(i).ToString(2))
	default:
		return column.ValueStr(i)
	}
}
