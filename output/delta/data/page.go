package data

import (
	"encoding/binary"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/metadata"
)

// chunkWriter writes the pages of one column chunk, whose bodies are compressed already,
// and counts what the chunk's metadata has to say. The library's page writer compresses
// dictionary pages itself, with an encoder that takes 8 MB for each that is larger than a
// block.
type chunkWriter struct {
	sink *fileSink
	info metadata.ChunkMetaInfo

	header    []byte // scratch
	dictPages map[parquet.Encoding]int32
	dataPages map[parquet.Encoding]int32
}

func newChunkWriter(sink *fileSink) *chunkWriter {
	return &chunkWriter{
		sink: sink, info: metadata.ChunkMetaInfo{IndexPageOffset: -1},
		dictPages: map[parquet.Encoding]int32{}, dataPages: map[parquet.Encoding]int32{},
	}
}

// Types of pages, from PageType of parquet.thrift.
const (
	pageTypeData       = 0
	pageTypeDictionary = 2
)

// dictionary writes the dictionary page, which is the first of its chunk.
func (w *chunkWriter) dictionary(body []byte, values, uncompressed int) error {
	w.info.DictPageOffset = w.sink.Tell()
	w.dictPages[parquet.Encodings.Plain]++
	h := w.begin(pageTypeDictionary, uncompressed, len(body))
	h.structure(7) // DictionaryPageHeader
	h.int32(1, values)
	h.int32(2, int(parquet.Encodings.Plain))
	h.no(3) // is_sorted
	h.end()
	return w.write(h, body, uncompressed)
}

// data writes a data page of version 1.
func (w *chunkWriter) data(body []byte, p pageInfo) error {
	if w.info.DataPageOffset == 0 {
		w.info.DataPageOffset = w.sink.Tell()
	}
	w.info.NumValues += int64(p.levels)
	w.dataPages[p.encoding]++
	h := w.begin(pageTypeData, p.uncompressed, p.size)
	h.structure(5) // DataPageHeader
	h.int32(1, p.levels)
	h.int32(2, int(p.encoding))
	h.int32(3, int(parquet.Encodings.RLE)) // of definition levels
	h.int32(4, int(parquet.Encodings.RLE)) // of repetition levels
	h.end()
	return w.write(h, body, p.uncompressed)
}

// begin begins a PageHeader.
func (w *chunkWriter) begin(pageType, uncompressed, compressed int) *compactStruct {
	h := &compactStruct{b: w.header[:0]}
	h.int32(1, pageType)
	h.int32(2, uncompressed)
	h.int32(3, compressed)
	return h
}

func (w *chunkWriter) write(h *compactStruct, body []byte, uncompressed int) error {
	h.end()
	w.header = h.b
	w.info.UncompressedSize += int64(len(h.b) + uncompressed)
	w.info.CompressedSize += int64(len(h.b) + len(body))
	if _, err := w.sink.Write(h.b); err != nil {
		return err
	}
	_, err := w.sink.Write(body)
	return err
}

// finish writes the chunk's metadata behind it.
func (w *chunkWriter) finish(meta *metadata.ColumnChunkMetaDataBuilder, fallback bool) error {
	stats := metadata.EncodingStats{DictEncodingStats: w.dictPages, DataEncodingStats: w.dataPages}
	if err := meta.Finish(w.info, w.info.DictPageOffset > 0, fallback, stats); err != nil {
		return err
	}
	// The library lists the encodings of data pages in the order of a map: the same rows shall
	// give the same file.
	all := meta.Contents().MetaData.EncodingStats
	for i := len(w.dictPages) + 1; i < len(all); i++ {
		for j := i; j > len(w.dictPages) && all[j].Encoding < all[j-1].Encoding; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	_, err := meta.WriteTo(w.sink)
	return err
}

// compactStruct writes a struct in Thrift's compact protocol, in which Parquet has its
// page headers: before each field its distance from the one before and its type.
type compactStruct struct {
	b    []byte
	last []byte // number of the field that came last, of each open struct but the innermost
	at   byte   // the same of the innermost
}

// Types of the compact protocol.
const (
	compactFalse  = 2
	compactI32    = 5
	compactNested = 12
)

func (s *compactStruct) field(id, kind byte) {
	s.b = append(s.b, (id-s.at)<<4|kind)
	s.at = id
}

func (s *compactStruct) int32(id byte, v int) {
	s.field(id, compactI32)
	s.b = binary.AppendVarint(s.b, int64(v))
}

func (s *compactStruct) no(id byte) { s.field(id, compactFalse) }

// structure begins a struct within this one; end ends it.
func (s *compactStruct) structure(id byte) {
	s.field(id, compactNested)
	s.last, s.at = append(s.last, id), 0
}

func (s *compactStruct) end() {
	s.b = append(s.b, 0)
	if n := len(s.last); n > 0 {
		s.at, s.last = s.last[n-1], s.last[:n-1]
	}
}
