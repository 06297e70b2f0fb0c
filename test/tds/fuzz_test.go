package tds_test

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// seedVectors adds the payloads of the kept vectors of a packet type to a corpus.
func seedVectors(f *testing.F, typ byte) {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "vectors", "*.hex"))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		var digits strings.Builder
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "#") {
				digits.WriteString(strings.ReplaceAll(strings.TrimSpace(line), " ", ""))
			}
		}
		b, err := hex.DecodeString(digits.String())
		if err != nil {
			f.Fatal(err)
		}
		if b[0] == typ {
			f.Add(b[8:])
		}
	}
}

// FuzzPrelogin: what was parsed and is written again parses to the same.
func FuzzPrelogin(f *testing.F) {
	seedVectors(f, 0x12)
	f.Add([]byte{0, 0, 6, 0xFF, 0xFF, 0xFF})
	f.Add([]byte{0, 0xFF, 0xFF, 0, 1, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) {
		options, err := tds.ParsePrelogin(b)
		if err != nil {
			return
		}
		total := 5*len(options) + 1
		for _, o := range options {
			total += len(o.Data)
		}
		if total > 0xFFFF {
			return // options may share data, and then do not fit side by side
		}
		again, err := tds.ParsePrelogin(tds.AppendPrelogin(nil, options))
		if err != nil {
			t.Fatal(err)
		}
		if len(again) != len(options) {
			t.Fatalf("%d options became %d", len(options), len(again))
		}
		for i, o := range options {
			if again[i].Token != o.Token || string(again[i].Data) != string(o.Data) {
				t.Fatalf("option %d changed: %v, %v", i, o, again[i])
			}
		}
	})
}

// FuzzLogin7: no panic, and no text longer than the message.
func FuzzLogin7(f *testing.F) {
	seedVectors(f, 0x10)
	f.Add(rawLogin7(loginWords{database: "d", features: []byte{0x0A, 0xFF, 0xFF, 0xFF, 0xFF}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := tds.ParseLogin7(b)
		if err != nil {
			return
		}
		for _, s := range []string{l.Host, l.User, string(l.Password), l.App, l.Server, l.Library, l.Language, l.Database} {
			if len(s) > 2*len(b) {
				t.Fatalf("%d bytes of text from %d", len(s), len(b))
			}
		}
	})
}

// fuzzRequest: no panic; a valid request of one version is one of the same form again.
func fuzzRequest(f *testing.F, typ tds.PacketType) {
	f.Helper()
	seedVectors(f, byte(typ))
	f.Add([]byte{4, 0, 0, 0})
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF})
	f.Add([]byte{22, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x7F, 2, 0})
	f.Add([]byte{4, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, 0, 0, 0, 0xE7, 0xFF, 0xFF, 9, 4, 0xD0, 0, 0x34, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, v := range []tds.Version{tds.Version74, tds.Version71} {
			req, err := tds.ParseRequest(typ, b, v)
			if err != nil {
				t.Fatal(err)
			}
			if invalid, ok := req.Body.(*tds.Invalid); ok && invalid.Err == nil {
				t.Fatal("invalid without a reason")
			}
		}
	})
}

// FuzzRPC covers ALL_HEADERS, the calls and their parameters.
func FuzzRPC(f *testing.F) { fuzzRequest(f, tds.PacketRPC) }

// FuzzBatch covers ALL_HEADERS and the text.
func FuzzBatch(f *testing.F) { fuzzRequest(f, tds.PacketBatch) }

// FuzzTransaction covers transaction manager requests.
func FuzzTransaction(f *testing.F) { fuzzRequest(f, tds.PacketTransaction) }

// FuzzValue reads a TYPE_INFO and a value; what can be read can be written, and is read the same again.
func FuzzValue(f *testing.F) {
	for _, c := range typeCases() {
		for _, v := range c.values {
			b, err := tds.AppendValue(typeInfoBytes(&c.typ), &c.typ, v)
			if err == nil && len(b) < 200 {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		typ, n, err := tds.DecodeTypeInfo(b)
		if err != nil {
			return
		}
		v, m, err := tds.DecodeValue(b[n:], &typ)
		if err != nil {
			return
		}
		if n+m > len(b) {
			t.Fatalf("%d bytes read of %d", n+m, len(b))
		}
		if typ.ID == tds.IDText || typ.ID == tds.IDNText || typ.ID == tds.IDImage || v == nil {
			return
		}
		if s, ok := v.(string); ok && !typ.IsUnicode() && strings.ContainsFunc(s, func(r rune) bool { return r > 127 }) {
			return // code pages have characters of more than one encoding, and bytes that mean nothing
		}
		if x, ok := v.(tds.Variant); ok && x.Type.ID != tds.IDInt4 {
			return // its properties need not fit its value
		}
		out, err := tds.AppendValue(nil, &typ, v)
		if err != nil {
			return // more digits or a longer text than declared: a client's fault that reading tolerates
		}
		again, k, err := tds.DecodeValue(out, &typ)
		if err != nil || k != len(out) {
			t.Fatalf("%s %v: read %d of %d, %v", typ, v, k, len(out), err)
		}
		if !same(v, again) {
			t.Fatalf("%s %v became %v", typ, v, again)
		}
	})
}

// same compares two values; NaN equals itself here.
func same(a, b tds.Value) bool {
	switch a := a.(type) {
	case []byte:
		return string(a) == string(b.([]byte))
	case float64:
		return a == b || a != a
	case float32:
		return a == b || a != a
	case tds.Variant:
		return same(a.Value, b.(tds.Variant).Value)
	default:
		return a == b
	}
}

// typeInfoBytes gives the TYPE_INFO of a type in its parameter form, out of a return value.
func typeInfoBytes(t *tds.TypeInfo) []byte {
	b := []byte{byte(t.ID)}
	switch {
	case t.IsFixed() || t.ID == tds.IDDateN:
	case t.ID == tds.IDTimeN || t.ID == tds.IDDateTime2N || t.ID == tds.IDDateTimeOffsetN:
		b = append(b, t.Scale)
	case t.ID == tds.IDDecimalN || t.ID == tds.IDNumericN:
		b = append(b, byte(t.Size), t.Precision, t.Scale)
	case t.ID == tds.IDVariant:
		b = append(b, byte(t.Size), byte(t.Size>>8), 0, 0)
	case t.ID == tds.IDXML:
		b = append(b, 0)
	case t.ID >= 0xA5:
		b = append(b, byte(t.Size), byte(t.Size>>8))
		if t.ID != tds.IDVarBinary && t.ID != tds.IDBinary {
			b = append(b, t.Collation[:]...)
		}
	default:
		b = append(b, byte(t.Size))
	}
	return b
}
