package dv

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

// File is a file of vectors being made: all those of one commit. It is used from one goroutine
// at a time.
type File struct {
	id   [16]byte
	data []byte
}

// NewFile begins a file. Its name is made of the id, a UUID that no other file has.
func NewFile(id [16]byte) *File { return &File{id: id, data: []byte{fileVersion}} }

// Add puts a vector into the file and returns its descriptor, which is good when the file is
// written.
func (f *File) Add(r *Rows) (action.DeletionVector, error) {
	content := r.Encode()
	if len(f.data)+sizeBytes+len(content)+crcBytes > math.MaxInt32 {
		return action.DeletionVector{}, errTooLarge
	}
	d := action.DeletionVector{
		StorageType:    action.VectorRelative,
		PathOrInlineDv: action.EncodeZ85(f.id[:]),
		Offset:         new(int32(len(f.data))),
		SizeInBytes:    int32(len(content)),
		Cardinality:    r.Len(),
	}
	f.data = binary.BigEndian.AppendUint32(f.data, uint32(len(content)))
	f.data = append(f.data, content...)
	f.data = binary.BigEndian.AppendUint32(f.data, crc32.ChecksumIEEE(content))
	return d, nil
}

// Path is where the file lies, relative to the table's root and as it is on disk.
func (f *File) Path() string {
	id := f.id
	return fmt.Sprintf("deletion_vector_%x-%x-%x-%x-%x.bin", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Putter is the part of a [store.Store] that writes small objects.
type Putter interface {
	// Put writes an object; see [store.Store].
	Put(ctx context.Context, path string, data []byte) error
}

// Write puts the file into the store.
func (f *File) Write(ctx context.Context, st Putter) error {
	if err := st.Put(ctx, f.Path(), f.data); err != nil {
		return fmt.Errorf("writing deletion vectors %s: %w", f.Path(), err)
	}
	return nil
}
