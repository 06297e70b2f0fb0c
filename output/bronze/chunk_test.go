package bronze_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

func ids(from, n int64) []int64 {
	var all []int64
	for id := range n {
		all = append(all, from+id)
	}
	return all
}

func TestChunkOfASnapshot(t *testing.T) {
	t.Parallel()
	h := changetest.Random(rand.New(rand.NewPCG(1, 1)), 6, 10)
	st := mem.New()
	table := open(t, st, config())
	snapshot := changetest.LSN(1).Prev()
	chunk := mssqlcdc.Chunk{Snapshot: snapshot, Number: 0, Prev: -1, Stamp: h.Commits[1].LSN}
	first := h.Chunk(chunk, ids(1, 25), 10, 1)
	result := write(t, table, first)
	require.Equal(t, mssqlcdc.Committed, result.Mark)
	require.Equal(t, mssqlcdc.EventSnapshotChunk, result.Window.Event)
	require.Equal(t, int64(25), result.Window.Rows)
	require.Equal(t, chunk.Stamp, result.Window.MinLSN)
	var detail map[string]any
	require.NoError(t, json.Unmarshal([]byte(result.Window.Detail), &detail))
	require.Equal(t, map[string]any{"snapshot": snapshot.String(), "chunk": 0.0, "wave": 0.0, "last": false}, detail)
	position, ok := table.Position()
	require.True(t, ok)
	require.Equal(t, snapshot, position, "the snapshot stands for every change up to it")

	// Changes from S on, also those at or below the chunk's LSN, are not trimmed.
	w := h.Cut(changetest.Cursor{LSN: snapshot}, 3, 10)
	write(t, table, w)
	require.Equal(t, mssqlcdc.Skipped, write(t, table, h.Chunk(chunk, ids(1, 25), 7, 2)).Mark, "it is in the table, however it was cut")
	second := mssqlcdc.Chunk{Snapshot: snapshot, Number: 1, Prev: 0, Stamp: h.Commits[5].LSN, Final: true}
	last := h.Chunk(second, ids(26, 3), 10, 3)
	write(t, table, last)
	position, _ = table.Position()
	require.Equal(t, w.Env.Window.End, position, "a chunk does not move the position of the changes")
	write(t, table, h.Cut(w.After, 10, 10))
	requireRows(t, st, append(h.Rows(), append(first.Snapshot, last.Snapshot...)...))

	recorded := 0
	for r, err := range open(t, st, config()).Recorded(t.Context(), 0, true) {
		require.NoError(t, err)
		for _, event := range r.Events {
			require.Equal(t, mssqlcdc.EventSnapshotChunk, event.Event)
			recorded++
		}
	}
	require.Equal(t, 2, recorded)
}

func TestChunkThatContinuesFromWhatTheTableLacks(t *testing.T) {
	t.Parallel()
	h := changetest.Random(rand.New(rand.NewPCG(2, 1)), 2, 3)
	table := open(t, mem.New(), config())
	chunk := mssqlcdc.Chunk{Snapshot: changetest.LSN(1), Number: 4, Prev: 3, Stamp: changetest.LSN(2)}
	_, err := table.Write(t.Context(), h.Chunk(chunk, ids(1, 2), 10, 1).Parts[0])
	var gap *bronze.ChunkGapError
	require.ErrorAs(t, err, &gap)
	require.Equal(t, bronze.Resend, bronze.Decide(err))
	require.ErrorContains(t, err, "continues from chunk 3, but table lake/orders has none of its chunks")

	chunk = mssqlcdc.Chunk{Snapshot: changetest.LSN(1), Number: 0, Prev: -1, Stamp: changetest.LSN(2), Final: true}
	result := write(t, table, h.Chunk(chunk, nil, 10, 1))
	require.True(t, result.Idle, "an empty table makes no commit")
	require.Equal(t, mssqlcdc.EventSnapshotChunk, result.Window.Event)
}

// Windows and chunks come interleaved, with restarts, and again after any of them
// in another cut: every row is there once.
func TestChunksBesideTheStream(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 7))
		h := changetest.Random(rng, 12, 6)
		st := mem.New()
		table, err := bronze.Open(t.Context(), st, config())
		require.NoError(rt, err)
		snapshot := changetest.LSN(1).Prev()
		at, number, prev := changetest.Cursor{LSN: snapshot}, int64(0), int64(-1)
		chunks := int64(1 + rng.IntN(6))
		want := h.Rows()
		done := map[int64][]changetest.Row{}
		writeAll := func(w changetest.Window, upto int) (last bronze.Result) {
			for _, part := range w.Parts[:upto] {
				last, err = table.Write(t.Context(), part)
				require.NoError(rt, err)
			}
			return last
		}
		for attempt := int64(1); at.Next < len(h.Commits) || number < chunks; attempt++ {
			var w changetest.Window
			isChunk := number < chunks && (at.Next == len(h.Commits) || rng.IntN(2) == 0)
			if isChunk {
				stamp := h.Commits[rng.IntN(len(h.Commits))].LSN
				if old := done[number]; old != nil {
					stamp = changetest.LSN(1 + rng.IntN(50)).Next() // read again, at another moment
				}
				w = h.Chunk(mssqlcdc.Chunk{Snapshot: snapshot, Number: number, Prev: prev, Stamp: stamp, Final: number == chunks-1},
					ids(number*100, int64(rng.IntN(5))), 1+rng.IntN(3), attempt)
			} else {
				w = h.Cut(at, 1+rng.IntN(3), 1+rng.IntN(4)).Attempt(attempt)
			}
			if rng.IntN(4) == 0 { // the process dies in the middle
				writeAll(w, rng.IntN(len(w.Parts)))
				require.NoError(rt, table.Close(t.Context()))
				table, err = bronze.Open(t.Context(), st, config())
				require.NoError(rt, err)
				continue
			}
			result := writeAll(w, len(w.Parts))
			if isChunk && done[number] == nil {
				done[number] = append([]changetest.Row{}, w.Snapshot...)
				want = append(want, w.Snapshot...)
			}
			if rng.IntN(4) == 0 { // the acknowledgement is lost
				if isChunk && result.Idle {
					delete(done, number) // nothing was committed, so what comes next counts
				}
				continue
			}
			switch {
			case !isChunk:
				at = w.After
			default:
				if len(done[number]) > 0 {
					prev = number
				}
				number++
			}
		}
		require.NoError(rt, table.Close(t.Context()))
		got, err := changetest.ReadBack(t.Context(), st)
		require.NoError(rt, err)
		require.Empty(rt, changetest.Difference(want, got), "seed %d", seed)
	})
}

func TestChunkIsValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]mssqlcdc.Chunk{
		"no snapshot":      {Stamp: changetest.LSN(2), Prev: -1},
		"stamp too early":  {Snapshot: changetest.LSN(3), Stamp: changetest.LSN(2), Prev: -1},
		"follows itself":   {Snapshot: changetest.LSN(1), Stamp: changetest.LSN(2), Number: 2, Prev: 2},
		"negative chunk":   {Snapshot: changetest.LSN(1), Stamp: changetest.LSN(2), Number: -1, Prev: -2},
		"window elsewhere": {Snapshot: changetest.LSN(1), Stamp: changetest.LSN(2), Prev: -1, StampTime: time.Now()},
	} {
		env := mssqlcdc.Envelope{Version: mssqlcdc.EnvelopeVersion, Window: mssqlcdc.Window{Start: c.Stamp, End: c.Stamp}, Chunk: &c}
		if name == "window elsewhere" {
			env.Window.End = changetest.LSN(9)
		}
		_, err := mssqlcdc.NewRecordBatch(env, changetest.Record(nil, false))
		require.Error(t, err, name)
	}
}
