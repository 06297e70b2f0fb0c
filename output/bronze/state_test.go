package bronze_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func TestVersionsOfOtherReleases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		property, value string
		refused         bool
	}{
		{"mssql_cdc.min_version", "2", false},
		{"mssql_cdc.min_version", "3", true},
		{"mssql_cdc.min_version", "new", true},
		{"rpconnect.min_version", "1", false},
		{"rpconnect.min_version", "2", true},
		{"mssql_cdc.schema_version", "9", false},
	} {
		t.Run(fmt.Sprint(test.property, " ", test.value), func(t *testing.T) {
			t.Parallel()
			h := history(13, 3)
			st := mem.New()
			s, err := bronze.Schema(mssqlcdc.RecordSchema(changetest.Columns(false)), false)
			require.NoError(t, err)
			_, err = delta.Create(t.Context(), st, delta.Spec{Schema: s, Properties: map[string]string{test.property: test.value}}, delta.Options{})
			require.NoError(t, err)
			table, err := bronze.Open(t.Context(), st, config())
			if test.refused {
				var version *bronze.VersionError
				require.ErrorAs(t, err, &version)
				require.Equal(t, bronze.Stop, bronze.Decide(err))
				return
			}
			require.NoError(t, err)
			write(t, table, h.Cut(changetest.Cursor{}, 3, 100))
			value, _ := table.Target().Snapshot().Property(test.property)
			require.Equal(t, test.value, value)
			source, _ := table.Target().Snapshot().Property(bronze.PropSourceTable)
			require.Equal(t, "dbo.orders", source)
		})
	}
}

func TestAnotherSchemaIsRefused(t *testing.T) {
	t.Parallel()
	h := history(14, 3)
	st := mem.New()
	_, err := delta.Create(t.Context(), st, delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{
		{Name: "_start_lsn", Type: schema.Binary, Nullable: true}, {Name: "id", Type: schema.Long, Nullable: true},
	}}}, delta.Options{})
	require.NoError(t, err)
	w := h.Cut(changetest.Cursor{}, 3, 100)
	_, err = open(t, st, config()).Write(t.Context(), w.Parts[0])
	require.Error(t, err)
	require.Equal(t, bronze.Stop, bronze.Decide(err))
	require.Contains(t, err.Error(), "_start_lsn")
	require.Contains(t, err.Error(), "binary")
	require.Contains(t, err.Error(), "string")
}

func TestSomebodyAddsColumnsMeanwhile(t *testing.T) {
	t.Parallel()
	h := history(15, 6)
	st := mem.New()
	table := open(t, st, config())
	first := h.Cut(changetest.Cursor{}, 3, 100)
	write(t, table, first)

	other, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	m := other.Snapshot().Metadata()
	wider := &schema.Struct{Fields: append(other.Snapshot().Schema().Fields, schema.Field{Name: "theirs", Type: schema.Long, Nullable: true})}
	m.SchemaString = wider.JSON()
	_, err = other.Commit(t.Context(), delta.Change{Operation: delta.OpAddColumns, Metadata: &m, ReadVersion: other.Snapshot().Version()})
	require.NoError(t, err)

	h.ExtraFrom = 3
	write(t, table, h.Cut(first.After, 3, 100))
	s := table.Target().Snapshot().Schema()
	require.GreaterOrEqual(t, s.Index("theirs"), 0)
	require.GreaterOrEqual(t, s.Index("extra"), 0)
	requireRows(t, st, h.Rows())
}

func TestARestoreDoesNotMakeASilentGap(t *testing.T) {
	t.Parallel()
	h := history(16, 9)
	st := mem.New()
	w := h.Cut(changetest.Cursor{}, 3, 100)
	write(t, open(t, st, config()), w)
	noise(t, st, 20)
	other, err := delta.Open(t.Context(), st, delta.Options{})
	require.NoError(t, err)
	_, err = other.Commit(t.Context(), delta.Change{Operation: "RESTORE", BlindAppend: true})
	require.NoError(t, err)
	noise(t, st, 3)

	_, err = bronze.Open(t.Context(), st, config())
	var restored *bronze.RestoredError
	require.ErrorAs(t, err, &restored)
	require.Equal(t, int64(22), restored.Version)
	require.Equal(t, bronze.Stop, bronze.Decide(err))
	require.ErrorContains(t, err, w.After.LSN.String())

	cfg := config()
	cfg.AppID, cfg.Adopt = "another", bronze.Adoption{Mode: bronze.AdoptAt, LSN: w.After.LSN}
	table := open(t, st, cfg)
	write(t, table, h.Cut(changetest.Cursor{}, 9, 100))
	requireRows(t, st, h.Rows())
}
