package target

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
)

// Writer writes rows to data files that belong to nobody until a commit names
// them. It is used from one goroutine at a time.
type Writer struct {
	w     *data.Writer
	table string
}

// NewWriter makes a writer for rows that [Target.Fit] fitted, which may have columns
// that the table gets with the commit. Their columns must have the table's names: see
// [Fitted.Rename]. The context covers everything
// the writer does.
func (t *Target) NewWriter(ctx context.Context, f *Fitted) (*Writer, error) {
	o := t.spec.Writer
	partitionBy, err := t.partitionColumns(f.Schema)
	if err != nil {
		return nil, err
	}
	o.PartitionBy, o.Mapping = partitionBy, f.Mapping
	properties := t.properties()
	if o.Stats, err = data.StatsColumnsOf(properties); err != nil {
		return nil, fmt.Errorf("writing to table %s: %w", t.spec.Name, err)
	}
	if codec := properties[delta.PropCompression]; codec != "" && o.Compression == "" {
		o.Compression = data.Compression(strings.ToLower(codec))
	}
	w, err := data.NewWriter(ctx, marking{t.st}, f.Schema, o)
	if err != nil {
		return nil, fmt.Errorf("writing to table %s: %w", t.spec.Name, err)
	}
	return &Writer{w: w, table: t.spec.Name}, nil
}

// Write adds the rows of a record; see data.Writer. Rows that the table cannot take,
// such as a NULL in a column that is not nullable, are a [*SchemaConflictError].
func (w *Writer) Write(record arrow.RecordBatch) error {
	err := w.w.Write(record)
	var fault *storeFault
	if err == nil || errors.As(err, &fault) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &SchemaConflictError{Table: w.table, Err: err}
}

// Close finishes the files and returns them as add actions. They are complete and
// durable.
func (w *Writer) Close() ([]action.Add, error) {
	files, err := w.w.Close()
	adds := make([]action.Add, len(files))
	for i, f := range files {
		adds[i] = action.Add{
			Path:             action.EncodePath(f.Path),
			PartitionValues:  f.PartitionValues,
			Size:             f.Size,
			ModificationTime: f.ModTime.UnixMilli(),
			DataChange:       true,
			Stats:            f.Stats,
		}
	}
	return adds, err
}

// Abort gives up what is not finished.
func (w *Writer) Abort() error { return w.w.Abort() }

// Discard deletes files that will not be committed. Never give it files of a
// commit whose outcome is unknown.
func (t *Target) Discard(ctx context.Context, adds []action.Add) error {
	if len(adds) == 0 {
		return nil
	}
	var paths []string
	for _, a := range adds {
		path, err := action.DecodePath(a.Path)
		if err != nil {
			return err
		}
		paths = append(paths, path)
	}
	if err := t.st.Delete(ctx, paths...); err != nil {
		return fmt.Errorf("discarding staged files of table %s: %w", t.spec.Name, err)
	}
	return nil
}
