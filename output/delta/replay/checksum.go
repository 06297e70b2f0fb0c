package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Checksum is what a version checksum file, N.crc, says of version N ("Version Checksum
// File" in PROTOCOL.md). Writers leave it beside the commit so that readers find out
// whether they have reconstructed the version rightly.
type Checksum struct {
	TableSizeBytes int64
	NumFiles       int64
	Protocol       action.Protocol
	Metadata       action.Metadata
	// Txns and Domains are those of the version; nil where the file does not say.
	Txns    []action.Txn
	Domains []action.DomainMetadata
}

// ParseChecksum reads a checksum file. It is an error if it lacks what it must have.
func ParseChecksum(data []byte) (Checksum, error) {
	var raw struct {
		TableSizeBytes  *int64                  `json:"tableSizeBytes"`
		NumFiles        *int64                  `json:"numFiles"`
		NumMetadata     *int64                  `json:"numMetadata"`
		NumProtocol     *int64                  `json:"numProtocol"`
		Metadata        *action.Metadata        `json:"metadata"`
		Protocol        *action.Protocol        `json:"protocol"`
		SetTransactions []action.Txn            `json:"setTransactions"`
		DomainMetadata  []action.DomainMetadata `json:"domainMetadata"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Checksum{}, fmt.Errorf("decoding checksum file: %w", err)
	}
	switch {
	case raw.TableSizeBytes == nil || raw.NumFiles == nil || raw.Metadata == nil || raw.Protocol == nil:
		return Checksum{}, errors.New("decoding checksum file: it lacks the table's size, files, metadata or protocol")
	case raw.NumMetadata == nil || *raw.NumMetadata != 1 || raw.NumProtocol == nil || *raw.NumProtocol != 1:
		return Checksum{}, errors.New("decoding checksum file: a version has one metadata and one protocol")
	case *raw.TableSizeBytes < 0 || *raw.NumFiles < 0:
		return Checksum{}, errors.New("decoding checksum file: a count is negative")
	}
	return Checksum{
		TableSizeBytes: *raw.TableSizeBytes, NumFiles: *raw.NumFiles, Protocol: *raw.Protocol, Metadata: *raw.Metadata,
		Txns: raw.SetTransactions, Domains: raw.DomainMetadata,
	}, nil
}

// ReadChecksum reads the checksum file of a version; nil if there is none, or none that can
// be read: the file is optional, and a torn one is as good as none.
func ReadChecksum(ctx context.Context, st store.Store, version int64) (*Checksum, error) {
	data, err := st.Get(ctx, ChecksumPath(version))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading checksum file of version %d: %w", version, err)
	}
	if c, err := ParseChecksum(data); err == nil {
		return &c, nil
	}
	return nil, nil
}

// ChecksumError reports that a version is not what its checksum file says: a part of the
// log was lost or changed, or the writer of the file was wrong.
type ChecksumError struct {
	Version int64
	// What differs.
	What string
}

// Error names the version, what differs, and what to do.
func (e *ChecksumError) Error() string {
	return fmt.Sprintf("version %d of the table may be corrupt: by its log and by its checksum file it has different %s: "+
		"compare with another engine, and delete %s if that is wrong", e.Version, e.What, ChecksumPath(e.Version))
}

// CheckState compares what a state says of everything but its files.
func (c *Checksum) CheckState(s State) error {
	have, want := s.Metadata, &c.Metadata
	what := ""
	switch {
	case !sameProtocol(*s.Protocol, c.Protocol):
		what = "protocols"
	case have.ID != want.ID:
		what = fmt.Sprintf("ids (%s, %s)", have.ID, want.ID)
	case have.SchemaString != want.SchemaString:
		what = "schemas"
	case !slices.Equal(have.PartitionColumns, want.PartitionColumns):
		what = fmt.Sprintf("partition columns (%q, %q)", have.PartitionColumns, want.PartitionColumns)
	case !maps.Equal(have.Configuration, want.Configuration):
		what = "properties"
	}
	// Transactions and domains that the one has and the other has not may have expired.
	for _, txn := range c.Txns {
		if log, ok := s.Txns.Get(txn.AppID); ok && log.Version != txn.Version {
			what = fmt.Sprintf("versions of application %q (%d, %d)", txn.AppID, log.Version, txn.Version)
		}
	}
	for _, d := range c.Domains {
		if log, ok := s.Domains.Get(d.Domain); ok && !d.Removed && log.Configuration != d.Configuration {
			what = fmt.Sprintf("configurations of domain %q", d.Domain)
		}
	}
	if what != "" {
		return &ChecksumError{Version: s.Version, What: what}
	}
	return nil
}

// CheckFiles compares the number of live files and their size in bytes.
func (c *Checksum) CheckFiles(version, files, bytes int64) error {
	switch {
	case files != c.NumFiles:
		return &ChecksumError{Version: version, What: fmt.Sprintf("numbers of files (%d, %d)", files, c.NumFiles)}
	case bytes != c.TableSizeBytes:
		return &ChecksumError{Version: version, What: fmt.Sprintf("sizes in bytes (%d, %d)", bytes, c.TableSizeBytes)}
	}
	return nil
}

// sameProtocol ignores the order of features.
func sameProtocol(a, b action.Protocol) bool {
	sorted := func(features []string) []string {
		out := slices.Clone(features)
		slices.Sort(out)
		return out
	}
	return a.MinReaderVersion == b.MinReaderVersion && a.MinWriterVersion == b.MinWriterVersion &&
		slices.Equal(sorted(a.ReaderFeatures), sorted(b.ReaderFeatures)) && slices.Equal(sorted(a.WriterFeatures), sorted(b.WriterFeatures))
}
