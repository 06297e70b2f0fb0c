package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// eachRow is the processor. It is safe for concurrent use if its children are.
type eachRow struct{ processors []*service.OwnedProcessor }

func newEachRow(conf *service.ParsedConfig) (*eachRow, error) {
	processors, err := conf.FieldProcessorList(fieldProcessors)
	if err != nil {
		return nil, err
	}
	if len(processors) == 0 {
		return nil, fmt.Errorf("field %s is empty: each_row needs at least one processor", fieldProcessors)
	}
	return &eachRow{processors: processors}, nil
}

// metaRow holds a row's number in its batch. Metadata is what processors keep with
// a message's content; a message's context is not: after a filter the engine
// gives the messages behind it each other's.
const metaRow = "mssql_cdc_row"

// ProcessBatch replaces each record batch by what its rows became.
func (e *eachRow) ProcessBatch(ctx context.Context, batch service.MessageBatch) ([]service.MessageBatch, error) {
	out := make(service.MessageBatch, 0, len(batch))
	for _, message := range batch {
		body, err := message.AsStructured()
		record, ok := body.(*mssqlcdc.RecordBatch)
		if err != nil || !ok {
			passed, err := e.run(ctx, service.MessageBatch{message})
			if err != nil {
				return nil, err
			}
			out = append(out, passed...)
			continue
		}
		packed, err := e.explode(ctx, message, record)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			message.SetError(fmt.Errorf("each_row on %s: %w", record, err))
			packed = message
		}
		out = append(out, packed)
	}
	return []service.MessageBatch{out}, nil
}

// run passes messages through the processors. The result is in one batch.
func (e *eachRow) run(ctx context.Context, batch service.MessageBatch) (service.MessageBatch, error) {
	batches, err := service.ExecuteProcessors(ctx, e.processors, batch)
	if err != nil {
		return nil, fmt.Errorf("running processors: %w", err)
	}
	return slices.Concat(batches...), nil
}

// explode runs the rows through the processors and packs what is left. An empty
// batch stays a message: it carries the position.
func (e *eachRow) explode(ctx context.Context, message *service.Message, record *mssqlcdc.RecordBatch) (*service.Message, error) {
	if record.NumRows() == 0 {
		return message, nil
	}
	left, err := e.run(ctx, rowMessages(message, record))
	if err != nil {
		return nil, err
	}
	rows, err := survivors(left)
	if err != nil {
		return nil, err
	}
	packed, err := pack(record, rows)
	if err != nil {
		return nil, err
	}
	derived, err := record.WithRecord(packed, record.NumRows()-packed.NumRows())
	if err != nil {
		return nil, err
	}
	result := message.Copy()
	result.SetStructured(derived)
	result.MetaSetMut(mssqlcdc.MetaRows, derived.NumRows())
	return result, nil
}

// rowMessages makes one message per row with the metadata of format rows on top of
// the batch's own, and the row's number.
func rowMessages(message *service.Message, record *mssqlcdc.RecordBatch) service.MessageBatch {
	read := mssqlcdc.RowReader(record.Record(), mssqlcdc.FirstCaptured)
	batch := make(service.MessageBatch, 0, record.NumRows())
	var template *service.Message
	var of mssqlcdc.Position
	for i, change := range mssqlcdc.Changes(record.Record()) {
		at := mssqlcdc.Position{StartLSN: change.Position.StartLSN, Operation: change.Position.Operation}
		if template == nil || at != of {
			template, of = message.Copy(), at
			template.MetaDelete(mssqlcdc.MetaRows)
			change.SharedMeta(func(key string, value any) {
				if value != nil {
					template.MetaSetMut(key, value)
				}
			})
		}
		row := template.Copy()
		row.SetStructuredMut(read(i))
		row.MetaSetMut(metaRow, i)
		change.PositionMeta(func(key string, value any) { row.MetaSetMut(key, value) })
		batch = append(batch, row)
	}
	return batch
}

// survivor is a row that the processors left.
type survivor struct {
	number int
	body   map[string]any
}

// survivors reads the rows back in their old order.
func survivors(batch service.MessageBatch) ([]survivor, error) {
	rows := make([]survivor, 0, len(batch))
	for _, message := range batch {
		if err := message.GetError(); err != nil {
			return nil, fmt.Errorf("a row failed: %w", err)
		}
		value, _ := message.MetaGetMut(metaRow)
		number, ok := value.(int)
		if !ok {
			return nil, fmt.Errorf("a processor made a message that is no row of the batch, or removed the metadata %s of a row", metaRow)
		}
		body, err := message.AsStructured()
		if err != nil {
			return nil, fmt.Errorf("reading row %d: %w", number, err)
		}
		object, ok := body.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("row %d became a %T, want an object", number, body)
		}
		rows = append(rows, survivor{number: number, body: object})
	}
	slices.SortStableFunc(rows, func(a, b survivor) int { return a.number - b.number })
	for i := 1; i < len(rows); i++ {
		if rows[i].number == rows[i-1].number {
			return nil, fmt.Errorf("row %d became several: a change has one identity, so it cannot be written more than once", rows[i].number)
		}
	}
	return rows, nil
}

// Close closes the processors.
func (e *eachRow) Close(ctx context.Context) error {
	var errs []error
	for _, p := range e.processors {
		errs = append(errs, p.Close(ctx))
	}
	return errors.Join(errs...)
}
