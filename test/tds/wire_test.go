package tds_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"unicode/utf16"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// The strict reading half of the wire, for tests. It was written apart from the package: it shares its value types, to be
// able to say what it read, and none of its code. It panics with a fault; decodeTokens turns that into an error.

// fault is a structural fault.
type fault string

// wire reads a byte slice to the last byte.
type wire struct {
	b      []byte
	off    int
	narrow bool // TDS 7.1 widths
	cek    bool // column encryption was acknowledged
}

func (r *wire) n(k int) []byte {
	if k < 0 || r.off+k > len(r.b) {
		panic(fault(fmt.Sprintf("short at %d: want %d of %d", r.off, k, len(r.b))))
	}
	v := r.b[r.off : r.off+k]
	r.off += k
	return v
}

func (r *wire) u8() int            { return int(r.n(1)[0]) }
func (r *wire) u16() int           { return int(binary.LittleEndian.Uint16(r.n(2))) }
func (r *wire) u32() int           { return int(binary.LittleEndian.Uint32(r.n(4))) }
func (r *wire) u64() uint64        { return binary.LittleEndian.Uint64(r.n(8)) }
func (r *wire) i32() int32         { return int32(r.u32()) }
func (r *wire) chars(k int) string { return wideText(r.n(2 * k)) }
func (r *wire) bvar() string       { return r.chars(r.u8()) }
func (r *wire) usvar() string      { return r.chars(r.u16()) }
func (r *wire) rest() int          { return len(r.b) - r.off }

// wideText reads UTF-16LE.
func wideText(b []byte) string {
	if len(b)%2 != 0 {
		panic(fault("odd UTF-16"))
	}
	u := make([]uint16, len(b)/2)
	for i := range u {
		u[i] = uint16(b[2*i]) | uint16(b[2*i+1])<<8
	}
	return string(utf16.Decode(u))
}

// token is one token of an answer: its line as tdscheck prints it, and how to write it again.
type token struct {
	name  string
	line  string
	write func(w *tds.Writer) error // nil: the writer has no such token

	// of the tokens of a login answer
	message *tds.ServerError
	env     int
	fresh   string // new value of an ENVCHANGE, bytes in a string
	old     string
	ack     *loginAck
	feature []tds.Feature

	values []tds.Value // of a row
}

// loginAck is LOGINACK.
type loginAck struct {
	version tds.Version
	program string
	product tds.ProductVersion
}

// decodeTokens reads an answer's payload.
func decodeTokens(b []byte, narrow, cek bool) (list []token, err error) {
	r := &wire{b: b, narrow: narrow, cek: cek}
	defer func() {
		if f, ok := recover().(fault); ok {
			err = fmt.Errorf("byte %d: %s", r.off, f)
		}
	}()
	var columns []tds.Column
	for r.rest() > 0 {
		list = append(list, r.token(&columns))
	}
	return list, nil
}

// token reads one token.
func (r *wire) token(columns *[]tds.Column) token {
	switch id := r.u8(); id {
	case 0x81:
		return r.columns(columns)
	case 0xD1, 0xD2:
		return r.row(id, *columns)
	case 0xFD, 0xFE, 0xFF:
		return r.done(id)
	case 0x79:
		status := r.i32()
		return token{name: "RETURNSTATUS", line: fmt.Sprintf("RETURNSTATUS %d", status),
			write: func(w *tds.Writer) error { w.ReturnStatus(status); return nil }}
	case 0xAC:
		return r.returnValue()
	case 0xAA, 0xAB:
		return r.message(id)
	case 0xAD:
		return r.loginAck()
	case 0xE3:
		return r.envChange()
	case 0xAE:
		return r.featureAck()
	case 0xA9, 0xA4, 0xA5:
		return r.counted(id)
	case 0xE4:
		b := r.n(r.u32())
		return token{name: "SESSIONSTATE", line: fmt.Sprintf("SESSIONSTATE seq %d status %d data %x", binary.LittleEndian.Uint32(b), b[4], b[5:])}
	default:
		panic(fault(fmt.Sprintf("token %02x", id)))
	}
}

// counted reads ORDER, TABNAME and COLINFO.
func (r *wire) counted(id int) token {
	name := map[int]string{0xA9: "ORDER", 0xA4: "TABNAME", 0xA5: "COLINFO"}[id]
	b := r.n(r.u16())
	t := token{name: name, line: name + " " + hex.EncodeToString(b)}
	if id == 0xA9 {
		var order []uint16
		for i := 0; i < len(b); i += 2 {
			order = append(order, binary.LittleEndian.Uint16(b[i:]))
		}
		t.write = func(w *tds.Writer) error { w.Order(order...); return nil }
	}
	return t
}

func (r *wire) columns(columns *[]tds.Column) token {
	n := r.u16()
	if r.cek && r.u16() != 0 {
		panic(fault("CEK table is not empty"))
	}
	if n == 0xFFFF {
		*columns = nil
		return token{name: "COLMETADATA", line: "COLMETADATA none", write: func(w *tds.Writer) error { w.NoColumns(); return nil }}
	}
	cols := make([]tds.Column, n)
	words := make([]string, n)
	for i := range cols {
		c := &cols[i]
		if r.narrow {
			c.UserType = uint32(r.u16())
		} else {
			c.UserType = uint32(r.u32())
		}
		c.Flags = tds.ColumnFlags(r.u16())
		c.Type = r.typeInfo(true)
		c.Name = r.bvar()
		name := c.Name
		if name == "" {
			name = "(no name)"
		}
		words[i] = fmt.Sprintf("%s %s flags 0x%04x", name, typeName(&c.Type), int(c.Flags))
	}
	*columns = cols
	return token{name: "COLMETADATA", line: "COLMETADATA " + strings.Join(words, ", "),
		write: func(w *tds.Writer) error { w.Columns(cols); return nil }}
}

func (r *wire) row(id int, columns []tds.Column) token {
	name, null := "ROW", []byte(nil)
	line := "ROW "
	if id == 0xD2 {
		name, null = "NBCROW", r.n((len(columns)+7)/8)
		line = fmt.Sprintf("NBCROW bitmap %x ", null)
	}
	values, words := make([]tds.Value, len(columns)), make([]string, len(columns))
	for i := range columns {
		if null != nil && null[i/8]>>(i%8)&1 == 1 {
			words[i] = "NULL"
			continue
		}
		b := r.value(&columns[i].Type)
		values[i], words[i] = goValue(&columns[i].Type, b), show(&columns[i].Type, b)
	}
	return token{name: name, line: line + strings.Join(words, ", "), values: values, write: func(w *tds.Writer) error { return w.WriteRow(values...) }}
}

func (r *wire) done(id int) token {
	d := tds.Done{Status: tds.DoneStatus(r.u16()), Command: tds.Command(r.u16())}
	if r.narrow {
		d.Count = uint64(r.u32())
	} else {
		d.Count = r.u64()
	}
	name := map[int]string{0xFD: "DONE", 0xFE: "DONEPROC", 0xFF: "DONEINPROC"}[id]
	line := fmt.Sprintf("%s status 0x%04x cmd 0x%04x count %d", name, int(d.Status), int(d.Command), d.Count)
	bare := d
	bare.Status &^= tds.DoneMore
	return token{name: name, line: line, write: func(w *tds.Writer) error {
		switch id {
		case 0xFD:
			w.Done(bare)
		case 0xFE:
			w.DoneProc(bare)
		default:
			w.DoneInProc(bare)
		}
		return nil
	}}
}

func (r *wire) returnValue() token {
	v := tds.ReturnValue{Ordinal: uint16(r.u16()), Name: r.bvar()}
	status := r.u8()
	if r.narrow {
		v.UserType = uint32(r.u16())
	} else {
		v.UserType = uint32(r.u32())
	}
	v.Flags = uint16(r.u16())
	v.Type = r.typeInfo(false)
	b := r.value(&v.Type)
	v.Value = goValue(&v.Type, b)
	return token{name: "RETURNVALUE",
		line:  fmt.Sprintf("RETURNVALUE ordinal %d name '%s' status %d %s = %s", v.Ordinal, v.Name, status, typeName(&v.Type), show(&v.Type, b)),
		write: func(w *tds.Writer) error { w.ReturnValue(v); return nil }}
}

// within runs f and checks that it read exactly n bytes.
func (r *wire) within(what string, n int, f func()) {
	start := r.off
	f()
	if r.off-start != n {
		panic(fault(fmt.Sprintf("%s says %d bytes and has %d", what, n, r.off-start)))
	}
}

func (r *wire) message(id int) token {
	name := map[int]string{0xAA: "ERROR", 0xAB: "INFO"}[id]
	m := &tds.ServerError{}
	r.within(name, r.u16(), func() {
		m.Number, m.State, m.Class = r.i32(), uint8(r.u8()), uint8(r.u8())
		m.Text, m.Server, m.Proc = r.usvar(), r.bvar(), r.bvar()
		if r.narrow {
			m.Line = int32(r.u16())
		} else {
			m.Line = r.i32()
		}
	})
	if (id == 0xAB) != (m.Class <= 10) {
		panic(fault(fmt.Sprintf("%s of class %d", name, m.Class)))
	}
	return token{name: name, message: m,
		line:  fmt.Sprintf("%s %d state %d class %d '%s' server '%s' proc '%s' line %d", name, m.Number, m.State, m.Class, m.Text, m.Server, m.Proc, m.Line),
		write: func(w *tds.Writer) error { w.Message(m); return nil }}
}

func (r *wire) loginAck() token {
	a := &loginAck{}
	r.within("LOGINACK", r.u16(), func() {
		if r.u8() != 1 {
			panic(fault("LOGINACK interface"))
		}
		a.version = tds.Version(binary.BigEndian.Uint32(r.n(4)))
		a.program = r.bvar()
		v := r.n(4)
		a.product = tds.ProductVersion{Major: v[0], Minor: v[1], Build: binary.BigEndian.Uint16(v[2:])}
	})
	return token{name: "LOGINACK", ack: a, line: fmt.Sprintf("LOGINACK interface 1 tds %08x '%s' version %s",
		uint32(a.version), strings.ReplaceAll(a.program, "\x00", `\0`), a.product)}
}

func (r *wire) envChange() token {
	t := token{name: "ENVCHANGE"}
	show := func(s string) string {
		if s == "" {
			return "-"
		}
		return hex.EncodeToString([]byte(s))
	}
	r.within("ENVCHANGE", r.u16(), func() {
		t.env = r.u8()
		switch t.env {
		case 1, 2, 4, 13:
			t.fresh, t.old = r.bvar(), r.bvar()
			t.line = fmt.Sprintf("ENVCHANGE %d '%s' <- '%s'", t.env, t.fresh, t.old)
		case 7, 8, 9, 10, 17, 18:
			t.fresh, t.old = string(r.n(r.u8())), string(r.n(r.u8()))
			t.line = fmt.Sprintf("ENVCHANGE %d %s <- %s", t.env, show(t.fresh), show(t.old))
		case 20:
			var proto, port int
			r.within("routing", r.u16(), func() { proto, port, t.fresh = r.u8(), r.u16(), r.usvar() })
			t.old = string(r.n(r.u16()))
			t.line = fmt.Sprintf("ENVCHANGE 20 proto %d port %d host '%s' old %s", proto, port, t.fresh, show(t.old))
		default:
			panic(fault(fmt.Sprintf("ENVCHANGE %d", t.env)))
		}
	})
	t.write = t.writeEnv
	return t
}

// writeEnv writes the ENVCHANGE again.
func (t token) writeEnv(w *tds.Writer) error {
	descriptor := func(s string) uint64 { return binary.LittleEndian.Uint64([]byte(s)) }
	switch t.env {
	case 1:
		w.EnvDatabase(t.fresh, t.old)
	case 2:
		w.EnvLanguage(t.fresh, t.old)
	case 8:
		w.EnvBegin(descriptor(t.fresh))
	case 9:
		w.EnvCommit(descriptor(t.old))
	case 10:
		w.EnvRollback(descriptor(t.old))
	case 18:
		w.EnvResetAck()
	default:
		return fmt.Errorf("ENVCHANGE %d is written by the login answer", t.env)
	}
	return nil
}

func (r *wire) featureAck() token {
	t := token{name: "FEATUREEXTACK", line: "FEATUREEXTACK", feature: []tds.Feature{}}
	for {
		id := r.u8()
		if id == 0xFF {
			return t
		}
		f := tds.Feature{ID: uint8(id), Data: r.n(r.u32())}
		t.feature = append(t.feature, f)
		text := hex.EncodeToString(f.Data)
		t.line += fmt.Sprintf(" 0x%02x:%s", id, text[:min(len(text), 200)])
	}
}

// show prints a value as tdscheck does: texts as Python literals of at most 60 characters.
func show(t *tds.TypeInfo, b []byte) string {
	if b == nil {
		return "NULL"
	}
	cut := func(s string) string { return string([]rune(s)[:min(60, len([]rune(s)))]) }
	switch t.ID {
	case tds.IDNVarChar, tds.IDNChar, tds.IDNText, tds.IDXML:
		return cut(literal(wideText(b)))
	case tds.IDVarChar, tds.IDChar, tds.IDText:
		return cut(literal(string(b)))
	case tds.IDIntN, tds.IDInt1, tds.IDInt2, tds.IDInt4, tds.IDInt8:
		if len(b) == 1 {
			return fmt.Sprint(b[0])
		}
		return fmt.Sprint(goValue(t, b))
	case tds.IDBitN, tds.IDBit:
		return fmt.Sprint(b[0])
	case tds.IDFloatN:
		if len(b) == 4 {
			return fmt.Sprint(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
		return fmt.Sprint(goValue(t, b))
	default:
		text := hex.EncodeToString(b)
		return "0x" + text[:min(len(text), 60)]
	}
}

// literal writes a text as Python's repr does.
func literal(s string) string {
	quote := "'"
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = `"`
	}
	return quote + strings.NewReplacer("\n", `\n`, "\r", `\r`, "\t", `\t`, `\`, `\\`).Replace(s) + quote
}
