package replay

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

// group gives access to the fields of a struct column by name. Fields that the
// file does not have read as null, as the protocol says of checkpoints. The zero
// group is null everywhere.
type group struct {
	arr    *array.Struct
	fields map[string]arrow.Array
}

// groupOf returns the struct column of the name in a record.
func groupOf(rec arrow.RecordBatch, column string) group {
	for i, f := range rec.Schema().Fields() {
		if f.Name == column {
			return structGroup(rec.Column(i))
		}
	}
	return group{}
}

func structGroup(arr arrow.Array) group {
	s, ok := arr.(*array.Struct)
	if !ok {
		return group{}
	}
	g := group{arr: s, fields: make(map[string]arrow.Array, s.NumField())}
	for i, f := range s.DataType().(*arrow.StructType).Fields() {
		g.fields[f.Name] = s.Field(i)
	}
	return g
}

// has reports whether the struct is not null in row i.
func (g group) has(i int) bool { return g.arr != nil && g.arr.IsValid(i) }

// value returns the field's array if it is not null in row i.
func (g group) value(field string, i int) arrow.Array {
	arr := g.fields[field]
	if arr == nil || arr.IsNull(i) {
		return nil
	}
	return arr
}

// child returns a struct field as a group.
func (g group) child(field string) group {
	arr := g.fields[field]
	if arr == nil {
		return group{}
	}
	return structGroup(arr)
}

// str returns a string field, "" for null.
func (g group) str(field string, i int) string {
	s, _ := stringAt(g.value(field, i), i)
	return s
}

// stringAt reads a value of any string-like array. The string is a copy: it
// outlives the record and does not keep its buffers alive.
func stringAt(arr arrow.Array, i int) (string, bool) {
	switch a := arr.(type) {
	case interface{ Value(int) string }: // String, LargeString, StringView
		return strings.Clone(a.Value(i)), true
	case interface{ Value(int) []byte }: // Binary: strings without annotation
		return string(a.Value(i)), true
	case *array.Dictionary:
		return stringAt(a.Dictionary(), a.GetValueIndex(i))
	}
	return "", false
}

// integer returns an integer field of any width, nil for null.
func (g group) integer(field string, i int) *int64 {
	switch a := g.value(field, i).(type) {
	case *array.Int64:
		return new(a.Value(i))
	case *array.Int32:
		return new(int64(a.Value(i)))
	case *array.Int16:
		return new(int64(a.Value(i)))
	case *array.Int8:
		return new(int64(a.Value(i)))
	}
	return nil
}

// integerOr returns an integer field, or a default for null.
func (g group) integerOr(field string, i int, none int64) int64 {
	if v := g.integer(field, i); v != nil {
		return *v
	}
	return none
}

// boolean returns a boolean field, false for null.
func (g group) boolean(field string, i int) bool {
	a, ok := g.value(field, i).(*array.Boolean)
	return ok && a.Value(i)
}

// list returns a list of strings, nil for null.
func (g group) list(field string, i int) []string {
	a, ok := g.value(field, i).(array.ListLike)
	if !ok {
		return nil
	}
	start, end := a.ValueOffsets(i)
	out := make([]string, 0, end-start)
	for j := start; j < end; j++ {
		s, _ := stringAt(a.ListValues(), int(j))
		out = append(out, s)
	}
	return out
}

// nullableMap returns a map of strings whose values may be null, nil for null.
func (g group) nullableMap(field string, i int) map[string]*string {
	a, ok := g.value(field, i).(*array.Map)
	if !ok {
		return nil
	}
	start, end := a.ValueOffsets(i)
	out := make(map[string]*string, end-start)
	for j := int(start); j < int(end); j++ {
		key, _ := stringAt(a.Keys(), j)
		out[key] = nil
		if a.Items().IsValid(j) {
			if s, ok := stringAt(a.Items(), j); ok {
				out[key] = &s
			}
		}
	}
	return out
}

// stringMap returns a map of strings, nil for null. Null values read as "".
func (g group) stringMap(field string, i int) map[string]string {
	in := g.nullableMap(field, i)
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		if v != nil {
			out[k] = *v
		} else {
			out[k] = ""
		}
	}
	return out
}

// vector returns a deletionVector field, nil for null.
func (g group) vector(i int) *action.DeletionVector {
	dv := g.child("deletionVector")
	if !dv.has(i) {
		return nil
	}
	out := &action.DeletionVector{
		StorageType:    dv.str("storageType", i),
		PathOrInlineDv: dv.str("pathOrInlineDv", i),
		SizeInBytes:    int32(dv.integerOr("sizeInBytes", i, 0)),
		Cardinality:    dv.integerOr("cardinality", i, 0),
	}
	if offset := dv.integer("offset", i); offset != nil {
		out.Offset = new(int32(*offset))
	}
	return out
}

func (g group) protocol(i int) *action.Protocol {
	return &action.Protocol{
		MinReaderVersion: int(g.integerOr("minReaderVersion", i, 0)),
		MinWriterVersion: int(g.integerOr("minWriterVersion", i, 0)),
		ReaderFeatures:   g.list("readerFeatures", i),
		WriterFeatures:   g.list("writerFeatures", i),
	}
}

func (g group) metadata(i int) *action.Metadata {
	format := g.child("format")
	return &action.Metadata{
		ID:               g.str("id", i),
		Name:             g.str("name", i),
		Description:      g.str("description", i),
		Format:           action.Format{Provider: format.str("provider", i), Options: format.stringMap("options", i)},
		SchemaString:     g.str("schemaString", i),
		PartitionColumns: g.list("partitionColumns", i),
		Configuration:    g.stringMap("configuration", i),
		CreatedTime:      g.integer("createdTime", i),
	}
}

func (g group) txn(i int) action.Txn {
	return action.Txn{
		AppID:       g.str("appId", i),
		Version:     g.integerOr("version", i, 0),
		LastUpdated: g.integer("lastUpdated", i),
	}
}

func (g group) domain(i int) action.DomainMetadata {
	return action.DomainMetadata{
		Domain:        g.str("domain", i),
		Configuration: g.str("configuration", i),
		Removed:       g.boolean("removed", i),
	}
}

func (g group) sidecar(i int) action.Sidecar {
	return action.Sidecar{
		Path:             g.str("path", i),
		SizeInBytes:      g.integerOr("sizeInBytes", i, 0),
		ModificationTime: g.integerOr("modificationTime", i, 0),
		Tags:             g.stringMap("tags", i),
	}
}

func (g group) add(i int) action.Add {
	stats := g.str("stats", i)
	if stats == "" {
		if parsed := g.value("stats_parsed", i); parsed != nil {
			stats = statsText(parsed, i)
		}
	}
	return action.Add{
		Path:                    g.str("path", i),
		PartitionValues:         g.nullableMap("partitionValues", i),
		Size:                    g.integerOr("size", i, 0),
		ModificationTime:        g.integerOr("modificationTime", i, 0),
		DataChange:              g.boolean("dataChange", i),
		Stats:                   stats,
		Tags:                    g.stringMap("tags", i),
		DeletionVector:          g.vector(i),
		BaseRowID:               g.integer("baseRowId", i),
		DefaultRowCommitVersion: g.integer("defaultRowCommitVersion", i),
		ClusteringProvider:      g.str("clusteringProvider", i),
	}
}

func (g group) remove(i int) action.Remove {
	return action.Remove{
		Path:                    g.str("path", i),
		DeletionTimestamp:       g.integerOr("deletionTimestamp", i, 0),
		DataChange:              g.boolean("dataChange", i),
		ExtendedFileMetadata:    g.boolean("extendedFileMetadata", i),
		PartitionValues:         g.nullableMap("partitionValues", i),
		Size:                    g.integer("size", i),
		Tags:                    g.stringMap("tags", i),
		DeletionVector:          g.vector(i),
		BaseRowID:               g.integer("baseRowId", i),
		DefaultRowCommitVersion: g.integer("defaultRowCommitVersion", i),
	}
}
