package data

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Strings in statistics are cut to statsRunes characters. A maximum whose cut would not
// lie above the value may become longer, up to maxStatsRunes; then it is left out.
const (
	statsRunes    = 32
	maxStatsRunes = 64
	tieBreaker    = "\U0010FFFF" // no character sorts above it
)

// statsText is the stats of an add action (the section "Per-file Statistics" of the Delta
// protocol), for a file of so many rows with the bounds of its leaves.
func statsText(nodes []statsNode, leaves []leaf, bounds []*bounds, rows int64) string {
	out := append([]byte(`{"numRecords":`), strconv.FormatInt(rows, 10)...)
	section := func(name string, value func(i int) (string, bool)) {
		if body := appendStats(nil, nodes, value); body != nil {
			out = append(out, `,"`+name+`":`...)
			out = append(out, body...)
		}
	}
	section("minValues", func(i int) (string, bool) { return minText(&leaves[i], bounds[i]) })
	section("maxValues", func(i int) (string, bool) { return maxText(&leaves[i], bounds[i]) })
	section("nullCount", func(i int) (string, bool) { return strconv.FormatInt(bounds[i].nulls, 10), true })
	return string(append(out, '}'))
}

// appendStats appends the object of those columns that have a value; nothing if none has.
func appendStats(dst []byte, nodes []statsNode, value func(leaf int) (string, bool)) []byte {
	first := true
	for _, n := range nodes {
		var text []byte
		if n.children != nil {
			text = appendStats(nil, n.children, value)
		} else if v, ok := value(n.leaf); ok {
			text = []byte(v)
		}
		if text == nil {
			continue
		}
		if first {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(appendJSONString(dst, n.name), ':'), text...)
	}
	if !first {
		dst = append(dst, '}')
	}
	return dst
}

func minText(l *leaf, b *bounds) (string, bool) {
	if !b.any || l.maxRep > 0 {
		return "", false
	}
	if d, ok := l.typ.(schema.Decimal); ok {
		return decimalText(d, l, b.minInt, b.minDec), true
	}
	switch l.typ {
	case schema.Float, schema.Double:
		lo, _ := zeroBounds(b.minFloat, b.maxFloat)
		return floatText(lo)
	case schema.String:
		return cutMin(b.minText)
	case schema.Date:
		return dateText(b.minInt)
	case schema.Timestamp, schema.TimestampNTZ:
		return timestampText(l.typ, floorDiv(b.minInt, 1000))
	case schema.Boolean, schema.Binary:
		return "", false
	default:
		return strconv.FormatInt(b.minInt, 10), true
	}
}

// maxText leaves out the maximum where NaN came: it is above every number.
func maxText(l *leaf, b *bounds) (string, bool) {
	if !b.any || l.maxRep > 0 {
		return "", false
	}
	if d, ok := l.typ.(schema.Decimal); ok {
		return decimalText(d, l, b.maxInt, b.maxDec), true
	}
	switch l.typ {
	case schema.Float, schema.Double:
		if b.nan {
			return "", false
		}
		_, hi := zeroBounds(b.minFloat, b.maxFloat)
		return floatText(hi)
	case schema.String:
		return cutMax(b.maxText)
	case schema.Date:
		return dateText(b.maxInt)
	case schema.Timestamp, schema.TimestampNTZ:
		if b.maxInt > lastMilli*1000 && b.maxInt < (lastMilli+1)*1000 {
			// "The end of time" has no next millisecond in four digits, and without a maximum delta-rs'
			// pyarrow reader leaves the file out whatever is looked for.
			return timeText(l.typ, b.maxInt, "2006-01-02T15:04:05.000000"), true
		}
		return timestampText(l.typ, -floorDiv(-b.maxInt, 1000))
	case schema.Boolean, schema.Binary:
		return "", false
	default:
		return strconv.FormatInt(b.maxInt, 10), true
	}
}

// decimalText is the number in plain notation with all of its digits: it must not pass
// through a float on its way.
func decimalText(t schema.Decimal, l *leaf, small int64, large decimal128.Num) string {
	if l.phys != asFixed {
		large = decimal128.FromI64(small)
	}
	return large.ToString(int32(t.Scale))
}

// floatText is the number as JSON; infinities have no such form. A float of 32 bits is
// written as the double that it is, so that it is exact to readers of either width.
func floatText(f float64) (string, bool) {
	if math.IsInf(f, 0) {
		return "", false
	}
	if f == 0 && math.Signbit(f) {
		return "-0.0", true
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		text = strconv.FormatFloat(f, 'f', 1, 64)
	}
	return text, true
}

const (
	firstDay = -719162 // 0001-01-01
	lastDay  = 2932896 // 9999-12-31
	dayMilli = 24 * 60 * 60 * 1000
	// lastMilli is the last millisecond that four digits hold.
	lastMilli = (lastDay+1)*dayMilli - 1
)

func dateText(days int64) (string, bool) {
	if days < firstDay || days > lastDay {
		return "", false
	}
	return `"` + formatDate(days) + `"`, true
}

func formatDate(days int64) string {
	return time.Unix(days*86400, 0).UTC().Format(time.DateOnly)
}

// timestampText is a time in milliseconds, if four digits hold its year.
func timestampText(t schema.Type, milli int64) (string, bool) {
	if milli < firstDay*dayMilli || milli >= (lastDay+1)*dayMilli {
		return "", false
	}
	return timeText(t, milli*1000, "2006-01-02T15:04:05.000"), true
}

// timeText is a time in microseconds.
func timeText(t schema.Type, micro int64, layout string) string {
	if t == schema.Timestamp {
		layout += "Z"
	}
	return time.UnixMicro(micro).UTC().Format(`"` + layout + `"`)
}

// floorDiv rounds towards minus infinity.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// cutMin is the first characters of a string: at most the string in byte order.
func cutMin(v []byte) (string, bool) {
	if !utf8.Valid(v) {
		return "", false
	}
	return quote(v[:runesEnd(v, statsRunes)]), true
}

// cutMax is the first characters of a string and, if some were cut, one that sorts above
// all that could follow.
func cutMax(v []byte) (string, bool) {
	if !utf8.Valid(v) {
		return "", false
	}
	end := runesEnd(v, statsRunes)
	for extra := statsRunes; end < len(v); extra++ {
		if extra > maxStatsRunes {
			return "", false
		}
		r, size := utf8.DecodeRune(v[end:])
		if r != utf8.MaxRune {
			return quote(append(bytes.Clone(v[:end]), tieBreaker...)), true
		}
		end += size
	}
	return quote(v), true
}

// runesEnd is where the first n characters end.
func runesEnd(v []byte, n int) int {
	end := 0
	for ; n > 0 && end < len(v); n-- {
		_, size := utf8.DecodeRune(v[end:])
		end += size
	}
	return end
}

func quote(v []byte) string { return string(appendJSONString(nil, string(v))) }

// appendJSONString appends a string as JSON without the escapes for HTML.
func appendJSONString(dst []byte, s string) []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string always has a JSON form
	return append(dst, bytes.TrimRight(buf.Bytes(), "\n")...)
}
