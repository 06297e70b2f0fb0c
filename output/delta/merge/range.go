package merge

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/scalar"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// keyRange is a Range, encoded.
type keyRange struct {
	after, upTo []byte // nil is unbounded
	// after0 and upTo0 are the same of the first key column alone.
	after0, upTo0 []byte
	// before is the version below which rows are deleted; nil spares none.
	before []byte
}

func (r *keyRange) has(key []byte) bool {
	return (r.after == nil || bytes.Compare(key, r.after) > 0) && (r.upTo == nil || bytes.Compare(key, r.upTo) <= 0)
}

// ranges are sorted by their lower bounds.
type ranges struct {
	all []keyRange
	// apart says that no two have a key in common, so that one may be searched for.
	apart bool
}

func newRanges(in []Range, keys []schema.Field, kinds []kind, versions []schema.Field, versionKinds []kind) (ranges, error) {
	out := ranges{apart: true}
	for i, r := range in {
		e, err := encodeRange(r, keys, kinds, versions, versionKinds)
		if err != nil {
			return ranges{}, fmt.Errorf("taking range %d: %w", i, err)
		}
		if e.after != nil && e.upTo != nil && bytes.Compare(e.after, e.upTo) >= 0 {
			continue // it is empty
		}
		out.all = append(out.all, e)
	}
	slices.SortFunc(out.all, func(a, b keyRange) int {
		if a.after == nil || b.after == nil {
			return cmp.Compare(min(1, len(a.after)), min(1, len(b.after)))
		}
		return bytes.Compare(a.after, b.after)
	})
	for i := 1; i < len(out.all); i++ {
		before, r := out.all[i-1], out.all[i]
		if before.upTo == nil || r.after == nil || bytes.Compare(before.upTo, r.after) > 0 {
			out.apart = false
		}
	}
	return out, nil
}

func encodeRange(r Range, keys []schema.Field, kinds []kind, versions []schema.Field, versionKinds []kind) (keyRange, error) {
	var out keyRange
	var err error
	if out.after, out.after0, err = encodeBound(r.After, keys, kinds); err != nil {
		return out, fmt.Errorf("its lower bound: %w", err)
	}
	if out.upTo, out.upTo0, err = encodeBound(r.UpTo, keys, kinds); err != nil {
		return out, fmt.Errorf("its upper bound: %w", err)
	}
	if len(r.Before) != len(versions) {
		return out, fmt.Errorf("it has %d values in Before, and there are %d version columns", len(r.Before), len(versions))
	}
	if out.before, _, err = encodeBound(r.Before, versions, versionKinds); err != nil {
		return out, fmt.Errorf("its version: %w", err)
	}
	return out, nil
}

// encodeBound encodes one value per column, all of them and the first alone.
func encodeBound(bound []any, fields []schema.Field, kinds []kind) (all, first []byte, err error) {
	if bound == nil {
		return nil, nil, nil
	}
	if len(bound) != len(fields) {
		return nil, nil, fmt.Errorf("%d values for %d columns", len(bound), len(fields))
	}
	for i, v := range bound {
		if v == nil {
			all = append(all, tagNull)
		} else {
			value, err := scalarOf(fields[i].Type, v)
			if err != nil {
				return nil, nil, fmt.Errorf("column %s: %w", fields[i].Name, err)
			}
			all = appendScalar(all, fields[i].Type, kinds[i], value)
		}
		if i == 0 {
			first = slices.Clone(all)
		}
	}
	return all, first, nil
}

// scalarOf is a Go value as one of a column's type. Its errors do not tell the value: it may be
// somebody's key.
func scalarOf(t schema.Type, v any) (scalar.Value, error) {
	switch v := v.(type) {
	case string:
		if t == schema.Binary {
			break
		}
		value, err := scalar.Parse(t, v)
		if err != nil {
			return scalar.Value{}, fmt.Errorf("the text is no %s", t)
		}
		return value, nil
	case []byte:
		if t == schema.Binary || t == schema.String {
			return scalar.Value{Text: string(v)}, nil
		}
	case int:
		return integerOf(t, int64(v))
	case int32:
		return integerOf(t, int64(v))
	case int64:
		return integerOf(t, v)
	case float32:
		return scalarOf(t, float64(v))
	case float64:
		if t == schema.Double || t == schema.Float {
			return scalar.Value{Float: v}, nil
		}
	case bool:
		if t == schema.Boolean {
			return scalar.Parse(t, strconv.FormatBool(v))
		}
	case decimal128.Num:
		if isDecimal(t) {
			return scalar.Value{Decimal: v}, nil
		}
	case time.Time:
		return timeOf(t, v)
	}
	return scalar.Value{}, fmt.Errorf("a %T is no value of type %s", v, t)
}

func integerOf(t schema.Type, n int64) (scalar.Value, error) {
	switch t {
	case schema.Long, schema.Integer, schema.Short, schema.Byte:
		return scalar.Value{Int: n}, nil
	case schema.Float, schema.Double:
		if n < -1<<53 || n > 1<<53 {
			return scalar.Value{}, fmt.Errorf("the number is not exact as a %s", t)
		}
		return scalar.Value{Float: float64(n)}, nil
	}
	if isDecimal(t) {
		value, err := scalar.Parse(t, strconv.FormatInt(n, 10))
		if err != nil {
			return scalar.Value{}, fmt.Errorf("the number does not fit into a %s", t)
		}
		return value, nil
	}
	return scalar.Value{}, fmt.Errorf("a number is no value of type %s", t)
}

const secondsADay = 86400

func timeOf(t schema.Type, at time.Time) (scalar.Value, error) {
	switch t {
	case schema.Timestamp, schema.TimestampNTZ:
		if at.Nanosecond()%1000 != 0 {
			return scalar.Value{}, errors.New("the time is not of whole microseconds")
		}
		return scalar.Value{Int: at.UnixMicro()}, nil
	case schema.Date:
		if at.Nanosecond() != 0 || at.Unix()%secondsADay != 0 {
			return scalar.Value{}, errors.New("the time is not a midnight in UTC")
		}
		return scalar.Value{Int: at.Unix() / secondsADay}, nil
	}
	return scalar.Value{}, fmt.Errorf("a time is no value of type %s", t)
}

// find is a range that has a key and does not spare a row of that version, nil for none. The
// version is called for only where it is needed.
func (rs *ranges) find(key []byte, version func() []byte) *keyRange {
	from, to := 0, len(rs.all)
	if rs.apart && len(rs.all) > 1 {
		// The last range that begins below the key.
		to, _ = slices.BinarySearchFunc(rs.all, key, func(r keyRange, key []byte) int {
			if r.after == nil || bytes.Compare(r.after, key) < 0 {
				return -1
			}
			return 1
		})
		from = max(0, to-1)
	}
	for i := from; i < to; i++ {
		if r := &rs.all[i]; r.has(key) && (r.before == nil || bytes.Compare(version(), r.before) < 0) {
			return r
		}
	}
	return nil
}
