package delta

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// build turns a change into the commit that follows base, and checks it against
// the table: features, schema, partition columns. nowMillis is the time of the
// attempt.
func (c *Change) build(base *Snapshot, o Options, nowMillis int64) (action.Commit, error) {
	var out action.Commit
	if c.Protocol != nil {
		out.Protocol = new(c.Protocol.Clone())
	}
	if err := c.buildMetadata(base, o, &out); err != nil {
		return action.Commit{}, err
	}
	// A change must be allowed by the table as it was and as it will be.
	if base.readOnly != nil {
		return action.Commit{}, base.readOnly
	}
	protocol, metadata := *base.state.Protocol, *base.state.Metadata
	if out.Protocol != nil {
		protocol = *out.Protocol
	}
	if out.Metadata != nil {
		metadata = *out.Metadata
	}
	if out.Protocol != nil || out.Metadata != nil {
		if err := allowed(protocol, metadata); err != nil {
			return action.Commit{}, err
		}
	}
	if err := checkWrite(protocol, metadata, c.addsRows(), c.removesRows()); err != nil {
		return action.Commit{}, err
	}
	values, err := partitionKeys(metadata)
	if err != nil {
		return action.Commit{}, err
	}
	if err := c.buildFiles(protocol, values, nowMillis, &out); err != nil {
		return action.Commit{}, err
	}
	c.buildTxns(nowMillis, &out)
	out.Info = c.info(base, o, nowMillis)
	if err := stampInCommit(base, protocol, metadata, out.Info); err != nil {
		return action.Commit{}, err
	}
	return out, nil
}

// allowed reports why a table must not become one with such a protocol and
// metadata.
func allowed(p action.Protocol, m action.Metadata) error {
	sc, err := schema.Parse(m.SchemaString)
	if err != nil {
		return &ChangeError{Reason: fmt.Sprintf("the new schema cannot be read: %v", err)}
	}
	if err := canRead(p, m, sc); err != nil {
		return err
	}
	if schema.HasTypeChanges(sc) && !slices.Contains(writerFeatures(p), FeatureTypeWidening) {
		return &FeatureError{Name: FeatureTypeWidening, Op: "change types in", Why: "the protocol does not list it"}
	}
	return canWrite(p, m, sc)
}

// buildMetadata completes new metadata with what must stay, and brings along the
// features that it needs.
func (c *Change) buildMetadata(base *Snapshot, o Options, out *action.Commit) error {
	if c.Protocol != nil {
		if err := checkProtocolChange(*base.state.Protocol, *c.Protocol); err != nil {
			return err
		}
	}
	if c.Metadata == nil {
		return nil
	}
	have, m := *base.state.Metadata, c.Metadata.Clone()
	switch {
	case m.ID == "":
		m.ID = have.ID
	case m.ID != have.ID:
		return &ChangeError{Reason: fmt.Sprintf("the metadata's id changes from %s to %s: a table keeps its id", have.ID, m.ID)}
	}
	switch {
	case m.PartitionColumns == nil:
		m.PartitionColumns = have.PartitionColumns
	case !slices.Equal(m.PartitionColumns, have.PartitionColumns):
		return &ChangeError{Reason: fmt.Sprintf("the partition columns change from %v to %v", have.PartitionColumns, m.PartitionColumns)}
	}
	if m.SchemaString == "" {
		m.SchemaString = have.SchemaString
	}
	if m.Format.Provider == "" {
		m.Format = have.Format
	}
	if m.CreatedTime == nil {
		m.CreatedTime = have.CreatedTime
	}
	sc, err := c.evolve(base, o, &m)
	if err != nil {
		return err
	}
	out.Metadata = &m
	if c.Protocol != nil {
		return nil
	}
	features, err := newFeatures(sc, have.Configuration, m.Configuration)
	if err != nil {
		return err
	}
	if p := withFeatures(*base.state.Protocol, features); !sameProtocol(p, *base.state.Protocol) {
		out.Protocol = &p
	}
	return nil
}

// newFeatures are the features that a schema and changed properties need. Those
// the table had before need nothing.
func newFeatures(sc *schema.Struct, before, after map[string]string) ([]string, error) {
	changed := map[string]string{}
	for name, value := range after {
		if have, ok := before[name]; !ok || have != value {
			changed[name] = value
		}
	}
	if isTrue(changed, PropInCommitTimestamps) {
		return nil, &FeatureError{Name: FeatureInCommitTimestamp, Op: "turn this on for",
			Why: "it can be chosen only when a table is created"}
	}
	return neededFeatures(sc, changed)
}

func sameProtocol(a, b action.Protocol) bool {
	return a.MinReaderVersion == b.MinReaderVersion && a.MinWriterVersion == b.MinWriterVersion &&
		slices.Equal(a.ReaderFeatures, b.ReaderFeatures) && slices.Equal(a.WriterFeatures, b.WriterFeatures)
}

// checkAdd reports why a file cannot be one of the table's, or nil.
func checkAdd(a action.Add, p action.Protocol, partitionKeys []string) error {
	if len(a.PartitionValues) != len(partitionKeys) {
		return &ChangeError{Reason: fmt.Sprintf("file %s has values for partition columns %v, the table has %v",
			a.Path, slices.Sorted(maps.Keys(a.PartitionValues)), partitionKeys)}
	}
	for _, column := range partitionKeys {
		if _, ok := a.PartitionValues[column]; !ok {
			return &ChangeError{Reason: fmt.Sprintf("file %s has no value for partition column %s", a.Path, column)}
		}
	}
	if a.DeletionVector != nil && !slices.Contains(readerFeatures(p), FeatureDeletionVectors) {
		// Readers and checkpoints would do without it, and its rows be there again.
		return &ChangeError{Reason: fmt.Sprintf("file %s has a deletion vector, and the table does not have the feature %s", a.Path, FeatureDeletionVectors)}
	}
	return nil
}

func (c *Change) buildFiles(p action.Protocol, partitionKeys []string, nowMillis int64, out *action.Commit) error {
	for _, a := range c.Add {
		if err := checkAdd(a, p, partitionKeys); err != nil {
			return err
		}
		if a.ModificationTime == 0 {
			a.ModificationTime = nowMillis
		}
		out.Adds = append(out.Adds, a)
	}
	for _, r := range c.Remove {
		if r.DeletionTimestamp == 0 {
			r.DeletionTimestamp = nowMillis
		}
		out.Removes = append(out.Removes, r)
	}
	return nil
}

func (c *Change) buildTxns(nowMillis int64, out *action.Commit) {
	add := func(t Txn) {
		out.Txns = append(out.Txns, action.Txn{AppID: t.AppID, Version: t.Version, LastUpdated: new(nowMillis)})
	}
	for _, t := range []*Txn{c.Fenced, c.Keyed} {
		if t != nil {
			add(*t)
		}
	}
	for _, t := range c.Marks {
		add(t)
	}
}

func (c *Change) info(base *Snapshot, o Options, nowMillis int64) *action.CommitInfo {
	read := c.ReadVersion
	if c.BlindAppend {
		read = base.Version()
	}
	info := &action.CommitInfo{
		Timestamp:           nowMillis,
		Operation:           c.Operation,
		OperationParameters: maps.Clone(c.OperationParameters),
		ReadVersion:         &read,
		IsolationLevel:      c.isolation(base),
		IsBlindAppend:       new(c.BlindAppend),
		UserMetadata:        c.UserMetadata,
		EngineInfo:          o.Engine,
		TxnID:               c.ID,
	}
	if info.Operation == "" {
		info.Operation = OpWrite
	}
	if len(c.Metrics) > 0 {
		info.OperationMetrics = make(map[string]string, len(c.Metrics))
		for name, n := range c.Metrics {
			info.OperationMetrics[name] = strconv.FormatInt(n, 10)
		}
	}
	return info
}

// stampInCommit sets the in-commit timestamp where the table has them ("In-Commit
// Timestamps" in PROTOCOL.md): later than the one before, and never before now.
func stampInCommit(base *Snapshot, p action.Protocol, m action.Metadata, info *action.CommitInfo) error {
	if !slices.Contains(writerFeatures(p), FeatureInCommitTimestamp) || !isTrue(m.Configuration, PropInCommitTimestamps) {
		return nil
	}
	if base.state.Timestamp == nil {
		return fmt.Errorf("the in-commit timestamp of version %d is not known", base.Version())
	}
	info.InCommitTimestamp = new(max(info.Timestamp, *base.state.Timestamp+1))
	return nil
}
