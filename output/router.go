package output

import (
	"context"
	"errors"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/rows"
)

// tableID names an open table: what it is used for, where it is, and by whom.
type tableID struct {
	changes     bool
	path, appID string
}

// entry is an open table: one of changes and plain is set.
type entry struct {
	id      tableID
	changes *bronze.Table
	plain   *rows.Table
	used    int64

	refused refusals
}

// router holds the open tables, the most recently used ones.
type router struct {
	limit int
	open  func(ctx context.Context, id tableID) (*entry, error)
	byID  map[tableID]*entry
	clock int64
}

func newRouter(limit int, open func(context.Context, tableID) (*entry, error)) *router {
	return &router{limit: limit, open: open, byID: map[tableID]*entry{}}
}

// changes is the table of changes at a path.
func (r *router) changes(ctx context.Context, path, appID string) (*entry, error) {
	return r.get(ctx, tableID{changes: true, path: path, appID: appID})
}

// plain is the table of ordinary rows at a path.
func (r *router) plain(ctx context.Context, path, appID string) (*entry, error) {
	return r.get(ctx, tableID{path: path, appID: appID})
}

func (r *router) get(ctx context.Context, id tableID) (*entry, error) {
	r.clock++
	if e, ok := r.byID[id]; ok {
		e.used = r.clock
		return e, nil
	}
	if err := r.makeRoom(ctx); err != nil {
		return nil, err
	}
	e, err := r.open(ctx, id)
	if err != nil {
		return nil, err
	}
	e.id, e.used = id, r.clock
	r.byID[id] = e
	return e, nil
}

// makeRoom closes the table least recently used, if there are too many. Tables in
// the middle of a window stay, even if that makes one more than the limit.
func (r *router) makeRoom(ctx context.Context) error {
	if len(r.byID) < r.limit {
		return nil
	}
	var oldest *entry
	for _, e := range r.byID {
		if (oldest == nil || e.used < oldest.used) && !e.busy() {
			oldest = e
		}
	}
	if oldest == nil {
		return nil
	}
	delete(r.byID, oldest.id)
	return oldest.close(ctx)
}

func (r *router) close(ctx context.Context) error {
	var errs []error
	for _, e := range r.byID {
		errs = append(errs, e.close(ctx))
	}
	r.byID = map[tableID]*entry{}
	return errors.Join(errs...)
}

func (e *entry) busy() bool { return e.changes != nil && e.changes.Busy() }

func (e *entry) close(ctx context.Context) error {
	if e.changes != nil {
		return e.changes.Close(ctx)
	}
	return e.plain.Close(ctx)
}
