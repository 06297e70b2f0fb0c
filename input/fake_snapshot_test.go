package input

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// The source table of a fakeTable is its ids, in order.

// insert adds a row to a source table, and the commit that captures it.
func (f *fakeSource) insert(name string, n int, id int64) {
	f.commit(name, n, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tables[mssqlcdc.TableID{Schema: "dbo", Name: name}]
	t.source = append(t.source, id)
	slices.Sort(t.source)
}

// move gives a row another key, and the commit that captures it.
func (f *fakeSource) move(name string, n int, from, to int64) {
	f.insert(name, n, to)
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tables[mssqlcdc.TableID{Schema: "dbo", Name: name}]
	t.source = slices.DeleteFunc(t.source, func(id int64) bool { return id == from })
}

func bound(id int64) sqlserver.Bound {
	text := strconv.FormatInt(id, 10)
	return sqlserver.Bound{&text}
}

// idOf is the id of a bound, or what stands for an open one.
func idOf(b sqlserver.Bound, open int64) int64 {
	if len(b) == 0 {
		return open
	}
	id, err := strconv.ParseInt(*b[0], 10, 64)
	if err != nil {
		panic(err) // the test's own
	}
	return id
}

func (f *fakeSource) SnapshotKey(context.Context, sqlserver.Layout, []string) (sqlserver.SnapshotKey, error) {
	return sqlserver.SnapshotKey{Columns: []sqlserver.KeyColumn{{Name: "id", Type: "bigint"}}, Unique: true}, nil
}

func (f *fakeSource) SnapshotStamp(ctx context.Context, instance mssqlcdc.CaptureInstance) (sqlserver.Head, error) {
	head, err := f.MaxLSN(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n, other := f.headOf[instance.Name]; other && head.LSN.Less(fakeLSN(n)) {
		head.LSN, head.Time = fakeLSN(n), fakeTime(fakeLSN(n))
	}
	return head, err
}

func (f *fakeSource) sourceIDs(layout sqlserver.Layout, from, to sqlserver.Bound) []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []int64
	for _, id := range f.table(layout.Instance.Name).source {
		if id >= idOf(from, -1<<62) && id < idOf(to, 1<<62) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (f *fakeSource) MaxKey(_ context.Context, layout sqlserver.Layout, _ sqlserver.SnapshotKey) (sqlserver.Bound, error) {
	ids := f.sourceIDs(layout, nil, nil)
	if len(ids) == 0 {
		return nil, nil
	}
	return bound(ids[len(ids)-1]), nil
}

func (f *fakeSource) NextBound(_ context.Context, layout sqlserver.Layout, _ sqlserver.SnapshotKey, from, upto sqlserver.Bound, rows int64) (sqlserver.Bound, error) {
	ids := f.sourceIDs(layout, from, bound(idOf(upto, 0)+1))
	if int64(len(ids)) <= rows {
		return nil, nil
	}
	return bound(ids[rows]), nil
}

func (f *fakeSource) EndBound(_ context.Context, layout sqlserver.Layout, _ sqlserver.SnapshotKey, last sqlserver.Bound) (sqlserver.Bound, error) {
	ids := f.sourceIDs(layout, bound(idOf(last, 0)+1), nil)
	if len(ids) == 0 {
		return nil, nil
	}
	return bound(ids[0]), nil
}

// ReadChunk yields a part per PartRows rows.
func (f *fakeSource) ReadChunk(_ context.Context, request sqlserver.ChunkRequest) iter.Seq2[sqlserver.Part, error] {
	ids := f.sourceIDs(request.Layout, request.From, request.To)
	f.mu.Lock()
	readErr, reading := f.readErr, f.reading
	f.mu.Unlock()
	return func(yield func(sqlserver.Part, error) bool) {
		if reading != nil {
			defer reading(request)()
		}
		size := int(max(1, request.Limits.PartRows))
		for index := 0; ; index++ {
			if readErr != nil {
				if err := readErr(request.Layout.Instance.Table, index); err != nil {
					yield(sqlserver.Part{}, err)
					return
				}
			}
			n := min(size, len(ids))
			part := sqlserver.Part{Record: fakeSnapshotRecord(request.Layout, ids[:n], request.Stamp), Index: index, Last: n == len(ids)}
			ids = ids[n:]
			if !yield(part, nil) || part.Last {
				return
			}
		}
	}
}

func fakeSnapshotRecord(layout sqlserver.Layout, ids []int64, stamp sqlserver.Head) arrow.RecordBatch {
	schema := layout.Schema()
	builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
	if err != nil {
		panic(err) // the schema is the test's own
	}
	for _, id := range ids {
		for column, value := range []any{stamp.LSN[:], nil, int64(0), nil, stamp.Time, id, id} {
			if err := builder.Set(column, value); err != nil {
				panic(err)
			}
		}
	}
	return builder.NewRecord()
}

func (f *fakeSource) CheckSnapshotAllowed(context.Context) error { return f.notAllowed }

func (f *fakeSource) ServerClock(ctx context.Context) (string, error) {
	head, err := f.MaxLSN(ctx)
	return head.LSN.String(), err
}

// ServerTime is a second before head, as if capture took commits on at once, unless a test says otherwise.
func (f *fakeSource) ServerTime(ctx context.Context) (time.Time, error) {
	head, err := f.MaxLSN(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.clock.IsZero() {
		return f.clock, err
	}
	return head.Time.Add(-time.Second), err
}

func (f *fakeSource) UnchangedSince(ctx context.Context, instance mssqlcdc.CaptureInstance, since mssqlcdc.LSN, clock string) (unchanged, known bool, err error) {
	upto, err := mssqlcdc.ParseLSN(clock)
	if err != nil {
		return false, false, err
	}
	moved, err := f.Moved(ctx, []sqlserver.Cursor{{Instance: instance, After: since}}, upto)
	if err != nil {
		return false, false, err
	}
	return !moved[0].Moved, true, nil
}

func (f *fakeSource) CommitsAfter(_ context.Context, after, upto mssqlcdc.LSN, n int64) (mssqlcdc.LSN, error) {
	_, lo := after.Parts()
	if bound := fakeLSN(int(lo + n)); bound.Less(upto) {
		return bound, nil
	}
	return upto, nil
}

func (f *fakeSource) Health(context.Context) (sqlserver.Health, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return sqlserver.Health{Errors: 3, Scanned: true}, f.hidden
}
