package tsql

import (
	"encoding/binary"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// appendKey appends bytes that are equal for two values exactly when they
// compare equal, given values of one type. NULLs are equal to each other.
func appendKey(dst []byte, v sqltype.Value, coll *sqltype.Collation) []byte {
	switch k := v.Kind(); {
	case k == sqltype.KindNull:
		return append(dst, 0)
	case k.IsText():
		return appendString(append(dst, 't'), coll.Key(v.Str()))
	case k.IsBinary():
		return appendString(append(dst, 'b'), strings.TrimRight(v.Str(), "\x00"))
	case k.IsFloat():
		f := v.Float64()
		if f == float64(int64(f)) {
			return appendInt(append(dst, 'n'), int64(f))
		}
		return appendInt(append(dst, 'f'), v.Int64())
	case k == sqltype.KindDecimal || k.IsMoney():
		return appendNumber(dst, v.AsNumber())
	case k.IsNumeric():
		return appendInt(append(dst, 'n'), v.Int64())
	case k == sqltype.KindUniqueIdentifier:
		u := v.UUID()
		return append(append(dst, 'u'), u[:]...)
	case k == sqltype.KindDateTimeOffset:
		return appendInt(appendInt(append(dst, 'd'), int64(v.Days())), v.Ticks())
	}
	days, ticks := v.LocalParts()
	return appendInt(appendInt(append(dst, 'd'), days), ticks)
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendInt(dst []byte, n int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(n)) }

// appendNumber writes a decimal without the zeros at its end, an integer as one.
func appendNumber(dst []byte, n sqltype.Number) []byte {
	for n.Scale > 0 {
		t, err := n.Truncate(n.Scale - 1)
		if err != nil || t.Cmp(n) != 0 {
			break
		}
		n = t
	}
	if n.Scale == 0 {
		if i, ok := n.Int64(); ok {
			return appendInt(append(dst, 'n'), i)
		}
	}
	return appendString(append(dst, 'm'), n.String())
}
