package bronze

import (
	"encoding/json"
	"fmt"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// A chunk of a snapshot is committed like a window: by a number of the
// application's own sequence, whole or not at all. That the table has it is told
// by a transaction of the snapshot's own, whose version is the chunk's number.

// suffixSnapshot and the snapshot's LSN name the transaction of its chunks.
const suffixSnapshot = "#snap."

// Chunks is the number of the last chunk of a snapshot that a table holds rows of,
// -1 for none.
func Chunks(s *delta.Snapshot, appID string, snapshot mssqlcdc.LSN) int64 {
	if s == nil {
		return -1
	}
	number, ok := s.AppVersion(appID + suffixSnapshot + snapshot.String())
	if !ok {
		return -1
	}
	return number
}

// hasChunk tells whether the chunk being staged is in the table.
func (t *Table) hasChunk() bool {
	c := t.win.env.Chunk
	return c != nil && c.Number <= Chunks(t.target.Snapshot(), t.cfg.AppID, c.Snapshot)
}

// checkChunk refuses a chunk of which the table lacks those before it.
func (t *Table) checkChunk(env mssqlcdc.Envelope) error {
	c := *env.Chunk
	if t.leavesOut(env) {
		return &GapError{Target: t.target.Name(), AppID: t.cfg.AppID, Window: env.Window, Prev: env.CompleteFrom, Position: t.position}
	}
	if have := Chunks(t.target.Snapshot(), t.cfg.AppID, c.Snapshot); have < c.Prev {
		return &ChunkGapError{Target: t.target.Name(), AppID: t.cfg.AppID, Chunk: c, Have: have}
	}
	return nil
}

// marksOf are the transactions of a window or a chunk beside the fenced one. A
// snapshot stands for every change up to its S.
func (t *Table) marksOf(env mssqlcdc.Envelope) []delta.Txn {
	if env.Chunk == nil {
		return marks(t.cfg.AppID, env.Window.End)
	}
	own := []delta.Txn{{AppID: t.cfg.AppID + suffixSnapshot + env.Chunk.Snapshot.String(), Version: env.Chunk.Number}}
	own = append(own, t.whole(*env.Chunk)...)
	if t.hasPosition && !t.position.Less(env.Chunk.Snapshot) {
		return own
	}
	return append(marks(t.cfg.AppID, env.Chunk.Snapshot), own...)
}

// whole are the transactions that say that the table has a snapshot whole, with its last
// chunk. When its first row was read is kept from its first chunk on.
func (t *Table) whole(c mssqlcdc.Chunk) []delta.Txn {
	var at int64
	if c.Prev >= 0 {
		at, _ = t.target.Snapshot().AppVersion(t.cfg.AppID + mssqlcdc.TxnSnapshotBegun)
	} else if !c.StampTime.IsZero() {
		at = c.StampTime.UnixMicro()
	}
	var txns []delta.Txn
	if c.Prev < 0 {
		txns = append(txns, delta.Txn{AppID: t.cfg.AppID + mssqlcdc.TxnSnapshotBegun, Version: at})
	}
	if !c.Final {
		return txns
	}
	hi, lo := c.Snapshot.Parts()
	return append(txns,
		delta.Txn{AppID: t.cfg.AppID + mssqlcdc.TxnSnapshotHi, Version: hi},
		delta.Txn{AppID: t.cfg.AppID + mssqlcdc.TxnSnapshotLo, Version: lo},
		delta.Txn{AppID: t.cfg.AppID + mssqlcdc.TxnSnapshotTime, Version: at})
}

// completes tells whether a snapshot is complete with a chunk, which is committed for
// that even if it has no rows. No table is made for it.
func (t *Table) completes(c *mssqlcdc.Chunk) bool {
	return c != nil && c.Final && t.target.Table() != nil
}

// reached is the table's position after a commit.
func (t *Table) reached(env mssqlcdc.Envelope) mssqlcdc.LSN {
	switch {
	case env.Chunk == nil:
		return env.Window.End
	case t.hasPosition && !t.position.Less(env.Chunk.Snapshot):
		return t.position
	}
	return env.Chunk.Snapshot
}

// describe makes the fact of a chunk out of that of a window.
func describe(f *mssqlcdc.Fact, c mssqlcdc.Chunk) {
	f.Event = mssqlcdc.EventSnapshotChunk
	f.MinLSN, f.MaxLSN = c.Stamp, c.Stamp
	f.Commits = 0
	text, err := json.Marshal(struct {
		Snapshot mssqlcdc.LSN `json:"snapshot"`
		Chunk    int64        `json:"chunk"`
		Wave     int64        `json:"wave"` // of mssql-cdc-pyspark: what was committed together
		Last     bool         `json:"last"`
	}{c.Snapshot, c.Number, c.Number, c.Final})
	if err != nil { // an LSN and numbers always have a JSON form
		text = []byte(c.String())
	}
	f.Detail = string(text)
}

// ChunkGapError reports a chunk of a snapshot that continues from chunks which the
// table does not have. Like [GapError] it is transient while they are on their way
// again.
type ChunkGapError struct {
	Target, AppID string
	Chunk         mssqlcdc.Chunk
	Have          int64 // the last chunk that the table has, -1 for none
}

// Error names the chunks and the ways out.
func (e *ChunkGapError) Error() string {
	have := "has none of its chunks"
	if e.Have >= 0 {
		have = fmt.Sprintf("has its chunks up to %d", e.Have)
	}
	return fmt.Sprintf("%s continues from chunk %d, but table %s %s: rows are missing in it; restore the table, or take the snapshot again with a new resume position",
		e.Chunk, e.Chunk.Prev, e.Target, have)
}
