package input

import (
	"fmt"
	"strconv"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// built is the messages of one part.
type built struct {
	batch  service.MessageBatch
	record *mssqlcdc.RecordBatch // of format record_batch
}

// envelope says which part of which window this is.
func (r *read) envelope(server sqlserver.Server, part sqlserver.Part) (mssqlcdc.Envelope, error) {
	state := r.table.tracker.acknowledged()
	e := mssqlcdc.Envelope{
		Version: mssqlcdc.EnvelopeVersion,
		Server:  server.Name, Database: server.Database,
		Table: r.table.id, Instance: r.instance.Name,
		Generation: state.Generation,
		Window:     part.Window, Attempt: r.attempt, Part: part.Index, Last: part.Last,
		PrevDataLSN:  r.prev,
		CompleteFrom: state.CompleteFrom, CompleteFromTime: state.CompleteFromTime,
	}
	if open := state.Snapshot; open != nil && open.Holds(part.Window.End, part.Window.EndTime) && !open.OnSwitch {
		e.OpenSnapshot = open.LSN
	}
	if r.chunk != nil {
		r.chunk.of.handingOut(r, &e)
	}
	if !part.Last {
		return e, nil
	}
	e.Metrics, e.Events, e.Warnings = part.Metrics, r.events, part.Warnings
	if r.chunk != nil {
		events, err := r.chunk.of.events(r, state.Generation, *state.Snapshot, r.rows)
		e.Events = append(e.Events, events...)
		return e, err
	}
	return e, nil
}

// messages makes the messages of a part in the configured format. Rows of a quiet
// table are none.
func (s *stream) messages(envelope mssqlcdc.Envelope, part sqlserver.Part) (built, error) {
	if s.config.format == formatRecordBatch {
		return recordMessage(envelope, part)
	}
	batch, err := s.rowMessages(envelope, part)
	if err != nil {
		return built{}, err
	}
	if part.Last && s.config.includeMarkers && envelope.Chunk == nil {
		batch = append(batch, markerMessage(envelope))
	}
	return built{batch: batch}, nil
}

func recordMessage(envelope mssqlcdc.Envelope, part sqlserver.Part) (built, error) {
	record, err := mssqlcdc.NewRecordBatch(envelope, part.Record)
	if err != nil {
		return built{}, fmt.Errorf("making a message: %w", err)
	}
	message := service.NewMessage(nil)
	message.SetStructured(record)
	message.MetaSetMut(mssqlcdc.MetaFormat, mssqlcdc.FormatRecordBatch)
	setTable(message, envelope)
	message.MetaSetMut(mssqlcdc.MetaLSN, envelope.Window.End.String())
	message.MetaSetMut(mssqlcdc.MetaRows, record.NumRows())
	if n := record.NumRows(); n > 1 {
		// output_sent then counts rows instead of messages.
		message = message.WithCollapsedCount(int(n))
	}
	return built{batch: service.MessageBatch{message}, record: record}, nil
}

func setTable(message *service.Message, envelope mssqlcdc.Envelope) {
	message.MetaSetMut(mssqlcdc.MetaTable, envelope.Table.Name)
	message.MetaSetMut(mssqlcdc.MetaSchemaName, envelope.Table.Schema)
	message.MetaSetMut(mssqlcdc.MetaCaptureInstance, envelope.Instance)
}

func markerMessage(envelope mssqlcdc.Envelope) *service.Message {
	message := service.NewMessage(nil)
	message.SetStructuredMut(map[string]any{})
	message.MetaSetMut(mssqlcdc.MetaFormat, mssqlcdc.FormatRows)
	message.MetaSetMut(mssqlcdc.MetaMarker, "window_end")
	setTable(message, envelope)
	message.MetaSetMut(mssqlcdc.MetaLSN, envelope.Window.End.String())
	if t := envelope.Window.EndTime; !t.IsZero() {
		message.MetaSetMut(mssqlcdc.MetaCommitMS, strconv.FormatInt(t.UnixMilli(), 10))
	}
	return message
}

// rowMessages makes one message per row. Rows share the metadata of their transaction
// and operation by copying one template message; what a copy is given beside makes a map
// of its own.
func (s *stream) rowMessages(envelope mssqlcdc.Envelope, part sqlserver.Part) (service.MessageBatch, error) {
	record := part.Record
	rows := int(record.NumRows())
	if rows == 0 {
		return nil, nil
	}
	schema, err := rowSchema(envelope.Table, record.Schema())
	if err != nil {
		return nil, err
	}
	change, row := mssqlcdc.ChangeReader(record), mssqlcdc.RowReader(record, mssqlcdc.FirstCaptured)
	next := change(0)
	templates := newTemplates(envelope, schema, next)
	batch := make(service.MessageBatch, 0, rows+1)
	for i := range rows {
		c := next
		if i+1 < rows {
			next = change(i + 1)
		}
		again := i+1 < rows && next.Position.StartLSN == c.Position.StartLSN
		message := templates.message(c, again || !s.config.includePosition)
		message.SetStructuredMut(row(i))
		if s.config.includePosition {
			c.PositionMeta(message.MetaSetMut)
		}
		batch = append(batch, message)
	}
	return batch, nil
}

// templates holds the metadata that the rows of one transaction share, by operation.
type templates struct {
	lsn    mssqlcdc.LSN
	latest *service.Message // of any transaction: it has the keys
	byOp   [mssqlcdc.UpdateAfter + 1]*service.Message
}

// newTemplates makes the templates of a part that begins with the change.
func newTemplates(envelope mssqlcdc.Envelope, schema any, begin mssqlcdc.Change) *templates {
	first := service.NewMessage(nil)
	setTable(first, envelope)
	first.MetaSetImmut(mssqlcdc.MetaSchema, service.ImmutableAny{V: schema})
	setShared(first, begin)
	return &templates{latest: first}
}

func setShared(message *service.Message, c mssqlcdc.Change) {
	c.SharedMeta(func(key string, value any) {
		if value == nil {
			message.MetaDelete(key)
			return
		}
		message.MetaSetMut(key, value)
	})
}

// message is a message with the metadata of the change that other rows may have, too.
// keep says that some will be asked for: without it the message gets the metadata for
// itself, which saves a transaction of one row the template.
func (t *templates) message(c mssqlcdc.Change, keep bool) *service.Message {
	if t.lsn != c.Position.StartLSN {
		t.lsn, t.byOp = c.Position.StartLSN, [len(t.byOp)]*service.Message{}
	}
	op := c.Position.Operation
	if op.Valid() && t.byOp[op] != nil {
		return t.byOp[op].Copy()
	}
	message := t.latest.Copy()
	setShared(message, c)
	if !keep || !op.Valid() {
		return message
	}
	t.byOp[op], t.latest = message, message
	return message.Copy()
}
