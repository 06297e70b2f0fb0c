package merge

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// EncodeKeys are the encoded keys of rows whose columns have these types.
func EncodeKeys(fields []schema.Field, columns []arrow.Array) ([][]byte, error) {
	r, err := readerOf(fields)
	if err != nil {
		return nil, err
	}
	if err := r.load(columns); err != nil {
		return nil, err
	}
	var out [][]byte
	for i := range columns[0].Len() {
		out = append(out, r.append(nil, i))
	}
	return out, nil
}

// SplitKey are the parts of an encoded key.
func SplitKey(fields []schema.Field, key []byte) ([][]byte, error) {
	r, err := readerOf(fields)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for i := range fields {
		out = append(out, columnAt(key, r.kinds, i))
	}
	return out, nil
}

// EncodeBound is the encoded key of a bound of a range.
func EncodeBound(fields []schema.Field, bound []any) ([]byte, error) {
	r, err := readerOf(fields)
	if err != nil {
		return nil, err
	}
	all, _, err := encodeBound(bound, fields, r.kinds)
	return all, err
}

func readerOf(fields []schema.Field) (*keyReader, error) {
	var kinds []kind
	for _, f := range fields {
		k, err := kindOf(f)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	return newKeyReader(kinds), nil
}

// LooseStats is looseStats.
func LooseStats(text string, rows int64) (string, error) { return looseStats(text, rows) }
