package delta_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// Pairs of changes made from the same snapshot, of which the second comes too
// late. The table has the files f1 and f2.
func TestConflicts(t *testing.T) {
	t.Parallel()
	fileOf := func(path string) action.Add { return add(path, 1) }
	moving := func(remove, with string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change {
			moved := fileOf(with)
			moved.DataChange = false
			return delta.Change{
				Operation: delta.OpOptimize, ReadVersion: s.Version(),
				Add: []action.Add{moved}, Remove: []action.Remove{fileOf(remove).Remove(0, false)},
			}
		}
	}
	blind := func(path string) func(*delta.Snapshot) delta.Change {
		return func(*delta.Snapshot) delta.Change { return adding(path) }
	}
	reading := func(path string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change {
			return delta.Change{ReadVersion: s.Version(), Add: []action.Add{fileOf(path)}}
		}
	}
	deleting := func(path string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change {
			return delta.Change{ReadVersion: s.Version(), Remove: []action.Remove{fileOf(path).Remove(0, true)}}
		}
	}
	// The change depends on the files named; a file that is added matters if its name begins
	// with "x".
	depending := func(c delta.Change, removed ...string) delta.Change {
		c.Reads = &delta.Reads{
			Added:   func(a action.Add) bool { return strings.HasPrefix(a.Path, "x") },
			Removed: func(r action.Remove) bool { return slices.Contains(removed, r.Path) },
		}
		return c
	}
	narrow := func(remove, with string, read ...string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change { return depending(replacing(s, remove, with), read...) }
	}
	marking := func(read ...string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change {
			return depending(delta.Change{ReadVersion: s.Version(), Marks: []delta.Txn{{AppID: "m"}}}, read...)
		}
	}
	replace := func(remove, with string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change { return replacing(s, remove, with) }
	}
	evolving := func(names ...string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change {
			m := s.Metadata()
			m.SchemaString = columns(t, append([]string{"a", "b string"}, names...)...).JSON()
			return delta.Change{Operation: delta.OpAddColumns, ReadVersion: s.Version(), Metadata: &m}
		}
	}
	property := func(name, value string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change {
			m := s.Metadata()
			m.Configuration[name] = value
			return delta.Change{Operation: delta.OpSetProperties, ReadVersion: s.Version(), Metadata: &m}
		}
	}
	protocol := func(features ...string) func(*delta.Snapshot) delta.Change {
		return func(s *delta.Snapshot) delta.Change {
			p := action.Protocol{MinReaderVersion: 1, MinWriterVersion: 7, WriterFeatures: append([]string{"appendOnly", "invariants"}, features...)}
			return delta.Change{ReadVersion: s.Version(), Protocol: &p}
		}
	}
	const fine = delta.ConflictKind("")
	for name, c := range map[string]struct {
		theirs, ours func(*delta.Snapshot) delta.Change
		level        string
		want         delta.ConflictKind
		feature      string
	}{
		"append after append":                                  {theirs: blind("x"), ours: blind("y"), want: fine},
		"append after delete":                                  {theirs: deleting("f1"), ours: blind("y"), want: fine},
		"append after overwrite":                               {theirs: replace("f1", "x"), ours: blind("y"), want: fine},
		"append after new columns":                             {theirs: evolving("c"), ours: blind("y"), want: delta.ConflictMetadata},
		"append after new property":                            {theirs: property("p", "1"), ours: blind("y"), want: fine},
		"append after new feature we know":                     {theirs: protocol("changeDataFeed"), ours: blind("y"), want: fine},
		"append after append-only":                             {theirs: property("delta.appendOnly", "true"), ours: blind("y"), want: fine},
		"delete after append-only":                             {theirs: property("delta.appendOnly", "true"), ours: deleting("f1"), feature: "appendOnly"},
		"merge after append":                                   {theirs: blind("x"), ours: replace("f1", "y"), want: fine},
		"merge after append, serializable":                     {theirs: blind("x"), ours: replace("f1", "y"), level: "Serializable", want: delta.ConflictAppend},
		"merge after append that has read":                     {theirs: reading("x"), ours: replace("f1", "y"), want: delta.ConflictAppend},
		"append that has read after the same":                  {theirs: reading("x"), ours: reading("y"), want: delta.ConflictAppend},
		"append that has read after delete":                    {theirs: deleting("f1"), ours: reading("y"), want: delta.ConflictDeleteRead},
		"merge after merge of the same file":                   {theirs: replace("f1", "x"), ours: replace("f1", "y"), want: delta.ConflictDeleteDelete},
		"merge after merge of another file":                    {theirs: replace("f2", "x"), ours: replace("f1", "y"), want: delta.ConflictDeleteRead},
		"merge after compaction of the same file":              {theirs: moving("f1", "x"), ours: replace("f1", "y"), want: delta.ConflictDeleteDelete},
		"merge after compaction of another file":               {theirs: moving("f2", "x"), ours: replace("f1", "y"), want: fine},
		"compaction after append":                              {theirs: blind("x"), ours: moving("f1", "y"), want: fine},
		"compaction after merge of another file":               {theirs: replace("f2", "x"), ours: moving("f1", "y"), want: fine},
		"compaction after delete of the same file":             {theirs: deleting("f1"), ours: moving("f1", "y"), want: delta.ConflictDeleteDelete},
		"new columns after append":                             {theirs: blind("x"), ours: evolving("c"), want: fine},
		"new columns after new columns":                        {theirs: evolving("d"), ours: evolving("c"), want: delta.ConflictMetadata},
		"property after property":                              {theirs: property("p", "1"), ours: property("q", "2"), want: delta.ConflictMetadata},
		"protocol after protocol":                              {theirs: protocol("changeDataFeed"), ours: protocol("domainMetadata"), want: delta.ConflictProtocol},
		"new feature that comes with a new column":             {theirs: evolving("c timestamp_ntz"), ours: blind("y"), want: delta.ConflictMetadata},
		"narrow merge after append elsewhere":                  {theirs: blind("z"), ours: narrow("f1", "y"), want: fine},
		"narrow merge after append elsewhere, serializable":    {theirs: blind("z"), ours: narrow("f1", "y"), level: "Serializable", want: fine},
		"narrow merge after append that matters":               {theirs: blind("x"), ours: narrow("f1", "y"), want: delta.ConflictAppend},
		"narrow merge after merge elsewhere":                   {theirs: replace("f2", "z"), ours: narrow("f1", "y"), want: fine},
		"narrow merge after merge that adds what matters":      {theirs: replace("f2", "x"), ours: narrow("f1", "y"), want: delta.ConflictAppend},
		"narrow merge after merge of a file it depends on":     {theirs: replace("f2", "z"), ours: narrow("f1", "y", "f2"), want: delta.ConflictDeleteRead},
		"narrow merge after merge of the same file":            {theirs: replace("f1", "z"), ours: narrow("f1", "y"), want: delta.ConflictDeleteDelete},
		"narrow merge after compaction of the same file":       {theirs: moving("f1", "z"), ours: narrow("f1", "y"), want: delta.ConflictDeleteDelete},
		"narrow merge after compaction of a file it only read": {theirs: moving("f2", "x"), ours: narrow("f1", "y", "f2"), want: fine},
		"decision without rows after append that matters":      {theirs: blind("x"), ours: marking(), want: delta.ConflictAppend},
		"decision without rows after delete of what it read":   {theirs: deleting("f2"), ours: marking("f2"), want: delta.ConflictDeleteRead},
		"decision without rows after delete elsewhere":         {theirs: deleting("f1"), ours: marking("f2"), want: fine},
		"transaction marks only, after a delete": {theirs: deleting("f1"), ours: func(s *delta.Snapshot) delta.Change {
			return delta.Change{ReadVersion: s.Version(), Marks: []delta.Txn{{AppID: "m"}}}
		}, want: fine},
		"append after transaction marks of our own": {theirs: func(*delta.Snapshot) delta.Change {
			return delta.Change{BlindAppend: true, Marks: []delta.Txn{{AppID: "m", Version: 3}}}
		}, ours: blind("y"), want: fine},
	} {
		// Once with the race lost in the store, once with a snapshot that was
		// refreshed behind the back of whoever computed the change.
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, known %t", name, known), func(t *testing.T) {
				t.Parallel()
				st := mem.New()
				spec := delta.Spec{Schema: columns(t, "a", "b string"), Properties: map[string]string{}}
				if c.level != "" {
					spec.Properties[delta.PropIsolationLevel] = c.level
				}
				first, err := delta.Create(t.Context(), st, spec, delta.Options{})
				require.NoError(t, err)
				commit(t, first, adding("f1", "f2"))
				ours, theirs := open(t, st, delta.Options{}), open(t, st, delta.Options{})
				change := c.ours(ours.Snapshot())
				change.ReadVersion = 1
				commit(t, theirs, c.theirs(theirs.Snapshot()))
				if known {
					_, err := ours.Refresh(t.Context())
					require.NoError(t, err)
				}
				_, err = ours.Commit(t.Context(), change)
				switch {
				case c.feature != "":
					var feature *delta.FeatureError
					require.ErrorAs(t, err, &feature)
					require.Equal(t, c.feature, feature.Name)
				case c.want == fine:
					require.NoError(t, err)
					require.EqualValues(t, 3, open(t, st, delta.Options{}).Snapshot().Version())
				default:
					var conflict *delta.ConflictError
					require.ErrorAs(t, err, &conflict)
					require.Equal(t, c.want, conflict.Kind)
					require.EqualValues(t, 2, conflict.Version)
					require.EqualValues(t, 2, open(t, st, delta.Options{}).Snapshot().Version(), "nothing was committed")
				}
			})
		}
	}
}

// A change whose snapshot is gone from the log cannot be checked any more.
func TestReadVersionIsGone(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{})
	commit(t, table, adding("f1"))
	old := table.Snapshot()
	commit(t, table, adding("f2"))
	require.NoError(t, table.Checkpoint(t.Context()))
	require.NoError(t, st.Delete(t.Context(), "_delta_log/00000000000000000000.json", "_delta_log/00000000000000000001.json"))
	table = open(t, st, delta.Options{})
	_, err := table.Commit(t.Context(), replacing(old, "f1", "x"))
	require.ErrorIs(t, err, delta.ErrNoVersion)
	require.Equal(t, []string{"f1", "f2"}, freshFiles(t, st))
}

// The shape of the control table: one file per target, replaced by whoever has
// something new, and a value that never goes back.
func TestRebase(t *testing.T) {
	t.Parallel()
	st := mem.New()
	create(t, st, delta.Options{})
	const writers, each = 6, 12
	errs := make(chan error, writers)
	for w := range writers {
		table := open(t, st, delta.Options{})
		go func() {
			for i := range each {
				if err := advance(t.Context(), table, i*writers+w); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range writers {
		require.NoError(t, <-errs)
	}
	live := freshFiles(t, st)
	require.Equal(t, []string{fmt.Sprintf("value-%06d", (each-1)*writers+writers-1)}, live)
}

// advance replaces the table's one file by one for the larger of two values.
func advance(ctx context.Context, table *delta.Table, value int) error {
	rebase := func(ctx context.Context, s *delta.Snapshot) (delta.Change, error) {
		c := delta.Change{ReadVersion: s.Version()}
		for file, err := range s.Files(ctx) {
			if err != nil {
				return c, err
			}
			var have int
			if _, err := fmt.Sscanf(file.Path, "value-%d", &have); err != nil {
				return c, err
			}
			if have >= value {
				return c, nil // nothing to say: an empty commit
			}
			c.Remove = append(c.Remove, file.Remove(0, true))
		}
		c.Add = []action.Add{add(fmt.Sprintf("value-%06d", value), 1)}
		return c, nil
	}
	c, err := rebase(ctx, table.Snapshot())
	if err != nil {
		return err
	}
	c.Rebase = rebase
	_, err = table.Commit(ctx, c)
	return err
}
