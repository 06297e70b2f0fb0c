package mssqlcdc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// EnvelopeVersion is the version of [Envelope] that this code writes. A reader
// refuses every other one. Ledger: 1 is the first.
const EnvelopeVersion = 1

// Names of the metadata columns, in the record and in the bronze table.
const (
	ColCaptureInstance = "_capture_instance" // bronze only
	ColStartLSN        = "_start_lsn"
	ColSeqVal          = "_seqval"
	ColOperation       = "_operation"
	ColCommandID       = "_command_id"
	ColCommitTime      = "_commit_ts"
	ColBatchID         = "_batch_id" // bronze only
	ColSnapshot        = "_snapshot" // bronze only
	ColChunk           = "_chunk"    // bronze only
)

// ReservedColumns lists the names, ignoring case, that a source column must not
// have.
func ReservedColumns() []string {
	return []string{
		ColCaptureInstance, ColStartLSN, ColSeqVal, ColOperation, ColCommandID,
		ColCommitTime, ColBatchID, ColSnapshot, ColChunk,
	}
}

// Indexes of the metadata columns of a record; captured columns follow from
// FirstCaptured on.
const (
	IdxStartLSN   = 0 // fixed_size_binary(10), not null
	IdxSeqVal     = 1 // fixed_size_binary(10), null on snapshot rows
	IdxOperation  = 2 // int32, not null
	IdxCommandID  = 3 // int32, null where the change table has none
	IdxCommitTime = 4 // timestamp[us] without zone, UTC; null if the source no longer knows it

	FirstCaptured = 5
)

// RecordSchema is the Arrow schema of a record of the given captured columns.
func RecordSchema(columns []Column) *arrow.Schema {
	lsn := &arrow.FixedSizeBinaryType{ByteWidth: LSNSize}
	fields := []arrow.Field{
		{Name: ColStartLSN, Type: lsn},
		{Name: ColSeqVal, Type: lsn, Nullable: true},
		{Name: ColOperation, Type: arrow.PrimitiveTypes.Int32},
		{Name: ColCommandID, Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: ColCommitTime, Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true},
	}
	for _, c := range columns {
		fields = append(fields, c.Field())
	}
	return arrow.NewSchema(fields, nil)
}

// Envelope says which part of which window of which table a record batch is.
type Envelope struct {
	Version          int           `json:"version"`
	Server           string        `json:"server,omitempty"`
	Database         string        `json:"database,omitempty"`
	Table            TableID       `json:"table"`
	Instance         string        `json:"capture_instance"`
	Generation       int           `json:"generation"`
	Window           Window        `json:"window"`
	Attempt          int64         `json:"attempt"`                  // differs between two reads of a window: parts of two attempts never belong together
	Part             int           `json:"part"`                     // 0, 1, 2 … within the window
	Last             bool          `json:"last"`                     // the window is complete with this part
	PrevDataLSN      LSN           `json:"prev_data_lsn"`            // end of this table's window with rows before this one
	CompleteFrom     LSN           `json:"complete_from"`            // no commit at or below it is promised; zero if the stream began with the instance
	CompleteFromTime time.Time     `json:"complete_from_time"`       // its commit time in UTC; zero if unknown or none
	Chunk            *Chunk        `json:"snapshot_chunk,omitempty"` // the rows are those of a snapshot; the window is then empty and ends at the rows' LSN
	OpenSnapshot     LSN           `json:"open_snapshot"`            // a snapshot of the table that is not complete yet; zero if none is
	Filtered         int64         `json:"filtered,omitempty"`       // rows that each_row took out of this part
	Metrics          WindowMetrics `json:"metrics"`                  // on the last part
	Events           []Fact        `json:"events,omitempty"`         // events of the window, on the last part
	Warnings         []string      `json:"warnings,omitempty"`
}

// Mark is what a sink did with a record batch.
type Mark int

// The marks. Any mark satisfies the acknowledgement; only that of a last part
// moves the resume position.
const (
	Unmarked  Mark = iota // no sink has handled it
	Staged                // a part before the last: kept, not committed
	Committed             // its window is in the table
	Skipped               // its window was already in the table
)

// String names the mark.
func (m Mark) String() string {
	return [...]string{"unmarked", "staged", "committed", "skipped"}[max(0, min(int(m), 3))]
}

// RecordBatch is the body of a message of format record_batch: one part of a
// window as an Arrow record with its envelope. It is immutable but for the
// marks, and safe for concurrent use. It travels as a pointer: the engine never
// copies a body whose type it does not know.
//
// Its record lies in memory of the garbage collector; nobody needs to release
// it.
type RecordBatch struct {
	envelope Envelope
	record   arrow.RecordBatch

	marks *markSet // shared with what WithRecord made of this batch
}

type markSet struct {
	mu     sync.Mutex
	bySink map[string]Mark
}

// NewRecordBatch checks that the record has the layout of [RecordSchema] and
// joins it with the envelope. The caller gives up the record.
func NewRecordBatch(envelope Envelope, record arrow.RecordBatch) (*RecordBatch, error) {
	if envelope.Version != EnvelopeVersion {
		return nil, fmt.Errorf("record batch of %s: envelope version %d, want %d", envelope.Table, envelope.Version, EnvelopeVersion)
	}
	if err := envelope.validate(); err != nil {
		return nil, fmt.Errorf("record batch of %s: %w", envelope.Table, err)
	}
	if err := checkLayout(record.Schema()); err != nil {
		return nil, fmt.Errorf("record batch of %s: %w", envelope.Table, err)
	}
	return &RecordBatch{envelope: envelope, record: record, marks: &markSet{bySink: map[string]Mark{}}}, nil
}

func (e Envelope) validate() error {
	if err := e.Window.Validate(); err != nil || e.Chunk == nil {
		return err
	}
	if e.Window.Start != e.Chunk.Stamp || e.Window.End != e.Chunk.Stamp {
		return fmt.Errorf("%s was read at %s, its window is %s", e.Chunk, e.Chunk.Stamp, e.Window)
	}
	return e.Chunk.Validate()
}

func checkLayout(schema *arrow.Schema) error {
	want := RecordSchema(nil)
	if schema.NumFields() < FirstCaptured {
		return fmt.Errorf("%d columns, want at least the %d metadata columns", schema.NumFields(), FirstCaptured)
	}
	for i, field := range want.Fields() {
		got := schema.Field(i)
		if got.Name != field.Name || !arrow.TypeEqual(got.Type, field.Type) {
			return fmt.Errorf("column %d is %s %s, want %s %s", i, got.Name, got.Type, field.Name, field.Type)
		}
	}
	return nil
}

// Envelope returns a copy of the envelope. Its slices must not be changed.
func (b *RecordBatch) Envelope() Envelope { return b.envelope }

// Record returns the rows. The caller must not change or release it.
func (b *RecordBatch) Record() arrow.RecordBatch { return b.record }

// NumRows is the number of rows of this part; 0 for an idle advance.
func (b *RecordBatch) NumRows() int64 { return b.record.NumRows() }

// WithRecord is this part with other rows: same envelope, the rows taken out
// counted on top of those that were taken out before, the same marks.
func (b *RecordBatch) WithRecord(record arrow.RecordBatch, filtered int64) (*RecordBatch, error) {
	envelope := b.envelope
	envelope.Filtered += filtered
	derived, err := NewRecordBatch(envelope, record)
	if err != nil {
		return nil, err
	}
	derived.marks = b.marks
	return derived, nil
}

// Mark records what a sink, named by its application id and target, did. A
// mark never goes back to a lower one.
func (b *RecordBatch) Mark(sink string, mark Mark) {
	b.marks.mu.Lock()
	defer b.marks.mu.Unlock()
	b.marks.bySink[sink] = max(b.marks.bySink[sink], mark)
}

// MarkOf is what the sink did, Unmarked if it has not seen the batch.
func (b *RecordBatch) MarkOf(sink string) Mark {
	b.marks.mu.Lock()
	defer b.marks.mu.Unlock()
	return b.marks.bySink[sink]
}

// Marks returns what every sink did so far.
func (b *RecordBatch) Marks() map[string]Mark {
	b.marks.mu.Lock()
	defer b.marks.mu.Unlock()
	return maps.Clone(b.marks.bySink)
}

// Rows yields the rows as objects; see [Rows].
func (b *RecordBatch) Rows() iter.Seq[map[string]any] { return Rows(b.record, FirstCaptured) }

// MarshalJSON writes the array of the rows' captured columns, so that a log
// line or a byte-minded output shows data. It never panics; the error, if any,
// names the column.
func (b *RecordBatch) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	buf.WriteByte('[')
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	first := true
	for row := range b.Rows() {
		if !first {
			buf.WriteByte(',')
		}
		first = false
		if err := encoder.Encode(jsonRow(row)); err != nil {
			return nil, fmt.Errorf("writing rows of %s as JSON: %w", b.envelope.Table, err)
		}
	}
	buf.WriteByte(']')
	return buf.Bytes(), nil
}

// String is one line without data.
func (b *RecordBatch) String() string {
	last, of := "", "window "+b.envelope.Window.String()
	if b.envelope.Last {
		last = ", last"
	}
	if chunk := b.envelope.Chunk; chunk != nil {
		of = chunk.String()
	}
	return fmt.Sprintf("record batch of %s: %s part %d%s, %d rows", b.envelope.Table, of, b.envelope.Part, last, b.NumRows())
}

// Format keeps every verb to the one line of String: a log of the message must
// not print the struct by reflection.
func (b *RecordBatch) Format(state fmt.State, _ rune) { fmt.Fprint(state, b.String()) }
