package action

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Commit is the content of one commit file.
type Commit struct {
	// Info is nil in commits of writers that leave it out.
	Info     *CommitInfo
	Protocol *Protocol
	Metadata *Metadata
	Txns     []Txn
	Domains  []DomainMetadata
	Removes  []Remove
	Adds     []Add
	CDCs     []CDC
}

// line is one line of a commit: exactly one field is set.
type line struct {
	CommitInfo *CommitInfo     `json:"commitInfo,omitempty"`
	Protocol   *Protocol       `json:"protocol,omitempty"`
	Metadata   *Metadata       `json:"metaData,omitempty"`
	Txn        *Txn            `json:"txn,omitempty"`
	Domain     *DomainMetadata `json:"domainMetadata,omitempty"`
	Remove     *Remove         `json:"remove,omitempty"`
	Add        *Add            `json:"add,omitempty"`
	CDC        *CDC            `json:"cdc,omitempty"`

	// These two are in checkpoints only.
	Sidecar            *Sidecar            `json:"sidecar,omitempty"`
	CheckpointMetadata *CheckpointMetadata `json:"checkpointMetadata,omitempty"`
}

// Encode returns the commit as a file: one action per line, the commitInfo
// first, no empty line. Equal commits give equal bytes.
func (c Commit) Encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	write := func(l line) error { return enc.Encode(l) }
	if c.Info != nil {
		if err := write(line{CommitInfo: c.Info}); err != nil {
			return nil, fmt.Errorf("encoding commitInfo: %w", err)
		}
	}
	if c.Protocol != nil {
		if err := write(line{Protocol: c.Protocol}); err != nil {
			return nil, fmt.Errorf("encoding protocol: %w", err)
		}
	}
	if c.Metadata != nil {
		m := c.Metadata.withRequired()
		if err := write(line{Metadata: &m}); err != nil {
			return nil, fmt.Errorf("encoding metaData: %w", err)
		}
	}
	if err := encodeAll(c.Txns, func(t *Txn) line { return line{Txn: t} }, write); err != nil {
		return nil, fmt.Errorf("encoding txn: %w", err)
	}
	if err := encodeAll(c.Domains, func(d *DomainMetadata) line { return line{Domain: d} }, write); err != nil {
		return nil, fmt.Errorf("encoding domainMetadata: %w", err)
	}
	if err := encodeAll(c.Removes, func(r *Remove) line { return line{Remove: r} }, write); err != nil {
		return nil, fmt.Errorf("encoding remove: %w", err)
	}
	if err := encodeAll(c.Adds, func(a *Add) line { return line{Add: a} }, write); err != nil {
		return nil, fmt.Errorf("encoding add: %w", err)
	}
	if err := encodeAll(c.CDCs, func(a *CDC) line { return line{CDC: a} }, write); err != nil {
		return nil, fmt.Errorf("encoding cdc: %w", err)
	}
	return buf.Bytes(), nil
}

func encodeAll[T any](actions []T, wrap func(*T) line, write func(line) error) error {
	for i := range actions {
		if err := write(wrap(&actions[i])); err != nil {
			return err
		}
	}
	return nil
}

// withRequired fills what must not be null.
func (m Metadata) withRequired() Metadata {
	if m.Format.Provider == "" {
		m.Format.Provider = "parquet"
	}
	if m.Format.Options == nil {
		m.Format.Options = map[string]string{}
	}
	if m.PartitionColumns == nil {
		m.PartitionColumns = []string{}
	}
	if m.Configuration == nil {
		m.Configuration = map[string]string{}
	}
	return m
}

// MarshalJSON writes the feature lists exactly where the protocol wants them:
// at reader 3 and writer 7, even if empty, and never below.
func (p Protocol) MarshalJSON() ([]byte, error) {
	out := struct {
		MinReaderVersion int       `json:"minReaderVersion"`
		MinWriterVersion int       `json:"minWriterVersion"`
		ReaderFeatures   *[]string `json:"readerFeatures,omitempty"`
		WriterFeatures   *[]string `json:"writerFeatures,omitempty"`
	}{MinReaderVersion: p.MinReaderVersion, MinWriterVersion: p.MinWriterVersion}
	if p.MinReaderVersion >= ReaderVersionFeatures {
		out.ReaderFeatures = new(append([]string{}, p.ReaderFeatures...))
	}
	if p.MinWriterVersion >= WriterVersionFeatures {
		out.WriterFeatures = new(append([]string{}, p.WriterFeatures...))
	}
	return json.Marshal(out)
}

// The protocol versions from which on features are listed by name.
const (
	ReaderVersionFeatures = 3
	WriterVersionFeatures = 7
)

// MarshalJSON writes partitionValues as an object even if there are none.
func (a Add) MarshalJSON() ([]byte, error) {
	type plain Add // drops the method
	if a.PartitionValues == nil {
		a.PartitionValues = map[string]*string{}
	}
	return marshalPlain(plain(a))
}

// MarshalJSON writes the partitionValues that extendedFileMetadata promises even
// if there are none.
func (r Remove) MarshalJSON() ([]byte, error) {
	type plain Remove // drops the method
	if !r.ExtendedFileMetadata || len(r.PartitionValues) > 0 {
		return marshalPlain(plain(r))
	}
	return marshalPlain(struct {
		plain
		PartitionValues map[string]*string `json:"partitionValues"`
	}{plain(r), map[string]*string{}})
}

// marshalPlain is json.Marshal without HTML escapes.
func marshalPlain(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}
