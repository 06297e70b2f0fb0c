package reconcile_test

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
)

// edit changes the rows that are read of the target.
func edit(t testing.TB, change func(rows []map[string]any) []map[string]any) func(*reconcile.Config) {
	return func(c *reconcile.Config) {
		c.Tamper(func(rec arrow.RecordBatch) arrow.RecordBatch {
			if len(rec.Schema().FieldIndices("v")) == 0 {
				return rec
			}
			return pack(t, rec.Schema(), change(rowsOf(rec)))
		})
	}
}

// editAny is edit for tables without a column v.
func editAny(t testing.TB, change func(rows []map[string]any) []map[string]any) func(*reconcile.Config) {
	return func(c *reconcile.Config) {
		c.Tamper(func(rec arrow.RecordBatch) arrow.RecordBatch { return pack(t, rec.Schema(), change(rowsOf(rec))) })
	}
}

func buckets(rows int64) func(*reconcile.Config) {
	return func(c *reconcile.Config) { c.BucketRows = rows }
}

// Keys of every type and shape: what is equal matches, in buckets of every size; a key that one side lacks, and one that is too much, is found
// and shown, wherever it would sort.
func TestKeysOfEveryType(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		columns string
		rows    []string
		gone    map[string]any // key of one of the rows
		extra   map[string]any // key of no row
	}{
		"int":  {"id int NOT NULL PRIMARY KEY, v int", []string{"(-2147483648, 1)", "(0, 1)", "(2147483647, 1)"}, map[string]any{"id": int64(0)}, map[string]any{"id": int64(7)}},
		"guid": {"id uniqueidentifier NOT NULL PRIMARY KEY, v int", []string{"('00000000-0000-0000-0000-0000000000FF', 1)", "('FF000000-0000-0000-0000-000000000000', 1)", "('01234567-89AB-CDEF-0123-456789ABCDEF', 1)"}, map[string]any{"id": "FF000000-0000-0000-0000-000000000000"}, map[string]any{"id": "00000000-0000-0000-0000-000000000000"}},
		"text without case": {
			"id nvarchar(20) COLLATE Latin1_General_CI_AS NOT NULL PRIMARY KEY, v int", []string{"(N'b', 1)", "(N'A', 1)", "(N'ä', 1)", "(N'C ', 1)"},
			map[string]any{"id": "C "}, map[string]any{"id": "a"}, // equal to the server, and not what it has
		},
		"code page": {"id varchar(20) COLLATE SQL_Latin1_General_CP1_CI_AS NOT NULL PRIMARY KEY, v int", []string{"(N'aƒa', 1)", "(N'aba', 1)", "(N'', 1)"}, map[string]any{"id": "aƒa"}, map[string]any{"id": "aƒb"}},
		"composite": {
			"a int NOT NULL, b varchar(5) COLLATE Latin1_General_CI_AS NOT NULL, v int, PRIMARY KEY (a, b)", []string{"(1, 'x', 1)", "(1, 'y', 1)", "(2, 'X', 1)"},
			map[string]any{"a": int64(2), "b": "X"}, map[string]any{"a": int64(2), "b": "x"},
		},
		"datetime2": {"id datetime2(7) NOT NULL PRIMARY KEY, v int", []string{"('2024-01-01T00:00:00.1234567', 1)", "('0001-01-01', 1)", "('9999-12-31T23:59:59.9999999', 1)"}, map[string]any{"id": "2024-01-01T00:00:00.123456"}, map[string]any{"id": "2024-01-01T00:00:00.123457"}},
		"date":      {"id date NOT NULL PRIMARY KEY, v int", []string{"('1969-12-31', 1)", "('9999-12-31', 1)"}, map[string]any{"id": "1969-12-31"}, map[string]any{"id": "1970-01-01"}},
		"decimal":   {"id decimal(38,10) NOT NULL PRIMARY KEY, v int", []string{"(-0.0000000001, 1)", "(1844674407370955161.6, 1)"}, map[string]any{"id": "-0.0000000001"}, map[string]any{"id": "0.0000000000"}},
		"binary":    {"id varbinary(16) NOT NULL PRIMARY KEY, v int", []string{"(0x00, 1)", "(0xFF, 1)", "(0x01, 1)"}, map[string]any{"id": "0xff"}, map[string]any{"id": "0x0000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.table(c.columns, c.rows...)
			is := func(row, key map[string]any) bool {
				for column, value := range key {
					if shownValue(row[column]) != value {
						return false
					}
				}
				return true
			}
			for kind, k := range map[reconcile.Kind]*lake{
				reconcile.Bronze: l.lake("dbo.t", reconcile.Bronze).stream(), reconcile.Current: l.lake("dbo.t", reconcile.Current).read(),
			} {
				for _, size := range []int64{1, 2, 100} {
					require.Equal(t, int64(len(c.rows)), k.requireMatch(buckets(size)).SourceRows)
				}
				result := k.compare(buckets(1), edit(t, func(rows []map[string]any) []map[string]any {
					return slices.DeleteFunc(rows, func(row map[string]any) bool { return is(row, c.gone) })
				}))
				require.Equal(t, map[reconcile.FailureType]int64{reconcile.MissingTarget: 1}, result.Counts, kind)
				require.Equal(t, c.gone, result.Failures[0].Key)
				result = k.compare(buckets(1), edit(t, func(rows []map[string]any) []map[string]any {
					for _, row := range rows {
						if !is(row, c.gone) {
							continue
						}
						for column, value := range c.extra {
							row[column] = storedValue(row[column], value)
						}
					}
					return rows
				}))
				require.Equal(t, map[reconcile.FailureType]int64{reconcile.MissingTarget: 1, reconcile.MissingSource: 1}, result.Counts, kind)
				require.Equal(t, []map[string]any{c.extra, c.gone}, []map[string]any{result.Failures[0].Key, result.Failures[1].Key})
				require.True(t, result.Buckets[len(result.Buckets)-1].Outside, "the key that only the table has is in no range")
			}
		})
	}
}

// NULL is a value of a key like others, in every place of it.
func TestNullKeys(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.t (a int NULL, b varchar(9) NULL, v int)", "CREATE UNIQUE INDEX u ON dbo.t (a, b)",
		"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL", // it takes no index with NULLs
		"INSERT dbo.t VALUES (1, 'x', 1), (NULL, 'x', 2), (1, NULL, 3), (NULL, NULL, 4)")
	l.pass()
	k := l.lake("dbo.t", reconcile.Bronze).stream()
	keys := func(c *reconcile.Config) { c.Keys = []string{"a", "b"} }
	k.requireMatch(buckets(1), keys)
	for v := range int64(4) {
		result := k.compare(keys, edit(t, func(rows []map[string]any) []map[string]any {
			return slices.DeleteFunc(rows, func(row map[string]any) bool { return row["v"] == v+1 })
		}))
		require.Equal(t, map[reconcile.FailureType]int64{reconcile.MissingTarget: 1}, result.Counts)
	}
	// A change of such a key, which the table does not have yet, is in flight.
	l.exec("UPDATE dbo.t SET v = 5 WHERE a IS NULL AND b IS NULL")
	result := k.compare(keys)
	require.Equal(t, map[reconcile.FailureType]int64{reconcile.InFlight: 1}, result.Counts)
	require.Equal(t, reconcile.Flying, result.Status)
}

// A table without a key is refused, unless columns are named; columns that do not tell rows apart are told.
func TestTableWithoutAKey(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table("a int NOT NULL, b int NULL, v int", "(1, 1, 1)", "(1, 2, 2)", "(2, 1, 3)")
	k := l.lake("dbo.t", reconcile.Current).read()
	_, err := reconcile.Run(t.Context(), k.config())
	var none *reconcile.NoKeyError
	require.ErrorAs(t, err, &none)
	require.ErrorContains(t, err, "unique index")
	k.requireMatch(func(c *reconcile.Config) { c.Keys = []string{"A", "b"} })
	result := k.compare(func(c *reconcile.Config) { c.Keys = []string{"a"} })
	require.Equal(t, int64(1), result.Counts[reconcile.Doubled], "the table has the key twice, as the source has")
	result = k.compare(func(c *reconcile.Config) { c.Keys = []string{"a"} }, edit(t, func(rows []map[string]any) []map[string]any {
		return slices.DeleteFunc(rows, func(row map[string]any) bool { return row["v"] == int64(1) })
	}))
	require.Equal(t, map[reconcile.FailureType]int64{reconcile.NotUnique: 1}, result.Counts)
}

// shownValue is a value as keys are shown; storedValue takes it back.
func shownValue(v any) any { return reconcile.Showable(v) }

func storedValue(like, shown any) any { return reconcile.Stored(like, shown) }
