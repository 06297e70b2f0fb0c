package data

import (
	"context"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Store is the part of a [store.Store] that this package uses.
type Store interface {
	// Create starts a new object; see [store.Store].
	Create(ctx context.Context, path string) (store.Writer, error)

	// Open opens an object for random reads; see [store.Store].
	Open(ctx context.Context, path string) (store.Object, error)

	// Delete removes objects; see [store.Store].
	Delete(ctx context.Context, paths ...string) error
}

// File is a finished data file: everything that an add action says of it.
type File struct {
	// Path is relative to the table's root and as it is on disk. The log holds it
	// percent-encoded.
	Path string
	// Size is the length of the file in bytes.
	Size int64
	// PartitionValues has an entry per partition column, by its physical name under
	// column mapping, in the form of the log; nil is NULL. Empty if the table is not
	// partitioned.
	PartitionValues map[string]*string
	// Stats is the text of the add action's stats.
	Stats string
	// NumRecords is the number of rows; Stats says it too.
	NumRecords int64
	// ModTime is when the file was finished.
	ModTime time.Time
}

// Encodings says which Parquet encodings a Writer may use.
type Encodings string

// The sets of encodings.
const (
	// Plain is plain and dictionary encoding, which every reader knows. The default.
	Plain Encodings = "plain"
	// Compact adds the delta encodings for integers, timestamps and strings: smaller
	// files in less time, for readers of Parquet 2 (Spark 3.3, DuckDB, arrow-rs).
	Compact Encodings = "compact"
)

// Compression of data pages, in the words of delta.parquet.compression.codec.
type Compression string

// The codecs.
const (
	Zstd         Compression = "zstd" // level 1; the default
	Snappy       Compression = "snappy"
	Gzip         Compression = "gzip"
	Uncompressed Compression = "uncompressed"

	none Compression = "none" // the property's other word for Uncompressed
)

// The defaults of [WriterOptions].
const (
	DefaultRowGroupRows    = 128 * 1024
	DefaultRowGroupBytes   = 16 << 20
	DefaultTargetFileBytes = 128 << 20
	DefaultMaxOpenFiles    = 16
)

// WriterOptions are the choices of a [Writer]. The zero value is a good one.
type WriterOptions struct {
	// Compression of the pages; "" is Zstd.
	Compression Compression
	// Encodings of the pages; "" is Plain.
	Encodings Encodings

	// A row group is written when it has RowGroupRows rows or holds RowGroupBytes
	// bytes of memory; a file is finished when it has TargetFileBytes. 0 is the
	// default of each.
	RowGroupRows    int64
	RowGroupBytes   int64
	TargetFileBytes int64

	// PartitionBy are the table's partition columns, in their order. Their values
	// are in the path and in File.PartitionValues, not in the file.
	PartitionBy []string
	// MaxOpenFiles bounds the files open at one time in a partitioned table: the one
	// least recently written to is finished to make room. 0 is the default.
	MaxOpenFiles int

	// Parallel is how many goroutines encode the columns of a batch, the caller's among
	// them; 0 is one for each processor, at most 4. What is written does not depend on it.
	Parallel int

	// Mapping is the table's column mapping; "" is none. With one, files have field ids,
	// and files, statistics, partition values and folders have physical names. Columns
	// are named as ever in PartitionBy, Stats and batches.
	Mapping schema.Mapping

	// Stats says which columns get statistics; zero is the first 32.
	Stats StatsColumns

	// Allocator is used for what is allocated through Arrow; nil is the Go heap.
	Allocator memory.Allocator

	// NewID makes the unique part of a file name; nil is a random UUID.
	NewID func() string
	// NamePrefix is what a file name begins with; "" is "part-00000".
	NamePrefix string
	// Now tells ModTime; nil is time.Now.
	Now func() time.Time

	limits limits // zero is defaultLimits
}
