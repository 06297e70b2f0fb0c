package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// LSN is a log sequence number: virtual log file (4 bytes), block offset (4), slot (2), all big-endian, so that byte order is
// log order [K for the layout, D for the order]. The zero LSN is what SQL Server answers for "no such capture instance".
type LSN [10]byte

// MakeLSN puts an LSN together.
func MakeLSN(vlf, block uint32, slot uint16) LSN {
	var l LSN
	binary.BigEndian.PutUint32(l[0:], vlf)
	binary.BigEndian.PutUint32(l[4:], block)
	binary.BigEndian.PutUint16(l[8:], slot)
	return l
}

// ParseLSN reads 0x and up to 20 hex digits; fewer are padded on the left.
func ParseLSN(text string) (LSN, error) {
	var l LSN
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
	if digits == "" || len(digits) > 20 {
		return l, fmt.Errorf("parsing LSN %q: want 0x and 1 to 20 hex digits", text)
	}
	if _, err := hex.Decode(l[:], []byte(strings.Repeat("0", 20-len(digits))+digits)); err != nil {
		return LSN{}, fmt.Errorf("parsing LSN %q: want 0x and 1 to 20 hex digits", text)
	}
	return l, nil
}

// LSNFromBytes reads a binary value as T-SQL converts it to binary(10): shorter ones are padded with zeros on the right,
// longer ones are cut.
func LSNFromBytes(b []byte) LSN {
	var l LSN
	copy(l[:], b)
	return l
}

// VLF is the sequence number of the virtual log file.
func (l LSN) VLF() uint32 { return binary.BigEndian.Uint32(l[0:]) }

// Block is the offset of the log block in its file.
func (l LSN) Block() uint32 { return binary.BigEndian.Uint32(l[4:]) }

// Slot is the number of the record in its block.
func (l LSN) Slot() uint16 { return binary.BigEndian.Uint16(l[8:]) }

// IsZero tells whether all bytes are zero.
func (l LSN) IsZero() bool { return l == LSN{} }

// Compare gives -1, 0 or +1 in log order.
func (l LSN) Compare(other LSN) int { return bytes.Compare(l[:], other[:]) }

// Less tells whether l comes before other.
func (l LSN) Less(other LSN) bool { return l.Compare(other) < 0 }

// Increment is sys.fn_cdc_increment_lsn: the 80-bit number plus one, wrapping at the end [D, M25].
func (l LSN) Increment() LSN {
	for i := len(l) - 1; i >= 0; i-- {
		l[i]++
		if l[i] != 0 {
			break
		}
	}
	return l
}

// Decrement is sys.fn_cdc_decrement_lsn: the 80-bit number minus one, wrapping at zero [D, M25].
func (l LSN) Decrement() LSN {
	for i := len(l) - 1; i >= 0; i-- {
		l[i]--
		if l[i] != 0xFF {
			break
		}
	}
	return l
}

// String is CONVERT style 1: 0x and 20 upper-case hex digits.
func (l LSN) String() string { return "0x" + strings.ToUpper(hex.EncodeToString(l[:])) }

// Colons is the form of sys.dm_cdc_log_scan_sessions: 8, 8 and 4 hex digits.
func (l LSN) Colons() string { return fmt.Sprintf("%08x:%08x:%04x", l.VLF(), l.Block(), l.Slot()) }

// lsnKey is an LSN as two numbers, for vectors and fast comparison.
type lsnKey struct {
	hi uint64
	lo uint16
}

func (l LSN) key() lsnKey {
	return lsnKey{binary.BigEndian.Uint64(l[:8]), binary.BigEndian.Uint16(l[8:])}
}

func (k lsnKey) lsn() LSN {
	var l LSN
	binary.BigEndian.PutUint64(l[:8], k.hi)
	binary.BigEndian.PutUint16(l[8:], k.lo)
	return l
}

func (k lsnKey) less(o lsnKey) bool { return k.hi < o.hi || k.hi == o.hi && k.lo < o.lo }
