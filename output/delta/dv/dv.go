// Package dv reads and writes deletion vectors: which rows of a data file do not count
// ("Deletion Vectors" and "Deletion Vector Format" in PROTOCOL.md).
//
// A vector is trusted only as a whole: its size, its checksum, its structure and the number
// of rows it deletes must be what the log and the file say. A row that is wrongly kept or
// wrongly deleted is worse than a file that cannot be read.
//
// [Builder] and [Union] make sets, [File] is the file of all vectors of a commit.
package dv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Store is the part of a [store.Store] that this package uses.
type Store interface {
	// Open opens an object for random reads; see [store.Store].
	Open(ctx context.Context, path string) (store.Object, error)
}

// Rows is a set of rows of one data file, by their position in it, counted from 0. It is
// immutable. Its memory is about that of its serialized form.
type Rows struct {
	containers []container // ascending
	n          int64
}

// Len is how many rows are in the set.
func (r *Rows) Len() int64 { return r.n }

// Last is the highest row of the set, -1 if it is empty.
func (r *Rows) Last() int64 {
	if len(r.containers) == 0 {
		return -1
	}
	c := &r.containers[len(r.containers)-1]
	return c.first + int64(c.last())
}

// Read reads the vector of a descriptor. path is where in the store the file of
// [action.DeletionVector.Path] lies; it is not looked at for an inline vector.
func Read(ctx context.Context, st Store, d action.DeletionVector, path string) (*Rows, error) {
	rows, err := read(ctx, st, d, path)
	switch {
	case err != nil && d.StorageType == action.VectorInline:
		return nil, fmt.Errorf("reading inline deletion vector: %w", err)
	case err != nil:
		return nil, fmt.Errorf("reading deletion vector %s: %w", path, err)
	}
	return rows, nil
}

func read(ctx context.Context, st Store, d action.DeletionVector, path string) (*Rows, error) {
	var data []byte
	var err error
	if d.StorageType == action.VectorInline {
		data, err = d.Inline()
	} else {
		data, err = readFile(ctx, st, d, path)
	}
	if err != nil {
		return nil, err
	}
	rows, err := Decode(data)
	if err != nil {
		return nil, err
	}
	if rows.n != d.Cardinality {
		return nil, fmt.Errorf("it has %d rows, the log says %d", rows.n, d.Cardinality)
	}
	return rows, nil
}

// A file of vectors is
//
//	version 1 byte: 1
//	then for each vector, at its offset:
//	size    4 bytes, big endian: the length of the content
//	content
//	crc     4 bytes, big endian: CRC-32 (IEEE) of the content
const (
	fileVersion   = 1
	defaultOffset = 1 // of the only vector of a file, behind the version
	sizeBytes     = 4
	crcBytes      = 4

	// readThrough is up to which offset a file is read from its beginning, so that its
	// version is seen without a request of its own.
	readThrough = 64 << 10
)

func readFile(ctx context.Context, st Store, d action.DeletionVector, path string) (data []byte, err error) {
	offset := int64(defaultOffset)
	if d.Offset != nil {
		offset = int64(*d.Offset)
	}
	if d.SizeInBytes < 0 || offset < defaultOffset {
		return nil, fmt.Errorf("%d bytes at offset %d cannot be", d.SizeInBytes, offset)
	}
	object, err := st.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	end := offset + sizeBytes + int64(d.SizeInBytes) + crcBytes
	if end > object.Size() {
		return nil, fmt.Errorf("%d bytes at offset %d do not fit into a file of %d", d.SizeInBytes, offset, object.Size())
	}
	from := offset
	if offset <= readThrough {
		from = 0
	}
	block := make([]byte, end-from)
	if _, err := object.ReadAt(block, from); err != nil {
		return nil, err
	}
	if from == 0 && block[0] != fileVersion {
		return nil, fmt.Errorf("its format version is %d, want %d", block[0], fileVersion)
	}
	block = block[offset-from:]
	size, content, crc := block[:sizeBytes], block[sizeBytes:len(block)-crcBytes], block[len(block)-crcBytes:]
	if have := binary.BigEndian.Uint32(size); int64(have) != int64(d.SizeInBytes) {
		return nil, fmt.Errorf("it has %d bytes, the log says %d", have, d.SizeInBytes)
	}
	if have, want := crc32.ChecksumIEEE(content), binary.BigEndian.Uint32(crc); have != want {
		return nil, fmt.Errorf("its checksum is %08x, the content has %08x: the file is corrupt", want, have)
	}
	return content, nil
}
