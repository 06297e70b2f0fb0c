package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// statsText turns add.stats_parsed, the statistics as typed columns, into the
// JSON text that add.stats would have. Some tables have only the former. A value
// of a type that has no statistics is left out.
func statsText(arr arrow.Array, i int) string {
	var b strings.Builder
	if !writeStat(&b, arr, i) {
		return ""
	}
	return b.String()
}

// writeStat appends the JSON of a value; false if there is nothing to say.
func writeStat(b *strings.Builder, arr arrow.Array, i int) bool {
	if arr.IsNull(i) {
		return false
	}
	switch a := arr.(type) {
	case *array.Struct:
		writeStatStruct(b, a, i)
	case *array.Int64:
		fmt.Fprint(b, a.Value(i))
	case *array.Int32:
		fmt.Fprint(b, a.Value(i))
	case *array.Int16:
		fmt.Fprint(b, a.Value(i))
	case *array.Int8:
		fmt.Fprint(b, a.Value(i))
	case *array.Float64:
		return writeFloat(b, a.Value(i))
	case *array.Float32:
		return writeFloat(b, float64(a.Value(i)))
	case *array.Boolean:
		fmt.Fprint(b, a.Value(i))
	case *array.Decimal128:
		b.WriteString(a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale))
	case *array.Date32:
		fmt.Fprintf(b, "%q", a.Value(i).ToTime().Format(time.DateOnly))
	case *array.Timestamp:
		at := a.DataType().(*arrow.TimestampType)
		text := a.Value(i).ToTime(at.Unit).UTC().Format("2006-01-02T15:04:05.000000")
		if at.TimeZone != "" {
			text += "Z"
		}
		fmt.Fprintf(b, "%q", text)
	default:
		s, ok := stringAt(arr, i)
		if !ok {
			return false
		}
		return writeString(b, s)
	}
	return true
}

func writeStatStruct(b *strings.Builder, s *array.Struct, i int) {
	b.WriteByte('{')
	first := true
	for j, f := range s.DataType().(*arrow.StructType).Fields() {
		var value strings.Builder
		if !writeStat(&value, s.Field(j), i) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		writeString(b, f.Name)
		b.WriteByte(':')
		b.WriteString(value.String())
	}
	b.WriteByte('}')
}

// writeFloat writes the shortest text that reads back to the same value. What
// JSON cannot say is left out.
func writeFloat(b *strings.Builder, v float64) bool {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return false
	}
	text, err := json.Marshal(v)
	if err != nil {
		return false
	}
	b.Write(text)
	return true
}

func writeString(b *strings.Builder, s string) bool {
	enc := json.NewEncoder(trimNewline{b})
	enc.SetEscapeHTML(false)
	return enc.Encode(s) == nil
}

// trimNewline drops the newline that a json.Encoder ends a value with.
type trimNewline struct{ b *strings.Builder }

func (t trimNewline) Write(p []byte) (int, error) {
	t.b.WriteString(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
