package delta

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Table features by the names PROTOCOL.md gives them.
const (
	FeatureAppendOnly        = "appendOnly"
	FeatureChangeDataFeed    = "changeDataFeed"
	FeatureColumnMapping     = "columnMapping"
	FeatureDeletionVectors   = "deletionVectors"
	FeatureDomainMetadata    = "domainMetadata"
	FeatureInCommitTimestamp = "inCommitTimestamp"
	FeatureInvariants        = "invariants"
	FeatureTimestampNTZ      = "timestampNtz"
	FeatureTypeWidening      = "typeWidening"
)

// verdict is what this library does about a feature that a table lists.
type verdict int

const (
	// The zero verdict is to honour: what the feature asks for is done, or nothing is asked for.
	_ verdict = iota // honour
	// refuseActive: not done, so tables that make use of the feature are refused.
	// Listing it alone is harmless.
	refuseActive
	// refuse: not done, and listing it alone obliges.
	refuse
)

// rule says what we do about one feature ("Valid Feature Names in Table
// Features" in PROTOCOL.md). Whatever has no rule is refused.
type rule struct {
	name string
	// reader features are in both lists, the others in the writer's only.
	reader bool
	// read and write are the verdicts for opening and for writing.
	read, write verdict
	// active tells, for refuseActive, whether the table makes use of it.
	active func(table) bool
	// why is what to tell about a refusal.
	why string
}

// table is what a rule can look at.
type table struct {
	properties map[string]string
	schema     *schema.Struct // nil while it was not parsed yet
}

// rules returns the table of all features we know.
func rules() []rule {
	property := func(name string) func(table) bool {
		return func(t table) bool { return isTrue(t.properties, name) }
	}
	column := func(key string) func(table) bool {
		return func(t table) bool { return anyFieldHas(t.schema, key) }
	}
	const sql = "it needs SQL expressions to be evaluated"
	return []rule{
		{name: FeatureAppendOnly}, // honoured in checkWrite
		{name: FeatureInvariants, write: refuseActive, active: column("delta.invariants"), why: sql},
		{name: "checkConstraints", write: refuseActive, active: hasConstraints, why: sql},
		{name: "generatedColumns", write: refuseActive, active: column("delta.generationExpression"), why: sql},
		{name: "allowColumnDefaults", write: refuseActive, active: column("CURRENT_DEFAULT"), why: "column defaults are not applied"},
		{name: "identityColumns", write: refuseActive, active: column("delta.identity."), why: "identity values are not generated"},
		{name: FeatureChangeDataFeed}, // honoured in checkWrite
		{name: FeatureColumnMapping, reader: true},
		{name: FeatureDeletionVectors, reader: true}, // applied when reading; files that have one may be removed
		{name: FeatureTimestampNTZ, reader: true},
		{name: "timestampWithoutTimezone", reader: true}, // an old spelling of timestampNtz
		{name: FeatureTypeWidening, reader: true},
		{name: "typeWidening-preview", reader: true, write: refuseActive, active: widens, why: "its records of type changes have another form than those of " + FeatureTypeWidening},
		{name: FeatureDomainMetadata}, // checkpoints keep all domains
		{name: "rowTracking", write: refuseActive, active: func(t table) bool { return !isTrue(t.properties, PropRowTrackingSuspended) },
			why: "row ids are not assigned"},
		{name: FeatureInCommitTimestamp},
		{name: "v2Checkpoint", reader: true},
		{name: "vacuumProtocolCheck", reader: true},
		{name: "clustering"}, // the writer keeps statistics of all columns then
		{name: "checkpointProtection"},
		{name: "icebergCompatV1", write: refuseActive, active: property("delta.enableIcebergCompatV1"), why: "files must satisfy Iceberg too"},
		{name: "icebergCompatV2", write: refuseActive, active: property("delta.enableIcebergCompatV2"), why: "files must satisfy Iceberg too"},
		{name: "icebergCompatV3", write: refuseActive, active: property("delta.enableIcebergCompatV3"), why: "files must satisfy Iceberg too"},
		{name: "materializePartitionColumns", write: refuse, why: "partition values are not written into the files"},
		{name: "catalogManaged", reader: true, read: refuse, write: refuse, why: "its commits go through a catalog"},
		{name: "catalogOwned-preview", reader: true, read: refuse, write: refuse, why: "its commits go through a catalog"},
		{name: "coordinatedCommits-preview", read: refuse, write: refuse, why: "its commits go through a coordinator"},
		{name: "variantType", reader: true, read: refuse, write: refuse, why: "the type variant is unknown"},
		{name: "variantType-preview", reader: true, read: refuse, write: refuse, why: "the type variant is unknown"},
		{name: "variantShredding", reader: true, read: refuse, write: refuse, why: "the type variant is unknown"},
		{name: "variantShredding-preview", reader: true, read: refuse, write: refuse, why: "the type variant is unknown"},
	}
}

func hasConstraints(t table) bool {
	for name := range t.properties {
		if strings.HasPrefix(name, propConstraintPrefix) {
			return true
		}
	}
	return false
}

func mapsColumns(t table) bool {
	mode := t.properties[PropColumnMappingMode]
	return mode != "" && !strings.EqualFold(mode, "none")
}

func widens(t table) bool {
	return isTrue(t.properties, PropTypeWidening) || t.schema != nil && schema.HasTypeChanges(t.schema)
}

// anyFieldHas reports whether a field at any depth has a metadata key, or one
// that begins with it where it ends in a dot.
func anyFieldHas(t schema.Type, key string) bool {
	switch t := t.(type) {
	case *schema.Struct:
		if t == nil {
			return false
		}
		for _, f := range t.Fields {
			for have := range f.Metadata {
				if have == key || strings.HasSuffix(key, ".") && strings.HasPrefix(have, key) {
					return true
				}
			}
			if anyFieldHas(f.Type, key) {
				return true
			}
		}
	case *schema.Array:
		return anyFieldHas(t.Element, key)
	case *schema.Map:
		return anyFieldHas(t.Key, key) || anyFieldHas(t.Value, key)
	}
	return false
}

// The highest protocol versions there are.
const (
	maxReaderVersion = action.ReaderVersionFeatures
	maxWriterVersion = action.WriterVersionFeatures
)

// legacyWriter returns the features that a writer version below 7 stands for.
func legacyWriter(version int) []string {
	var out []string
	for _, l := range [...]struct {
		since   int
		feature string
	}{
		{2, FeatureAppendOnly}, {2, FeatureInvariants},
		{3, "checkConstraints"},
		{4, FeatureChangeDataFeed}, {4, "generatedColumns"},
		{5, FeatureColumnMapping},
		{6, "identityColumns"},
	} {
		if version >= l.since {
			out = append(out, l.feature)
		}
	}
	return out
}

// readerFeatures are the features a reader must know, whichever way the protocol
// says so.
func readerFeatures(p action.Protocol) []string {
	switch {
	case p.MinReaderVersion >= action.ReaderVersionFeatures:
		return p.ReaderFeatures
	case p.MinReaderVersion == 2:
		return []string{FeatureColumnMapping}
	default:
		return nil
	}
}

// writerFeatures are the features a writer must know, likewise.
func writerFeatures(p action.Protocol) []string {
	if p.MinWriterVersion >= action.WriterVersionFeatures {
		return p.WriterFeatures
	}
	return legacyWriter(p.MinWriterVersion)
}

// canRead reports why a table must not be opened, or nil. Without a schema only
// what does not depend on one is checked.
func canRead(p action.Protocol, m action.Metadata, sc *schema.Struct) error {
	const op = "open"
	if p.MinReaderVersion > maxReaderVersion {
		return &FeatureError{Name: fmt.Sprintf("minReaderVersion %d", p.MinReaderVersion), Op: op, Why: "the protocol version is unknown"}
	}
	if p.MinReaderVersion == action.ReaderVersionFeatures && p.MinWriterVersion < action.WriterVersionFeatures {
		return &FeatureError{Name: fmt.Sprintf("minReaderVersion %d with minWriterVersion %d", p.MinReaderVersion, p.MinWriterVersion), Op: op,
			Why: "the protocol is invalid, reader 3 goes with writer 7"}
	}
	t := table{properties: m.Configuration, schema: sc}
	if mapsColumns(t) && !slices.Contains(readerFeatures(p), FeatureColumnMapping) {
		return &FeatureError{Name: FeatureColumnMapping, Op: op, Why: "the table property " + PropColumnMappingMode + " is set, and the protocol does not list the feature"}
	}
	if sc != nil {
		if err := schema.CheckTypeChanges(sc); err != nil {
			return &FeatureError{Name: FeatureTypeWidening, Op: op, Why: err.Error()}
		}
	}
	for _, name := range readerFeatures(p) {
		if p.MinReaderVersion >= action.ReaderVersionFeatures && !slices.Contains(p.WriterFeatures, name) {
			return &FeatureError{Name: name, Op: op, Why: "the protocol is invalid, it lists the feature for readers and not for writers"}
		}
		if err := t.check(name, op, func(r rule) verdict { return r.read }); err != nil {
			return err
		}
	}
	for _, name := range writerFeatures(p) {
		// Writers' features do not stop a reader, except where commits are not in
		// the log at all.
		if r, ok := ruleOf(name); ok && !r.reader && r.read == refuse {
			return &FeatureError{Name: name, Op: op, Why: r.why}
		}
	}
	return nil
}

// canWrite reports why a table must not be written to, or nil.
func canWrite(p action.Protocol, m action.Metadata, sc *schema.Struct) error {
	const op = "write to"
	if p.MinWriterVersion > maxWriterVersion {
		return &FeatureError{Name: fmt.Sprintf("minWriterVersion %d", p.MinWriterVersion), Op: op, Why: "the protocol version is unknown"}
	}
	t := table{properties: m.Configuration, schema: sc}
	for _, name := range writerFeatures(p) {
		if err := t.check(name, op, func(r rule) verdict { return r.write }); err != nil {
			return err
		}
	}
	return nil
}

func ruleOf(name string) (rule, bool) {
	all := rules()
	i := slices.IndexFunc(all, func(r rule) bool { return r.name == name })
	if i < 0 {
		return rule{}, false
	}
	return all[i], true
}

func (t table) check(name, op string, of func(rule) verdict) error {
	r, ok := ruleOf(name)
	if !ok {
		return &FeatureError{Name: name, Op: op, Why: "the feature is unknown"}
	}
	v := of(r)
	if v == refuse || v == refuseActive && r.active(t) {
		return &FeatureError{Name: name, Op: op, Why: cmp.Or(r.why, "not supported")}
	}
	return nil
}

// checkWrite reports why the rows that a change adds and removes must not change
// in that way in this table, or nil.
func checkWrite(p action.Protocol, m action.Metadata, addsRows, removesRows bool) error {
	features := writerFeatures(p)
	if removesRows && slices.Contains(features, FeatureAppendOnly) && isTrue(m.Configuration, PropAppendOnly) {
		return &FeatureError{Name: FeatureAppendOnly, Op: "remove rows from", Why: "the table property " + PropAppendOnly + " is true"}
	}
	// A commit that only adds or only removes files needs no change data files:
	// readers derive the changes from it.
	if addsRows && removesRows && slices.Contains(features, FeatureChangeDataFeed) && isTrue(m.Configuration, PropChangeDataFeed) {
		return &FeatureError{Name: FeatureChangeDataFeed, Op: "replace rows of", Why: "change data files are not written"}
	}
	return nil
}
