package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// maxDepth bounds the nesting of a schema, so that a hostile one is an error and
// not a deep recursion. Spark's own limit is far below.
const maxDepth = 100

// The JSON form: the section "Schema Serialization Format" of the Delta protocol.
type (
	jsonField struct {
		Name     string          `json:"name"`
		Type     json.RawMessage `json:"type"`
		Nullable *bool           `json:"nullable"`
		Metadata map[string]any  `json:"metadata"`
	}
	jsonType struct {
		Type              string          `json:"type"`
		Fields            []jsonField     `json:"fields"`
		ElementType       json.RawMessage `json:"elementType"`
		ContainsNull      *bool           `json:"containsNull"`
		KeyType           json.RawMessage `json:"keyType"`
		ValueType         json.RawMessage `json:"valueType"`
		ValueContainsNull *bool           `json:"valueContainsNull"`
	}
)

// Parse reads a schema string of the log. Types that it does not know (variant,
// geometry, intervals, nanosecond timestamps) are errors that name the column.
func Parse(jsonText string) (*Struct, error) {
	t, err := parseType(json.RawMessage(jsonText), 0)
	if err != nil {
		return nil, fmt.Errorf("parsing table schema: %w", err)
	}
	s, ok := t.(*Struct)
	if !ok {
		return nil, fmt.Errorf("parsing table schema: the top is %s, want a struct", t)
	}
	return s, nil
}

func parseType(raw json.RawMessage, depth int) (Type, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errors.New("the type is missing")
	}
	if raw[0] == '"' {
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, err
		}
		return parsePrimitive(name)
	}
	var j jsonType
	if err := decodeExact(raw, &j); err != nil {
		return nil, err
	}
	switch j.Type {
	case "struct":
		return parseStruct(j.Fields, depth)
	case "array":
		element, err := parseType(j.ElementType, depth+1)
		if err != nil {
			return nil, fmt.Errorf("element of an array: %w", err)
		}
		return &Array{Element: element, ContainsNull: unlessFalse(j.ContainsNull)}, nil
	case "map":
		key, err := parseType(j.KeyType, depth+1)
		if err != nil {
			return nil, fmt.Errorf("key of a map: %w", err)
		}
		value, err := parseType(j.ValueType, depth+1)
		if err != nil {
			return nil, fmt.Errorf("value of a map: %w", err)
		}
		return &Map{Key: key, Value: value, ValueContainsNull: unlessFalse(j.ValueContainsNull)}, nil
	default:
		return nil, fmt.Errorf("unknown type %q, want struct, array or map", j.Type)
	}
}

func parseStruct(fields []jsonField, depth int) (*Struct, error) {
	s := &Struct{Fields: make([]Field, len(fields))}
	for i, f := range fields {
		t, err := parseType(f.Type, depth+1)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		s.Fields[i] = Field{Name: f.Name, Type: t, Nullable: unlessFalse(f.Nullable), Metadata: f.Metadata}
	}
	return s, nil
}

func unlessFalse(b *bool) bool { return b == nil || *b }

var decimalPattern = regexp.MustCompile(`^decimal\(\s*([0-9]{1,3})\s*,\s*([0-9]{1,3})\s*\)$`)

func parsePrimitive(name string) (Type, error) {
	if p := Primitive(name); p.known() {
		return p, nil
	}
	if name == "decimal" { // Spark's short form
		return Decimal{Precision: 10}, nil
	}
	if m := decimalPattern.FindStringSubmatch(name); m != nil {
		precision, _ := strconv.Atoi(m[1]) // digits by the pattern
		scale, _ := strconv.Atoi(m[2])
		d := Decimal{Precision: precision, Scale: scale}
		return d, d.check()
	}
	return nil, fmt.Errorf("type %q is not supported", name)
}

// decodeExact decodes one JSON value, numbers as json.Number, and nothing behind it.
func decodeExact(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// JSON is the schema as a string of the log: Parse reads it back to an equal schema,
// with its metadata. Metadata that is no JSON value (a channel, NaN) is left out.
func (s *Struct) JSON() string {
	var b strings.Builder
	writeType(&b, s)
	return b.String()
}

func writeType(b *strings.Builder, t Type) {
	switch t := t.(type) {
	case *Struct:
		b.WriteString(`{"type":"struct","fields":[`)
		for i, f := range t.Fields {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`{"name":`)
			writeJSON(b, f.Name)
			b.WriteString(`,"type":`)
			writeType(b, f.Type)
			fmt.Fprintf(b, `,"nullable":%t,"metadata":`, f.Nullable)
			writeMetadata(b, f.Metadata)
			b.WriteByte('}')
		}
		b.WriteString(`]}`)
	case *Array:
		b.WriteString(`{"type":"array","elementType":`)
		writeType(b, t.Element)
		fmt.Fprintf(b, `,"containsNull":%t}`, t.ContainsNull)
	case *Map:
		b.WriteString(`{"type":"map","keyType":`)
		writeType(b, t.Key)
		b.WriteString(`,"valueType":`)
		writeType(b, t.Value)
		fmt.Fprintf(b, `,"valueContainsNull":%t}`, t.ValueContainsNull)
	default:
		writeJSON(b, t.String())
	}
}

func writeMetadata(b *strings.Builder, metadata map[string]any) {
	if metadata == nil || !writeJSON(b, metadata) {
		b.WriteString("{}")
	}
}

// writeJSON writes v without HTML escapes and tells whether it could.
func writeJSON(b *strings.Builder, v any) bool {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return false
	}
	b.Write(bytes.TrimRight(buf.Bytes(), "\n"))
	return true
}
