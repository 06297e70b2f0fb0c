package replay

import (
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

// rowBuilder appends one action to the builder of a checkpoint's rows.
type rowBuilder map[string]structBuilder

func newRowBuilder(rb *array.RecordBuilder) rowBuilder {
	r := rowBuilder{}
	for i, f := range rb.Schema().Fields() {
		r[f.Name] = newStructBuilder(rb.Field(i).(*array.StructBuilder), f.Type.(*arrow.StructType))
	}
	return r
}

// column begins a value in a top-level column.
func (r rowBuilder) column(name string) structBuilder {
	c := r[name]
	c.b.Append(true)
	return c
}

func (r rowBuilder) protocol(p action.Protocol) {
	c := r.column("protocol")
	c.set("minReaderVersion", int64(p.MinReaderVersion))
	c.set("minWriterVersion", int64(p.MinWriterVersion))
	var reader, writer []string
	if p.MinReaderVersion >= action.ReaderVersionFeatures {
		reader = append([]string{}, p.ReaderFeatures...)
	}
	if p.MinWriterVersion >= action.WriterVersionFeatures {
		writer = append([]string{}, p.WriterFeatures...)
	}
	c.set("readerFeatures", reader)
	c.set("writerFeatures", writer)
}

func (r rowBuilder) metadata(m action.Metadata) {
	c := r.column("metaData")
	c.set("id", m.ID)
	c.set("name", optional(m.Name))
	c.set("description", optional(m.Description))
	format := c.child("format")
	format.set("provider", m.Format.Provider)
	format.set("options", nonNil(m.Format.Options))
	c.set("schemaString", m.SchemaString)
	c.set("partitionColumns", append([]string{}, m.PartitionColumns...))
	c.set("configuration", nonNil(m.Configuration))
	c.set("createdTime", m.CreatedTime)
}

func (r rowBuilder) txn(t action.Txn) {
	c := r.column("txn")
	c.set("appId", t.AppID)
	c.set("version", t.Version)
	c.set("lastUpdated", t.LastUpdated)
}

func (r rowBuilder) domain(d action.DomainMetadata) {
	c := r.column("domainMetadata")
	c.set("domain", d.Domain)
	c.set("configuration", d.Configuration)
	c.set("removed", d.Removed)
}

func (r rowBuilder) file(f FileAction) {
	if f.Add != nil {
		r.add(*f.Add)
	} else {
		r.remove(*f.Remove)
	}
}

func (r rowBuilder) add(a action.Add) {
	c := r.column("add")
	c.set("path", a.Path)
	c.set("partitionValues", nonNilNullable(a.PartitionValues))
	c.set("size", a.Size)
	c.set("modificationTime", a.ModificationTime)
	// The rows of a checkpoint change nothing: they are the table as it is.
	c.set("dataChange", false)
	c.set("tags", a.Tags)
	c.set("stats", optional(a.Stats))
	c.setIfThere("clusteringProvider", optional(a.ClusteringProvider))
	c.shared(a.DeletionVector, a.BaseRowID, a.DefaultRowCommitVersion)
}

func (r rowBuilder) remove(rm action.Remove) {
	c := r.column("remove")
	c.set("path", rm.Path)
	c.set("deletionTimestamp", rm.DeletionTimestamp)
	c.set("dataChange", false)
	c.set("extendedFileMetadata", rm.ExtendedFileMetadata)
	if rm.ExtendedFileMetadata {
		c.set("partitionValues", nonNilNullable(rm.PartitionValues))
	} else {
		c.set("partitionValues", rm.PartitionValues)
	}
	c.set("size", rm.Size)
	c.shared(rm.DeletionVector, rm.BaseRowID, rm.DefaultRowCommitVersion)
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func nonNil(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func nonNilNullable(m map[string]*string) map[string]*string {
	if m == nil {
		return map[string]*string{}
	}
	return m
}

// structBuilder appends the fields of one struct by name.
type structBuilder struct {
	b       *array.StructBuilder
	fields  map[string]array.Builder
	structs map[string]structBuilder // those of the fields that are structs
}

func newStructBuilder(b *array.StructBuilder, t *arrow.StructType) structBuilder {
	s := structBuilder{b: b, fields: map[string]array.Builder{}, structs: map[string]structBuilder{}}
	for i, f := range t.Fields() {
		s.fields[f.Name] = b.FieldBuilder(i)
		if inner, ok := f.Type.(*arrow.StructType); ok {
			s.structs[f.Name] = newStructBuilder(b.FieldBuilder(i).(*array.StructBuilder), inner)
		}
	}
	return s
}

// child begins a value in a field that is a struct.
func (s structBuilder) child(name string) structBuilder {
	c := s.structs[name]
	c.b.Append(true)
	return c
}

// setIfThere is set for a field that only some checkpoints have.
func (s structBuilder) setIfThere(name string, value any) {
	if s.fields[name] != nil {
		s.set(name, value)
	}
}

// shared sets the fields that add and remove have in common and that only
// checkpoints of tables with the feature have.
func (s structBuilder) shared(dv *action.DeletionVector, baseRowID, commitVersion *int64) {
	s.setIfThere("baseRowId", baseRowID)
	s.setIfThere("defaultRowCommitVersion", commitVersion)
	vector, ok := s.structs["deletionVector"]
	if !ok {
		return
	}
	if dv == nil {
		vector.b.AppendNull()
		return
	}
	c := s.child("deletionVector")
	c.set("storageType", dv.StorageType)
	c.set("pathOrInlineDv", dv.PathOrInlineDv)
	var offset *int64
	if dv.Offset != nil {
		offset = new(int64(*dv.Offset))
	}
	c.set("offset", offset)
	c.set("sizeInBytes", int64(dv.SizeInBytes))
	c.set("cardinality", dv.Cardinality)
}

// set appends a value to the named field; nil pointers, slices and maps are null.
func (s structBuilder) set(name string, value any) {
	b := s.fields[name]
	switch v := value.(type) {
	case string:
		b.(*array.StringBuilder).Append(v)
	case *string:
		if v == nil {
			b.AppendNull()
			return
		}
		b.(*array.StringBuilder).Append(*v)
	case bool:
		b.(*array.BooleanBuilder).Append(v)
	case int64:
		appendInt(b, v)
	case *int64:
		if v == nil {
			b.AppendNull()
			return
		}
		appendInt(b, *v)
	case []string:
		appendList(b.(*array.ListBuilder), v)
	case map[string]string:
		pointers := make(map[string]*string, len(v))
		for key, text := range v {
			pointers[key] = &text
		}
		if v == nil {
			pointers = nil
		}
		appendMap(b.(*array.MapBuilder), pointers)
	case map[string]*string:
		appendMap(b.(*array.MapBuilder), v)
	}
}

func appendInt(b array.Builder, v int64) {
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(v)
	}
}

func appendList(b *array.ListBuilder, list []string) {
	if list == nil {
		b.AppendNull()
		return
	}
	b.Append(true)
	for _, s := range list {
		b.ValueBuilder().(*array.StringBuilder).Append(s)
	}
}

func appendMap(b *array.MapBuilder, m map[string]*string) {
	if m == nil {
		b.AppendNull()
		return
	}
	b.Append(true)
	items := b.ItemBuilder().(*array.StringBuilder)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b.KeyBuilder().(*array.StringBuilder).Append(key)
		if v := m[key]; v != nil {
			items.Append(*v)
		} else {
			items.AppendNull()
		}
	}
}
