package delta_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// gated is a table as another engine may have made it.
type gated struct {
	reader, writer int
	rf, wf         []string
	properties     map[string]string
	columnMetadata map[string]any
	nestedColumn   bool // the metadata are on a field inside of an array of structs
	wantOpen       string
	wantWrite      string
	wantRemove     string
	wantReplace    string
}

// both lists a feature for readers and writers, only for writers alone.
func both(names ...string) gated { return gated{reader: 3, writer: 7, rf: names, wf: names} }
func only(names ...string) gated { return gated{reader: 1, writer: 7, wf: names} }

func (g gated) with(change func(*gated)) gated {
	change(&g)
	return g
}

func props(kv ...string) func(*gated) {
	return func(g *gated) {
		g.properties = map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			g.properties[kv[i]] = kv[i+1]
		}
	}
}

func column(key string, value any) func(*gated) {
	return func(g *gated) { g.columnMetadata = map[string]any{key: value} }
}

func nested(key string, value any) func(*gated) {
	return func(g *gated) { g.columnMetadata, g.nestedColumn = map[string]any{key: value}, true }
}

// mapped is a table with column mapping.
func mapped(mode string) func(*gated) {
	return func(g *gated) {
		props("delta.columnMapping.mode", mode)(g)
		g.columnMetadata = map[string]any{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
	}
}

// changes is a record of one change of a type.
func changes(from, to string) []any { return []any{map[string]any{"fromType": from, "toType": to}} }

func refusesOpen(name string) func(*gated)  { return func(g *gated) { g.wantOpen = name } }
func refusesWrite(name string) func(*gated) { return func(g *gated) { g.wantWrite = name } }

func then(changes ...func(*gated)) func(*gated) {
	return func(g *gated) {
		for _, change := range changes {
			change(g)
		}
	}
}

// Every row of the feature table: honoured, harmless while inactive, or refused
// by its name.
func TestFeatureGate(t *testing.T) {
	t.Parallel()
	const sql = "a > 0"
	for name, g := range map[string]gated{
		"1/1":                      {reader: 1, writer: 1},
		"1/2":                      {reader: 1, writer: 2},
		"1/3":                      {reader: 1, writer: 3},
		"1/4":                      {reader: 1, writer: 4},
		"2/5":                      {reader: 2, writer: 5},
		"2/6":                      {reader: 2, writer: 6},
		"3/7":                      both(),
		"4/7":                      {reader: 4, writer: 7, wantOpen: "minReaderVersion 4"},
		"1/8":                      {reader: 1, writer: 8, wantWrite: "minWriterVersion 8"},
		"3/5":                      {reader: 3, writer: 5, wantOpen: "minReaderVersion 3 with minWriterVersion 5"},
		"feature for readers only": gated{reader: 3, writer: 7, rf: []string{"deletionVectors"}}.with(refusesOpen("deletionVectors")),

		"appendOnly, on":             only("appendOnly").with(then(props("delta.appendOnly", "true"), func(g *gated) { g.wantRemove, g.wantReplace = "appendOnly", "appendOnly" })),
		"appendOnly, off":            only("appendOnly"),
		"appendOnly, legacy":         gated{reader: 1, writer: 2}.with(then(props("delta.appendOnly", "true"), func(g *gated) { g.wantRemove, g.wantReplace = "appendOnly", "appendOnly" })),
		"appendOnly, not listed":     only().with(props("delta.appendOnly", "true")),
		"invariants, none":           only("invariants"),
		"invariants, some":           only("invariants").with(then(column("delta.invariants", sql), refusesWrite("invariants"))),
		"invariants, legacy":         gated{reader: 1, writer: 2}.with(then(column("delta.invariants", sql), refusesWrite("invariants"))),
		"invariants, nested":         only("invariants").with(then(nested("delta.invariants", sql), refusesWrite("invariants"))),
		"checkConstraints, none":     only("checkConstraints"),
		"checkConstraints, some":     only("checkConstraints").with(then(props("delta.constraints.c", sql), refusesWrite("checkConstraints"))),
		"checkConstraints, legacy":   gated{reader: 1, writer: 3}.with(then(props("delta.constraints.c", sql), refusesWrite("checkConstraints"))),
		"generatedColumns, none":     only("generatedColumns"),
		"generatedColumns, some":     only("generatedColumns").with(then(column("delta.generationExpression", sql), refusesWrite("generatedColumns"))),
		"allowColumnDefaults, none":  only("allowColumnDefaults"),
		"allowColumnDefaults, some":  only("allowColumnDefaults").with(then(column("CURRENT_DEFAULT", "1"), refusesWrite("allowColumnDefaults"))),
		"identityColumns, none":      only("identityColumns"),
		"identityColumns, some":      only("identityColumns").with(then(column("delta.identity.start", 1), refusesWrite("identityColumns"))),
		"identityColumns, legacy":    gated{reader: 1, writer: 6}.with(then(column("delta.identity.start", 1), refusesWrite("identityColumns"))),
		"changeDataFeed, off":        only("changeDataFeed"),
		"changeDataFeed, on":         only("changeDataFeed").with(then(props("delta.enableChangeDataFeed", "true"), func(g *gated) { g.wantReplace = "changeDataFeed" })),
		"changeDataFeed, legacy":     gated{reader: 1, writer: 4}.with(then(props("delta.enableChangeDataFeed", "TRUE"), func(g *gated) { g.wantReplace = "changeDataFeed" })),
		"columnMapping, none":        both("columnMapping").with(props("delta.columnMapping.mode", "none")),
		"columnMapping, name":        both("columnMapping").with(mapped("name")),
		"columnMapping, legacy":      gated{reader: 2, writer: 5}.with(mapped("id")),
		"columnMapping, 2/7":         gated{reader: 2, writer: 7, wf: []string{"columnMapping"}}.with(mapped("id")),
		"columnMapping, not listed":  gated{reader: 1, writer: 2}.with(then(mapped("name"), refusesOpen("columnMapping"))),
		"columnMapping, for writers": only("columnMapping").with(then(mapped("name"), refusesOpen("columnMapping"))),
		"deletionVectors":            both("deletionVectors").with(props("delta.enableDeletionVectors", "true")),
		"timestampNtz":               both("timestampNtz"),
		"timestampWithoutTimezone":   both("timestampWithoutTimezone"),
		"typeWidening, unused":       both("typeWidening"),
		"typeWidening, on":           both("typeWidening").with(props("delta.enableTypeWidening", "true")),
		"typeWidening, used":         both("typeWidening").with(column("delta.typeChanges", changes("integer", "long"))),
		"typeWidening, nested":       both("typeWidening").with(nested("delta.typeChanges", changes("integer", "long"))),
		"typeWidening, not a change": both("typeWidening").with(then(column("delta.typeChanges", changes("string", "long")), refusesOpen("typeWidening"))),
		"typeWidening, unknown type": both("typeWidening").with(then(nested("delta.typeChanges", changes("int24", "long")), refusesOpen("typeWidening"))),
		"typeWidening, no list":      both("typeWidening").with(then(column("delta.typeChanges", "long"), refusesOpen("typeWidening"))),
		"typeWidening-preview, used": both("typeWidening-preview").with(then(column("delta.typeChanges", []any{}), refusesWrite("typeWidening-preview"))),
		"domainMetadata":             only("domainMetadata"),
		"rowTracking":                only("rowTracking", "domainMetadata").with(refusesWrite("rowTracking")),
		"rowTracking, suspended":     only("rowTracking", "domainMetadata").with(props("delta.rowTrackingSuspended", "true")),
		"inCommitTimestamp, off":     only("inCommitTimestamp"),
		"v2Checkpoint":               both("v2Checkpoint").with(props("delta.checkpointPolicy", "v2")),
		"vacuumProtocolCheck":        both("vacuumProtocolCheck"),
		"clustering":                 only("clustering", "domainMetadata"),
		"checkpointProtection":       only("checkpointProtection"),
		"icebergCompatV1, off":       only("icebergCompatV1"),
		"icebergCompatV1, on":        only("icebergCompatV1").with(then(props("delta.enableIcebergCompatV1", "true"), refusesWrite("icebergCompatV1"))),
		"icebergCompatV2, on":        only("icebergCompatV2").with(then(props("delta.enableIcebergCompatV2", "true"), refusesWrite("icebergCompatV2"))),
		"icebergCompatV3, on":        only("icebergCompatV3").with(then(props("delta.enableIcebergCompatV3", "true"), refusesWrite("icebergCompatV3"))),
		"materialize":                only("materializePartitionColumns").with(refusesWrite("materializePartitionColumns")),
		"variantType":                both("variantType").with(refusesOpen("variantType")),
		"variantType-preview":        both("variantType-preview").with(refusesOpen("variantType-preview")),
		"variantShredding":           both("variantShredding").with(refusesOpen("variantShredding")),
		"variantShredding-preview":   both("variantShredding-preview").with(refusesOpen("variantShredding-preview")),
		"catalogManaged":             both("catalogManaged").with(refusesOpen("catalogManaged")),
		"catalogOwned-preview":       both("catalogOwned-preview").with(refusesOpen("catalogOwned-preview")),
		"coordinatedCommits":         only("coordinatedCommits-preview").with(refusesOpen("coordinatedCommits-preview")),
		"geospatial":                 both("geospatial").with(refusesOpen("geospatial")),
		"collations":                 only("collations-preview").with(refusesWrite("collations-preview")),
		"redirect":                   only("redirectWriterOnly-preview").with(refusesWrite("redirectWriterOnly-preview")),
		"something new, both":        both("telepathy").with(refusesOpen("telepathy")),
		"something new, writers":     only("telepathy").with(refusesWrite("telepathy")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			require.NoError(t, st.Put(t.Context(), replay.CommitPath(0), g.commit(t)))
			table, err := delta.Open(t.Context(), st, delta.Options{})
			if g.wantOpen != "" {
				refusedBy(t, err, g.wantOpen)
				return
			}
			require.NoError(t, err)
			_, err = table.Commit(t.Context(), adding("f1", "f2"))
			if g.wantWrite != "" {
				refusedBy(t, err, g.wantWrite)
				return
			}
			require.NoError(t, err)
			_, err = table.Commit(t.Context(), replacing(table.Snapshot(), "f1", "f3"))
			refusedBy(t, err, g.wantReplace)
			_, err = table.Commit(t.Context(), delta.Change{ReadVersion: table.Snapshot().Version(), Remove: []action.Remove{add("f2", 1).Remove(0, true)}})
			refusedBy(t, err, g.wantRemove)
			moved := add("f4", 1)
			moved.DataChange = false
			_, err = table.Commit(t.Context(), delta.Change{ReadVersion: table.Snapshot().Version(), Add: []action.Add{moved}})
			require.NoError(t, err, "moving rows is always allowed")
		})
	}
}

func refusedBy(t *testing.T, err error, feature string) {
	t.Helper()
	if feature == "" {
		require.NoError(t, err)
		return
	}
	var refused *delta.FeatureError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, feature, refused.Name)
	require.Contains(t, refused.Error(), feature)
}

func (g gated) commit(t *testing.T) []byte {
	t.Helper()
	schemaJSON := func(metadata map[string]any) string {
		if metadata == nil {
			metadata = map[string]any{}
		}
		field := map[string]any{"name": "a", "type": "long", "nullable": true, "metadata": metadata}
		if g.nestedColumn {
			field = map[string]any{"name": "n", "nullable": true, "metadata": map[string]any{}, "type": map[string]any{
				"type": "array", "containsNull": true, "elementType": map[string]any{"type": "struct", "fields": []any{field}},
			}}
		}
		text, err := json.Marshal(map[string]any{"type": "struct", "fields": []any{field}})
		require.NoError(t, err)
		return string(text)
	}
	c := action.Commit{
		Protocol: &action.Protocol{MinReaderVersion: g.reader, MinWriterVersion: g.writer, ReaderFeatures: g.rf, WriterFeatures: g.wf},
		Metadata: &action.Metadata{ID: "id", SchemaString: schemaJSON(g.columnMetadata), Configuration: g.properties},
	}
	data, err := c.Encode()
	require.NoError(t, err)
	return data
}

func TestParseInterval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"interval 7 days":                    "168h0m0s",
		"INTERVAL 1 WEEK":                    "168h0m0s",
		"interval 1 weeks 2 hours":           "170h0m0s",
		"30 minutes":                         "30m0s",
		"interval 5 seconds 10 milliseconds": "5.01s",
		"interval 3 microseconds":            "3µs",
		"interval 0 days":                    "0s",
	} {
		d, err := delta.ParseInterval(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d.String(), text)
	}
	for _, text := range []string{"", "interval", "interval 1", "1 month", "interval 1 years", "interval -1 days", "interval 1.5 days", "days 7", "interval 9999999999 weeks", "interval 106751 days 24 hours 24 hours 106751 days"} {
		_, err := delta.ParseInterval(text)
		require.Error(t, err, text)
	}
}
