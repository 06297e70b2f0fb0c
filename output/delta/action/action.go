// Package action holds the actions of a Delta log as Go values and their JSON.
//
// A commit is a file of newline-delimited JSON; each line is an object with one
// key that names the action. Names and types follow the "Actions" chapter of
// Delta's PROTOCOL.md, and for commitInfo, which that document leaves open, what
// Spark and delta-rs parse without error.
package action

import (
	"maps"
	"slices"
)

// Protocol says which protocol versions and table features a reader or writer
// must know. The feature lists are present exactly at reader 3 and writer 7.
type Protocol struct {
	MinReaderVersion int      `json:"minReaderVersion"`
	MinWriterVersion int      `json:"minWriterVersion"`
	ReaderFeatures   []string `json:"readerFeatures,omitempty"`
	WriterFeatures   []string `json:"writerFeatures,omitempty"`
}

// Clone returns a copy that shares nothing with p.
func (p Protocol) Clone() Protocol {
	p.ReaderFeatures = slices.Clone(p.ReaderFeatures)
	p.WriterFeatures = slices.Clone(p.WriterFeatures)
	return p
}

// Format is the data file format of a table; the provider is always "parquet".
type Format struct {
	Provider string            `json:"provider"`
	Options  map[string]string `json:"options"`
}

// Metadata is the table's identity, schema and properties. A new one replaces
// the old one entirely.
type Metadata struct {
	// ID is a GUID that stays the same for the table's whole life.
	ID string `json:"id"`
	// Name is the table's name, Description its comment; "" is none.
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Format      Format `json:"format"`
	// SchemaString is the schema as JSON text.
	SchemaString     string            `json:"schemaString"`
	PartitionColumns []string          `json:"partitionColumns"`
	Configuration    map[string]string `json:"configuration"`
	// CreatedTime is in milliseconds since the epoch; nil is not recorded.
	CreatedTime *int64 `json:"createdTime,omitempty"`
}

// Clone returns a copy that shares nothing with m.
func (m Metadata) Clone() Metadata {
	m.Format.Options = maps.Clone(m.Format.Options)
	m.PartitionColumns = slices.Clone(m.PartitionColumns)
	m.Configuration = maps.Clone(m.Configuration)
	if m.CreatedTime != nil {
		m.CreatedTime = new(*m.CreatedTime)
	}
	return m
}

// DeletionVector describes the rows of a file that are deleted.
type DeletionVector struct {
	// StorageType is "u" (relative path from a UUID), "p" (absolute path) or
	// "i" (inline).
	StorageType    string `json:"storageType"`
	PathOrInlineDv string `json:"pathOrInlineDv"`
	// Offset is the vector's position in its file; nil for inline vectors.
	Offset      *int32 `json:"offset,omitempty"`
	SizeInBytes int32  `json:"sizeInBytes"`
	Cardinality int64  `json:"cardinality"`
}

// Add makes a data file part of the table.
type Add struct {
	// Path is the file's path as the log spells it: a URI reference, so
	// percent-encoded, normally relative to the table's root. Use EncodePath and
	// DecodePath.
	Path string `json:"path"`
	// PartitionValues has one entry per partition column; nil is null.
	PartitionValues map[string]*string `json:"partitionValues"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// ModificationTime is in milliseconds since the epoch.
	ModificationTime int64 `json:"modificationTime"`
	// DataChange is false when the commit only rearranges rows.
	DataChange bool `json:"dataChange"`
	// Stats is a JSON object as text, "" for none.
	Stats          string            `json:"stats,omitempty"`
	Tags           map[string]string `json:"tags,omitempty"`
	DeletionVector *DeletionVector   `json:"deletionVector,omitempty"`

	BaseRowID               *int64 `json:"baseRowId,omitempty"`
	DefaultRowCommitVersion *int64 `json:"defaultRowCommitVersion,omitempty"`
	ClusteringProvider      string `json:"clusteringProvider,omitempty"`
}

// Key identifies the logical file: its path and its deletion vector.
func (a Add) Key() Key { return keyOf(a.Path, a.DeletionVector) }

// Remove takes the file a out of the table, at the given time in milliseconds
// since the epoch.
func (a Add) Remove(deletionTimestamp int64, dataChange bool) Remove {
	return Remove{
		Path:                    a.Path,
		DeletionTimestamp:       deletionTimestamp,
		DataChange:              dataChange,
		ExtendedFileMetadata:    true,
		PartitionValues:         a.PartitionValues,
		Size:                    new(a.Size),
		Stats:                   a.Stats,
		Tags:                    a.Tags,
		DeletionVector:          a.DeletionVector,
		BaseRowID:               a.BaseRowID,
		DefaultRowCommitVersion: a.DefaultRowCommitVersion,
	}
}

// Remove takes a data file out of the table. The file itself stays until a
// vacuum after the retention time.
type Remove struct {
	Path string `json:"path"`
	// DeletionTimestamp is in milliseconds since the epoch. Zero counts as long
	// expired, so a vacuum may delete the file at once.
	DeletionTimestamp int64 `json:"deletionTimestamp,omitempty"`
	DataChange        bool  `json:"dataChange"`
	// ExtendedFileMetadata says that PartitionValues and Size are present.
	ExtendedFileMetadata bool               `json:"extendedFileMetadata,omitempty"`
	PartitionValues      map[string]*string `json:"partitionValues,omitempty"`
	Size                 *int64             `json:"size,omitempty"`
	Stats                string             `json:"stats,omitempty"`
	Tags                 map[string]string  `json:"tags,omitempty"`
	DeletionVector       *DeletionVector    `json:"deletionVector,omitempty"`

	BaseRowID               *int64 `json:"baseRowId,omitempty"`
	DefaultRowCommitVersion *int64 `json:"defaultRowCommitVersion,omitempty"`
}

// Key identifies the logical file that is removed.
func (r Remove) Key() Key { return keyOf(r.Path, r.DeletionVector) }

// Txn records an application's own progress: the latest version per AppID wins.
type Txn struct {
	AppID   string `json:"appId"`
	Version int64  `json:"version"`
	// LastUpdated is in milliseconds since the epoch. Where the table property
	// delta.setTransactionRetentionDuration is set, Spark drops transactions
	// without it, so it is always written; nil only in what others wrote.
	LastUpdated *int64 `json:"lastUpdated,omitempty"`
}

// DomainMetadata is a named piece of configuration. Names that begin with
// "delta." belong to the system.
type DomainMetadata struct {
	Domain        string `json:"domain"`
	Configuration string `json:"configuration"`
	Removed       bool   `json:"removed"`
}

// CDC names a file with change data of the commit.
type CDC struct {
	Path            string             `json:"path"`
	PartitionValues map[string]*string `json:"partitionValues"`
	Size            int64              `json:"size"`
	DataChange      bool               `json:"dataChange"`
	Tags            map[string]string  `json:"tags,omitempty"`
}

// Sidecar names a file with file actions of a v2 checkpoint; it occurs only in
// such checkpoints.
type Sidecar struct {
	// Path is a file name below _delta_log/_sidecars.
	Path             string            `json:"path"`
	SizeInBytes      int64             `json:"sizeInBytes"`
	ModificationTime int64             `json:"modificationTime"`
	Tags             map[string]string `json:"tags,omitempty"`
}

// CheckpointMetadata marks a v2 checkpoint; it occurs only in such checkpoints.
type CheckpointMetadata struct {
	Version int64             `json:"version"`
	Tags    map[string]string `json:"tags,omitempty"`
}
