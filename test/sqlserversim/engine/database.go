package engine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Database is a database of a server. It is safe for concurrent use.
type Database struct {
	server     *Server
	id         int32
	name       string
	createDate time.Time

	view  atomic.Pointer[View]
	hooks atomic.Pointer[Hooks]

	mu       sync.Mutex
	closed   bool
	settings Settings
	schemas  []Schema
	tables   []*Table // by creation; dropped ones are taken out
	objectID int32
	log      *logTail
	nextTx   uint64
	open     map[*Tx]bool
	version  uint64 // commits so far
	rowVer   uint64 // last rowversion

	// CDC; guarded by mu too.
	backlog  []*logTx // committed, not captured
	scanned  lsnKey   // capture has read the log up to here
	captured captureState
	scanning int  // session id of the running scan
	scanBusy bool // a scan or a bulk load runs
	scanIdle chan struct{}
	jobs     jobState
}

// Settings are the database options that the engine knows.
type Settings struct {
	Collation             string // "" is sqltype.DefaultCollation
	AllowSnapshot         bool   // ALLOW_SNAPSHOT_ISOLATION
	ReadCommittedSnapshot bool   // READ_COMMITTED_SNAPSHOT
	ReadOnly              bool   // writes fail with 3906
	// LogRecords limits the records of committed transactions that wait for capture; beyond it writes to tracked tables fail
	// with 9002. 0 means no limit.
	LogRecords int
}

func newDatabase(s *Server, name string, id int32, rng *rand.Rand) *Database {
	db := &Database{
		server: s, id: id, name: name, createDate: s.Now(), objectID: 581_577_110 + rng.Int32N(1<<20),
		log: newLogTail(rng, s.opts.LogStart), open: map[*Tx]bool{}, nextTx: 700 + uint64(rng.IntN(300)),
		rowVer: 2000,
	}
	db.schemas = []Schema{{1, "dbo"}, {2, "guest"}, {3, "INFORMATION_SCHEMA"}, {4, "sys"}}
	db.view.Store(&View{db: db})
	db.hooks.Store(&Hooks{})
	db.jobs.init(s.opts)
	return db
}

// ID is database_id; user databases start at 5.
func (db *Database) ID() int32 { return db.id }

// Name is the database's name.
func (db *Database) Name() string { return db.name }

// CreateDate is the time of creation on the server's wall clock.
func (db *Database) CreateDate() time.Time { return db.createDate }

// Server is the server that the database belongs to.
func (db *Database) Server() *Server { return db.server }

// CDC is everything that CDC holds at this instant.
func (db *Database) CDC() *View { return db.view.Load() }

// SetHooks replaces the hooks. Cursors take theirs when they are opened.
func (db *Database) SetHooks(h Hooks) { db.hooks.Store(&h) }

// Settings gives the database's options.
func (db *Database) Settings() Settings {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.settings
}

// SetSettings replaces the database's options.
func (db *Database) SetSettings(s Settings) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.settings = s
}

// Schemas lists the schemas by id.
func (db *Database) Schemas() []Schema {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.schemas)
}

// Schema finds a schema by name, without case.
func (db *Database) Schema(name string) (Schema, bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.schema(name)
}

func (db *Database) schema(name string) (Schema, bool) {
	i := slices.IndexFunc(db.schemas, func(s Schema) bool { return strings.EqualFold(s.Name, name) })
	if i < 0 {
		return Schema{}, false
	}
	return db.schemas[i], true
}

// CreateSchema adds a schema; 2714 when the name is taken. It is not undone by a rollback.
func (db *Database) CreateSchema(name string) (Schema, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if _, ok := db.schema(name); ok {
		return Schema{}, fail(ErrObjectExists, name)
	}
	next := int32(5)
	for _, s := range db.schemas {
		next = max(next, s.ID+1)
	}
	db.schemas = append(db.schemas, Schema{next, name})
	return Schema{next, name}, nil
}

// DropSchema removes an empty schema; 3701 when there is none, 3729 when a table is in it.
func (db *Database) DropSchema(name string) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	s, ok := db.schema(name)
	if !ok {
		return fail(ErrCannotDrop, "drop", "schema", name)
	}
	for _, t := range db.tables {
		if strings.EqualFold(t.def.Load().Schema, name) {
			return fail(ErrSchemaNotEmpty, name, t.def.Load().Name)
		}
	}
	db.schemas = slices.DeleteFunc(db.schemas, func(x Schema) bool { return x.ID == s.ID })
	return nil
}

// Table finds a table by name, without case. Tables made by a transaction that is still open are found too.
func (db *Database) Table(schema, name string) (*Table, bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.table(schema, name)
}

func (db *Database) table(schema, name string) (*Table, bool) {
	for _, t := range db.tables {
		if d := t.def.Load(); strings.EqualFold(d.Name, name) && strings.EqualFold(d.Schema, schema) {
			return t, true
		}
	}
	return nil, false
}

// TableByID finds a table by its object id.
func (db *Database) TableByID(objectID int32) (*Table, bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	i := slices.IndexFunc(db.tables, func(t *Table) bool { return t.def.Load().ObjectID == objectID })
	if i < 0 {
		return nil, false
	}
	return db.tables[i], true
}

// Tables lists the base tables by object id.
func (db *Database) Tables() []*Table {
	db.mu.Lock()
	out := slices.Clone(db.tables)
	db.mu.Unlock()
	slices.SortFunc(out, func(a, b *Table) int { return cmp.Compare(a.def.Load().ObjectID, b.def.Load().ObjectID) })
	return out
}

// NewObjectID takes an object id, for objects that the layer above keeps. Ids step as SQL Server's do [M25 samples].
func (db *Database) NewObjectID() int32 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.newObjectID()
}

func (db *Database) newObjectID() int32 {
	const step, modulus = 16_000_057, 2_147_483_647
	db.objectID = int32((int64(db.objectID) + step) % modulus)
	return db.objectID
}

// RowVersion is @@DBTS: the last rowversion used.
func (db *Database) RowVersion() uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.rowVer
}

// OpenTransactions is the number of transactions that have not ended.
func (db *Database) OpenTransactions() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.open)
}

// publish makes a new view visible; db.mu is held.
func (db *Database) publish(change func(*View)) {
	db.view.Store(db.view.Load().with(change))
}

// close stops the job, waits for it, and rolls back what is open.
func (db *Database) close() {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	db.StopCapture()
	db.killAll(fail(ErrDatabaseShuttingDown, db.name))
}

func (db *Database) killAll(reason error) {
	db.mu.Lock()
	txs := make([]*Tx, 0, len(db.open))
	for tx := range db.open {
		txs = append(txs, tx)
	}
	db.mu.Unlock()
	slices.SortFunc(txs, func(a, b *Tx) int { return cmp.Compare(a.id, b.id) })
	for _, tx := range txs {
		tx.Kill(reason)
	}
}
