package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
)

// The types of chunks of a snapshot.
const (
	ChunkTiling FailureType = "CHUNK_TILING" // the facts and the table do not have the same chunks
	ChunkRows   FailureType = "CHUNK_ROWS"   // a chunk has another number of rows than the facts say
	ChunkStamp  FailureType = "CHUNK_STAMP"  // a row carries another LSN than its chunk was read at
)

// ChunkDetail says how a chunk of the newest snapshot is in the table and in the facts.
type ChunkDetail struct {
	Snapshot  mssqlcdc.LSN `json:"snapshot"`
	Chunk     int64        `json:"chunk"`
	Rows      int64        `json:"rows"`
	FactsRows int64        `json:"facts_rows"`
	Stamp     mssqlcdc.LSN `json:"stamp"` // the lowest of its rows
	FactStamp mssqlcdc.LSN `json:"facts_stamp"`
}

// chunkFacts is what is known of a chunk.
type chunkFacts struct {
	rows      int64
	low, high mssqlcdc.LSN // of its rows
	last      bool
}

// checkChunks compares the chunks of the newest snapshot with the facts. Their bounds are in no fact, since those hold no key values: that
// no key falls between two chunks, or into two of them, is found by the keys.
func (r *run) checkChunks(ctx context.Context) ([]Failure, error) {
	if r.cfg.Facts == nil || r.cfg.Target.Kind != Bronze || r.target.newest.IsZero() {
		return nil, nil
	}
	recorded, complete, err := r.recordedChunks(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the facts of snapshot %s: %w", r.target.newest, err)
	}
	if !complete {
		r.notes = append(r.notes, fmt.Sprintf("the facts do not say that snapshot %s is complete: its chunks were not checked", r.target.newest))
		return nil, nil
	}
	held, err := r.target.chunks(ctx)
	if err != nil {
		return nil, err
	}
	numbers := map[int64]bool{}
	for _, all := range []map[int64]chunkFacts{recorded, held} {
		for number := range all {
			numbers[number] = true
		}
	}
	var failures []Failure
	order := slices.Sorted(maps.Keys(numbers))
	for i, number := range order {
		fact, inFacts := recorded[number]
		have, inTable := held[number]
		fail := func(kind FailureType, note string) {
			failures = append(failures, Failure{Type: kind, Note: note, Chunk: &ChunkDetail{
				Snapshot: r.target.newest, Chunk: number, Rows: have.rows, FactsRows: fact.rows, Stamp: have.low, FactStamp: fact.low,
			}})
			r.counts[kind]++
		}
		switch {
		case !inFacts:
			fail(ChunkTiling, "the facts do not have the chunk")
		case !inTable && fact.rows > 0:
			fail(ChunkTiling, "the table does not have the chunk")
		case fact.last && i < len(order)-1:
			fail(ChunkTiling, "chunks follow the last one")
		case have.rows != fact.rows:
			fail(ChunkRows, "")
		case inTable && (have.low != fact.low || have.high != fact.low || have.low.Less(r.target.newest)):
			fail(ChunkStamp, "")
		}
	}
	return failures, nil
}

// recordedChunks reads the facts of the newest snapshot, and whether they say that it is complete.
func (r *run) recordedChunks(ctx context.Context) (chunks map[int64]chunkFacts, complete bool, err error) {
	table := r.cfg.Facts
	s, err := table.Refresh(ctx)
	if err != nil {
		return nil, false, err
	}
	chunks = map[int64]chunkFacts{}
	columns := []string{"app_id", "event", "rows", "min_lsn", "detail"}
	for rec, err := range table.Read(ctx, s, delta.ReadOptions{Columns: columns, Prune: []prune.Condition{{Column: "event", Op: prune.IsNotNull}}}) {
		if err != nil {
			return nil, false, err
		}
		for row := range mssqlcdc.Rows(rec, 0) {
			text := func(name string) string { s, _ := row[name].(string); return s }
			if app := text("app_id"); r.cfg.AppID != "" && app != r.cfg.AppID {
				continue
			}
			var detail struct {
				Snapshot mssqlcdc.LSN
				Chunk    int64
				Last     bool
			}
			event := mssqlcdc.Event(text("event"))
			switch event {
			case mssqlcdc.EventBootstrap, mssqlcdc.EventResnapshot, mssqlcdc.EventSnapshotChunk:
			default:
				continue
			}
			if json.Unmarshal([]byte(text("detail")), &detail) != nil || detail.Snapshot != r.target.newest {
				continue
			}
			if event != mssqlcdc.EventSnapshotChunk {
				complete = true
				continue
			}
			stamp, err := mssqlcdc.ParseLSN(text("min_lsn"))
			if err != nil {
				return nil, false, err
			}
			rows, _ := row["rows"].(int64)
			chunks[detail.Chunk] = chunkFacts{rows: rows, low: stamp, last: detail.Last}
		}
	}
	return chunks, complete, nil
}

// chunks counts the rows of the newest snapshot by chunk.
func (t *pinned) chunks(ctx context.Context) (map[int64]chunkFacts, error) {
	if t.snapshot.Schema().Index(mssqlcdc.ColChunk) < 0 || t.snapshot.Schema().Index(mssqlcdc.ColSnapshot) < 0 {
		return nil, nil
	}
	var mu sync.Mutex
	found := map[int64]chunkFacts{}
	options := delta.ReadOptions{
		Columns: []string{mssqlcdc.ColStartLSN, mssqlcdc.ColSnapshot, mssqlcdc.ColChunk},
		Prune:   []prune.Condition{{Column: mssqlcdc.ColSnapshot, Op: prune.Equal, Value: t.newest.String()}},
	}
	err := t.each(ctx, options, func(rec arrow.RecordBatch) error {
		lsns, ok0 := named(rec, t.snapshot, mssqlcdc.ColStartLSN).(*array.String)
		snapshots, ok1 := named(rec, t.snapshot, mssqlcdc.ColSnapshot).(*array.String)
		numbers, ok2 := named(rec, t.snapshot, mssqlcdc.ColChunk).(*array.Int32)
		if !ok0 || !ok1 || !ok2 {
			return fmt.Errorf("the columns are not those of a bronze table: %s", rec.Schema())
		}
		mu.Lock()
		defer mu.Unlock()
		for row := range int(rec.NumRows()) {
			snapshot, err := lsnAt(snapshots, row)
			if err != nil {
				return err
			}
			if snapshot != t.newest || numbers.IsNull(row) {
				continue
			}
			lsn, err := lsnAt(lsns, row)
			if err != nil {
				return err
			}
			c, seen := found[int64(numbers.Value(row))]
			c.rows++
			if !seen || lsn.Less(c.low) {
				c.low = lsn
			}
			if c.high.Less(lsn) {
				c.high = lsn
			}
			found[int64(numbers.Value(row))] = c
		}
		return nil
	})
	return found, err
}
