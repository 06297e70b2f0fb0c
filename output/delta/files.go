package delta

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Writer writes rows to data files of a table. The files belong to the table when
// a Change that adds them is committed, and to nobody before. A Writer is used
// from one goroutine at a time.
type Writer struct {
	w *data.Writer
}

// NewWriter makes a writer for rows of the table's newest schema. Partition
// columns are the table's, and so are the columns with statistics and the
// compression, unless the options say otherwise. The context covers everything
// the writer does until Close or Abort.
func (t *Table) NewWriter(ctx context.Context, o data.WriterOptions) (*Writer, error) {
	s := t.Snapshot()
	m := s.state.Metadata
	if s.readOnly != nil {
		return nil, fmt.Errorf("writing to table %s: %w", t.st.URL(), s.readOnly)
	}
	o.PartitionBy, o.Mapping = m.PartitionColumns, s.mapping
	if o.Stats.First == 0 && o.Stats.Only == nil {
		stats, err := data.StatsColumnsOf(m.Configuration)
		if err != nil {
			return nil, fmt.Errorf("writing to table %s: %w", t.st.URL(), err)
		}
		o.Stats = stats
		if _, clustered := s.state.Domains.Get("delta.clustering"); clustered {
			// The feature wants statistics of the clustering columns, wherever
			// they stand in the schema.
			o.Stats = data.StatsColumns{First: data.AllColumns}
		}
	}
	if o.Compression == "" {
		o.Compression = compressionOf(m.Configuration)
	}
	if o.NewID == nil {
		o.NewID = t.o.NewID
	}
	if o.Now == nil {
		o.Now = t.o.Now
	}
	w, err := data.NewWriter(ctx, t.st, s.schema, o)
	if err != nil {
		return nil, fmt.Errorf("writing to table %s: %w", t.st.URL(), err)
	}
	return &Writer{w: w}, nil
}

// compressionOf is the codec that the table asks for, or "" for our own choice if
// it asks for none or for one that we do not write: any reader takes any of them.
func compressionOf(properties map[string]string) data.Compression {
	switch codec := data.Compression(strings.ToLower(properties[PropCompression])); codec {
	case data.Zstd, data.Snappy, data.Uncompressed:
		return codec
	case "none":
		return data.Uncompressed
	default:
		return ""
	}
}

// Write adds the rows of a batch; see data.Writer.
func (w *Writer) Write(rec arrow.RecordBatch) error { return w.w.Write(rec) }

// Buffered is how many rows are in no finished file yet, and how many bytes of
// memory the writer holds for them.
func (w *Writer) Buffered() (rows, bytes int64) { return w.w.Buffered() }

// Flush finishes the open files and returns those finished since the last Flush.
// They are complete and durable.
func (w *Writer) Flush() ([]action.Add, error) {
	files, err := w.w.Flush()
	return addsOf(files), err
}

// Close is Flush for the last time.
func (w *Writer) Close() ([]action.Add, error) {
	files, err := w.w.Close()
	return addsOf(files), err
}

// Abort gives up the open files. Files that Flush returned stay: see Discard.
func (w *Writer) Abort() error { return w.w.Abort() }

func addsOf(files []data.File) []action.Add {
	var out []action.Add
	for _, f := range files {
		out = append(out, addOf(f))
	}
	return out
}

// addOf is the add action of a finished data file.
func addOf(f data.File) action.Add {
	return action.Add{
		Path:             action.EncodePath(f.Path),
		PartitionValues:  f.PartitionValues,
		Size:             f.Size,
		ModificationTime: f.ModTime.UnixMilli(),
		DataChange:       true,
		Stats:            f.Stats,
	}
}

// MissingFiles returns the paths of those files that are not in the store any
// more: somebody's vacuum deletes files that no commit names once they are old.
// Files that lie staged for long are checked before they are committed.
func (t *Table) MissingFiles(ctx context.Context, adds []action.Add) ([]string, error) {
	var missing []string
	for _, a := range adds {
		path, err := t.storePath(a.Path)
		if err != nil {
			return nil, err
		}
		obj, err := t.st.Open(ctx, path)
		switch {
		case errors.Is(err, store.ErrNotFound):
			missing = append(missing, path)
			continue
		case err != nil:
			return nil, fmt.Errorf("looking for staged file %s: %w", path, err)
		case obj.Size() != a.Size:
			missing = append(missing, path)
		}
		if err := obj.Close(); err != nil {
			return nil, fmt.Errorf("looking for staged file %s: %w", path, err)
		}
	}
	return missing, nil
}

// Discard deletes files that were written and are not going to be committed. It
// must never be given files of a Change whose outcome is unknown.
func (t *Table) Discard(ctx context.Context, adds []action.Add) error {
	var paths []string
	for _, a := range adds {
		path, err := t.storePath(a.Path)
		if err != nil {
			return err
		}
		paths = append(paths, path)
	}
	if err := t.st.Delete(ctx, paths...); err != nil {
		return fmt.Errorf("discarding staged files: %w", err)
	}
	return nil
}

func deadline(o Options) time.Time { return time.Now().Add(o.CommitTimeout) }

// jsonText is the JSON of a list or map of strings, which cannot fail.
func jsonText(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
