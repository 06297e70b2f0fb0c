package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// errNotReady is a table that capture has not reached yet: it is tried again at
// the next look-up.
var errNotReady = sqlserver.ErrNotYetCaptured

// setup finds the tables of the configuration and opens each of them.
type setup struct {
	config config
	source source
	store  *checkpoint.Store
	shared *sqlserver.Head // S of the snapshots that are opened together; nil: each has its own
}

// found is a table with its capture instances, oldest first.
type found struct {
	table     mssqlcdc.TableID
	instances []mssqlcdc.CaptureInstance
}

// find lists the tables that the configuration names.
func (s setup) find(ctx context.Context) ([]found, error) {
	instances, err := s.source.Instances(ctx)
	if err != nil {
		return nil, err
	}
	byTable := map[mssqlcdc.TableID][]mssqlcdc.CaptureInstance{}
	var tables []mssqlcdc.TableID
	for _, instance := range instances {
		if byTable[instance.Table] == nil {
			tables = append(tables, instance.Table)
		}
		byTable[instance.Table] = append(byTable[instance.Table], instance)
	}
	slices.SortFunc(tables, func(a, b mssqlcdc.TableID) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
	})
	chosen, err := s.config.tables.choose(tables)
	if err != nil {
		return nil, &sqlserver.ConfigError{Field: fieldTables, Reason: err.Error()}
	}
	var all []found
	for _, table := range chosen {
		slices.SortFunc(byTable[table], byAge)
		all = append(all, found{table: table, instances: byTable[table]})
	}
	return all, nil
}

// open makes a table ready to be read: its instance, its columns, where it goes on.
func (s setup) open(ctx context.Context, f found, start startFrom) (*table, error) {
	o := s.config.overrideFor(f.table)
	if o.start != nil {
		start = *o.start
	}
	if o.instance != "" {
		instance, err := byName(f.instances, o.instance)
		if err != nil {
			return nil, err
		}
		f.instances = []mssqlcdc.CaptureInstance{instance}
	}
	state, stored, err := s.store.Load(ctx, f.table)
	if err != nil {
		return nil, err
	}
	whole := !stored && s.config.streamSnapshot
	switch {
	case whole:
		instance, _, err := s.first(ctx, f, startLatest)
		if err != nil {
			return nil, err
		}
		state = startAt(instance, mssqlcdc.LSN{}, time.Time{}) // beginSnapshot decides where
	case !stored:
		if state, err = s.begin(ctx, f, start); err != nil {
			return nil, err
		}
	}
	instance, loss := s.recorded(f, state, o.instance != "")
	if loss != nil {
		if s.config.onDataLoss == lossFail {
			return nil, lossHint(loss)
		}
		instance = f.instances[len(f.instances)-1]
	}
	layout, err := s.layout(ctx, instance, o)
	if err != nil {
		return nil, err
	}
	if err := s.source.CheckPermissions(ctx, instance); err != nil {
		return nil, err
	}
	if whole {
		if state, err = s.beginSnapshot(ctx, layout, o.snapshotKeys); err != nil {
			return nil, err
		}
	}
	if !stored {
		// A start such as latest is decided once: a crash before the first
		// acknowledgement must not decide it again, later, over a gap.
		if err := s.store.Save(ctx, f.table, state); err != nil {
			return nil, err
		}
	}
	if !state.CommitTime.IsZero() {
		s.source.Remember(state.LSN, state.CommitTime)
	}
	t := newTable(layout, state)
	t.tracker.snapshotOnSwitch = s.config.snapshotOnSwitch
	t.pinned, t.loss = o.instance != "", loss
	if !strings.EqualFold(instance.Name, state.Instance) || !instance.CreateDate.Equal(state.InstanceCreated) && !state.InstanceCreated.IsZero() {
		old := sqlserver.Layout{Instance: mssqlcdc.CaptureInstance{Name: state.Instance, Table: f.table}}
		event, err := switched(old, layout)
		if err != nil {
			return nil, err
		}
		t.events = append(t.events, event)
	}
	return t, s.resumeSnapshot(ctx, t, o.snapshotKeys)
}

func (s setup) layout(ctx context.Context, instance mssqlcdc.CaptureInstance, o override) (sqlserver.Layout, error) {
	layout, err := s.source.Columns(ctx, instance, o.columns)
	if err != nil {
		return sqlserver.Layout{}, err
	}
	return keyed(layout, o.keys)
}

func byName(instances []mssqlcdc.CaptureInstance, name string) (mssqlcdc.CaptureInstance, error) {
	for _, equal := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, instance := range instances {
			if equal(instance.Name, name) {
				return instance, nil
			}
		}
	}
	var names []string
	for _, instance := range instances {
		names = append(names, instance.Name)
	}
	return mssqlcdc.CaptureInstance{}, &sqlserver.ConfigError{
		Field:  fieldTableOverrides,
		Reason: fmt.Sprintf("table %s has no capture instance %q, it has %s", instances[0].Table, name, strings.Join(names, " and ")),
	}
}

// recorded is the instance that the state names. One that is gone, or is another
// one under the old name, took its changes with it, unless another records everything
// after the position.
func (s setup) recorded(f found, state checkpoint.State, pinned bool) (mssqlcdc.CaptureInstance, error) {
	lost := &sqlserver.DataLossError{Instance: state.Instance, Table: f.table, From: state.LSN.Next()}
	instance, err := byName(f.instances, state.Instance)
	switch {
	case err != nil:
		lost.Reason = "it was dropped, or another one was configured"
	case !state.InstanceCreated.IsZero() && !instance.CreateDate.Equal(state.InstanceCreated):
		lost.Reason = fmt.Sprintf("it was created again on %s", instance.CreateDate.Format(time.DateTime))
	default:
		return instance, nil
	}
	if other := covering(f.instances, state.LSN); other != nil && !pinned {
		return *other, nil
	}
	return mssqlcdc.CaptureInstance{}, lost
}

// first is the instance that a table without a resume position starts in, with its
// low watermark.
func (s setup) first(ctx context.Context, f found, start startKind) (instance mssqlcdc.CaptureInstance, low mssqlcdc.LSN, err error) {
	instance = f.instances[0]
	if start == startLatest {
		instance = f.instances[len(f.instances)-1]
	}
	if low, err = s.source.MinLSN(ctx, instance.Name); err != nil {
		return instance, low, fmt.Errorf("asking for the low watermark of %s: %w", instance.Name, err)
	}
	if low.IsZero() {
		if err := s.source.Diagnose(ctx, instance); err != nil {
			return instance, low, err
		}
		return instance, low, fmt.Errorf("capture instance %s: %w", instance.Name, errNotReady)
	}
	return instance, low, nil
}

// startAt is the state of a table that begins after an LSN.
func startAt(instance mssqlcdc.CaptureInstance, lsn mssqlcdc.LSN, at time.Time) checkpoint.State {
	return checkpoint.State{
		Version: checkpoint.StateVersion, LSN: lsn,
		Instance: instance.Name, InstanceCreated: instance.CreateDate, InstanceStart: instance.StartLSN,
		CompleteFrom: lsn, CompleteFromTime: at,
	}
}

// begin decides where a table without a resume position starts.
func (s setup) begin(ctx context.Context, f found, start startFrom) (checkpoint.State, error) {
	instance, low, err := s.first(ctx, f, start.kind)
	if err != nil {
		return checkpoint.State{}, err
	}
	lsn, err := s.startLSN(ctx, instance, low, start)
	if err != nil {
		return checkpoint.State{}, err
	}
	if lsn.Next().Less(low) {
		return checkpoint.State{}, &sqlserver.DataLossError{
			Instance: instance.Name, Table: f.table, From: lsn.Next(), MinLSN: low,
			Reason: fmt.Sprintf("the start that %s asks for lies before the oldest change that CDC holds; start at earliest, or later", fieldStartFrom),
		}
	}
	complete, err := s.completeFrom(ctx, lsn, low)
	if err != nil {
		return checkpoint.State{}, err
	}
	return startAt(instance, lsn, complete), nil
}

// completeFrom is the time from which on the table will be complete: of the last
// commit that is not delivered. Where clean-up took that entry the first commit
// that is delivered stands for it, and where that one has none either (the
// instance is new) the newest; both err on the late side.
func (s setup) completeFrom(ctx context.Context, start, low mssqlcdc.LSN) (time.Time, error) {
	at, known, err := s.source.CommitTime(ctx, start, false)
	if err == nil && !known {
		at, known, err = s.source.CommitTime(ctx, low, true)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for the commit time of %s: %w", start, err)
	}
	if known {
		return at, nil
	}
	head, err := s.source.MaxLSN(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for max_lsn: %w", err)
	}
	return head.Time, nil
}

func (s setup) startLSN(ctx context.Context, instance mssqlcdc.CaptureInstance, low mssqlcdc.LSN, start startFrom) (mssqlcdc.LSN, error) {
	switch start.kind {
	case startLSN:
		head, err := s.source.MaxLSN(ctx)
		if err != nil {
			return mssqlcdc.LSN{}, fmt.Errorf("asking for max_lsn: %w", err)
		}
		if head.LSN.Less(start.lsn) {
			return mssqlcdc.LSN{}, &sqlserver.ConfigError{Field: fieldStartFrom,
				Reason: fmt.Sprintf("%s lies after the newest change that was captured, %s: is it from another database?", start.lsn, head.LSN)}
		}
		return start.lsn, nil
	case startTime:
		lsn, err := s.source.LSNForTime(ctx, start.time)
		if err != nil {
			return mssqlcdc.LSN{}, fmt.Errorf("asking for the LSN of %s: %w", start.time, err)
		}
		return lsn, nil
	case startLatest:
		head, err := s.source.MaxLSN(ctx)
		if err != nil {
			return mssqlcdc.LSN{}, fmt.Errorf("asking for max_lsn: %w", err)
		}
		// On a quiet database capture may not have reached the new instance.
		if head.LSN.Less(low.Prev()) {
			return low.Prev(), nil
		}
		return head.LSN, nil
	}
	return low.Prev(), nil
}

// checkRestored compares a resume position with the mapping of commit times: a
// database that was restored has another history, in which the position may
// exist again with other changes around it. The answer is open, false, until
// capture has come as far as the position.
func (s setup) checkRestored(ctx context.Context, t *table, head sqlserver.Head) (bool, error) {
	state := t.tracker.acknowledged()
	if state.CommitTime.IsZero() {
		return true, nil // a start position, which need not be a commit
	}
	if head.LSN.Less(state.LSN) {
		return false, nil
	}
	at, exists, err := s.source.CommitTime(ctx, state.LSN, true)
	if err != nil {
		return false, fmt.Errorf("asking for the commit time of %s: %w", state.LSN, err)
	}
	lost := &sqlserver.DataLossError{Instance: state.Instance, Table: t.id, From: state.LSN.Next(), Restored: true}
	if exists {
		// Across zones and a changed server clock setting a time may shift by hours
		// in rare cases; the LSN alone is no proof, so a shift is a loss, too.
		if !at.Equal(state.CommitTime) && !s.source.Server().FixedOffset {
			lost.Reason = fmt.Sprintf("the commit at %s now has the time %s, it had %s: the database was restored or the source time zone was changed",
				state.LSN, at.Format(time.RFC3339Nano), state.CommitTime.Format(time.RFC3339Nano))
			return false, lost
		}
		return true, nil
	}
	_, older, err := s.source.CommitTime(ctx, state.LSN, false)
	if err != nil {
		return false, fmt.Errorf("asking for the commit time before %s: %w", state.LSN, err)
	}
	if older {
		lost.Reason = fmt.Sprintf("no commit %s is known any more although older ones are: the database was restored", state.LSN)
		return false, lost
	}
	return true, nil // cleaned up; the retention guard decides
}

// notReady tells whether a table should be tried again later.
func notReady(err error) bool { return errors.Is(err, errNotReady) }
