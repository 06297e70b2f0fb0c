package tds

import (
	"errors"
	"fmt"
)

// ProcID is the number of a well-known procedure in an RPC request (MS-TDS 2.2.6.6, ProcID).
type ProcID uint16

// Well-known procedures.
const (
	ProcNone            ProcID = 0
	ProcCursor          ProcID = 1
	ProcCursorOpen      ProcID = 2
	ProcCursorPrepare   ProcID = 3
	ProcCursorExecute   ProcID = 4
	ProcCursorPrepExec  ProcID = 5
	ProcCursorUnprepare ProcID = 6
	ProcCursorFetch     ProcID = 7
	ProcCursorOption    ProcID = 8
	ProcCursorClose     ProcID = 9
	ProcExecuteSQL      ProcID = 10
	ProcPrepare         ProcID = 11
	ProcExecute         ProcID = 12
	ProcPrepExec        ProcID = 13
	ProcPrepExecRPC     ProcID = 14
	ProcUnprepare       ProcID = 15
)

// String gives the procedure's name.
func (p ProcID) String() string {
	names := [...]string{
		"", "sp_cursor", "sp_cursoropen", "sp_cursorprepare", "sp_cursorexecute", "sp_cursorprepexec", "sp_cursorunprepare",
		"sp_cursorfetch", "sp_cursoroption", "sp_cursorclose", "sp_executesql", "sp_prepare", "sp_execute", "sp_prepexec",
		"sp_prepexecrpc", "sp_unprepare",
	}
	if int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("procedure %d", uint16(p))
}

// Option flags of an RPC call.
const (
	OptionRecompile  uint16 = 0x01
	OptionNoMetadata uint16 = 0x02
	OptionReuse      uint16 = 0x04
)

// RPC is one or more procedure calls in one message. Each call but the last is answered with [DoneRPCInBatch] set.
type RPC struct {
	Calls []Call
}

// Call is a call of a procedure, by its number or by the name in Proc (one to four parts, as the client wrote it). With
// NoExec the client asks that the call be answered without running it.
type Call struct {
	ID      ProcID
	Proc    string
	Options uint16
	NoExec  bool
	Params  []Param
}

// Name gives the procedure's name, also of a call by number.
func (c *Call) Name() string {
	if c.ID != ProcNone {
		return c.ID.String()
	}
	return c.Proc
}

// Param is a parameter of a call. Name is empty for a parameter by position. A Default parameter takes the value the
// procedure declares, its own is NULL.
type Param struct {
	Name    string
	Output  bool
	Default bool
	Type    TypeInfo
	Value   Value
}

// Parameter status bits and the bytes that separate calls (MS-TDS 2.2.6.6).
const (
	paramOutput    = 0x01
	paramDefault   = 0x02
	paramEncrypted = 0x08

	batchFlag   = 0xFF
	noExecFlag  = 0xFE
	batchFlag71 = 0x80
)

// errProcName is the reason for refusing a call.
var errProcName = errors.New("a name of more than 1046 characters")

// rpc reads the calls of a message. Before TDS 7.2 the byte between calls is 0x80, since then 0xFF (or 0xFE).
func (d *decoder) rpc(v Version) *RPC {
	between := func(b byte) bool { return b == batchFlag || b == noExecFlag || !v.Wide() && b == batchFlag71 }
	r := &RPC{}
	for d.err == nil {
		call := d.call()
		for d.err == nil && d.left() > 0 && !between(d.b[d.off]) {
			call.Params = append(call.Params, d.param())
		}
		more := d.left() > 0
		if d.err == nil && more {
			call.NoExec = d.u8("separator") == noExecFlag
			more = d.left() > 0 // a separator at the very end ends the last call
		}
		r.Calls = append(r.Calls, call)
		if !more {
			break
		}
	}
	return r
}

// call reads the name or number and the flags.
func (d *decoder) call() Call {
	var c Call
	n := d.u16("procedure name length")
	switch {
	case n == 0xFFFF:
		c.ID = ProcID(d.u16("procedure number"))
	case n > 1046:
		d.fail("procedure name", errProcName)
	default:
		c.Proc = d.text("procedure name", int(n))
	}
	c.Options = d.u16("option flags")
	return c
}

// param reads one parameter.
func (d *decoder) param() Param {
	p := Param{Name: d.bvarchar("parameter name")}
	status := d.u8("parameter status")
	p.Output, p.Default = status&paramOutput != 0, status&paramDefault != 0
	if status&paramEncrypted != 0 && d.err == nil {
		d.fail("parameter", &UnsupportedError{"encrypted parameter " + p.Name})
	}
	p.Type = d.typeInfo()
	p.Value = d.value(&p.Type)
	if d.err != nil && p.Name != "" {
		d.err = fmt.Errorf("parameter %s: %w", p.Name, d.err)
	}
	return p
}
