package facts

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// Table properties.
const (
	// PropSchemaVersion is the version of our columns. Ledger: 1 is the first.
	PropSchemaVersion = "rpconnect.schema_version"
	// PropForeignMinVersion is the least schema version of mssql-cdc-pyspark that
	// may write.
	PropForeignMinVersion = "mssql_cdc.min_version"

	schemaVersion        = 1
	foreignSchemaVersion = 15
)

// Config is what a [Writer] is opened with.
type Config struct {
	// Table is the facts table; its schema and properties are this package's.
	Table target.Spec
	// IdleInterval is the least time between two rows of windows of one key that
	// had no rows; 0 is 5 minutes.
	IdleInterval time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Writer collects facts and writes them. It is safe for concurrent use.
type Writer struct {
	cfg    Config
	target *target.Target

	mu      sync.Mutex
	pending []row
	seen    map[string]time.Time  // by application and target: when the last window row was taken
	taken   map[string]int64      // by key: the highest batch id that was ever taken
	known   map[eventKey]struct{} // events in the table or pending; nil until an event comes

	// flush is the right to write to the table.
	flush chan struct{}
	// flight is a commit that is not settled. Guarded by flush.
	flight *flight
}

// row is a fact on its way. key names the watermark that its batch id counts for.
type row struct {
	key  string
	fact mssqlcdc.Fact
}

// flight is one commit of rows.
type flight struct {
	id   string
	rows []row // those that the files hold
	fit  *target.Fitted
	adds []action.Add
}

// Open opens the facts table, or makes it.
func Open(ctx context.Context, st store.Store, cfg Config) (*Writer, error) {
	if cfg.IdleInterval <= 0 {
		cfg.IdleInterval = 5 * time.Minute
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t, err := target.Open(ctx, st, cfg.Table)
	if err != nil {
		return nil, err
	}
	fit, err := t.Fit(nil, Schema())
	if err != nil {
		return nil, errors.Join(err, t.Close(ctx))
	}
	properties := map[string]string{PropSchemaVersion: strconv.Itoa(schemaVersion)}
	if err := t.Create(ctx, fit, properties, "What the change data capture pipelines did: a row per window and per event"); err != nil {
		return nil, err
	}
	if text, ok := t.Snapshot().Property(PropForeignMinVersion); ok {
		if least, err := strconv.Atoi(text); err != nil || least > foreignSchemaVersion {
			return nil, errors.Join(t.Close(ctx), &target.SchemaConflictError{Table: cfg.Table.Name, Err: fmt.Errorf(
				"table property %s is %s, and this release knows %d: use a newer release", PropForeignMinVersion, text, foreignSchemaVersion)})
		}
	}
	return &Writer{cfg: cfg, target: t, seen: map[string]time.Time{}, taken: map[string]int64{}, flush: make(chan struct{}, 1)}, nil
}

// Watermark is the highest batch id of the key whose facts are in the table, or
// were given to this writer.
func (w *Writer) Watermark(key string) (int64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written, inTable := w.target.Snapshot().AppVersion(key)
	taken, given := w.taken[key]
	return max(written, taken), inTable || given
}

// LogFloor is the floor of the log of a data table, for maintain.Auto: commits of
// the application whose facts are not in this table yet must stay readable. key is
// the watermark of the application and that table.
func (w *Writer) LogFloor(ctx context.Context, data *delta.Table, appID, key string, below int64) (int64, error) {
	written, ok := w.target.Snapshot().AppVersion(key)
	if !ok {
		// What lies before the first facts of a table is taken as far as it goes.
		written = -1
	}
	return maintain.TxnFloor(ctx, data, appID, written, below)
}

// take makes a row pending. The caller holds mu.
func (w *Writer) take(key string, fact mssqlcdc.Fact) {
	w.pending = append(w.pending, row{key, fact})
	if fact.BatchID != nil {
		w.taken[key] = max(w.taken[key], *fact.BatchID)
	}
}

// AddWindow takes the row of a window. That of an idle one is dropped if the key
// had a row within the idle interval.
func (w *Writer) AddWindow(key string, fact mssqlcdc.Fact, idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Now()
	at := fact.AppID + "@" + fact.Target // a key of the watermark may not exist yet
	last, ok := w.seen[at]
	if idle && ok && now.Sub(last) < w.cfg.IdleInterval {
		return
	}
	w.seen[at] = now
	w.take(key, fact)
}

// AddEvents takes the rows of events, but for those that the table has. The first
// call reads the events of the table.
func (w *Writer) AddEvents(ctx context.Context, key string, events []mssqlcdc.Fact) (added int, err error) {
	if len(events) == 0 {
		return 0, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		known, err := w.readEvents(ctx)
		if err != nil {
			return 0, err
		}
		w.known = known
	}
	for i := range events {
		id := keyOf(&events[i])
		if _, ok := w.known[id]; ok {
			continue
		}
		w.known[id] = struct{}{}
		w.take(key, events[i])
		added++
	}
	return added, nil
}

// Pending is how many rows wait to be written.
func (w *Writer) Pending() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending)
}

// Flush writes what is pending, and says how many rows that were. After an error
// the rows are pending still, or their commit is, and the next Flush goes on.
func (w *Writer) Flush(ctx context.Context) (rows int, err error) {
	select {
	case w.flush <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-w.flush }()

	if w.flight != nil { // its outcome was unknown
		n, err := w.land(ctx)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	w.mu.Lock()
	taken := w.pending
	w.pending = nil
	w.mu.Unlock()
	if len(taken) == 0 {
		return rows, nil
	}
	w.flight = &flight{id: uuid.NewString(), rows: taken}
	if err := w.board(ctx, w.target.Snapshot()); err != nil {
		w.giveBack(ctx)
		return rows, err
	}
	n, err := w.land(ctx)
	return rows + n, err
}

// board leaves out the rows that the table has at a snapshot, and writes the file
// of the others.
func (w *Writer) board(ctx context.Context, s *delta.Snapshot) error {
	f := w.flight
	kept := missing(f.rows, s)
	if len(kept) == len(f.rows) && len(f.adds) > 0 {
		return nil
	}
	if err := w.target.Discard(ctx, f.adds); err != nil {
		return err
	}
	f.rows, f.adds = kept, nil
	if len(kept) == 0 {
		return nil
	}
	rec, err := record(kept, w.cfg.Now())
	if err != nil {
		return err
	}
	defer rec.Release()
	if f.fit, err = w.target.Fit(target.At(s), Schema()); err != nil {
		return err
	}
	files, err := w.target.NewWriter(ctx, f.fit)
	if err != nil {
		return err
	}
	if err := files.Write(rec); err != nil {
		return errors.Join(fmt.Errorf("writing facts: %w", err), files.Abort())
	}
	if f.adds, err = files.Close(); err != nil {
		return errors.Join(fmt.Errorf("writing facts: %w", err), files.Abort())
	}
	return nil
}

// missing are the rows whose batch id is above the watermark of their key.
func missing(rows []row, s *delta.Snapshot) []row {
	var kept []row
	for _, r := range rows {
		if r.fact.BatchID != nil && r.key != "" {
			if mark, ok := s.AppVersion(r.key); ok && *r.fact.BatchID <= mark {
				continue
			}
		}
		kept = append(kept, r)
	}
	return kept
}

// land commits the flight.
func (w *Writer) land(ctx context.Context) (rows int, err error) {
	f := w.flight
	if len(f.rows) == 0 {
		w.flight = nil
		return 0, nil
	}
	change, err := w.change(w.target.Snapshot())
	if err == nil {
		_, err = w.target.Table().Commit(ctx, change)
	}
	if errors.Is(err, delta.ErrUnknownOutcome) {
		return 0, err
	}
	if err != nil {
		w.giveBack(ctx)
		return 0, err
	}
	rows = len(f.rows)
	w.flight = nil
	return rows, nil
}

// change is the commit of the flight's rows. It counts as one that has read the
// table, so that any other writer's rows make it look at the watermarks again.
func (w *Writer) change(s *delta.Snapshot) (delta.Change, error) {
	f := w.flight
	fit, err := w.target.Rebase(s, f.fit)
	if err != nil {
		return delta.Change{}, err
	}
	highest := map[string]int64{}
	for _, r := range f.rows {
		if r.fact.BatchID != nil && r.key != "" {
			highest[r.key] = max(highest[r.key], *r.fact.BatchID)
		}
	}
	change := delta.Change{
		ID: f.id, Operation: delta.OpWrite, OperationParameters: map[string]string{"mode": "Append"},
		Metrics:  map[string]int64{"numFiles": int64(len(f.adds)), "numOutputRows": int64(len(f.rows))},
		Add:      f.adds,
		Metadata: target.Metadata(s, fit, nil), ReadVersion: s.Version(),
		Rebase: func(ctx context.Context, s *delta.Snapshot) (delta.Change, error) {
			if err := w.board(ctx, s); err != nil {
				return delta.Change{}, err
			}
			return w.change(s)
		},
	}
	for key, id := range highest {
		change.Marks = append(change.Marks, delta.Txn{AppID: key, Version: id})
	}
	return change, nil
}

// giveBack makes the rows of a flight that certainly did not land pending again.
func (w *Writer) giveBack(ctx context.Context) {
	f := w.flight
	w.flight = nil
	// A file that cannot be deleted belongs to nobody and goes with a vacuum.
	_ = w.target.Discard(context.WithoutCancel(ctx), f.adds)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(f.rows, w.pending...)
}

// Close closes the table. Flush before.
func (w *Writer) Close(ctx context.Context) error { return w.target.Close(ctx) }
