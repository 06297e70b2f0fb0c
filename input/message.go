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
	if open := state.Snapshot; open != nil && open.Holds(part.Window.End) && !open.OnSwitch {
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

// rowMessages makes one message per row. Rows of one transaction and operation
// share one metadata map by copying one template message.
func (s *stream) rowMessages(envelope mssqlcdc.Envelope, part sqlserver.Part) (service.MessageBatch, error) {
	record := part.Record
	if record.NumRows() == 0 {
		return nil, nil
	}
	schema, err := rowSchema(envelope.Table, record.Schema())
	if err != nil {
		return nil, err
	}
	read := mssqlcdc.RowReader(record, mssqlcdc.FirstCaptured)
	batch := make(service.MessageBatch, 0, record.NumRows()+1)
	var template *service.Message
	var of mssqlcdc.Position // the transaction and operation of the template
	for i, change := range mssqlcdc.Changes(record) {
		at := mssqlcdc.Position{StartLSN: change.Position.StartLSN, Operation: change.Position.Operation}
		if template == nil || at != of {
			template, of = s.template(envelope, change, schema), at
		}
		message := template.Copy()
		message.SetStructuredMut(read(i))
		if s.config.includePosition {
			change.PositionMeta(func(key, value string) { message.MetaSetMut(key, value) })
		}
		batch = append(batch, message)
	}
	return batch, nil
}

// template carries what the rows of one transaction and operation share.
func (s *stream) template(envelope mssqlcdc.Envelope, change mssqlcdc.Change, schema any) *service.Message {
	message := service.NewMessage(nil)
	setTable(message, envelope)
	change.SharedMeta(func(key, value string) { message.MetaSetMut(key, value) })
	message.MetaSetImmut(mssqlcdc.MetaSchema, service.ImmutableAny{V: schema})
	return message
}
