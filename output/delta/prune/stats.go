package prune

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/scalar"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// stats are the statistics of one file, of the columns of the top.
type stats struct {
	records    int64 // -1 if they do not say
	min, max   map[string]json.RawMessage
	nullCounts map[string]json.RawMessage
}

// parseStats reads the text of an add action; what cannot be read is absent.
func parseStats(text string) *stats {
	var raw struct {
		NumRecords *int64                     `json:"numRecords"`
		MinValues  map[string]json.RawMessage `json:"minValues"`
		MaxValues  map[string]json.RawMessage `json:"maxValues"`
		NullCount  map[string]json.RawMessage `json:"nullCount"`
	}
	if text == "" || json.Unmarshal([]byte(text), &raw) != nil {
		return &stats{records: -1}
	}
	s := &stats{records: -1, min: raw.MinValues, max: raw.MaxValues, nullCounts: raw.NullCount}
	if raw.NumRecords != nil {
		s.records = *raw.NumRecords
	}
	return s
}

// nulls is the number of rows in which a column is NULL. Where a deletion vector has made
// the number old, 0 and the number of all rows still mean none and all.
func (s *stats) nulls(name string) (int64, bool) {
	n, err := strconv.ParseInt(string(s.nullCounts[name]), 10, 64)
	return n, err == nil && n >= 0
}

// lower and upper are bounds of a column that are certainly outside of all its values that
// are not NaN, if there are such bounds.
func (s *stats) lower(t schema.Type, name string) (scalar.Value, bool) {
	return bound(t, s.min[name], -1)
}

func (s *stats) upper(t schema.Type, name string) (scalar.Value, bool) {
	return bound(t, s.max[name], 1)
}

// bound reads a bound and moves it outwards: to where direction, -1 or 1, points.
func bound(t schema.Type, raw json.RawMessage, direction int64) (scalar.Value, bool) {
	text, ok := plain(raw)
	if !ok || t == schema.Binary || t == schema.Timestamp && !zoned(text) {
		return scalar.Value{}, false
	}
	v, err := scalar.Parse(t, text)
	if err != nil {
		return scalar.Value{}, false
	}
	switch t {
	case schema.Timestamp, schema.TimestampNTZ:
		// Cut to milliseconds, by some writers downwards, by others towards zero.
		const slack = 1000
		if v.Int > math.MaxInt64-slack || v.Int < math.MinInt64+slack {
			return scalar.Value{}, false
		}
		v.Int += direction * slack
	case schema.Float, schema.Double:
		return floatBound(text, v, direction)
	}
	if _, ok := t.(schema.Decimal); ok {
		v.Decimal = decimalBound(v.Decimal, direction)
	}
	return v, true
}

// floatBound allows for text of a float32 in a column that was widened to double since: the
// shortest text of the one is not that of the other.
func floatBound(text string, v scalar.Value, direction int64) (scalar.Value, bool) {
	if math.IsNaN(v.Float) {
		return v, false
	}
	narrow, err := strconv.ParseFloat(text, 32)
	switch {
	case err != nil:
	case direction < 0:
		v.Float = min(v.Float, narrow)
	default:
		v.Float = max(v.Float, narrow)
	}
	return v, true
}

// decimalBound allows for decimals that went through a float64 (delta-rs), which keeps 53
// bits.
func decimalBound(n decimal128.Num, direction int64) decimal128.Num {
	slack := decimal128.FromBigInt(n.Abs().BigInt().Rsh(n.Abs().BigInt(), 51))
	if direction < 0 {
		return n.Sub(slack)
	}
	return n.Add(slack)
}

// plain is the text of a JSON string or number, or of true and false.
func plain(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", false
	}
	if raw[0] != '"' {
		return string(raw), raw[0] != '{' && raw[0] != '['
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}
