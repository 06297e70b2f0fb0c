package input

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// fakeSource is a source in memory, for the order of things in the stream: what is
// read is a list of commits, and errors come where a test puts them. That the real
// client keeps the same contract is tested against the simulator.
type fakeSource struct {
	mu         sync.Mutex
	tables     map[mssqlcdc.TableID]*fakeTable
	head       mssqlcdc.LSN
	readErr    func(table mssqlcdc.TableID, part int) error // nil: none
	pollErr    func() error
	polls      int
	notAllowed error // of SNAPSHOT isolation
	closed     bool
	asked      int                                         // times that Health was asked
	hidden     error                                       // of Health
	reading    func(sqlserver.ChunkRequest) (ended func()) // called with each chunk that is read; nil: nothing
	readWindow func(mssqlcdc.Window) error                 // nil: none
	headOf     map[string]int                              // LSNs of SnapshotStamp that differ from head, by instance
	lowTime    time.Time                                   // commit time of min_lsn
	clock      time.Time                                   // of ServerTime; zero: just before head
}

type fakeTable struct {
	instance mssqlcdc.CaptureInstance
	commits  []fakeCommit              // in LSN order
	newer    *mssqlcdc.CaptureInstance // listed once head has come to its start
	low      mssqlcdc.LSN
	source   []int64 // ids of the source table
}

type fakeCommit struct {
	lsn  mssqlcdc.LSN
	rows int
}

func fakeLSN(n int) mssqlcdc.LSN {
	l, err := mssqlcdc.LSNFromParts(1, int64(n))
	if err != nil {
		panic(err) // a constant of the test
	}
	return l
}

func fakeTime(l mssqlcdc.LSN) time.Time {
	_, lo := l.Parts()
	return time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).Add(time.Duration(lo) * time.Second)
}

func newFakeSource(names ...string) *fakeSource {
	f := &fakeSource{tables: map[mssqlcdc.TableID]*fakeTable{}, head: fakeLSN(1)}
	for _, name := range names {
		id := mssqlcdc.TableID{Schema: "dbo", Name: name}
		f.tables[id] = &fakeTable{low: fakeLSN(1), instance: mssqlcdc.CaptureInstance{
			Name: "dbo_" + name, Table: id, StartLSN: fakeLSN(1), CreateDate: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		}}
	}
	return f
}

// commit adds a commit at LSN n with rows of one table; head moves to it.
func (f *fakeSource) commit(name string, n, rows int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head = fakeLSN(n)
	if t := f.tables[mssqlcdc.TableID{Schema: "dbo", Name: name}]; t != nil && rows > 0 {
		t.commits = append(t.commits, fakeCommit{lsn: f.head, rows: rows})
	}
}

func (f *fakeSource) open(context.Context, sqlserver.Config) (source, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = false
	return f, nil
}

func (f *fakeSource) Server() sqlserver.Server {
	return sqlserver.Server{Name: "fake", Database: "lab"}
}

func (f *fakeSource) MaxLSN(context.Context) (sqlserver.Head, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.polls++
	if f.pollErr != nil {
		if err := f.pollErr(); err != nil {
			return sqlserver.Head{}, err
		}
	}
	return sqlserver.Head{LSN: f.head, Time: fakeTime(f.head), SeenTime: time.Now()}, nil
}

func (f *fakeSource) table(instance string) *fakeTable {
	for _, t := range f.tables {
		if t.instance.Name == instance || t.newer != nil && t.newer.Name == instance {
			return t
		}
	}
	return nil
}

func (f *fakeSource) MinLSN(_ context.Context, instance string) (mssqlcdc.LSN, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.table(instance); t != nil {
		return t.low, nil
	}
	return mssqlcdc.LSN{}, nil
}

func (f *fakeSource) Diagnose(context.Context, mssqlcdc.CaptureInstance) error { return nil }

func (f *fakeSource) Instances(context.Context) ([]mssqlcdc.CaptureInstance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []mssqlcdc.CaptureInstance
	for _, t := range f.tables {
		if t.instance.Name != "" {
			all = append(all, t.instance)
		}
		if t.newer != nil && !f.head.Less(t.newer.StartLSN) {
			all = append(all, *t.newer)
		}
	}
	return all, nil
}

func (f *fakeSource) InstancesOf(ctx context.Context, tables []mssqlcdc.TableID) ([]mssqlcdc.CaptureInstance, error) {
	all, err := f.Instances(ctx)
	return slices.DeleteFunc(all, func(i mssqlcdc.CaptureInstance) bool { return !slices.Contains(tables, i.Table) }), err
}

func (f *fakeSource) CheckPermissions(context.Context, mssqlcdc.CaptureInstance) error { return nil }

func (f *fakeSource) Columns(_ context.Context, instance mssqlcdc.CaptureInstance, _ sqlserver.ColumnOptions) (sqlserver.Layout, error) {
	columns := []mssqlcdc.Column{{Name: "id", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint", Key: true}}
	if strings.HasSuffix(instance.Name, "_v2") {
		columns = append(columns, mssqlcdc.Column{Name: "extra", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint"})
	} else {
		columns = append(columns, mssqlcdc.Column{Name: "old", Type: arrow.PrimitiveTypes.Int64, SourceType: "bigint"})
	}
	return sqlserver.Layout{Instance: instance, HasCommandID: true, Columns: columns}, nil
}

func (f *fakeSource) CommitTime(_ context.Context, lsn mssqlcdc.LSN, exact bool) (time.Time, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if lsn.Less(fakeLSN(1)) {
		return time.Time{}, false, nil
	}
	return fakeTime(lsn), true, nil
}

func (f *fakeSource) LSNForTime(context.Context, time.Time) (mssqlcdc.LSN, error) {
	return mssqlcdc.LSN{}, nil
}

func (f *fakeSource) Remember(mssqlcdc.LSN, time.Time) {}

func (f *fakeSource) Moved(_ context.Context, cursors []sqlserver.Cursor, upto mssqlcdc.LSN) ([]sqlserver.Movement, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []sqlserver.Movement
	for _, c := range cursors {
		t := f.table(c.Instance.Name)
		if t == nil {
			all = append(all, sqlserver.Movement{Cursor: c, Err: &sqlserver.DataLossError{Instance: c.Instance.Name, Table: c.Instance.Table, From: c.After.Next(), Reason: "its change table is gone"}})
			continue
		}
		m := sqlserver.Movement{Cursor: c, MinLSN: t.low, MinLSNTime: f.lowTime}
		if c.After.Next().Less(t.low) {
			m.Err = &sqlserver.DataLossError{Instance: c.Instance.Name, Table: c.Instance.Table, From: c.After.Next(), MinLSN: t.low, Reason: "purged"}
		}
		for _, commit := range t.commits {
			m.Moved = m.Moved || c.After.Less(commit.lsn) && !upto.Less(commit.lsn)
		}
		all = append(all, m)
	}
	return all, nil
}

func (f *fakeSource) Plan(_ context.Context, layout sqlserver.Layout, start, upto mssqlcdc.LSN, limits sqlserver.Limits) (sqlserver.Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end, commits := upto, int64(0)
	for _, c := range f.table(layout.Instance.Name).commits {
		if !start.Less(c.lsn) || upto.Less(c.lsn) {
			continue
		}
		if commits++; commits == limits.Commits {
			end = c.lsn
			break
		}
	}
	return sqlserver.Plan{Window: mssqlcdc.Window{Start: start, End: end, EndTime: fakeTime(end)}}, nil
}

// Read yields a part per PartRows rows; the id of a row is LSN*1000 + number.
func (f *fakeSource) Read(ctx context.Context, request sqlserver.ReadRequest) iter.Seq2[sqlserver.Part, error] {
	f.mu.Lock()
	var rows []int64
	window := request.Plan.Window
	for _, c := range f.table(request.Layout.Instance.Name).commits {
		if window.Contains(c.lsn) && !c.lsn.Less(request.Layout.Instance.StartLSN) {
			_, lo := c.lsn.Parts()
			for i := range c.rows {
				rows = append(rows, lo*1000+int64(i))
			}
		}
	}
	readErr, readWindow, low := f.readErr, f.readWindow, f.lowTime
	f.mu.Unlock()
	return func(yield func(sqlserver.Part, error) bool) {
		if readWindow != nil {
			if err := readWindow(window); err != nil {
				yield(sqlserver.Part{}, err)
				return
			}
		}
		size := int(max(1, request.Limits.PartRows))
		for index := 0; ; index++ {
			if readErr != nil {
				if err := readErr(request.Layout.Instance.Table, index); err != nil {
					yield(sqlserver.Part{}, err)
					return
				}
			}
			n := min(size, len(rows))
			part := sqlserver.Part{Record: fakeRecord(request.Layout, rows[:n]), Window: window, Index: index, Last: n == len(rows)}
			part.Metrics.MinLSNTime = low
			rows = rows[n:]
			if !yield(part, nil) || part.Last {
				return
			}
		}
	}
}

func fakeRecord(layout sqlserver.Layout, ids []int64) arrow.RecordBatch {
	schema := layout.Schema()
	builder, err := mssqlcdc.NewRowBuilder(schema, array.NewRecordBuilder(memory.DefaultAllocator, schema))
	if err != nil {
		panic(err) // the schema is the test's own
	}
	for _, id := range ids {
		lsn, seqval := fakeLSN(int(id/1000)), mssqlcdc.LSN{9: byte(id)}
		for column, value := range []any{lsn[:], seqval[:], int64(2), id % 1000, fakeTime(lsn), id, id} {
			if err := builder.Set(column, value); err != nil {
				panic(err)
			}
		}
	}
	return builder.NewRecord()
}

func (f *fakeSource) Idle(layout sqlserver.Layout, window mssqlcdc.Window, _ sqlserver.Movement, _ sqlserver.Head) sqlserver.Part {
	return sqlserver.Part{Record: fakeRecord(layout, nil), Window: window, Last: true}
}

func (f *fakeSource) DDL(context.Context, mssqlcdc.CaptureInstance, mssqlcdc.LSN, mssqlcdc.LSN) ([]sqlserver.DDL, error) {
	return nil, nil
}

func (f *fakeSource) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fmt.Errorf("closed twice")
	}
	f.closed = true
	return nil
}
