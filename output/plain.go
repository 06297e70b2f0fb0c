package output

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/rows"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// rowErrors are the rows of a job that could not be stored, while the others
// were.
type rowErrors map[int]error

// Error names the first.
func (e rowErrors) Error() string {
	first := slices.Min(slices.Collect(maps.Keys(e)))
	return fmt.Sprintf("%d rows were refused, the first: %v", len(e), e[first])
}

// writeRows writes ordinary rows as one commit. Rows that do not fit are refused
// alone, unless a batch key makes the rows one whole.
func (o *deltaOutput) writeRows(ctx context.Context, j job) error {
	label := path.Base(strings.TrimRight(j.path, "/"))
	var e *entry
	err := o.retry(ctx, label, "Opening the table", bronze.Decide, func() (err error) {
		e, err = o.tables.plain(ctx, j.path, j.appID)
		return err
	})
	if err != nil {
		return err
	}
	kept, messages, refused := j.rows, j.messages, rowErrors{}
	err = o.writeKept(ctx, e.plain, label, kept, j.key)
	if bad := rowsOf(err); len(bad) > 0 && j.key == nil {
		refused = bad
		kept, messages = nil, nil
		for i, row := range j.rows {
			if _, ok := bad[i]; !ok {
				kept, messages = append(kept, row), append(messages, j.messages[i])
			}
		}
		err = nil
		if len(kept) > 0 {
			err = o.writeKept(ctx, e.plain, label, kept, nil)
		}
	}
	if err == nil && len(messages) > 0 {
		err = o.runAfterCommit(ctx, messages)
	}
	if err == nil && len(refused) > 0 {
		return refused
	}
	return err
}

// rowsOf are the rows that an error is about.
func rowsOf(err error) rowErrors {
	out := rowErrors{}
	var visit func(error)
	visit = func(err error) {
		var row *rows.RowError
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range many.Unwrap() {
				visit(one)
			}
			return
		}
		if errors.As(err, &row) {
			out[row.Row] = row.Err
		}
	}
	visit(err)
	return out
}

// writeKept stages and commits rows, with retries.
func (o *deltaOutput) writeKept(ctx context.Context, t *rows.Table, label string, kept []map[string]any, key *int64) error {
	var staged *rows.Batch
	err := o.retry(ctx, label, "Writing rows", decideRows, func() (err error) {
		staged, err = t.Stage(ctx, kept, key)
		return err
	})
	if err != nil {
		return err
	}
	start := time.Now()
	var done rows.Result
	err = o.retry(ctx, label, "Committing rows", decideRows, func() (err error) {
		done, err = staged.Commit(ctx)
		return err
	})
	if err != nil {
		return errors.Join(err, staged.Discard(context.WithoutCancel(ctx)))
	}
	o.metrics.wroteRows(label, done, time.Since(start))
	o.tellTypes(label, done.Types)
	return nil
}

// decideRows decides about errors of ordinary rows: those that are about the rows
// go back to whoever sent them.
func decideRows(err error) bronze.Decision {
	var conflict *target.SchemaConflictError
	if len(rowsOf(err)) > 0 || errors.As(err, &conflict) {
		return bronze.Stop
	}
	return bronze.Decide(err)
}
