package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// checkpointGroupRows is the length of the row groups of a checkpoint. It bounds
// the memory of writing one.
const checkpointGroupRows = 50_000

// WriteCheckpoint writes the classic checkpoint of a version as a stream: the
// previous checkpoint and the commits after it in, one Parquet file out. Memory
// is bounded by the commits after the previous checkpoint. Tombstones deleted
// before expiry (milliseconds since the epoch) are left out. The pointer
// _last_checkpoint is moved to it, unless it points further already.
func WriteCheckpoint(ctx context.Context, st store.Store, state State, seg Segment, root string, expiry int64) (LastCheckpoint, error) {
	path := CheckpointPath(seg.Version)
	out, err := st.Create(ctx, path)
	if err != nil {
		return LastCheckpoint{}, fmt.Errorf("writing checkpoint %s: %w", path, err)
	}
	counted := &countingWriter{w: out}
	w, err := newCheckpointWriter(counted, *state.Protocol)
	if err == nil {
		err = w.write(ctx, st, state, seg, root, expiry)
	}
	if err != nil {
		return LastCheckpoint{}, errors.Join(fmt.Errorf("writing checkpoint %s: %w", path, err), out.Abort())
	}
	if err := out.Close(); err != nil {
		return LastCheckpoint{}, fmt.Errorf("writing checkpoint %s: %w", path, err)
	}
	last := LastCheckpoint{Version: seg.Version, Size: w.actions, SizeInBytes: counted.n, NumOfAddFiles: w.adds}
	return last, writeLastCheckpoint(ctx, st, last)
}

// CheckpointInfo describes the checkpoint that WriteCheckpoint wrote.
func (l LastCheckpoint) CheckpointInfo() Checkpoint {
	return Checkpoint{Version: l.Version, Files: []store.Info{{Path: CheckpointPath(l.Version), Size: l.SizeInBytes}}}
}

// countingWriter counts bytes, and hides from the Parquet writer that the sink
// can be closed: the checkpoint is complete only when everything went well.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// checkpointWriter turns actions into rows.
type checkpointWriter struct {
	fw            *pqarrow.FileWriter
	rb            *array.RecordBuilder
	builder       rowBuilder
	rows          int
	actions, adds int64
}

func newCheckpointWriter(out io.Writer, p action.Protocol) (*checkpointWriter, error) {
	schema := checkpointSchema(p)
	props := parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(1),
		parquet.WithDictionaryDefault(false),
		parquet.WithMaxRowGroupLength(checkpointGroupRows),
	)
	fw, err := pqarrow.NewFileWriter(schema, out, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	rb := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	return &checkpointWriter{fw: fw, rb: rb, builder: newRowBuilder(rb)}, nil
}

// write writes all actions of a version. What is not about files comes first and
// in a row group of its own, so that whoever wants only that reads little.
func (w *checkpointWriter) write(ctx context.Context, st store.Store, state State, seg Segment, root string, expiry int64) error {
	defer w.rb.Release()
	if err := w.writeState(state); err != nil {
		return err
	}
	for f, err := range Files(ctx, st, seg, root) {
		if err != nil {
			return err
		}
		if f.Remove != nil && f.Remove.DeletionTimestamp < expiry {
			continue
		}
		if err := w.row(func(row rowBuilder) { row.file(f) }); err != nil {
			return err
		}
		if f.Add != nil {
			w.adds++
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.fw.Close()
}

func (w *checkpointWriter) writeState(state State) error {
	rows := []func(rowBuilder){
		func(row rowBuilder) { row.protocol(*state.Protocol) },
		func(row rowBuilder) { row.metadata(*state.Metadata) },
	}
	for _, txn := range sorted(state.Txns) {
		rows = append(rows, func(row rowBuilder) { row.txn(txn) })
	}
	for _, d := range sorted(state.Domains) {
		rows = append(rows, func(row rowBuilder) { row.domain(d) })
	}
	for _, fill := range rows {
		if err := w.row(fill); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	return w.fw.NewBufferedRowGroupChecked()
}

// sorted returns the values in the order of their keys.
func sorted[V any](l Layered[V]) []V {
	var keys []string
	for key := range l.All() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out := make([]V, len(keys))
	for i, key := range keys {
		out[i], _ = l.Get(key)
	}
	return out
}

// row adds one row. Top-level columns that fill leaves alone are null.
func (w *checkpointWriter) row(fill func(rowBuilder)) error {
	fill(w.builder)
	w.rows++
	w.actions++
	for _, b := range w.rb.Fields() {
		if b.Len() < w.rows {
			b.AppendNull()
		}
	}
	if w.rows < batchRows {
		return nil
	}
	return w.flush()
}

func (w *checkpointWriter) flush() error {
	if w.rows == 0 {
		return nil
	}
	rec := w.rb.NewRecordBatch()
	defer rec.Release()
	w.rows = 0
	return w.fw.WriteBuffered(rec)
}

// checkpointSchema is the schema of a classic checkpoint ("Checkpoint Schema" in
// PROTOCOL.md). Columns of features that the table does not have are left out:
// they would be null everywhere, and some readers stumble over that.
func checkpointSchema(p action.Protocol) *arrow.Schema {
	has := func(feature string) bool { return slices.Contains(p.WriterFeatures, feature) }
	text, long, boolean := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Boolean
	dict, list := arrow.MapOf(text, text), arrow.ListOf(text)
	field := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}

	var shared []arrow.Field
	if has("deletionVectors") {
		shared = append(shared, field("deletionVector", arrow.StructOf(
			field("storageType", text), field("pathOrInlineDv", text), field("offset", arrow.PrimitiveTypes.Int32),
			field("sizeInBytes", arrow.PrimitiveTypes.Int32), field("cardinality", long))))
	}
	if has("rowTracking") {
		shared = append(shared, field("baseRowId", long), field("defaultRowCommitVersion", long))
	}
	add := []arrow.Field{
		field("path", text), field("partitionValues", dict), field("size", long), field("modificationTime", long),
		field("dataChange", boolean), field("tags", dict), field("stats", text),
	}
	if has("clustering") {
		add = append(add, field("clusteringProvider", text))
	}
	remove := []arrow.Field{
		field("path", text), field("deletionTimestamp", long), field("dataChange", boolean),
		field("extendedFileMetadata", boolean), field("partitionValues", dict), field("size", long),
	}
	return arrow.NewSchema([]arrow.Field{
		field("txn", arrow.StructOf(field("appId", text), field("version", long), field("lastUpdated", long))),
		field("add", arrow.StructOf(append(add, shared...)...)),
		field("remove", arrow.StructOf(append(remove, shared...)...)),
		field("metaData", arrow.StructOf(
			field("id", text), field("name", text), field("description", text),
			field("format", arrow.StructOf(field("provider", text), field("options", dict))),
			field("schemaString", text), field("partitionColumns", list), field("configuration", dict), field("createdTime", long))),
		field("protocol", arrow.StructOf(
			field("minReaderVersion", arrow.PrimitiveTypes.Int32), field("minWriterVersion", arrow.PrimitiveTypes.Int32),
			field("readerFeatures", list), field("writerFeatures", list))),
		field("domainMetadata", arrow.StructOf(field("domain", text), field("configuration", text), field("removed", boolean))),
	}, nil)
}
