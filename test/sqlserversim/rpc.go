package sqlserversim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// call answers one procedure call: its rowsets, then RETURNSTATUS, a RETURNVALUE for every output parameter, and DONEPROC.
func (s *session) call(ctx context.Context, call *tds.Call, more bool) error {
	args, err := arguments(call)
	if err != nil {
		return &tds.ServerError{Number: 8009, Class: 16, State: 1, Line: 1,
			Text: fmt.Sprintf("The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is incorrect. %v", err)}
	}
	name, ok := parseName(call.Name())
	if !ok {
		return serverError(sqlerr.NoProcedure(tsql.ObjectName{Name: call.Name()}))
	}
	final := tds.Done{Command: tds.CommandExecute}
	if more {
		final.Status |= tds.DoneRPCInBatch
	}
	err = s.answer(ctx, s.callText(call, args), func(sink *wireSink) error {
		sink.rpc = true
		if !call.NoExec {
			if err := s.sql.Call(ctx, name, args, sink); err != nil {
				return err
			}
		}
		s.notePrepared(call, args)
		if sink.failed {
			final.Status |= tds.DoneError
		}
		s.writer.ReturnStatus(sink.status)
		for i, a := range args {
			if a.Output {
				s.returnValue(call, i, a)
			}
		}
		s.writer.DoneProc(final)
		return s.writer.Err()
	})
	if errors.Is(err, errFatal) {
		return nil
	}
	return err
}

func (s *session) returnValue(call *tds.Call, i int, a *tsql.Argument) {
	name, ordinal := a.Name, uint16(i)
	if call.ID != tds.ProcNone && call.ID != tds.ProcExecuteSQL {
		name = "" // a prepared handle has none
	}
	t := a.Type
	if t.Kind == sqltype.KindNull {
		t = sqltype.TypeOf(sqltype.KindInt)
	}
	value := toWire(a.Value)
	if t.Kind == sqltype.KindVariant {
		value = variantToWire(a.Value, s.db.collation)
	} else if !a.Value.IsNull() && a.Value.Kind() != t.Kind && !sameWire(a.Value.Kind(), t.Kind) {
		if c, err := sqltype.Convert(a.Value, t, sqltype.DefaultStyle); err == nil {
			value = toWire(c)
		}
	}
	s.writer.ReturnValue(tds.ReturnValue{Ordinal: ordinal, Name: name, Type: wireType(t, true, s.db.collation), Value: value})
}

// arguments turns parameters into the language's.
func arguments(call *tds.Call) ([]*tsql.Argument, error) {
	args := make([]*tsql.Argument, len(call.Params))
	for i := range call.Params {
		p := &call.Params[i]
		v, err := fromWire(&p.Type, p.Value)
		if err != nil {
			return nil, fmt.Errorf("parameter %d (%q): %w", i+1, p.Name, err)
		}
		name := p.Name
		if name != "" && !strings.HasPrefix(name, "@") {
			name = "@" + name // tiberius names the parameters of sp_executesql stmt and params
		}
		args[i] = &tsql.Argument{Name: name, Type: sqlType(&p.Type), Value: v, Output: p.Output, Default: p.Default}
	}
	return args, nil
}

// callText is the text that the statement log and faults see.
func (s *session) callText(call *tds.Call, args []*tsql.Argument) string {
	text := func(i int) string {
		if i < len(args) && args[i].Value.Kind().IsText() {
			return args[i].Value.Str()
		}
		return call.Name()
	}
	switch strings.ToLower(strings.TrimPrefix(call.Name(), "sys.")) {
	case "sp_executesql":
		return text(0)
	case "sp_prepare", "sp_prepexec":
		return text(2)
	case "sp_execute", "sp_unprepare":
		if len(args) > 0 {
			if t, ok := s.prepared[int32(args[0].Value.Int64())]; ok && strings.HasSuffix(strings.ToLower(call.Name()), "sp_execute") {
				return t
			}
		}
	}
	return call.Name()
}

// notePrepared remembers the text behind a new handle.
func (s *session) notePrepared(call *tds.Call, args []*tsql.Argument) {
	switch call.ID {
	case tds.ProcPrepare, tds.ProcPrepExec:
		if len(args) > 2 && args[0].Output && !args[0].Value.IsNull() {
			s.prepared[int32(args[0].Value.Int64())] = args[2].Value.Str()
		}
	case tds.ProcUnprepare:
		if len(args) > 0 {
			delete(s.prepared, int32(args[0].Value.Int64()))
		}
	}
}

// parseName splits a name of up to four parts, each bare, in brackets or in double quotes.
func parseName(text string) (tsql.ObjectName, bool) {
	parts, ok := splitName(text)
	if !ok || len(parts) > 4 {
		return tsql.ObjectName{}, false
	}
	var n tsql.ObjectName
	slots := []*string{&n.Name, &n.Schema, &n.Database, &n.Server}
	for i := range parts {
		*slots[i] = parts[len(parts)-1-i]
	}
	return n, n.Name != ""
}

// splitName is parseName without a limit on the parts.
func splitName(text string) ([]string, bool) {
	var parts []string
	for rest := strings.TrimSpace(text); ; {
		part, after, ok := namePart(rest)
		if !ok {
			return nil, false
		}
		parts = append(parts, part)
		after = strings.TrimLeft(after, " ")
		if after == "" {
			return parts, true
		}
		if after[0] != '.' {
			return nil, false
		}
		rest = strings.TrimLeft(after[1:], " ")
	}
}

// namePart reads one part and gives what follows it.
func namePart(s string) (part, rest string, ok bool) {
	if s == "" {
		return "", "", true
	}
	closing := byte(0)
	switch s[0] {
	case '[':
		closing = ']'
	case '"':
		closing = '"'
	default:
		if i := strings.IndexByte(s, '.'); i >= 0 {
			return strings.TrimRight(s[:i], " "), s[i:], true
		}
		return s, "", true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != closing {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == closing {
			b.WriteByte(closing)
			i++
			continue
		}
		return b.String(), s[i+1:], true
	}
	return "", "", false
}
