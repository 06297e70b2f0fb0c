package bronze_test

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// foreign makes a table as mssql-cdc-pyspark leaves it: the rows of the first
// commits, its own transaction, no position.
func foreign(t *testing.T, h changetest.History, commits int) *mem.Store {
	t.Helper()
	scratch := mem.New()
	w := h.Cut(changetest.Cursor{}, commits, 1000)
	write(t, open(t, scratch, config()), w)
	from, err := delta.Open(t.Context(), scratch, delta.Options{})
	require.NoError(t, err)

	st := mem.New()
	s := from.Snapshot().Schema()
	spec := delta.Spec{Schema: s.Without([]string{mssqlcdc.ColSnapshot, mssqlcdc.ColChunk}), Properties: map[string]string{"mssql_cdc.schema_version": "2"}}
	to, err := delta.Create(t.Context(), st, spec, delta.Options{})
	require.NoError(t, err)
	files, err := to.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	var columns []string
	for _, f := range spec.Schema.Fields {
		columns = append(columns, f.Name)
	}
	for rec, err := range from.Read(t.Context(), from.Snapshot(), delta.ReadOptions{Columns: columns}) {
		require.NoError(t, err)
		require.NoError(t, files.Write(rec))
	}
	adds, err := files.Close()
	require.NoError(t, err)
	_, err = to.Commit(t.Context(), delta.Change{
		Add: adds, BlindAppend: true, Keyed: &delta.Txn{AppID: app, Version: 41}, UserMetadata: `{"rows":3,"min_commit_ts":"2026-01-01 00:00:00","batch_id":41}`,
	})
	require.NoError(t, err)
	return st
}

func TestAdoptATable(t *testing.T) {
	t.Parallel()
	h := history(21, 12)
	middle := h.Commits[5].LSN
	found := func(lsn mssqlcdc.LSN, err error) bronze.Adoption {
		return bronze.Adoption{Mode: bronze.AdoptFound, Find: func(context.Context) (mssqlcdc.LSN, error) { return lsn, err }}
	}
	for _, test := range []struct {
		name   string
		adopt  bronze.Adoption
		app    string
		want   string // of the error
		next   int64  // batch id of the first window
		reason string
	}{
		{name: "not asked for", adopt: bronze.Adoption{}, app: app, want: "has rows"},
		{name: "at the LSN it is at", adopt: bronze.Adoption{Mode: bronze.AdoptAt, LSN: middle}, app: app, next: 43},
		{name: "above it, on an idle stretch", adopt: bronze.Adoption{Mode: bronze.AdoptAt, LSN: middle.Next()}, app: app, next: 43},
		{name: "below its rows", adopt: bronze.Adoption{Mode: bronze.AdoptAt, LSN: h.Commits[4].LSN}, app: app, want: middle.String()},
		{name: "under another name", adopt: bronze.Adoption{Mode: bronze.AdoptAt, LSN: middle}, app: "mine", next: 3},
		{name: "where the facts say", adopt: found(middle, nil), app: app, next: 43},
		{name: "facts that a crash left behind", adopt: found(h.Commits[2].LSN, nil), app: app, next: 43},
		{name: "facts that know nothing", adopt: found(mssqlcdc.LSN{}, nil), app: app, want: "facts table has no window"},
		{name: "facts that cannot be read", adopt: found(mssqlcdc.LSN{}, errors.New("no access")), app: app, want: "no access"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			st := foreign(t, h, 6)
			cfg := config()
			cfg.Adopt, cfg.AppID = test.adopt, test.app
			table := open(t, st, cfg)
			w := h.Cut(changetest.Cursor{Next: 3, LSN: h.Commits[2].LSN, DataLSN: mssqlcdc.LSN{}}, 20, 1000) // reaches over the position
			result, err := table.Write(t.Context(), w.Parts[0])
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				requireRows(t, st, h.Rows()[:len(h.Rows())-rowsFrom(h, 6)])
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.next, *result.Window.BatchID)
			require.Equal(t, int64(rowsFrom(h, 6)), result.Rows)
			requireRows(t, st, h.Rows())
			require.GreaterOrEqual(t, table.Target().Snapshot().Schema().Index(mssqlcdc.ColChunk), 0, "columns of ours are added")
			// The wish stays in the config and changes nothing any more.
			_, err = open(t, st, cfg).Write(t.Context(), w.Parts[0])
			require.NoError(t, err)
			requireRows(t, st, h.Rows())
		})
	}
}

func rowsFrom(h changetest.History, commit int) int {
	n := 0
	for _, c := range h.Commits[commit:] {
		n += len(c.Rows)
	}
	return n
}

func TestAdoptSomethingElse(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table, err := delta.Create(t.Context(), st, delta.Spec{Schema: &schema.Struct{Fields: []schema.Field{{Name: "id", Type: schema.Long, Nullable: true}}}}, delta.Options{})
	require.NoError(t, err)
	files, err := table.NewWriter(t.Context(), data.WriterOptions{})
	require.NoError(t, err)
	b := array.NewRecordBuilder(memory.DefaultAllocator, table.Snapshot().Schema().Arrow())
	b.Field(0).(*array.Int64Builder).Append(1)
	require.NoError(t, files.Write(b.NewRecordBatch()))
	adds, err := files.Close()
	require.NoError(t, err)
	_, err = table.Commit(t.Context(), delta.Change{Add: adds, BlindAppend: true})
	require.NoError(t, err)

	cfg := config()
	cfg.Adopt = bronze.Adoption{Mode: bronze.AdoptAt, LSN: changetest.LSN(1)}
	h := history(22, 3)
	_, err = open(t, st, cfg).Write(t.Context(), h.Cut(changetest.Cursor{}, 3, 100).Parts[0])
	var adopt *bronze.AdoptError
	require.ErrorAs(t, err, &adopt)
	require.ErrorContains(t, err, mssqlcdc.ColCaptureInstance)
	require.Equal(t, bronze.Stop, bronze.Decide(err))
}

// A table is taken over before a window comes, and the windows go on from there.
func TestAdoptBeforeAWindow(t *testing.T) {
	t.Parallel()
	h := history(24, 12)
	middle := h.Commits[5].LSN
	st := foreign(t, h, 6)
	cfg := config()
	cfg.Adopt = bronze.Adoption{Mode: bronze.AdoptFound, Find: func(context.Context) (mssqlcdc.LSN, error) { return h.Commits[2].LSN, nil }}
	w := h.Cut(changetest.Cursor{Next: 3, LSN: h.Commits[2].LSN}, 20, 1000)
	env := w.Parts[0].Envelope()
	position, event, err := open(t, st, cfg).Adopt(t.Context(), env)
	require.NoError(t, err)
	require.Equal(t, middle, position, "the rows, not the facts that a crash left behind")
	require.Equal(t, mssqlcdc.EventTableAdopted, event.Event)

	cfg.Adopt = bronze.Adoption{} // the wish is fulfilled
	table := open(t, st, cfg)
	position, event, err = table.Adopt(t.Context(), env)
	require.NoError(t, err)
	require.Equal(t, middle, position)
	require.Nil(t, event, "once")
	_, err = table.Write(t.Context(), w.Parts[0])
	require.NoError(t, err)
	requireRows(t, st, h.Rows())

	env.Table = mssqlcdc.TableID{Schema: "dbo", Name: "another"}
	_, _, err = open(t, st, cfg).Adopt(t.Context(), env)
	var source *bronze.SourceError
	require.ErrorAs(t, err, &source)
}
