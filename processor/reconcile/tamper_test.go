package reconcile_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// corruption is one thing that is wrong with one row.
type corruption struct {
	kind   reconcile.FailureType
	key    any    // id of the row
	column string // of RecordDiff
}

// corrupt spoils one row of a record of dbo.all_types and says how.
func corrupt(rng *rand.Rand, rows []map[string]any, fields []arrow.Field) ([]map[string]any, corruption) {
	at := rng.IntN(len(rows))
	done := corruption{key: rows[at]["id"]}
	switch rng.IntN(6) {
	case 0:
		done.kind = reconcile.MissingTarget
		return slices.Delete(rows, at, at+1), done
	case 1:
		extra := maps.Clone(rows[at])
		extra["id"] = int64(1000 + rng.IntN(1000))
		done.kind, done.key = reconcile.MissingSource, extra["id"]
		return append(rows, extra), done
	case 2:
		done.kind = reconcile.Doubled
		return append(rows, maps.Clone(rows[at])), done
	}
	var columns []arrow.Field
	for _, f := range fields {
		if strings.HasPrefix(f.Name, "c_") {
			columns = append(columns, f)
		}
	}
	field := columns[rng.IntN(len(columns))]
	done.kind, done.column = reconcile.RecordDiff, field.Name
	rows[at][field.Name] = another(rng, field, rows[at][field.Name])
	return rows, done
}

// another is a value that differs as little as can be.
func another(rng *rand.Rand, field arrow.Field, v any) any {
	if v != nil && rng.IntN(4) == 0 {
		return nil
	}
	switch v := v.(type) {
	case nil:
		return map[arrow.Type]any{
			arrow.BOOL: false, arrow.INT16: int64(0), arrow.INT32: int64(0), arrow.INT64: int64(0), arrow.FLOAT32: 0.0, arrow.FLOAT64: 0.0,
			arrow.DECIMAL128: "0", arrow.DATE32: "1970-01-01", arrow.TIMESTAMP: time.Unix(0, 0).UTC(), arrow.STRING: "", arrow.BINARY: []byte{},
		}[field.Type.ID()]
	case bool:
		return !v
	case int64:
		if v > 0 {
			return v - 1
		}
		return v + 1
	case float64:
		if field.Type.ID() == arrow.FLOAT32 {
			return float64(math.Nextafter32(float32(v), 0))
		}
		return math.Nextafter(v, 0)
	case time.Time:
		if v.Year() > 2000 {
			return v.Add(-time.Microsecond)
		}
		return v.Add(time.Microsecond)
	case []byte:
		if len(v) == 0 || rng.IntN(2) == 0 {
			return append(slices.Clone(v), 0)
		}
		spoilt := slices.Clone(v)
		spoilt[rng.IntN(len(spoilt))] ^= 1 << rng.IntN(8)
		return spoilt
	case string:
		switch field.Type.ID() {
		case arrow.DATE32:
			return map[bool]string{true: "2024-02-28", false: "2024-02-29"}[v == "2024-02-29"]
		case arrow.DECIMAL128:
			digit := map[bool]string{true: "8", false: "9"}[strings.HasSuffix(v, "9")]
			if strings.Trim(v, "-0.") == "" {
				digit = "1"
			}
			return v[:len(v)-1] + digit
		}
		if v == "" || rng.IntN(2) == 0 {
			return v + " " // a trailing space is a difference
		}
		if folded := strings.ToLower(v); folded != v {
			return folded
		}
		return "x" + v
	}
	panic(fmt.Sprintf("a value of type %T", v))
}

// tamper spoils the one row of the record that holds the table.
func tamper(t testing.TB, seed uint64, done *corruption) func(*reconcile.Config) {
	return func(c *reconcile.Config) {
		var once sync.Once
		c.Tamper(func(rec arrow.RecordBatch) arrow.RecordBatch {
			names := rec.Schema().FieldIndices("c_bit")
			if len(names) == 0 { // a look for the newest snapshot
				return rec
			}
			// The rows are read again to be shown: they must be the same.
			rng := rand.New(rand.NewPCG(seed, 1))
			rows, what := corrupt(rng, rowsOf(rec), rec.Schema().Fields())
			once.Do(func() { *done = what })
			return pack(t, rec.Schema(), rows)
		})
	}
}

// One row of a table is missing, too much, there twice, or differs a little in one column of any type: it is found, named, and nothing else is.
func TestEveryCorruptionIsFound(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	const workers = 4
	corruptions := 1000
	if raceEnabled || testing.Short() {
		corruptions = 100
	}
	for worker := range workers {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			_, err := workload.WriteTypes(t.Context(), l.sim)
			require.NoError(t, err)
			l.pass()
			lakes := []*lake{l.lake("dbo.all_types", reconcile.Current).read(), l.lake("dbo.all_types", reconcile.Bronze).read()}
			columns := map[string]bool{}
			for n := range corruptions / workers {
				var done corruption
				own := seed + uint64(worker*corruptions+n)
				k := lakes[n%len(lakes)]
				result := k.compare(tamper(t, own, &done))
				about := fmt.Sprintf("seed %d: %+v: %s", own, done, describe(result))
				require.Equal(t, reconcile.Mismatch, result.Status, about)
				require.Equal(t, map[reconcile.FailureType]int64{done.kind: 1}, result.Counts, about)
				require.Len(t, result.Failures, 1, about)
				require.Equal(t, done.kind, result.Failures[0].Type, about)
				require.Equal(t, map[string]any{"id": done.key}, result.Failures[0].Key, about)
				if done.column != "" {
					require.Equal(t, []string{done.column}, result.Failures[0].Columns, about)
					columns[done.column] = true
				}
			}
			require.Greater(t, len(columns), corruptions/workers/10, "columns of many types were spoilt")
		})
	}
}

// Of a sample that chose nothing, keys are compared all the same, and the buckets in which they differ are read whole.
func TestKeysAreComparedWithoutASample(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := workload.WriteTypes(t.Context(), l.sim)
	require.NoError(t, err)
	l.pass()
	k := l.lake("dbo.all_types", reconcile.Current).read()
	keysOnly := func(c *reconcile.Config) { c.Sample, c.BucketRows = 0, 2 }
	require.Zero(t, k.requireMatch(keysOnly).Hashed)

	spoil := func(change func([]map[string]any) []map[string]any) func(*reconcile.Config) {
		return func(c *reconcile.Config) {
			c.Tamper(func(rec arrow.RecordBatch) arrow.RecordBatch { return pack(t, rec.Schema(), change(rowsOf(rec))) })
		}
	}
	different := spoil(func(rows []map[string]any) []map[string]any {
		for _, row := range rows {
			row["c_money"] = "1.0000"
		}
		return rows
	})
	k.requireMatch(keysOnly, different) // which is why a sample of 1 is the default
	result := k.compare(keysOnly, spoil(func(rows []map[string]any) []map[string]any {
		rows = slices.DeleteFunc(rows, func(row map[string]any) bool { return row["id"] == int64(1) })
		for _, row := range rows {
			row["c_money"] = "1.0000"
		}
		return rows
	}))
	require.Equal(t, map[reconcile.FailureType]int64{reconcile.MissingTarget: 1, reconcile.RecordDiff: 1}, result.Counts)
	require.Equal(t, int64(2), result.Hashed, "the bucket of the missing key")
	require.True(t, result.Buckets[0].Hashed)
	require.Equal(t, reconcile.Mismatch, result.Buckets[0].Status)
	require.False(t, result.Buckets[1].Hashed)
}
