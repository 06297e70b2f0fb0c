package target_test

import (
	"context"
	"errors"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

func open(t *testing.T, st store.Store, spec target.Spec) *target.Target {
	t.Helper()
	spec.Name = "lake/t"
	opened, err := target.Open(t.Context(), st, spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close(context.Background())) })
	return opened
}

func columns(fields ...schema.Field) *schema.Struct { return &schema.Struct{Fields: fields} }

// fresh is rows that need nothing but a table of their schema.
func fresh(s *schema.Struct) *target.Fitted { return &target.Fitted{Schema: s} }

func long(name string) schema.Field {
	return schema.Field{Name: name, Type: schema.Long, Nullable: true}
}

func TestTheTableIsMadeWithItsRows(t *testing.T) {
	t.Parallel()
	st := mem.New()
	tg := open(t, st, target.Spec{Comment: "mine", ColumnComments: map[string]string{"A": "first", "c": "later"}, Properties: map[string]string{"x": "user"}})
	require.Nil(t, tg.Snapshot())
	s, err := tg.Fit(nil, columns(long("a"), long("b")))
	require.NoError(t, err)
	require.False(t, s.Changed)
	require.NoError(t, tg.Create(t.Context(), s, map[string]string{"x": "ours", "y": "ours"}, "default"))
	require.NoError(t, tg.Create(t.Context(), s, nil, ""), "nothing to do any more")
	m := tg.Snapshot().Metadata()
	require.Equal(t, "mine", m.Description)
	require.Equal(t, map[string]string{"x": "user", "y": "ours"}, m.Configuration)
	a, _ := tg.Snapshot().Schema().Field("a")
	require.Equal(t, "first", a.Comment())

	merged, err := tg.Fit(nil, columns(long("c")))
	require.NoError(t, err)
	require.True(t, merged.Changed)
	c, _ := merged.Schema.Field("c")
	require.Equal(t, "later", c.Comment())
	require.Nil(t, target.Metadata(tg.Snapshot(), target.At(tg.Snapshot()), map[string]string{"x": "user"}))
	require.NotNil(t, target.Metadata(tg.Snapshot(), merged, nil))
	require.Equal(t, "2", target.Metadata(tg.Snapshot(), nil, map[string]string{"y": "2"}).Configuration["y"])
}

func TestSomebodyElseMakesTheTable(t *testing.T) {
	t.Parallel()
	st := mem.New()
	tg, late := open(t, st, target.Spec{}), open(t, st, target.Spec{})
	_, err := delta.Create(t.Context(), st, delta.Spec{Schema: columns(long("a"))}, delta.Options{})
	require.NoError(t, err)
	require.NoError(t, tg.Create(t.Context(), fresh(columns(long("b"))), nil, ""))
	require.GreaterOrEqual(t, tg.Snapshot().Schema().Index("a"), 0)
	require.NoError(t, late.Refresh(t.Context()))
	require.NotNil(t, late.Snapshot())

	var conflict *target.SchemaConflictError
	other := open(t, mem.New(), target.Spec{PartitionBy: []string{"day"}})
	require.ErrorAs(t, other.Create(t.Context(), fresh(columns(long("a"))), nil, ""), &conflict)
	require.ErrorContains(t, conflict, "day")

	parted := mem.New()
	first := open(t, parted, target.Spec{Name: "lake/p", PartitionBy: []string{"a"}})
	require.NoError(t, first.Create(t.Context(), fresh(columns(long("a"), long("b"))), nil, ""))
	for _, fine := range [][]string{nil, {"A"}} {
		open(t, parted, target.Spec{Name: "lake/p", PartitionBy: fine})
	}
	_, err = target.Open(t.Context(), parted, target.Spec{Name: "lake/p", PartitionBy: []string{"b"}})
	require.ErrorAs(t, err, &conflict)
	require.ErrorContains(t, err, `partition_by is ["b"], and the table is partitioned by ["a"]`)

	text := columns(schema.Field{Name: "a", Type: schema.String, Nullable: true})
	_, err = tg.Fit(nil, text)
	require.ErrorAs(t, err, &conflict)
	require.ErrorContains(t, err, "lake/t")
}

func record(t *testing.T, valid bool) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil))
	defer b.Release()
	if valid {
		b.Field(0).(*array.Int64Builder).Append(1)
	} else {
		b.Field(0).AppendNull()
	}
	return b.NewRecordBatch()
}

// Errors about the rows are told from those of the store: the first never pass, the
// others may.
func TestErrorsOfRowsAndOfTheStore(t *testing.T) {
	t.Parallel()
	var broken fault.Op
	st := fault.Wrap(mem.New(), func(c fault.Call) fault.Fault {
		if c.Op == broken {
			return fault.Fault{Before: fault.ErrInjected}
		}
		return fault.Fault{}
	})
	tg := open(t, st, target.Spec{})
	s := fresh(columns(schema.Field{Name: "a", Type: schema.Long}))
	require.NoError(t, tg.Create(t.Context(), s, nil, ""))
	var conflict *target.SchemaConflictError

	w, err := tg.NewWriter(t.Context(), s)
	require.NoError(t, err)
	require.ErrorAs(t, w.Write(record(t, false)), &conflict)
	require.NoError(t, w.Write(record(t, true)))
	adds, err := w.Close()
	require.NoError(t, err)
	require.Len(t, adds, 1)
	require.NoError(t, tg.Discard(t.Context(), adds))
	missing, err := tg.Table().MissingFiles(t.Context(), adds)
	require.NoError(t, err)
	require.Len(t, missing, 1)

	for _, op := range []fault.Op{fault.Create, fault.Close} {
		broken = op
		w, err := tg.NewWriter(t.Context(), s)
		require.NoError(t, err)
		err = w.Write(record(t, true))
		if err == nil {
			_, err = w.Close()
		}
		require.ErrorIs(t, err, fault.ErrInjected)
		require.False(t, errors.As(err, &conflict), "%s: %v", op, err)
		require.NoError(t, w.Abort())
	}
}
