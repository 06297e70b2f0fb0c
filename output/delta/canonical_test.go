package delta_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The canonical form of rows, in which the answers of several engines can be compared: one
// JSON object a row with sorted keys, in the spelling of Python's json module; floats as
// Python's repr, decimals as strings with all digits of their scale, dates and timestamps
// in ISO 8601 with six digits ("Z" for instants), binary in hex, maps as pairs sorted by
// the text of the key. The digest is over the sorted lines.

// canonicalRows appends the rows of a record.
func canonicalRows(out []string, rec arrow.RecordBatch) []string {
	order := make([]int, rec.NumCols())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(rec.ColumnName(a), rec.ColumnName(b)) })
	for row := range int(rec.NumRows()) {
		var b strings.Builder
		b.WriteByte('{')
		for n, i := range order {
			if n > 0 {
				b.WriteString(", ")
			}
			canonicalText(&b, rec.ColumnName(i))
			b.WriteString(": ")
			canonical(&b, rec.Column(i), row)
		}
		b.WriteByte('}')
		out = append(out, b.String())
	}
	return out
}

// canonicalDigest is the digest of lines, which it sorts.
func canonicalDigest(lines []string) string {
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])[:16]
}

func canonical(b *strings.Builder, arr arrow.Array, i int) {
	if arr.IsNull(i) || arr.DataType().ID() == arrow.NULL {
		b.WriteString("null")
		return
	}
	switch a := arr.(type) {
	case *array.Boolean:
		b.WriteString(strconv.FormatBool(a.Value(i)))
	case *array.Float32:
		b.WriteString(pythonFloat(float64(a.Value(i))))
	case *array.Float64:
		b.WriteString(pythonFloat(a.Value(i)))
	case *array.Decimal128:
		b.WriteByte('"')
		b.WriteString(plainDecimal(a, i))
		b.WriteByte('"')
	case *array.Date32:
		fmt.Fprintf(b, "%q", a.Value(i).ToTime().Format(time.DateOnly))
	case *array.Timestamp:
		layout := "2006-01-02T15:04:05.000000"
		if a.DataType().(*arrow.TimestampType).TimeZone != "" {
			layout += "Z"
		}
		fmt.Fprintf(b, "%q", time.UnixMicro(int64(a.Value(i))).UTC().Format(layout))
	case *array.String:
		canonicalText(b, a.Value(i))
	case *array.Binary:
		fmt.Fprintf(b, "%q", hex.EncodeToString(a.Value(i)))
	case *array.Struct:
		canonicalStruct(b, a, i)
	case *array.Map:
		canonicalMap(b, a, i)
	case array.ListLike:
		from, to := a.ValueOffsets(i)
		b.WriteByte('[')
		for j := from; j < to; j++ {
			if j > from {
				b.WriteString(", ")
			}
			canonical(b, a.ListValues(), int(j))
		}
		b.WriteByte(']')
	default: // integers
		b.WriteString(arr.ValueStr(i))
	}
}

func plainDecimal(a *array.Decimal128, i int) string {
	scale := int(a.DataType().(*arrow.Decimal128Type).Scale)
	n := a.Value(i)
	var digits string
	if abs := n.Abs(); abs.HighBits() == 0 {
		digits = strconv.FormatUint(abs.LowBits(), 10)
	} else {
		digits = abs.BigInt().String()
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	if scale > 0 {
		digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	}
	if n.Sign() < 0 {
		return "-" + digits
	}
	return digits
}

func canonicalStruct(b *strings.Builder, a *array.Struct, i int) {
	fields := map[string]int{}
	for j, f := range a.DataType().(*arrow.StructType).Fields() {
		fields[f.Name] = j
	}
	b.WriteByte('{')
	for n, name := range sortedKeys(fields) {
		if n > 0 {
			b.WriteString(", ")
		}
		canonicalText(b, name)
		b.WriteString(": ")
		canonical(b, a.Field(fields[name]), i)
	}
	b.WriteByte('}')
}

func canonicalMap(b *strings.Builder, a *array.Map, i int) {
	from, to := a.ValueOffsets(i)
	pairs := make([][2]string, 0, to-from)
	for j := int(from); j < int(to); j++ {
		var key, value strings.Builder
		canonical(&key, a.Keys(), j)
		canonical(&value, a.Items(), j)
		pairs = append(pairs, [2]string{key.String(), value.String()})
	}
	slices.SortStableFunc(pairs, func(x, y [2]string) int { return strings.Compare(x[0], y[0]) })
	b.WriteByte('[')
	for n, p := range pairs {
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "[%s, %s]", p[0], p[1])
	}
	b.WriteByte(']')
}

// canonicalText is a JSON string with nothing escaped that need not be.
func canonicalText(b *strings.Builder, s string) {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r > '~' }) {
		b.WriteByte('"')
		b.WriteString(s)
		b.WriteByte('"')
		return
	}
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can be encoded
	out := strings.TrimSuffix(text.String(), "\n")
	out = strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(out)
	b.WriteString(out)
}

// pythonFloat is a float as Python prints it.
func pythonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return `"nan"`
	case math.IsInf(f, 1):
		return `"inf"`
	case math.IsInf(f, -1):
		return `"-inf"`
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	if n, _ := strconv.Atoi(exponent); f != 0 && (n < -4 || n >= 16) {
		return mantissa + "e" + exponent
	}
	text = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
