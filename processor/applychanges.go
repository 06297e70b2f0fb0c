package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/storage"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// applyChanges is the processor. It is safe for concurrent use.
type applyChanges struct {
	stores                         *store.Registry
	bronze, target, row, bronzeRow *service.InterpolatedString
	controlPath, factsPath         string
	template                       silver.Config
	log                            *service.Logger
	rows, merges, failures         *service.MetricCounter
	latency                        *service.MetricTimer
	finalized                      *service.MetricGauge

	opening sync.Mutex
	control *control.Table
	derived map[destination]*silver.Applier

	work *scheduler
}

// destination says which table is built from which, and under which names.
type destination struct{ bronze, target, row, bronzeRow string }

func newApplyChanges(conf *service.ParsedConfig, res *service.Resources, o options) (*applyChanges, error) {
	a := &applyChanges{derived: map[destination]*silver.Applier{}, log: res.Logger()}
	for field, to := range map[string]**service.InterpolatedString{fieldBronze: &a.bronze, fieldTarget: &a.target, fieldTable: &a.row, fieldBronzeTable: &a.bronzeRow} {
		var err error
		if *to, err = conf.FieldInterpolatedString(field); err != nil {
			return nil, err
		}
	}
	if err := a.parse(conf); err != nil {
		return nil, err
	}
	var err error
	if a.stores = o.stores; a.stores == nil {
		if a.stores, err = storage.Registry(conf); err != nil {
			return nil, err
		}
	}
	every, err := conf.FieldDuration(fieldEvery)
	if err != nil {
		return nil, err
	}
	commits, err := conf.FieldInt(fieldEveryCommits)
	if err != nil {
		return nil, err
	}
	if every < 0 || commits < 0 {
		return nil, fmt.Errorf("fields %s and %s must not be negative", fieldEvery, fieldEveryCommits)
	}
	metrics := res.Metrics()
	a.rows = metrics.NewCounter("apply_changes_rows_total", "table")
	a.merges = metrics.NewCounter("apply_changes_merges_total", "table")
	a.failures = metrics.NewCounter("apply_changes_failures_total", "table")
	a.latency = metrics.NewTimer("apply_changes_latency_ns", "table")
	a.finalized = metrics.NewGauge("apply_changes_finalized_until_seconds", "table")
	a.work = newScheduler(every, commits, a.applyBeside)
	return a, nil
}

func (a *applyChanges) parse(conf *service.ParsedConfig) error {
	t := &a.template
	texts := map[string]*string{fieldControlPath: &a.controlPath, fieldFactsPath: &a.factsPath, fieldTempDir: &t.TempDir}
	var mode, deletes, strategy string
	texts[fieldMode], texts[fieldDeletes], texts[fieldMergeStrategy] = &mode, &deletes, &strategy
	for field, to := range texts {
		var err error
		if *to, err = conf.FieldString(field); err != nil {
			return err
		}
	}
	t.Mode, t.Deletes, t.Strategy = silver.Mode(strings.ToLower(mode)), silver.Deletes(strings.ToLower(deletes)), merge.Strategy(strings.ToLower(strategy))
	if t.Mode == silver.History && t.Deletes == silver.Soft {
		return fmt.Errorf("%s: soft has no meaning with %s: history, which keeps deleted rows with the time they ended", fieldDeletes, fieldMode)
	}
	var err error
	if t.Keys, err = conf.FieldStringList(fieldKeys); err != nil {
		return err
	}
	if t.Exclude, err = conf.FieldStringList(fieldColumns, fieldExclude); err != nil {
		return err
	}
	if t.Rename, err = conf.FieldStringMap(fieldColumns, fieldRename); err != nil {
		return err
	}
	t.Properties, err = conf.FieldStringMap(fieldProperties)
	t.Delta = delta.Options{Engine: "rpconnect-mssqlcdc"}
	return err
}

// ProcessBatch notes that bronze has got more, for messages that are record batches, and
// applies at once for others. Messages leave as they came; one whose call failed is marked
// as failed.
func (a *applyChanges) ProcessBatch(ctx context.Context, batch service.MessageBatch) ([]service.MessageBatch, error) {
	for _, message := range batch {
		if message.GetError() != nil {
			continue // what failed before is in no table
		}
		if err := a.process(ctx, message); err != nil {
			message.SetError(err)
		}
	}
	return []service.MessageBatch{batch}, nil
}

func (a *applyChanges) process(ctx context.Context, message *service.Message) error {
	body, _ := message.AsStructured() // one without a structure is a call like any other
	record, isRecord := body.(*mssqlcdc.RecordBatch)
	if isRecord && !record.Envelope().Last {
		return nil
	}
	d, err := a.destinationOf(message)
	if err != nil {
		return err
	}
	if !isRecord {
		return a.applyNow(ctx, d, message)
	}
	if !written(record) {
		return fmt.Errorf("apply_changes: window %s of %s is not in a table yet: put apply_changes into after_commit of the delta_lake output, or into a pipeline without record batches",
			record.Envelope().Window, record.Envelope().Table)
	}
	a.work.note(d)
	return nil
}

func (a *applyChanges) destinationOf(message *service.Message) (d destination, err error) {
	for _, one := range []struct {
		field string
		from  *service.InterpolatedString
		to    *string
	}{{fieldBronze, a.bronze, &d.bronze}, {fieldTarget, a.target, &d.target}, {fieldTable, a.row, &d.row}, {fieldBronzeTable, a.bronzeRow, &d.bronzeRow}} {
		if *one.to, err = one.from.TryString(message); err != nil {
			return d, fmt.Errorf("apply_changes: field %s: %w", one.field, err)
		}
		if *one.to == "" {
			return d, fmt.Errorf("apply_changes: field %s is empty for this message", one.field)
		}
	}
	return d, nil
}

// applyNow is a call that the message waits for.
func (a *applyChanges) applyNow(ctx context.Context, d destination, message *service.Message) error {
	result, err := a.apply(ctx, d)
	if err != nil {
		return fmt.Errorf("apply_changes: %w", err)
	}
	message.MetaSetMut(metaAppliedRows, result.Rows)
	if !result.AppliedLSN.IsZero() {
		message.MetaSetMut(metaAppliedLSN, result.AppliedLSN.String())
	}
	if until := result.Verdict.FinalizedUntil; !until.IsZero() {
		message.MetaSetMut(metaFinalizedUntil, until.Format(time.RFC3339))
	}
	return nil
}

// applyBeside is a call of the scheduler, which tries again after an error. The first of a
// row of failures is an error in the log, the others are told less loudly.
func (a *applyChanges) applyBeside(ctx context.Context, d destination, failedBefore int) error {
	_, err := a.apply(ctx, d)
	if err == nil || errors.Is(err, silver.ErrOvertaken) {
		return err
	}
	log := a.log.With("table", d.row, "target", d.target, "error", err)
	switch {
	case failedBefore == 0 && silver.Lasting(err):
		log.Error("Changes cannot be applied; the table of changes goes on, and it is tried again")
	case failedBefore == 0:
		log.Warn("Applying changes failed; the table of changes goes on, and it is tried again")
	default:
		log.Debug("Applying changes failed again")
	}
	return err
}

func (a *applyChanges) apply(ctx context.Context, d destination) (silver.Result, error) {
	applier, err := a.applier(ctx, d)
	if err != nil {
		a.failures.Incr(1, d.row)
		return silver.Result{}, err
	}
	result, err := applier.Apply(ctx)
	a.rows.Incr(result.Rows, d.row)
	a.merges.Incr(int64(result.Merges), d.row)
	if err != nil {
		if !errors.Is(err, silver.ErrOvertaken) {
			a.failures.Incr(1, d.row)
		}
		return result, err
	}
	a.latency.Timing(result.Took.Nanoseconds(), d.row)
	if until := result.Verdict.FinalizedUntil; !until.IsZero() {
		a.finalized.SetFloat64(float64(until.Unix()), d.row)
	}
	if result.Changed {
		a.log.With("table", d.row, "rows", result.Rows, "applied_lsn", result.AppliedLSN, "version", result.Version, "took", result.Took).Debug("Applied changes")
	}
	return result, nil
}

// applier opens the stores of a destination at its first use.
func (a *applyChanges) applier(ctx context.Context, d destination) (*silver.Applier, error) {
	a.opening.Lock()
	defer a.opening.Unlock()
	if have := a.derived[d]; have != nil {
		return have, nil
	}
	c := a.template
	c.BronzeName, c.TargetName, c.Row, c.BronzeRow = d.bronze, d.target, d.row, d.bronzeRow
	c.Upkeep = storage.Upkeep(a.log, d.target)
	var err error
	if c.Bronze, err = a.stores.Open(ctx, d.bronze); err != nil {
		return nil, fmt.Errorf("opening %s: %w", fieldBronze, err)
	}
	if c.Target, err = a.stores.Open(ctx, d.target); err != nil {
		return nil, fmt.Errorf("opening %s: %w", fieldTarget, err)
	}
	if a.factsPath != "" {
		if c.Facts, err = a.stores.Open(ctx, a.factsPath); err != nil {
			return nil, fmt.Errorf("opening %s: %w", fieldFactsPath, err)
		}
	}
	if c.Control, err = a.openControl(ctx); err != nil {
		return nil, err
	}
	applier, err := silver.New(c)
	if err != nil {
		return nil, err
	}
	a.derived[d] = applier
	return applier, nil
}

// openControl opens the control table at the first use. The caller holds opening.
func (a *applyChanges) openControl(ctx context.Context) (*control.Table, error) {
	if a.controlPath == "" || a.control != nil {
		return a.control, nil
	}
	st, err := a.stores.Open(ctx, a.controlPath)
	if err != nil {
		return nil, fmt.Errorf("opening the control table: %w", err)
	}
	a.control, err = control.Create(ctx, st, control.Options{Engine: "rpconnect-mssqlcdc", Upkeep: storage.Upkeep(a.log, a.controlPath)})
	return a.control, err
}

// Close applies what is left, as long as the context allows it, and closes the tables.
func (a *applyChanges) Close(ctx context.Context) error {
	a.work.close(ctx)
	a.opening.Lock()
	defer a.opening.Unlock()
	var errs []error
	for d, applier := range a.derived {
		errs = append(errs, applier.Close(ctx))
		delete(a.derived, d)
	}
	if a.control != nil {
		errs = append(errs, a.control.Close(ctx))
		a.control = nil
	}
	return errors.Join(errs...)
}
