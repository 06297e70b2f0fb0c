package bronze

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// Table is a bronze table and the window that is being staged for it. It is used
// from one goroutine at a time.
type Table struct {
	cfg     Config
	target  *target.Target
	convert *converter

	// life covers what outlives a call: files that are being written.
	life   context.Context
	cancel context.CancelFunc

	// What the log says. batchID is the last one of our application, 0 for none.
	position    mssqlcdc.LSN
	hasPosition bool
	batchID     int64

	// adopted is the event of a take-over until a window hands it out.
	adopted *mssqlcdc.Fact

	win    *window
	layout layout
	steady steady
}

// layout is the bronze schema of records of one layout.
type layout struct {
	record *arrow.Schema
	bronze *schema.Struct
}

// Open opens the table in the store, which may not have it yet, and reads its
// position. The context covers the opening only.
func Open(ctx context.Context, st store.Store, cfg Config) (*Table, error) {
	if cfg.AppID == "" {
		return nil, errors.New("opening a table for record batches: the application id is empty")
	}
	cfg = cfg.withDefaults()
	opened, err := target.Open(ctx, st, cfg.Table)
	if err != nil {
		return nil, err
	}
	t := &Table{cfg: cfg, target: opened}
	t.convert = newConverter(t.byDate())
	t.life, t.cancel = context.WithCancel(context.WithoutCancel(ctx))
	err = t.load()
	if err == nil && t.hasPosition {
		err = t.checkRestored(ctx)
	}
	if err != nil {
		t.cancel()
		return nil, errors.Join(err, opened.Close(ctx))
	}
	return t, nil
}

// checkRestored looks for a restore among the commits after our last one. Normally
// there are none or a few.
func (t *Table) checkRestored(ctx context.Context) error {
	from, err := t.versionOf(ctx, t.batchID-1)
	if err != nil {
		return err
	}
	restored := int64(-1)
	for c, err := range t.target.Table().Commits(ctx, from) {
		if err != nil {
			return err
		}
		if _, ours := t.batchOf(c); ours {
			restored = -1
		} else if strings.EqualFold(c.Info.Operation, "RESTORE") {
			restored = c.Version
		}
	}
	if restored < 0 {
		return nil
	}
	return &RestoredError{Target: t.target.Name(), AppID: t.cfg.AppID, Version: restored, Position: t.position}
}

// byDate tells whether the table has the column of the commit date.
func (t *Table) byDate() bool {
	if s := t.target.Snapshot(); s != nil {
		return s.Schema().Index(ColCommitDate) >= 0
	}
	return slices.Contains(t.cfg.Table.PartitionBy, ColCommitDate)
}

// load takes over what the newest snapshot says.
func (t *Table) load() error {
	s := t.target.Snapshot()
	if s == nil {
		return nil
	}
	if err := t.checkVersions(s); err != nil {
		return err
	}
	position, ok, err := Position(s, t.cfg.AppID)
	if err != nil {
		return fmt.Errorf("opening table %s: %w", t.target.Name(), err)
	}
	t.position, t.hasPosition = position, ok
	t.batchID, _ = s.AppVersion(t.cfg.AppID)
	return nil
}

// checkVersions refuses a table that wants a newer release than this one.
func (t *Table) checkVersions(s *delta.Snapshot) error {
	for property, known := range map[string]int{PropForeignMinVersion: foreignSchemaVersion, PropMinVersion: schemaVersion} {
		text, ok := s.Property(property)
		if !ok {
			continue
		}
		if least, err := strconv.Atoi(text); err != nil || least > known {
			return &VersionError{Target: t.target.Name(), Property: property, Want: text, Have: known}
		}
	}
	return nil
}

// Position is the commit LSN up to which the table holds every change, and whether
// it has one.
func (t *Table) Position() (mssqlcdc.LSN, bool) { return t.position, t.hasPosition }

// BatchID is the number of the last commit, 0 for none.
func (t *Table) BatchID() int64 { return t.batchID }

// Busy tells whether a window is being staged.
func (t *Table) Busy() bool { return t.win != nil }

// FactsKey names the watermark of this application and table in a facts table:
// one application id may write several tables, and a table keeps its id wherever
// it is moved. It is "" while there is no table.
func (t *Table) FactsKey() string {
	return FactsKey(t.cfg.AppID, t.target.Snapshot())
}

// FactsKey is the key of an application and a table; see [Table.FactsKey].
func FactsKey(appID string, s *delta.Snapshot) string {
	if s == nil {
		return ""
	}
	return appID + "#facts@" + s.Metadata().ID
}

// Target is the Delta table underneath.
func (t *Table) Target() *target.Target { return t.target }

// Write takes the next part. On an error the part was not taken, and [Decide]
// says what to do; writing the same part again goes on where it stopped, also in
// the middle of a commit.
func (t *Table) Write(ctx context.Context, batch *mssqlcdc.RecordBatch) (Result, error) {
	env := batch.Envelope()
	if t.win != nil && t.win.ends(env) {
		return t.end(ctx)
	}
	if env.Part == 0 {
		if err := t.begin(ctx, env); err != nil {
			return Result{}, err
		}
	} else if err := t.follows(env); err != nil {
		return Result{}, err
	}
	if err := t.take(ctx, batch.Record(), env); err != nil {
		return Result{}, err
	}
	if !env.Last {
		return Result{Mark: mssqlcdc.Staged, Version: -1}, nil
	}
	return t.end(ctx)
}

// begin starts a window anew.
func (t *Table) begin(ctx context.Context, env mssqlcdc.Envelope) error {
	if env.Version != mssqlcdc.EnvelopeVersion {
		return &BatchError{Reason: fmt.Sprintf("envelope version %d, want %d", env.Version, mssqlcdc.EnvelopeVersion)}
	}
	if err := t.Discard(ctx); err != nil {
		return err
	}
	if err := t.checkSource(env); err != nil {
		return err
	}
	if err := t.own(ctx, env); err != nil {
		return err
	}
	check := t.checkChain
	if env.Chunk != nil {
		check = t.checkChunk
	}
	if err := check(env); err != nil {
		return err
	}
	t.win = &window{env: env, begun: t.cfg.Now(), encoder: newEncoder(t.life, t.target, t.convert, t.batchID+1)}
	if !env.Last {
		t.win.encoder.start(t.cfg.QueuedParts)
	}
	return nil
}

// follows checks that a part is the next of the window being staged.
func (t *Table) follows(env mssqlcdc.Envelope) error {
	switch {
	case t.win == nil || !t.win.same(env):
		return &OrderError{Window: env.Window, Part: env.Part, Want: -1}
	case t.win.next != env.Part:
		return &OrderError{Window: env.Window, Part: env.Part, Want: t.win.next}
	}
	return nil
}

// checkSource refuses changes of another table or database.
func (t *Table) checkSource(env mssqlcdc.Envelope) error {
	s := t.target.Snapshot()
	if s == nil {
		return nil
	}
	for property, want := range sourceProperties(env) {
		if have, ok := s.Property(property); ok && want != "" && have != want {
			return &SourceError{Target: t.target.Name(), Property: property, Have: have, Want: want}
		}
	}
	return nil
}

func sourceProperties(env mssqlcdc.Envelope) map[string]string {
	properties := map[string]string{PropSourceTable: env.Table.String()}
	if env.Database != "" {
		properties[PropSourceDatabase] = env.Database
	}
	return properties
}

// checkChain refuses a window that continues from where the table is not.
func (t *Table) checkChain(env mssqlcdc.Envelope) error {
	gap := &GapError{Target: t.target.Name(), AppID: t.cfg.AppID, Window: env.Window, Position: t.position}
	if t.position.Less(env.PrevDataLSN) {
		gap.Prev = env.PrevDataLSN
		return gap
	}
	if t.leavesOut(env) {
		gap.Prev = env.CompleteFrom
		return gap
	}
	return nil
}

// leavesOut tells whether a stream was begun anew above what the table has, and says
// nothing of the changes between. That it reads the table whole does not bring them
// back: a resume position that is lost, or looked for in another place, would have the
// table read again by every run. A loss of the source's is another matter: it is
// recorded, and begins another generation.
func (t *Table) leavesOut(env mssqlcdc.Envelope) bool {
	if !t.hasPosition || !env.PrevDataLSN.IsZero() || !t.position.Less(env.CompleteFrom) || skips(env.Events) {
		return false
	}
	return env.OpenSnapshot.IsZero() || env.Generation == 0
}

func skips(events []mssqlcdc.Fact) bool {
	return slices.ContainsFunc(events, func(f mssqlcdc.Fact) bool { return f.Event == mssqlcdc.EventDataSkipped })
}

// bronzeSchema is the bronze schema of records like this one.
func (t *Table) bronzeSchema(record *arrow.Schema) (*schema.Struct, error) {
	if t.layout.record != nil && t.layout.record.Equal(record) {
		return t.layout.bronze, nil
	}
	s, err := Schema(record, t.convert.byDate)
	if err != nil {
		return nil, &target.SchemaConflictError{Table: t.target.Name(), Err: err}
	}
	t.layout = layout{record: record, bronze: s}
	return s, nil
}

// Discard gives up the window being staged, if there is one. Its files are
// deleted unless a commit that names them may have landed.
func (t *Table) Discard(ctx context.Context) error {
	if t.win == nil {
		return nil
	}
	w := t.win
	if w.prepared != nil && w.prepared.unknown {
		if err := t.settle(ctx, w.prepared.change.ID); err != nil {
			return err
		}
		t.win = nil
		return nil
	}
	t.win = nil
	adds, err := w.encoder.abandon()
	if err := errors.Join(err, t.target.Discard(ctx, adds)); err != nil {
		t.cfg.OnOrphans(err)
	}
	return nil
}

// settle finds out what became of an attempt to commit whose outcome is unknown:
// the position is read again, and a commit of our application that is not that
// attempt is another writer's.
func (t *Table) settle(ctx context.Context, attempt string) error {
	before := t.target.Snapshot().Version()
	if err := t.target.Refresh(ctx); err != nil {
		return err
	}
	if have, _ := t.target.Snapshot().AppVersion(t.cfg.AppID); have == t.batchID {
		return nil // it has not landed; should it still, the next commit is told so
	}
	for c, err := range t.target.Table().Commits(ctx, before+1) {
		if err != nil {
			return err
		}
		for _, txn := range c.Txns {
			if txn.AppID == t.cfg.AppID && c.Info.TxnID != attempt {
				return &delta.FencedError{AppID: txn.AppID, Version: c.Version, Have: txn.Version, Want: t.batchID + 1, TxnID: c.Info.TxnID}
			}
		}
	}
	return t.load()
}

// Close discards what is staged and closes the table.
func (t *Table) Close(ctx context.Context) error {
	defer t.cancel()
	err := t.Discard(ctx)
	return errors.Join(err, t.target.Close(ctx))
}
