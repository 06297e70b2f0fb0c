package mssqlcdc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// LSNSize is the length of an LSN in bytes.
const LSNSize = 10

// ErrInvalidLSN is the error that every failed parse of an LSN wraps.
var ErrInvalidLSN = errors.New("invalid LSN")

// LSN is a log sequence number: 4 bytes virtual log file, 4 bytes block offset,
// 2 bytes slot, all big-endian, so that byte order is log order (SQL Server
// documentation, sys.fn_cdc_increment_lsn). The zero LSN means none; SQL Server
// answers it for a capture instance that it does not know.
type LSN [LSNSize]byte

// ParseLSN reads the text form: up to 20 hex digits in either case, with or
// without 0x. Fewer digits are padded with zeros on the left.
func ParseLSN(text string) (LSN, error) {
	var l LSN
	digits := text
	if strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") {
		digits = digits[2:]
	}
	if digits == "" || len(digits) > 2*LSNSize {
		return l, fmt.Errorf("%w %q: want 0x and 1 to 20 hex digits", ErrInvalidLSN, text)
	}
	padded := strings.Repeat("0", 2*LSNSize-len(digits)) + digits
	if _, err := hex.Decode(l[:], []byte(padded)); err != nil {
		return LSN{}, fmt.Errorf("%w %q: want 0x and 1 to 20 hex digits", ErrInvalidLSN, text)
	}
	return l, nil
}

// LSNFromBytes copies the 10 bytes of a binary(10) value.
func LSNFromBytes(b []byte) (LSN, error) {
	if len(b) != LSNSize {
		return LSN{}, fmt.Errorf("%w: %d bytes, want %d", ErrInvalidLSN, len(b), LSNSize)
	}
	return LSN(b), nil
}

// LSNFromParts is the inverse of [LSN.Parts]. Both parts must lie in
// [0, 2^40).
func LSNFromParts(hi, lo int64) (LSN, error) {
	const limit = int64(1) << 40
	if hi < 0 || lo < 0 || hi >= limit || lo >= limit {
		return LSN{}, fmt.Errorf("%w: parts %d and %d, want both in [0, 2^40)", ErrInvalidLSN, hi, lo)
	}
	var buf [16]byte
	binary.BigEndian.PutUint64(buf[:8], uint64(hi))
	binary.BigEndian.PutUint64(buf[8:], uint64(lo))
	var l LSN
	copy(l[:5], buf[3:8])
	copy(l[5:], buf[11:])
	return l, nil
}

// Parts splits the LSN into its first and its last 5 bytes as numbers, because
// a Delta transaction version holds 64 bits and an LSN 80.
func (l LSN) Parts() (hi, lo int64) {
	var buf [16]byte
	copy(buf[3:8], l[:5])
	copy(buf[11:], l[5:])
	return int64(binary.BigEndian.Uint64(buf[:8])), int64(binary.BigEndian.Uint64(buf[8:]))
}

// String gives 0x and 20 upper-case hex digits. Text order is LSN order.
func (l LSN) String() string {
	var buf [2 + 2*LSNSize]byte
	return string(l.AppendHex(buf[:0]))
}

// AppendHex appends [LSN.String] to dst without allocating for it.
func (l LSN) AppendHex(dst []byte) []byte {
	const digits = "0123456789ABCDEF"
	dst = append(dst, '0', 'x')
	for _, b := range l {
		dst = append(dst, digits[b>>4], digits[b&0x0F])
	}
	return dst
}

// MarshalText writes the text form; the zero LSN is the empty text.
func (l LSN) MarshalText() ([]byte, error) {
	if l.IsZero() {
		return []byte{}, nil
	}
	return l.AppendHex(nil), nil
}

// UnmarshalText reads the text form; the empty text is the zero LSN.
func (l *LSN) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = LSN{}
		return nil
	}
	parsed, err := ParseLSN(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}

// IsZero tells whether the LSN is none.
func (l LSN) IsZero() bool { return l == LSN{} }

// Compare orders LSNs as the log does: -1, 0 or +1.
func (l LSN) Compare(other LSN) int { return bytes.Compare(l[:], other[:]) }

// Less tells whether l comes before other in the log.
func (l LSN) Less(other LSN) bool { return l.Compare(other) < 0 }

// Next is l + 1, as sys.fn_cdc_increment_lsn gives it. The largest LSN has no
// successor and is returned unchanged.
func (l LSN) Next() LSN {
	next := l
	for i := LSNSize - 1; i >= 0; i-- {
		next[i]++
		if next[i] != 0 {
			return next
		}
	}
	return l
}

// Prev is l - 1, as sys.fn_cdc_decrement_lsn gives it. The zero LSN has no
// predecessor and is returned unchanged.
func (l LSN) Prev() LSN {
	prev := l
	for i := LSNSize - 1; i >= 0; i-- {
		prev[i]--
		if prev[i] != 0xFF {
			return prev
		}
	}
	return l
}
