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

// MinLSNProfile says when sys.fn_cdc_get_min_lsn starts to answer an instance's start_lsn; until then the instance is pending.
type MinLSNProfile uint8

// The profiles.
const (
	// MinLSNAfterScan: once a scan has read the log past the enable (the default).
	MinLSNAfterScan MinLSNProfile = iota
	// MinLSNAfterMapping: once the mapping has an entry at or above the start LSN, which on a quiet database means the next
	// idle entry, up to about five minutes later [M22].
	MinLSNAfterMapping
)

// Options configures a Server. The zero value is a server in UTC on the machine's clock with SQL Server's job defaults.
type Options struct {
	Seed     int64
	Clock    Clock          // nil: SystemClock
	Location *time.Location // of the server's wall clock, in which the mapping's times are; nil: UTC
	// LogStart is where the log of a new database begins; zero means a seeded place.
	LogStart LSN
	// CaptureJob and CleanupJob are the settings that jobs are created with. Zero fields mean the defaults of
	// DefaultCaptureJob and DefaultCleanupJob; a zero PollingInterval is 5 s.
	CaptureJob CaptureJob
	CleanupJob CleanupJob
	// AutoStart starts the capture job when a database's first table is enabled, as a server whose Agent runs does.
	AutoStart bool
	// IdleInterval is the time without a mapping entry after which a scan of an exhausted log adds an idle one; 0 means
	// 305 s [M22], negative never.
	IdleInterval time.Duration
	MinLSN       MinLSNProfile
	// MaxTextReplSize is the server option "max text repl size": the bytes that a large value of a tracked table may have
	// (7139). 0 means 65,536 [D], negative no limit.
	MaxTextReplSize int64
	// TraceFlag8207 captures a change of unique key columns that hits one row as an update (3, 4) instead of a delete and an
	// insert [K].
	TraceFlag8207 bool
}

// Server is an instance of the engine: databases under one clock. It is safe for concurrent use.
type Server struct {
	opts  Options
	clock Clock
	loc   *time.Location

	textReplSize atomic.Int64

	mu     sync.Mutex
	dbs    map[string]*Database // by folded name
	nextID int32
	closed bool
}

// NewServer makes a server without user databases. It starts nothing.
func NewServer(opts Options) *Server {
	s := &Server{opts: opts, clock: opts.Clock, loc: opts.Location, dbs: map[string]*Database{}, nextID: 5}
	if s.clock == nil {
		s.clock = SystemClock{}
	}
	if s.loc == nil {
		s.loc = time.UTC
	}
	s.textReplSize.Store(cmp.Or(opts.MaxTextReplSize, 65_536))
	return s
}

// Now is the server's time, in its zone.
func (s *Server) Now() time.Time { return s.clock.Now().In(s.loc) }

// Location is the zone of the server's wall clock.
func (s *Server) Location() *time.Location { return s.loc }

// CreateDatabase adds a database; 1801 when the name is taken (names are compared without case).
func (s *Server) CreateDatabase(name string) (*Database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.dbs[fold(name)]; ok {
		return nil, fail(ErrDatabaseExists, name)
	}
	id := s.nextID
	s.nextID++
	rng := newRand(uint64(s.opts.Seed) ^ uint64(id)<<32)
	db := newDatabase(s, name, id, rng)
	s.dbs[fold(name)] = db
	return db, nil
}

// DropDatabase closes and removes a database; 3701 when there is none.
func (s *Server) DropDatabase(name string) error {
	s.mu.Lock()
	db, ok := s.dbs[fold(name)]
	delete(s.dbs, fold(name))
	s.mu.Unlock()
	if !ok {
		return fail(ErrCannotDrop, "drop", "database", name)
	}
	db.close()
	return nil
}

// Database finds a database by name, without case.
func (s *Server) Database(name string) (*Database, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	db, ok := s.dbs[fold(name)]
	return db, ok
}

// Databases lists the databases by id.
func (s *Server) Databases() []*Database {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Database, 0, len(s.dbs))
	for _, db := range s.dbs {
		out = append(out, db)
	}
	slices.SortFunc(out, func(a, b *Database) int { return cmp.Compare(a.id, b.id) })
	return out
}

// Close stops the jobs of all databases, waits for them, and rolls back what is open. It is idempotent.
func (s *Server) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	for _, db := range s.Databases() {
		db.close()
	}
}

// SetMaxTextReplSize changes the server option "max text repl size"; negative means no limit.
func (s *Server) SetMaxTextReplSize(bytes int64) { s.textReplSize.Store(bytes) }

func (s *Server) maxTextReplSize() int64 { return s.textReplSize.Load() }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x5EED)) }

// fold is how names are compared: without case, as under the default collation.
func fold(name string) string { return strings.ToLower(name) }
