package sqlserversim

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// Server is a running simulator. Its methods may be called from any goroutine.
type Server struct {
	cfg             *config
	profile         profile
	eng             *engine.Server
	wire            *tds.Server
	listener        net.Listener
	certs           *certificates
	security        *security
	catalog         *catalog
	faults          *faultSet
	log             *statementLog
	started         time.Time
	defaultDatabase string
	descriptors     atomic.Uint64

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu       sync.Mutex
	dbs      map[string]*database // by lower-case name
	nextDB   int
	sessions map[int]*session // by @@SPID
	accepted int
	closed   bool
	closeErr error
}

// Start makes a server and lets it accept connections. Close ends it.
func Start(opts ...Option) (*Server, error) {
	cfg := newConfig()
	for _, opt := range opts {
		if err := opt(cfg); err != nil {
			return nil, fmt.Errorf("starting the simulator: %w", err)
		}
	}
	s, err := newServer(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting the simulator: %w", err)
	}
	if err := s.listen(); err != nil {
		s.cancel()
		s.eng.Close()
		return nil, fmt.Errorf("starting the simulator: %w", err)
	}
	return s, nil
}

func newServer(cfg *config) (*Server, error) {
	p, _ := profileOf(cfg.version)
	s := &Server{
		cfg: cfg, profile: p, dbs: map[string]*database{}, sessions: map[int]*session{}, nextDB: 1,
		faults: newFaultSet(cfg.seed), log: newStatementLog(),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.eng = engine.NewServer(engineOptions(cfg, p))
	s.started = s.eng.Now()
	s.security = newSecurity(s.eng.Now)
	s.catalog = newCatalog()
	s.security.addLogin("sa", DefaultPassword, true)
	for _, l := range cfg.logins {
		s.security.addLogin(l.name, l.password, l.sysadmin)
	}
	for _, name := range []string{"master", "tempdb", "model", "msdb"} {
		if _, err := s.createDatabase(name, ""); err != nil {
			return nil, err
		}
	}
	names := cfg.databases
	if len(names) == 0 {
		names = []string{DefaultDatabase}
	}
	for _, name := range names {
		if _, err := s.createDatabase(name, ""); err != nil {
			return nil, err
		}
	}
	s.defaultDatabase = names[0]
	if cfg.tls {
		certs, err := newCertificates(cfg.hosts)
		if err != nil {
			return nil, err
		}
		s.certs = certs
	}
	s.wire = tds.NewServer(s.wireConfig(), (*loginHandler)(s))
	return s, nil
}

// engineOptions turns the options into the engine's.
func engineOptions(cfg *config, p profile) engine.Options {
	capture := engine.DefaultCaptureJob()
	capture.MaxTrans = p.maxTrans
	capture.PollingInterval = cfg.captureInterval
	cleanup := engine.DefaultCleanupJob()
	cleanup.Threshold = int64(p.threshold)
	return engine.Options{
		Seed: cfg.seed, Clock: cfg.clock, Location: cfg.location, CaptureJob: capture, CleanupJob: cleanup,
		AutoStart: cfg.captureInterval > 0,
	}
}

func (s *Server) wireConfig() tds.Config {
	c := tds.Config{
		ServerName: s.cfg.serverName,
		Version:    tds.ProductVersion{Major: s.profile.major, Minor: s.profile.minor, Build: s.profile.build},
		Hooks:      tds.Hooks{Connect: s.connectHook},
	}
	if s.certs != nil {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{s.certs.leaf}}
	}
	return c
}

// listen starts accepting, unless the server has no socket.
func (s *Server) listen() error {
	if s.cfg.noListener {
		return nil
	}
	l := s.cfg.listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", s.cfg.addr); err != nil {
			return fmt.Errorf("listening: %w", err)
		}
	}
	s.listener = l
	s.tasks.Go(func() { _ = s.wire.Serve(s.ctx, meteredListener{l, s}) })
	return nil
}

// Dial opens a connection to the server over an in-memory pipe. Its signature is that of net.Dialer.DialContext, so it fits
// go-mssqldb's Connector.Dialer; network and address are ignored.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	client, server := net.Pipe()
	metered := s.meter(server)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("dialling the simulator: it is closed")
	}
	s.tasks.Go(func() { _ = s.wire.ServeConn(s.ctx, metered) })
	return client, nil
}

// Dialer is Server.Dial as a value with a DialContext method, as go-mssqldb's Connector wants it.
func (s *Server) Dialer() Dialer { return Dialer{s} }

// Dialer opens in-memory connections to a server.
type Dialer struct{ server *Server }

// DialContext opens a connection; network and address are ignored.
func (d Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return d.server.Dial(ctx, network, addr)
}

// Addr is the address it listens on, host:port; "127.0.0.1:1433" for a server without a listener, so that DSN stays valid.
func (s *Server) Addr() string {
	if s.listener == nil {
		return "127.0.0.1:1433"
	}
	return s.listener.Addr().String()
}

// CACertPEM is the certificate of the authority that signed the server's, nil without TLS.
func (s *Server) CACertPEM() []byte {
	if s.certs == nil {
		return nil
	}
	return s.certs.caPEM
}

// CertPEM is the server's own certificate, for clients that compare it in strict mode (ServerCertificate); nil without TLS.
func (s *Server) CertPEM() []byte {
	if s.certs == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.certs.leaf.Certificate[0]})
}

// Close ends every connection and job and waits for them. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.tasks.Wait()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	if s.listener != nil {
		if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			s.closeErr = fmt.Errorf("closing the simulator: %w", err)
		}
	}
	s.tasks.Wait()
	s.eng.Close()
	return s.closeErr
}

// DB is a user database of the engine, nil when there is none of that name.
func (s *Server) DB(name string) *engine.Database {
	if db := s.database(name); db != nil {
		return db.eng
	}
	return nil
}

// Engine is the engine under the server.
func (s *Server) Engine() *engine.Server { return s.eng }

// DefaultDB is the first database of WithDatabase.
func (s *Server) DefaultDB() *engine.Database { return s.DB(s.defaultDatabase) }

// database finds a database by name.
func (s *Server) database(name string) *database {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dbs[fold(name)]
}

// databases lists all databases by id.
func (s *Server) databases() []*database {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*database, 0, len(s.dbs))
	for _, db := range s.dbs {
		out = append(out, db)
	}
	slices.SortFunc(out, func(a, b *database) int { return cmp.Compare(a.id, b.id) })
	return out
}

// createDatabase adds a database to the engine and to the catalogue.
func (s *Server) createDatabase(name, collation string) (*database, error) {
	eng, err := s.eng.CreateDatabase(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	db := &database{
		srv: s, eng: eng, id: s.nextDB, name: name, collation: collation, created: s.eng.Now(),
		procedures: map[string]*storedProcedure{}, owners: map[string]string{},
	}
	db.system = db.id <= 4
	s.nextDB++
	s.dbs[fold(name)] = db
	s.mu.Unlock()
	s.security.addDatabase(name, db.system && !strings.EqualFold(name, "model"))
	return db, nil
}

// dropDatabase removes a database.
func (s *Server) dropDatabase(name string) error {
	s.mu.Lock()
	_, ok := s.dbs[fold(name)]
	delete(s.dbs, fold(name))
	s.mu.Unlock()
	if !ok {
		return message(3701, "drop", "database", name)
	}
	s.security.dropDatabase(name)
	return s.eng.DropDatabase(name)
}
