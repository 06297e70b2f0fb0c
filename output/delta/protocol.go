package delta

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// Every table begins with the oldest protocol; each feature it uses is added by
// name. The fewer features, the more engines can read and write the table.
func basicProtocol() action.Protocol {
	return action.Protocol{MinReaderVersion: 1, MinWriterVersion: 2}
}

// propertyFeature is the feature that a property turns on, where we honour it.
func propertyFeature(name string) (feature string, ok bool) {
	switch name {
	case PropAppendOnly:
		return FeatureAppendOnly, true
	case PropChangeDataFeed:
		return FeatureChangeDataFeed, true
	case PropDeletionVectors:
		return FeatureDeletionVectors, true
	case PropInCommitTimestamps:
		return FeatureInCommitTimestamp, true
	case PropTypeWidening:
		return FeatureTypeWidening, true
	}
	return "", false
}

// neededFeatures are the features that a schema and properties make use of. A
// property that would turn on what we do not do is an error.
func neededFeatures(sc *schema.Struct, properties map[string]string) ([]string, error) {
	var out []string
	if schema.UsesTimestampNTZ(sc) {
		out = append(out, FeatureTimestampNTZ)
	}
	if schema.HasNotNull(sc) {
		// At writer 7 Spark refuses to open a table with a NOT NULL column that
		// does not list it; at writer 2 it is implied.
		out = append(out, FeatureInvariants)
	}
	if schema.HasTypeChanges(sc) {
		out = append(out, FeatureTypeWidening)
	}
	if mapping, err := schema.ParseMapping(properties[PropColumnMappingMode]); err != nil {
		return nil, &FeatureError{Name: PropColumnMappingMode, Op: "set this property on", Why: err.Error()}
	} else if mapping.Maps() {
		out = append(out, FeatureColumnMapping)
	}
	for name := range properties {
		feature, known := propertyFeature(name)
		switch {
		case known && isTrue(properties, name):
			out = append(out, feature)
		case known:
		case strings.HasPrefix(name, propFeaturePrefix):
			return nil, &FeatureError{Name: name, Op: "set this property on", Why: "it is a command of Spark, not a property; features come with what uses them"}
		case strings.HasPrefix(name, propConstraintPrefix),
			strings.HasPrefix(name, "delta.enable") && name != "delta.enableExpiredLogCleanup" && isTrue(properties, name):
			return nil, &FeatureError{Name: name, Op: "set this property on", Why: "what it asks for is not done"}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// withFeatures returns the protocol with the features added, and the same
// protocol if it has them all. Nothing is ever taken away: features that the old
// versions stood for are spelled out where the new ones need a list.
func withFeatures(p action.Protocol, features []string) action.Protocol {
	have := writerFeatures(p)
	missing := slices.DeleteFunc(slices.Clone(features), func(f string) bool {
		r, ok := ruleOf(f)
		return slices.Contains(have, f) && (!ok || !r.reader || slices.Contains(readerFeatures(p), f))
	})
	if len(missing) == 0 {
		return p
	}
	out := action.Protocol{
		MinReaderVersion: p.MinReaderVersion,
		MinWriterVersion: action.WriterVersionFeatures,
		ReaderFeatures:   slices.Clone(readerFeatures(p)),
		WriterFeatures:   union(have, missing),
	}
	for _, f := range missing {
		if r, ok := ruleOf(f); ok && r.reader {
			out.MinReaderVersion = action.ReaderVersionFeatures
			out.ReaderFeatures = union(out.ReaderFeatures, []string{f})
		}
	}
	switch out.MinReaderVersion {
	case 1:
		out.ReaderFeatures = nil
	case 2: // with writer 7, older kernels refuse this
		out.MinReaderVersion = action.ReaderVersionFeatures
	}
	return out
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// createProtocol is the protocol of a new table: the features it uses and no
// more. In a list, the features that writer version 2 stood for do not appear
// unless they are used.
func createProtocol(features []string) action.Protocol {
	p := basicProtocol()
	implied := !slices.ContainsFunc(features, func(f string) bool { return f != FeatureAppendOnly && f != FeatureInvariants })
	if implied {
		return p
	}
	p.MinWriterVersion = 1 // stands for no feature
	return withFeatures(p, features)
}

// removedFeature returns a feature that the old protocol has and the new one
// has not.
func removedFeature(before, after action.Protocol) (string, bool) {
	for _, pair := range [][2][]string{
		{readerFeatures(before), readerFeatures(after)},
		{writerFeatures(before), writerFeatures(after)},
	} {
		for _, f := range pair[0] {
			if !slices.Contains(pair[1], f) {
				return f, true
			}
		}
	}
	return "", false
}

// checkProtocolChange reports why a protocol must not take the place of another.
func checkProtocolChange(before, after action.Protocol) error {
	if after.MinReaderVersion < before.MinReaderVersion || after.MinWriterVersion < before.MinWriterVersion {
		return &ChangeError{Reason: fmt.Sprintf("the protocol goes down from %d/%d to %d/%d",
			before.MinReaderVersion, before.MinWriterVersion, after.MinReaderVersion, after.MinWriterVersion)}
	}
	if f, ok := removedFeature(before, after); ok {
		return &ChangeError{Reason: fmt.Sprintf("the protocol drops the feature %s", f)}
	}
	return nil
}
