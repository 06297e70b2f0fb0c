package output

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/rows"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/storage"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// openTable opens a table for the router.
func (o *deltaOutput) openTable(ctx context.Context, id tableID) (*entry, error) {
	st, err := o.opts.stores.Open(ctx, id.path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	table := target.Spec{
		Name: id.path, Comment: o.cfg.tableComment, ColumnComments: o.cfg.columnComments, Properties: o.cfg.properties,
		PartitionBy: o.cfg.partitionBy, Fixed: !o.cfg.evolve, OnTypeChange: o.cfg.onTypeChange, ColumnMapping: o.cfg.columnMapping,
		Writer: o.cfg.writer, Delta: o.deltaOptions(id.path),
	}
	table.Upkeep = storage.Upkeep(o.log, id.path)
	if !id.changes {
		t, err := rows.Open(ctx, st, rows.Config{AppID: id.appID, Table: table, Schema: o.cfg.schema})
		return &entry{plain: t}, err
	}
	if o.facts != nil {
		// Facts that a crash kept from the facts table are made again from the log.
		table.Upkeep.Floor = func(ctx context.Context, dt *delta.Table, below int64) (int64, error) {
			return o.facts.LogFloor(ctx, dt, id.appID, bronze.FactsKey(id.appID, dt.Snapshot()), below)
		}
	}
	t, err := bronze.Open(ctx, st, bronze.Config{
		AppID: id.appID, Table: table, Adopt: o.adoption(id), Now: o.opts.now,
		OnOrphans: func(err error) {
			o.log.With("table", id.path, "error", err).Warn("Staged files could not be deleted; a vacuum will take them")
		},
	})
	if err != nil {
		return nil, err
	}
	if err := o.recoverFacts(ctx, t); err != nil {
		return nil, errors.Join(err, t.Close(ctx))
	}
	return &entry{changes: t}, nil
}

func (o *deltaOutput) adoption(id tableID) bronze.Adoption {
	adopt := o.cfg.adopt
	adopt.Find = func(ctx context.Context) (mssqlcdc.LSN, error) {
		if o.facts == nil {
			return mssqlcdc.LSN{}, errors.New("adopt: facts needs facts_path")
		}
		return o.facts.LastEnd(ctx, id.path, id.appID)
	}
	return adopt
}

// writeRecord writes a part, and after the last one of a window does what follows
// a commit.
func (o *deltaOutput) writeRecord(ctx context.Context, j job) error {
	env := j.record.Envelope()
	label := env.Table.String()
	var e *entry
	err := o.retry(ctx, label, "Opening the table", bronze.Decide, func() (err error) {
		e, err = o.tables.changes(ctx, j.path, j.appID)
		return err
	})
	var done bronze.Result
	if err == nil {
		err = o.retry(ctx, label, "Writing to the table", decideFor(env), func() (err error) {
			done, err = e.changes.Write(ctx, j.record)
			return err
		})
		if e.refused.lasting(env, err) {
			return o.fatalFor(env.Table, fmt.Errorf("refused %d times: %w", maxRefusals, err))
		}
	}
	switch {
	case err != nil && ctx.Err() == nil && bronze.Decide(err) == bronze.Stop:
		return o.fatalFor(env.Table, err)
	case err != nil:
		return err
	}
	j.record.Mark(bronze.Sink(j.appID, j.path), done.Mark)
	o.metrics.wrote(label, env, done)
	if len(done.Columns) > 0 {
		o.log.With("table", label, "columns", strings.Join(done.Columns, ", ")).Info("Added columns to the table")
	}
	o.tellTypes(label, done.Types)
	if !env.Last {
		return nil
	}
	if err := o.recordFacts(ctx, label, e.changes, done); err != nil {
		return err
	}
	return o.runAfterCommit(ctx, j.messages)
}

// tellTypes logs changes of types, which readers of the table have to know of.
func (o *deltaOutput) tellTypes(label string, changes []target.TypeChange) {
	for _, c := range changes {
		o.log.With("table", label, "column", c.Column).Warnf("Changed the table: %s", c)
	}
}

// decideFor decides about errors of a part. A window of one part that lost its
// files, or met a late commit of ours, is at hand whole and can start anew here.
func decideFor(env mssqlcdc.Envelope) func(error) bronze.Decision {
	return func(err error) bronze.Decision {
		decision := bronze.Decide(err)
		var staging *bronze.StagingError
		var fenced *delta.FencedError
		if decision == bronze.Resend && env.Part == 0 && env.Last && (errors.As(err, &staging) || errors.As(err, &fenced)) {
			return bronze.Retry
		}
		return decision
	}
}

// runAfterCommit runs the processors of after_commit one by one. The engine only
// flags a message that failed and goes on, so each is looked at after each
// processor.
func (o *deltaOutput) runAfterCommit(ctx context.Context, messages service.MessageBatch) error {
	batches := []service.MessageBatch{messages.Copy()}
	for i, p := range o.cfg.afterCommit {
		var err error
		batches, err = service.ExecuteProcessors(ctx, []*service.OwnedProcessor{p}, batches...)
		if err != nil {
			return fmt.Errorf("after_commit: processor %d: %w", i, err)
		}
		for _, batch := range batches {
			for _, m := range batch {
				if err := m.GetError(); err != nil {
					return fmt.Errorf("after_commit: processor %d: %w", i, err)
				}
			}
		}
	}
	return nil
}
