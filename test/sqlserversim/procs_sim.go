package sqlserversim

import (
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// controlProcedures are what Go tests do through Server, for clients in other processes: schema sim, which no SQL Server has. They are
// for sysadmin.
//
//	EXEC sim.fault @action = 'close', @statement = 'FROM dbo\.n', @after_rows = 100   -- gives the rule's number
//	EXEC sim.faults; EXEC sim.release_fault 1; EXEC sim.remove_fault 1
//	EXEC sim.capture; EXEC sim.idle; EXEC sim.cleanup; EXEC sim.cleanup_below 'dbo_n', 0x00…
func controlProcedures() []*procedure {
	list := []*procedure{
		newProcedure("fault", `@action nvarchar(20), @when nvarchar(10) = 'statement', @connection int = 0, @login sysname = NULL,
			@statement nvarchar(max) = NULL, @after_rows bigint = 0, @skip int = 0, @times int = 0, @probability float = NULL,
			@number int = 50000, @class tinyint = 16, @state tinyint = 1, @text nvarchar(2048) = NULL, @delay_ms int = 0,
			@host nvarchar(128) = NULL, @port int = 0`, simFault),
		newProcedure("faults", "", simFaults),
		newProcedure("release_fault", "@rule bigint", func(c *procCall) error { return c.withRule((*Rule).Release) }),
		newProcedure("remove_fault", "@rule bigint", func(c *procCall) error { return c.withRule((*Rule).Remove) }),
		newProcedure("capture", "", func(c *procCall) error { return c.session.srv.Capture(c.ctx) }),
		newProcedure("idle", "", func(c *procCall) error { return c.session.srv.Idle(c.ctx) }),
		newProcedure("cleanup", "", func(c *procCall) error { return c.session.srv.Cleanup(c.ctx) }),
		newProcedure("cleanup_below", "@capture_instance sysname, @low_water_mark binary(10) = NULL", simCleanupBelow),
	}
	for _, p := range list {
		p.schema = "sim"
	}
	return list
}

// isControl tells statements that call such a procedure: faults spare them, so that a rule can always be taken back.
func isControl(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	for _, word := range []string{"EXECUTE ", "EXEC "} {
		if len(text) >= len(word) && strings.EqualFold(text[:len(word)], word) {
			text = strings.TrimLeft(text[len(word):], " \t\r\n")
		}
	}
	return len(text) >= 4 && strings.EqualFold(text[:4], "sim.")
}

// controlCall finds a procedure of schema sim.
func (s *session) controlCall(db *database, name tsql.ObjectName) (*tsql.Procedure, error) {
	p, ok := s.srv.catalog.controls[fold(name.Name)]
	if !ok {
		return nil, sqlerr.NoProcedure(name)
	}
	if !s.sysadmin {
		return nil, sqlerr.Denied("EXECUTE", p.name, db.name, p.schema)
	}
	return s.systemCall(db, p), nil
}

// simFault puts a rule in force and gives its number.
func simFault(c *procCall) error {
	f := Fault{
		Connection: int(c.integer("@connection", 0)), Login: c.text("@login"), AfterRows: c.integer("@after_rows", 0),
		Skip: int(c.integer("@skip", 0)), Times: int(c.integer("@times", 0)),
	}
	if v := c.arg("@probability"); !v.IsNull() {
		f.Probability = v.Float64()
	}
	if text := c.arg("@statement"); !text.IsNull() {
		re, err := regexp.Compile(text.Str())
		if err != nil {
			return errorf("The parameter @statement is no regular expression: %v.", err)
		}
		f.Statement = re
	}
	switch when := c.text("@when"); fold(when) {
	case "statement":
		f.When = AtStatement
	case "accept":
		f.When = AtAccept
	case "login":
		f.When = AtLogin
	default:
		return errorf("The parameter @when is '%s'; it must be statement, accept or login.", when)
	}
	action, err := c.faultAction()
	if err != nil {
		return err
	}
	f.Action = action
	rule := c.session.srv.Fault(f)
	return c.rowset("rule bigint", func(v *viewCall) error { return v.add(fields{"rule": rule.number}) })
}

// faultAction reads @action and what belongs to it.
func (c *procCall) faultAction() (Action, error) {
	delay := time.Duration(c.integer("@delay_ms", 0)) * time.Millisecond
	switch name := c.text("@action"); fold(name) {
	case "close":
		return CloseConnection(), nil
	case "reset":
		return ResetConnection(), nil
	case "half_packet":
		return HalfPacket(), nil
	case "no_done":
		return EndWithoutDone(), nil
	case "unknown_token":
		return UnknownToken(), nil
	case "error":
		return RaiseError(int32(c.integer("@number", 0)), uint8(c.integer("@class", 0)), uint8(c.integer("@state", 0)), c.text("@text")), nil
	case "severe_done":
		return SevereDone(), nil
	case "hang":
		return Hang(), nil
	case "delay":
		return Delay(delay), nil
	case "slow_rows":
		return SlowRows(delay), nil
	case "route":
		port := c.integer("@port", 0)
		if port < 1 || port > math.MaxUint16 || c.text("@host") == "" {
			return Action{}, errorf("The action route needs @host and a @port from 1 to %d.", math.MaxUint16)
		}
		return RouteTo(c.text("@host"), uint16(port)), nil
	default:
		return Action{}, errorf("The parameter @action is '%s'; it must be close, reset, half_packet, no_done, unknown_token, error, severe_done, hang, delay, slow_rows or route.", name)
	}
}

// simFaults lists the rules in force and how often each has acted.
func simFaults(c *procCall) error {
	return c.rowset("rule bigint, hits bigint, statement nvarchar(max)?", func(v *viewCall) error {
		for _, r := range c.session.srv.faults.list() {
			var statement any
			if r.fault.Statement != nil {
				statement = r.fault.Statement.String()
			}
			if err := v.add(fields{"rule": r.number, "hits": int64(r.Hits()), "statement": statement}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *procCall) withRule(f func(*Rule)) error {
	number := c.integer("@rule", 0)
	for _, r := range c.session.srv.faults.list() {
		if r.number == number {
			f(r)
			return nil
		}
	}
	return errorf("There is no fault rule %d in force.", number)
}

// simCleanupBelow is Server.CleanupBelow for the session's database; NULL means max_lsn.
func simCleanupBelow(c *procCall) error {
	var mark engine.LSN
	copy(mark[:], c.arg("@low_water_mark").Str())
	return cleanupBelow(c.ctx, c.db.eng, c.text("@capture_instance"), mark)
}
