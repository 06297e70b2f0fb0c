package merge

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
)

// Strategy is how rows leave the files that hold them.
type Strategy string

// The strategies.
const (
	// CopyOnWrite writes each file that loses rows anew. Every reader takes the result; the
	// work is that of reading and writing all rows of those files. The default.
	CopyOnWrite Strategy = "copy_on_write"
	// DeletionVectors marks rows as deleted beside the file and writes new rows only. Readers
	// must know the table feature deletionVectors.
	DeletionVectors Strategy = "deletion_vectors"
)

// Source is what a merge brings. Its batches belong to the caller, who may release them when
// Run has returned.
type Source struct {
	// Upserts are rows that replace the target's rows of their keys or are inserted. Columns
	// are matched by name, ignoring case, as by data.Writer.Write: a nullable column that a
	// batch lacks becomes NULL, also where the replaced row had a value.
	Upserts []arrow.RecordBatch
	// Deletes are keys to delete: batches with the key columns and, with Options.Versions, the
	// version columns. Other columns are not looked at.
	Deletes []arrow.RecordBatch
	// Ranges are intervals of keys in which the source has all the rows there are: rows of the
	// target whose key is in one of them and not in the source are deleted.
	Ranges []Range
}

// Range is an interval of keys, After < key <= UpTo, in the order of keys. Both nil is all
// rows: the source is the whole new content.
//
// A bound has a value for each key column, in the order of Options.Keys: nil for NULL, an int,
// int32 or int64 for numbers, a float32 or float64 for floats, a bool, a [time.Time] of whole
// microseconds for timestamps (of timestamp_ntz its UTC clock counts) and for a date that of
// its midnight in UTC, a [decimal128.Num] in the column's scale, []byte for binary, or for any
// type but binary a string in the form of [scalar.Parse].
type Range struct {
	// After is the bound below, not included; nil is none.
	After []any
	// UpTo is the bound above, included; nil is none.
	UpTo []any
	// Before spares rows that are too new: only rows whose version is strictly below it are
	// deleted. One value per version column, in the same forms. It must be given exactly with
	// Options.Versions.
	Before []any
}

// Options are the choices of [Run]. Keys is needed, the rest may be zero.
type Options struct {
	// Keys are the key columns.
	Keys []string
	// Versions are the columns that say which of two rows of a key is newer, the most
	// significant first; none lets the source always win.
	Versions []string

	// Strategy is how rows leave their files; "" is CopyOnWrite.
	Strategy Strategy
	// EnableDeletionVectors lets a merge with DeletionVectors turn them on in a table that has
	// them not, with a commit of its own; without it that is a delta.FeatureError. It cannot be
	// taken back, and readers that do not know them cannot read the table any more.
	EnableDeletionVectors bool
	// PurgeRatio is the share of deleted rows in a file from which on DeletionVectors writes it
	// anew; 0 is DefaultPurgeRatio, 1 and more never.
	PurgeRatio float64

	// ID, Fenced, Keyed, Marks and UserMetadata are those of the commit; see delta.Change. An
	// ID is given to repeat a Run that ended in a delta.UnknownOutcomeError.
	ID           string
	Fenced       *delta.Txn
	Keyed        *delta.Txn
	Marks        []delta.Txn
	UserMetadata string

	// Writer are the choices for new files.
	Writer data.WriterOptions
	// Parallel is how many files are worked on at a time; 0 is GOMAXPROCS, at most 8.
	Parallel int
}

// DefaultPurgeRatio is the default of Options.PurgeRatio.
const DefaultPurgeRatio = 0.10

// Result is the outcome of [Run].
type Result struct {
	delta.Result
	// Unchanged says that there was nothing to do and nothing was committed: no row was to
	// change, and the merge has no transactions and no user metadata. Version is the one that
	// was looked at, State is Committed.
	Unchanged bool
	// Metrics are those of the commit; zero if State is AlreadyApplied.
	Metrics Metrics
}

// Metrics count what a merge did. They are in the table's history, too, by Spark's names.
type Metrics struct {
	SourceRows int64 // upserts and deletes

	RowsInserted int64 // had no row of their key
	RowsUpdated  int64 // upserts that took the place of a row
	RowsDeleted  int64 // by key, by range, and further rows of a key that was upserted or deleted
	// RowsDeletedByRange is the part of RowsDeleted that the source does not name.
	RowsDeletedByRange int64
	RowsCopied         int64 // written anew unchanged
	// RowsOutdated are source rows that found a row of their key that is as new or newer.
	RowsOutdated int64

	FilesScanned int64 // data files that were looked through
	// FilesAdded and FilesRemoved count data files that came and went, not those that got
	// another deletion vector.
	FilesAdded, FilesRemoved int64
	BytesAdded, BytesRemoved int64

	VectorsAdded   int64 // files that had no deletion vector and got one
	VectorsUpdated int64 // files whose deletion vector was replaced
	VectorsRemoved int64 // deletion vectors that went with their files

	ScanTime, RewriteTime, Took time.Duration
}

// DuplicateKeyError reports that a source has a key twice, among upserts and deletes together.
// Which of the rows counts is for the caller to decide before. Nothing was changed.
type DuplicateKeyError struct {
	// Keys are the key columns.
	Keys []string
	// Delete, Batch and Row tell where the second one is: in Source.Deletes or Upserts, which
	// batch, which row of it, counted from 0.
	Delete     bool
	Batch, Row int
}

func (e *DuplicateKeyError) Error() string {
	list := "upserts"
	if e.Delete {
		list = "deletes"
	}
	return fmt.Sprintf("row %d of batch %d of the %s has a key (columns %v) that the source has before: keep one row per key", e.Row, e.Batch, list, e.Keys)
}

// Run merges a source into a table and commits. It may be called from several goroutines and
// processes at a time: merges of other keys and appends go on beside it, and where two touch
// the same files, the later one is computed again.
//
// The error is a *[DuplicateKeyError]; a *[schema.SchemaError] for a column that the table does
// not have or has in another type; a *[delta.FeatureError] for a table that does not allow it
// (append-only, change data feed, DeletionVectors without the feature); or one of
// [delta.Table.Commit], but for conflicts, which are computed again until the commit's time is
// over (delta.ErrCommitTimeout). After an error nothing is changed and no files are left, except
// after a [delta.UnknownOutcomeError].
func Run(ctx context.Context, t *delta.Table, src Source, o Options) (Result, error) {
	return run(ctx, t, src, o)
}

// LookupOptions are the choices of [Lookup].
type LookupOptions struct {
	// Keys are the key columns.
	Keys []string
	// Columns to read, in this order; nil is all of the table.
	Columns []string
	// Prune leaves out files that certainly have no row for which all of the conditions hold;
	// see delta.ReadOptions.
	Prune []prune.Condition
}

// Lookup yields the rows of a snapshot whose key is one of the wanted ones, file by file, in
// batches of bounded size. The wanted batches hold the key columns (others are not looked at);
// a key may be in them several times, and the target may have any number of rows of it. A batch
// belongs to the sequence and is released when the loop asks for the next one. On an error the
// sequence yields that once and ends.
func Lookup(ctx context.Context, t *delta.Table, s *delta.Snapshot, wanted []arrow.RecordBatch, o LookupOptions) iter.Seq2[arrow.RecordBatch, error] {
	return lookup(ctx, t, s, wanted, o)
}
