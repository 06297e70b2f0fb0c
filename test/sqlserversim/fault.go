package sqlserversim

import (
	"context"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"time"
)

// Moment is when in a connection's life a fault strikes.
type Moment int

const (
	// AtStatement strikes while a request is answered: before its first token, or after Fault.AfterRows rows.
	AtStatement Moment = iota
	// AtAccept strikes before anything is read from the connection.
	AtAccept
	// AtLogin strikes when LOGIN7 was read and its password was right.
	AtLogin
)

// Fault is one rule: what must hold, and what then happens. Conditions left zero hold always.
type Fault struct {
	When Moment
	// Connection is the number of the connection, counting from 1 in the order they were accepted.
	Connection int
	// Login limits the rule to sessions of one login name (not at AtAccept).
	Login string
	// Statement is matched against the statement's text. For sp_executesql, sp_prepexec and sp_execute that is the inner
	// statement; for other procedures called by RPC it is the name; for transaction manager requests it is
	// "BEGIN TRANSACTION", "COMMIT TRANSACTION" or "ROLLBACK TRANSACTION".
	Statement *regexp.Regexp
	// AfterRows lets that many rows of the answer out first. A statement with fewer rows meets the fault at its end.
	AfterRows int64
	// Skip lets that many matches pass before the rule acts.
	Skip int
	// Times is how often the rule acts: 0 means once, a negative number means always.
	Times int
	// Probability, if above zero, makes the rule act on that share of its matches, decided by the server's seed.
	Probability float64
	// Action is what happens.
	Action Action
}

// Action is what a fault does. The functions of this file make them.
type Action struct {
	kind    actionKind
	number  int32
	class   uint8
	state   uint8
	text    string
	delay   time.Duration
	run     func(context.Context) error
	host    string
	port    uint16
	release chan struct{}
}

type actionKind int

const (
	actClose actionKind = iota + 1
	actReset
	actHalfPacket
	actNoDone
	actUnknownToken
	actError
	actSevereDone
	actHang
	actDelay
	actSlowRows
	actRun
	actRoute
)

// CloseConnection sends what is encoded so far and closes the connection in good order (FIN), in mid-message.
func CloseConnection() Action { return Action{kind: actClose} }

// ResetConnection closes the connection with a TCP reset where the transport has one, else as CloseConnection.
func ResetConnection() Action { return Action{kind: actReset} }

// HalfPacket sends a packet header that promises more bytes than follow, then closes.
func HalfPacket() Action { return Action{kind: actHalfPacket} }

// EndWithoutDone ends the message after the rows so far, without a DONE token, and closes.
func EndWithoutDone() Action { return Action{kind: actNoDone} }

// UnknownToken sends the token 0x99, which no version of TDS has, then closes.
func UnknownToken() Action { return Action{kind: actUnknownToken} }

// RaiseError ends the statement with an error. A class of 20 or more closes the connection after it, as SQL Server does.
// An empty text takes the number's text from the message list.
func RaiseError(number int32, class, state uint8, text string) Action {
	return Action{kind: actError, number: number, class: class, state: state, text: text}
}

// SevereDone ends the statement with DONE status 0x100 (server error) and no ERROR token.
func SevereDone() Action { return Action{kind: actSevereDone} }

// Hang stops answering: nothing is written and no attention is acknowledged, until Rule.Release, until the client hangs up,
// or until the server closes.
func Hang() Action { return Action{kind: actHang} }

// Delay waits once for d of the server's clock, then goes on. An attention ends the wait.
func Delay(d time.Duration) Action { return Action{kind: actDelay, delay: d} }

// SlowRows flushes every further row of the statement by itself and waits d after it. An attention ends the statement.
func SlowRows(d time.Duration) Action { return Action{kind: actSlowRows, delay: d} }

// Run calls f on the session's goroutine, then goes on: a clean-up, a DDL statement, a revoked permission in the middle of
// a rowset. What was encoded before is flushed first. An error of f ends the statement as Msg 50000.
func Run(f func(context.Context) error) Action { return Action{kind: actRun, run: f} }

// RouteTo answers the login with a routing ENVCHANGE to another server. Only for AtLogin.
func RouteTo(host string, port uint16) Action { return Action{kind: actRoute, host: host, port: port} }

// Rule is a fault in force.
type Rule struct {
	number  int64 // what EXEC sim.fault gives, from 1
	fault   Fault
	set     *faultSet
	matched int
	acted   int
	release chan struct{}
	once    sync.Once
}

// Hits says how often the rule has acted.
func (r *Rule) Hits() int {
	r.set.mu.Lock()
	defer r.set.mu.Unlock()
	return r.acted
}

// Remove takes the rule out of force. Sessions that hang on it go on.
func (r *Rule) Remove() {
	r.set.mu.Lock()
	for i, other := range r.set.rules {
		if other == r {
			r.set.rules = append(r.set.rules[:i:i], r.set.rules[i+1:]...)
			break
		}
	}
	r.set.mu.Unlock()
	r.Release()
}

// Release lets sessions that hang on the rule go on, now and from now on.
func (r *Rule) Release() { r.once.Do(func() { close(r.release) }) }

// faultSet holds the rules in the order they were added; the first one that matches acts.
type faultSet struct {
	mu    sync.Mutex
	rules []*Rule
	last  int64 // number given
	rand  *rand.Rand
}

func newFaultSet(seed int64) *faultSet {
	return &faultSet{rand: rand.New(rand.NewPCG(uint64(seed), 0xfa017))}
}

func (fs *faultSet) add(f Fault) *Rule {
	r := &Rule{fault: f, set: fs, release: make(chan struct{})}
	r.fault.Action.release = r.release
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.last++
	r.number = fs.last
	fs.rules = append(fs.rules, r)
	return r
}

// list gives the rules in force.
func (fs *faultSet) list() []*Rule {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.Clone(fs.rules)
}

// armed is a rule that matched and will act after rows more rows.
type armed struct {
	rule   *Rule
	action Action
	rows   int64
}

// match finds the rule that acts on this event, if any, and counts it.
func (fs *faultSet) match(when Moment, connection int, login, statement string) *armed {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, r := range fs.rules {
		f := &r.fault
		if f.When != when || (f.Connection != 0 && f.Connection != connection) {
			continue
		}
		if f.Login != "" && f.Login != login || f.Statement != nil && !f.Statement.MatchString(statement) {
			continue
		}
		r.matched++
		limit := f.Times
		if limit == 0 {
			limit = 1
		}
		if r.matched <= f.Skip || (limit > 0 && r.acted >= limit) {
			continue
		}
		if f.Probability > 0 && fs.rand.Float64() >= f.Probability {
			continue
		}
		r.acted++
		return &armed{rule: r, action: f.Action, rows: f.AfterRows}
	}
	return nil
}
