package sqlserversim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// Fault puts a rule in force. Rules are tried in the order they were added; the first that matches acts.
func (s *Server) Fault(f Fault) *Rule { return s.faults.add(f) }

// connectHook applies faults at AtAccept.
func (s *Server) connectHook(c *tds.Conn) tds.Fault {
	m := meterOf(c)
	a := s.faults.match(AtAccept, m.number, "", "")
	if a == nil {
		return tds.Fault{}
	}
	m.reset.Store(a.action.kind == actReset)
	return a.action.wireFault(true)
}

// wireFault is the action in the words of package tds, where it has one.
func (a Action) wireFault(early bool) tds.Fault {
	switch a.kind {
	case actClose:
		return tds.Fault{Action: tds.CloseConn}
	case actReset:
		return tds.Fault{Action: tds.ResetConn}
	case actHalfPacket:
		return tds.Fault{Action: tds.CloseConn, Partial: !early}
	case actNoDone:
		return tds.Fault{Action: tds.EndAnswer}
	case actUnknownToken:
		return tds.Fault{Action: tds.BadToken}
	case actHang:
		return tds.Fault{Action: tds.Hang, Resume: a.release}
	case actDelay:
		return tds.Fault{Delay: a.delay}
	}
	return tds.Fault{Action: tds.CloseConn}
}

// loginFault applies a fault at AtLogin: an error to refuse the login with, or a routing. wait is done here.
func (s *Server) loginFault(ctx context.Context, connection int, login string) (*tds.Routing, error) {
	a := s.faults.match(AtLogin, connection, login, "")
	if a == nil {
		return nil, nil
	}
	switch a.action.kind {
	case actError:
		return nil, serverError(a.action.sqlError(""))
	case actRoute:
		return &tds.Routing{Host: a.action.host, Port: a.action.port}, nil
	case actDelay:
		return nil, wait(ctx, a.action.delay)
	case actHang:
		select {
		case <-a.action.release:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	case actRun:
		return nil, a.action.run(ctx)
	}
	return nil, errors.New("injected fault: the login was cut off")
}

// sqlError is the error that the action raises.
func (a Action) sqlError(argument string) *sqlerr.Error {
	if a.text != "" {
		return &sqlerr.Error{Number: a.number, Class: a.class, State: a.state, Message: a.text}
	}
	e := message(a.number)
	if argument != "" {
		e = message(a.number, argument)
	}
	e.Class, e.State = a.class, a.state
	return e
}

// wait is a sleep that ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// arm makes a fault act on the answer to come.
func (k *wireSink) arm(a *armed) { k.fault = a }

// start acts on a fault that lets no rows out.
func (k *wireSink) start(ctx context.Context) error {
	k.ctx = ctx
	if k.fault != nil && k.fault.rows == 0 {
		return k.act()
	}
	return nil
}

// afterRow acts when enough rows are out, and slows rows down.
func (k *wireSink) afterRow() error {
	if k.slow > 0 {
		if err := k.w.Flush(); err != nil {
			return err
		}
		return wait(k.ctx, k.slow)
	}
	if k.rows >= k.fault.rows {
		return k.act()
	}
	return nil
}

// finish acts on a fault that was still waiting for rows.
func (k *wireSink) finish(ctx context.Context) error {
	k.ctx = ctx
	if k.fault != nil && k.fault.rows > 0 {
		return k.act()
	}
	return nil
}

// disarm forgets a fault that has not acted and counts the rows sent.
func (k *wireSink) disarm() {
	k.ses.srv.log.rows.Add(k.rows)
	k.ses.info.rows.Store(k.rows)
	k.fault = nil
}

// errInjected ends the batch after a fault that has dealt with the answer.
var errInjected = errors.New("injected fault")

// act carries the fault out.
func (k *wireSink) act() error {
	a := k.fault.action
	k.fault = nil
	switch a.kind {
	case actRun:
		if err := k.w.Flush(); err != nil {
			return err
		}
		if err := a.run(k.ctx); err != nil {
			return &sqlerr.Error{Number: 50000, Class: 16, State: 1, Message: fmt.Sprintf("Injected: %v", err)}
		}
		return nil
	case actDelay:
		if err := k.w.Flush(); err != nil {
			return err
		}
		return wait(k.ctx, a.delay)
	case actSlowRows:
		k.slow = a.delay
		return nil
	case actError:
		e := a.sqlError("")
		if a.number == 1205 && a.text == "" {
			e = message(1205, k.ses.spid)
			e.Class, e.State = a.class, a.state
		}
		k.ses.lost(k.ctx, e)
		return e
	case actSevereDone:
		k.w.Done(tds.Done{Status: tds.DoneError | tds.DoneServerError})
		return errInjected
	}
	if a.kind == actReset {
		meterOf(k.w.Conn()).reset.Store(true)
	}
	if err := k.w.Inject(a.wireFault(false)); err == nil {
		return nil // a hang that was released
	}
	return errInjected
}
