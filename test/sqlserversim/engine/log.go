package engine

import (
	"math/rand/v2"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// logTail hands out LSNs. Records fill blocks: slots grow by one or, where other records lie between, by more; a block is
// flushed at each commit and when it is full, and the next one lies as many 512-byte sectors further as it took, and at
// times more; a virtual log file that is full is followed by the next [M25 samples; never consecutive numbers only].
type logTail struct {
	rng      *rand.Rand
	vlf      uint32
	block    uint32
	slot     uint16
	bytes    int
	capacity uint32 // block offset at which the next VLF begins
}

const (
	logBlockBytes = 60_000
	logSector     = 512
	recordBytes   = 120
	commitBytes   = 96
)

func newLogTail(rng *rand.Rand, start LSN) *logTail {
	t := &logTail{rng: rng}
	if start.IsZero() {
		start = MakeLSN(0x24+rng.Uint32N(12), 0x100+rng.Uint32N(64)*8, 1)
	}
	t.vlf, t.block, t.slot = start.VLF(), start.Block(), start.Slot()
	t.capacity = 0x10000 + rng.Uint32N(0x10000)
	return t
}

// next is the LSN of a record of about n bytes.
func (t *logTail) next(n int) lsnKey {
	if t.bytes+n > logBlockBytes && t.bytes > 0 {
		t.flush()
	}
	step := uint16(1)
	if r := t.rng.Uint32(); r&7 == 0 { // an allocation or an index record came first
		step += uint16(r>>3&7) + 1
	}
	if t.slot > 0xFF00 {
		t.flush()
	}
	t.slot += step
	t.bytes += n
	return lsnKey{uint64(t.vlf)<<32 | uint64(t.block), t.slot}
}

// flush ends the block.
func (t *logTail) flush() {
	sectors := uint32(t.bytes+logSector-1) / logSector
	if r := t.rng.Uint32(); r&3 == 0 { // somebody else's block
		sectors += 1 + r>>2&15
	}
	t.block += max(1, sectors)
	if t.block >= t.capacity {
		t.vlf++
		t.block = 0x10 + t.rng.Uint32N(4)*8
		t.capacity = 0x10000 + t.rng.Uint32N(0x10000)
	}
	t.slot, t.bytes = 0, 0
}

// commit is the LSN of a commit record; it ends the block.
func (t *logTail) commit() lsnKey {
	l := t.next(commitBytes)
	t.flush()
	return l
}

// The operations of change rows.
const (
	opDelete uint8 = 1
	opInsert uint8 = 2
	opBefore uint8 = 3
	opAfter  uint8 = 4
)

// logRecord is a row's change, or a DDL statement, in a transaction's log.
type logRecord struct {
	lsn lsnKey
	// seq is what becomes __$seqval: the record's own LSN, or that of the delete that an insert belongs to (deferred
	// updates and key changes) [RDS 2017 sample, peers O-01].
	seq           lsnKey
	def           *TableDef // as it was when the change was made
	before, after sqltype.Row
	ddl           *ddlRecord
}

// ddlRecord is a DDL statement on a tracked table. It reaches cdc.ddl_history, and with newType the change table, when capture
// gets to it.
type ddlRecord struct {
	objectID int32
	command  string
	columnID int32 // of ALTER COLUMN that changed the type, else 0
	newType  sqltype.Type
	time     time.Time // whole minutes
}

// logTx is a committed transaction that capture has to read.
type logTx struct {
	id            uint64
	begin, commit lsnKey
	beginTime     time.Time
	endTime       time.Time
	records       []logRecord
	marker        bool // the enable of a table: nothing to capture
}
