package sqlserversim

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Counters are what the server has counted since it started.
type Counters struct {
	Connections int64 // accepted
	Logins      int64 // successful
	Statements  int64 // requests: batches, calls, transaction requests
	Rows        int64 // rows sent over the wire
	Attentions  int64 // requests ended by an attention
	Errors      int64 // ERROR tokens sent
	Sent        int64 // bytes written to clients, TLS and all
	Received    int64 // bytes read from them
}

// keptStatements bounds the statement log: older ones are forgotten, so a demo server does not grow.
const keptStatements = 20_000

// statementLog keeps counters and what clients asked for.
type statementLog struct {
	mu                                          sync.Mutex
	statements, refused                         []string
	count                                       int64
	connections, logins, rows, attentions, errs atomic.Int64
	sent, received                              atomic.Int64
}

func newStatementLog() *statementLog { return &statementLog{} }

func (l *statementLog) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.statements = keep(l.statements, text)
}

func (l *statementLog) refuse(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = keep(l.refused, text)
}

// keep appends and drops the older half when there are too many.
func keep(list []string, text string) []string {
	if len(list) >= keptStatements {
		list = append(list[:0:0], list[len(list)/2:]...)
	}
	return append(list, text)
}

// Statements lists the statements that clients sent, oldest first: the text of batches and of sp_executesql and the prepared
// family, the name of other procedures called by RPC, "BEGIN TRANSACTION" and so on for transaction requests. Only the last
// 20,000 or so are kept; Exec and Query of this package are not among them.
func (s *Server) Statements() []string {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.Clone(s.log.statements)
}

// ResetStatements forgets the statements seen so far, so that a test can look at what comes next.
func (s *Server) ResetStatements() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.statements, s.log.refused = nil, nil
}

// Refused lists the statements that the simulator did not understand (Msg 102, 156, 195, 208, 2812, 4121), each with the
// message: what to teach it next.
func (s *Server) Refused() []string {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.Clone(s.log.refused)
}

// Counters gives the counters.
func (s *Server) Counters() Counters {
	l := s.log
	l.mu.Lock()
	count := l.count
	l.mu.Unlock()
	return Counters{
		Connections: l.connections.Load(), Logins: l.logins.Load(), Statements: count, Rows: l.rows.Load(),
		Attentions: l.attentions.Load(), Errors: l.errs.Load(), Sent: l.sent.Load(), Received: l.received.Load(),
	}
}
