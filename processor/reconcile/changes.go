package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// changeReader reads what CDC has of a table after a position.
type changeReader struct {
	cfg  Config
	plan *plan

	// purged is how far clean-up has come, if it has passed the position: no stream can bring what lies between any more.
	purged mssqlcdc.LSN
}

// read reads the changes after a position up to a head, each from the capture instance that holds it, and yields them as entries.
func (r *changeReader) read(ctx context.Context, after mssqlcdc.LSN, head sqlserver.Head, add func(entries []byte) error) error {
	for i, instance := range r.plan.instances {
		upto := head.LSN
		if i+1 < len(r.plan.instances) {
			if end := r.plan.instances[i+1].StartLSN.Prev(); end.Less(upto) {
				upto = end
			}
		}
		if err := r.readInstance(ctx, instance, after, upto, head, add); err != nil {
			return fmt.Errorf("reading changes after %s from capture instance %s: %w", after, instance.Name, err)
		}
		if after.Less(upto) {
			after = upto
		}
	}
	return nil
}

func (r *changeReader) readInstance(ctx context.Context, instance mssqlcdc.CaptureInstance, after, upto mssqlcdc.LSN, head sqlserver.Head, add func([]byte) error) error {
	if !after.Less(upto) {
		return nil
	}
	low, err := r.cfg.Client.MinLSN(ctx, instance.Name)
	if err == nil && low.IsZero() {
		err = r.cfg.Client.Diagnose(ctx, instance)
	}
	if errors.Is(err, sqlserver.ErrNotYetCaptured) {
		return nil // it holds nothing
	}
	if err != nil {
		return err
	}
	start, purged := lsnBefore(after, low)
	if purged {
		r.purged = low
	}
	if !start.Less(upto) {
		return nil
	}
	layout, whole, err := r.plan.changeLayout(ctx, r.cfg, instance)
	if err != nil {
		return err
	}
	limits := sqlserver.Limits{Commits: -1, Rows: -1, Bytes: -1}
	window, err := r.cfg.Client.Plan(ctx, layout, start, upto, limits)
	if err != nil || window.Window.IsEmpty() {
		return err
	}
	for part, err := range r.cfg.Client.Read(ctx, sqlserver.ReadRequest{Layout: layout, Plan: window, Limits: limits, Head: head}) {
		if err != nil {
			return err
		}
		entries, err := r.entries(part.Record, whole)
		if err != nil {
			return err
		}
		if err := add(entries); err != nil {
			return err
		}
	}
	return nil
}

// entries are the changes of a record; with the rows' values if it has all columns.
func (r *changeReader) entries(rec arrow.RecordBatch, whole bool) ([]byte, error) {
	d, err := r.plan.bind(rec, ofSource, whole)
	if err != nil {
		return nil, err
	}
	lsns, ok0 := rec.Column(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinary)
	seqvals, ok1 := rec.Column(mssqlcdc.IdxSeqVal).(*array.FixedSizeBinary)
	operations, ok2 := rec.Column(mssqlcdc.IdxOperation).(*array.Int32)
	commands, ok3 := rec.Column(mssqlcdc.IdxCommandID).(*array.Int32)
	if !ok0 || !ok1 || !ok2 || !ok3 {
		return nil, fmt.Errorf("the metadata columns are of other types than ours: %s", rec.Schema())
	}
	var entries []byte
	for row := range int(rec.NumRows()) {
		command := int32(0)
		if commands.IsValid(row) {
			command = commands.Value(row)
		}
		place := rankOf(mssqlcdc.LSN(lsns.Value(row)), false, command, mssqlcdc.LSN(seqvals.Value(row)), mssqlcdc.Operation(operations.Value(row)))
		value := digest{}
		if whole {
			value = d.value(row)
		}
		entries = appendChange(entries, d.key(row), place, value, whole)
	}
	return entries, nil
}
