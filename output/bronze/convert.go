package bronze

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// lsnText is the length of an LSN as text: 0x and 20 hex digits.
const lsnText = 2 + 2*mssqlcdc.LSNSize

// converter turns records into records of the bronze table. What it makes refers
// to memory that the next call takes over, so each must be written before that. It
// is used from one goroutine at a time.
type converter struct {
	byDate bool
	hex    [256]uint16 // two digits of each byte, as they lie in memory

	// The layout of the last record.
	from     *arrow.Schema
	snapshot bool
	fields   *arrow.Schema

	// Scratch memory: texts of the two LSN columns, offsets of texts of one
	// length, dates, and the indices of dictionaries of one entry, all zero.
	startText, seqText []byte
	offsets            []int32
	dates              []int32
	index              []int32
	zeros              []int32

	// The dictionaries of one entry stay the same over the parts of a window, so
	// that the encoder looks their entry up once.
	instance     arrow.Array
	instanceName string
	batch, chunk entry
}

// entry is a dictionary of one number.
type entry struct {
	array arrow.Array // nil at first
	value int32
}

func (e *entry) of(value int32) arrow.Array {
	if e.array == nil || e.value != value {
		e.value = value
		e.array = array.NewInt32Data(array.NewData(arrow.PrimitiveTypes.Int32, 1,
			[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{value}))}, nil, 0, 0))
	}
	return e.array
}

func newConverter(byDate bool) *converter {
	const digits = "0123456789ABCDEF"
	c := &converter{byDate: byDate}
	for b := range c.hex {
		c.hex[b] = binary.LittleEndian.Uint16([]byte{digits[b>>4], digits[b&0x0F]})
	}
	return c
}

// convert makes the bronze record of a record's rows: of changes, which have no
// _snapshot and no _chunk, or of a snapshot's chunk, which have no _batch_id. The
// columns that they do not have are left out.
func (c *converter) convert(record arrow.RecordBatch, instance string, batchID int64, chunk *mssqlcdc.Chunk) (arrow.RecordBatch, error) {
	if batchID > math.MaxInt32 {
		return nil, fmt.Errorf("batch id %d does not fit into column %s: go on in a new table", batchID, mssqlcdc.ColBatchID)
	}
	rows := int(record.NumRows())
	if rows > len(c.zeros) {
		c.zeros = make([]int32, rows)
	}
	if chunk != nil && chunk.Number > math.MaxInt32 {
		return nil, fmt.Errorf("%s does not fit into column %s: read larger chunks", chunk, mssqlcdc.ColChunk)
	}
	if c.from == nil || c.snapshot != (chunk != nil) || !c.from.Equal(record.Schema()) {
		c.from, c.snapshot = record.Schema(), chunk != nil
		c.fields = c.layout(record.Schema())
	}
	columns := make([]arrow.Array, 0, c.fields.NumFields())
	columns = append(columns,
		c.constant(c.instanceEntry(instance), rows),
		c.startLSN(record.Column(mssqlcdc.IdxStartLSN).(*array.FixedSizeBinary)),
		c.seqVal(record.Column(mssqlcdc.IdxSeqVal).(*array.FixedSizeBinary)),
		record.Column(mssqlcdc.IdxOperation),
		record.Column(mssqlcdc.IdxCommandID),
		record.Column(mssqlcdc.IdxCommitTime))
	columns = append(columns, record.Columns()[mssqlcdc.FirstCaptured:]...)
	if chunk == nil {
		columns = append(columns, c.constant(c.batch.of(int32(batchID)), rows))
	} else {
		snapshot := []byte(chunk.Snapshot.String())
		columns = append(columns,
			c.constant(textArray(snapshot, []int32{0, int32(len(snapshot))}), rows),
			c.constant(c.chunk.of(int32(chunk.Number)), rows))
	}
	if c.byDate {
		columns = append(columns, c.commitDate(record.Column(mssqlcdc.IdxCommitTime).(*array.Timestamp)))
	}
	// The types of the LSN columns differ from part to part: text or dictionary.
	fields := c.fields.Fields()
	for i := range fields {
		fields[i].Type = columns[i].DataType()
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, int64(rows)), nil
}

// rest gives up the scratch memory: between windows, which may be long, and in a process with
// many tables, others need it. What convert made must have been written.
func (c *converter) rest() {
	c.startText, c.seqText, c.offsets, c.dates, c.index, c.zeros = nil, nil, nil, nil, nil, nil
}

// layout names the columns of the bronze records of such records.
func (c *converter) layout(record *arrow.Schema) *arrow.Schema {
	var fields []arrow.Field
	for _, m := range before() {
		fields = append(fields, arrow.Field{Name: m.name, Nullable: true})
	}
	fields = append(fields, record.Fields()[mssqlcdc.FirstCaptured:]...)
	if c.snapshot {
		fields = append(fields, arrow.Field{Name: mssqlcdc.ColSnapshot, Nullable: true}, arrow.Field{Name: mssqlcdc.ColChunk, Nullable: true})
	} else {
		fields = append(fields, arrow.Field{Name: mssqlcdc.ColBatchID, Nullable: true})
	}
	if c.byDate {
		fields = append(fields, arrow.Field{Name: ColCommitDate, Nullable: true})
	}
	for i := range fields {
		fields[i].Type = arrow.Null
	}
	return arrow.NewSchema(fields, nil)
}

// constant is a column with one value: a dictionary of one entry.
func (c *converter) constant(entry arrow.Array, rows int) arrow.Array {
	return dictionaryOf(entry, c.zeros[:rows])
}

func dictionaryOf(entries arrow.Array, index []int32) arrow.Array {
	typ := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: entries.DataType()}
	data := array.NewDataWithDictionary(typ, len(index),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(index))}, 0, 0, entries.Data().(*array.Data))
	return array.NewDictionaryData(data)
}

func (c *converter) instanceEntry(name string) arrow.Array {
	if c.instance == nil || c.instanceName != name {
		c.instanceName = name
		c.instance = textArray([]byte(name), []int32{0, int32(len(name))})
	}
	return c.instance
}

func textArray(text []byte, offsets []int32) arrow.Array {
	return array.NewStringData(array.NewData(arrow.BinaryTypes.String, len(offsets)-1,
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes(text)}, nil, 0, 0))
}

// startLSN is the column of commit LSNs. Rows of one commit stand together, so
// where commits have several rows a dictionary with an entry per run is cheaper to
// make and to encode.
func (c *converter) startLSN(lsns *array.FixedSizeBinary) arrow.Array {
	raw, rows := lsnBytes(lsns), lsns.Len()
	runs := 0
	for i := range rows {
		if i == 0 || !sameLSN(raw, i-1, i) {
			runs++
		}
	}
	if 4*runs > rows {
		c.startText = c.appendTexts(c.startText[:0], raw, rows)
		return textArray(c.startText, c.fixedOffsets(rows))
	}
	c.startText, c.index = c.startText[:0], grow(c.index, rows)
	entry := int32(-1)
	for i := range rows {
		if i == 0 || !sameLSN(raw, i-1, i) {
			c.startText = c.appendText(c.startText, raw[i*mssqlcdc.LSNSize:])
			entry++
		}
		c.index[i] = entry
	}
	return dictionaryOf(textArray(c.startText, c.fixedOffsets(runs)), c.index[:rows])
}

func (c *converter) seqVal(lsns *array.FixedSizeBinary) arrow.Array {
	raw, rows := lsnBytes(lsns), lsns.Len()
	if lsns.NullN() == 0 {
		c.seqText = c.appendTexts(c.seqText[:0], raw, rows)
		return textArray(c.seqText, c.fixedOffsets(rows))
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(rows)
	for i := range rows {
		if lsns.IsNull(i) {
			b.AppendNull()
			continue
		}
		b.Append(mssqlcdc.LSN(raw[i*mssqlcdc.LSNSize:][:mssqlcdc.LSNSize]).String())
	}
	return b.NewArray()
}

// lsnBytes is the memory of the column's rows.
func lsnBytes(lsns *array.FixedSizeBinary) []byte {
	if lsns.Len() == 0 {
		return nil
	}
	from := lsns.Data().Offset() * mssqlcdc.LSNSize
	return lsns.Data().Buffers()[1].Bytes()[from:][:lsns.Len()*mssqlcdc.LSNSize]
}

func sameLSN(raw []byte, i, j int) bool {
	a, b := raw[i*mssqlcdc.LSNSize:][:mssqlcdc.LSNSize], raw[j*mssqlcdc.LSNSize:][:mssqlcdc.LSNSize]
	return binary.LittleEndian.Uint64(a) == binary.LittleEndian.Uint64(b) && a[8] == b[8] && a[9] == b[9]
}

func (c *converter) appendTexts(dst, raw []byte, rows int) []byte {
	if need := rows * lsnText; cap(dst) < need {
		dst = make([]byte, 0, need)
	}
	for i := range rows {
		if i > 0 && sameLSN(raw, i-1, i) {
			dst = append(dst, dst[len(dst)-lsnText:]...)
			continue
		}
		dst = c.appendText(dst, raw[i*mssqlcdc.LSNSize:])
	}
	return dst
}

// appendText appends one LSN as text: what LSN.AppendHex does, two digits at a
// time.
func (c *converter) appendText(dst, raw []byte) []byte {
	raw = raw[:mssqlcdc.LSNSize]
	var text [lsnText]byte
	text[0], text[1] = '0', 'x'
	for i, b := range raw {
		binary.LittleEndian.PutUint16(text[2+2*i:], c.hex[b])
	}
	return append(dst, text[:]...)
}

// fixedOffsets are the offsets of rows texts of one length.
func (c *converter) fixedOffsets(rows int) []int32 {
	for len(c.offsets) <= rows {
		c.offsets = append(c.offsets, int32(len(c.offsets)*lsnText))
	}
	return c.offsets[:rows+1]
}

func (c *converter) commitDate(times *array.Timestamp) arrow.Array {
	const day = 24 * 60 * 60 * 1_000_000
	rows := times.Len()
	c.dates = grow(c.dates, rows)
	for i := range rows {
		v := int64(times.Value(i))
		days := v / day
		if v%day < 0 {
			days--
		}
		c.dates[i] = int32(days)
	}
	data := array.NewData(arrow.FixedWidthTypes.Date32, rows, []*memory.Buffer{
		validity(times), memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(c.dates[:rows])),
	}, nil, times.NullN(), 0)
	return array.NewDate32Data(data)
}

// validity is the array's validity bitmap from bit 0 on, nil if all are valid.
func validity(arr arrow.Array) *memory.Buffer {
	if arr.NullN() == 0 {
		return nil
	}
	bits := make([]byte, (arr.Len()+7)/8)
	for i := range arr.Len() {
		if arr.IsValid(i) {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	return memory.NewBufferBytes(bits)
}

func grow(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n)
	}
	return s[:n]
}
