package input

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// replaying is the input of format rows with auto_replay_nacks: what an output rejected
// goes out again before anything behind it. It wants one batch in flight, which keeps
// the order.
//
// The messages of a batch are made anew from its rows, which do not change. The engine's
// own wrapper keeps a copy of each message instead; that costs every row for the sake of
// the few that are rejected, and takes from processors that change a row the right to
// change it where it lies.
type replaying struct {
	*reader

	mu       sync.Mutex
	rejected *rejected
	backoff  backoff
}

// rejected is a batch that waits to be sent again.
type rejected struct {
	delivery delivery
	only     map[identity]bool // the rows that were rejected; nil for all
	pause    time.Duration
}

func newReplaying(r *reader) *replaying {
	return &replaying{reader: r, backoff: backoff{first: time.Millisecond, most: time.Second}}
}

// ReadBatch gives what was rejected, or the next part.
func (r *replaying) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	r.mu.Lock()
	again := r.rejected
	r.mu.Unlock()
	if again == nil {
		d, err := r.next(ctx)
		if err != nil {
			return nil, nil, err
		}
		return d.messages, r.ackFunc(&rejected{delivery: d}), nil
	}
	timer := time.NewTimer(again.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		r.stopping()
		return nil, nil, ctx.Err()
	case <-r.fatal:
		return r.reader.ReadBatch(ctx) // says how the input ends
	case <-r.othersFatal():
		return r.reader.ReadBatch(ctx)
	case <-timer.C:
	}
	batch, err := again.messages()
	if err != nil {
		return nil, nil, err // cannot be: they were made of the same rows before
	}
	r.mu.Lock()
	r.rejected = nil
	r.mu.Unlock()
	return batch, r.ackFunc(again), nil
}

// ackFunc passes on that the batch was written, and keeps it otherwise.
func (r *replaying) ackFunc(sent *rejected) service.AckFunc {
	return func(ctx context.Context, err error) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err == nil {
			r.backoff.reset()
			return sent.delivery.ack(ctx, nil)
		}
		only := sent.only
		if some := identities(err); some != nil {
			only = some
		}
		r.rejected = &rejected{delivery: sent.delivery, only: only, pause: r.backoff.step()}
		return nil
	}
}

// messages makes the messages of the rejected rows, or of all if those that were
// rejected are not to be found among them.
func (r *rejected) messages() (service.MessageBatch, error) {
	all, err := r.delivery.again()
	if err != nil || r.only == nil {
		return all, err
	}
	var some service.MessageBatch
	for _, message := range all {
		if id, ok := identityOf(message); ok && r.only[id] {
			some = append(some, message)
		}
	}
	if len(some) != len(r.only) {
		return all, nil
	}
	return some, nil
}

// identity is what no two changes of a table have in common.
type identity struct{ schema, table, lsn, seqval, operation string }

// identities are the messages that an error is about, nil if it is about all or one of
// them cannot be told. They are known by their metadata: which message an error came
// from is not to be trusted to the message's context, which the engine mixes up behind a
// filter.
func identities(err error) map[identity]bool {
	var partial *service.BatchError
	if !errors.As(err, &partial) {
		return nil
	}
	failed, known := map[identity]bool{}, true
	//lint:ignore SA1019 its indexes are not looked at, only the metadata of the messages
	partial.WalkMessages(func(_ int, message *service.Message, err error) bool {
		if err == nil {
			return true
		}
		var id identity
		if id, known = identityOf(message); known {
			failed[id] = true
		}
		return known
	})
	if !known || len(failed) == 0 {
		return nil
	}
	return failed
}

func identityOf(message *service.Message) (id identity, ok bool) {
	for key, part := range map[string]*string{
		mssqlcdc.MetaSchemaName: &id.schema, mssqlcdc.MetaTable: &id.table,
		mssqlcdc.MetaLSN: &id.lsn, mssqlcdc.MetaSeqVal: &id.seqval, mssqlcdc.MetaOperation: &id.operation,
	} {
		if *part, ok = message.MetaGet(key); !ok {
			return identity{}, false
		}
	}
	return id, true
}
