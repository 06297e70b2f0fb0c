package delta_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// results collects what OnCheckpoint is told.
type results struct {
	mu   sync.Mutex
	list []delta.CheckpointResult
}

func (r *results) add(c delta.CheckpointResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, c)
}

func (r *results) all() []delta.CheckpointResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list
}

func TestCheckpointCadence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		property string
		option   int
		want     []int64
		atClose  bool
	}{
		"by property":         {property: "7", want: []int64{6, 13, 20, 27}},
		"by option":           {option: 10, want: []int64{9, 19, 29}},
		"property beats":      {property: "20", option: 5, want: []int64{19}, atClose: true},
		"nonsense property":   {property: "often", option: 15, want: []int64{14, 29}},
		"default is hundred":  {want: nil, atClose: true},
		"off for all":         {property: "2", option: -1, want: nil},
		"more than one in 1k": {property: "1", want: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			var got results
			o := delta.Options{CheckpointInterval: c.option, OnCheckpoint: got.add}
			spec := delta.Spec{Schema: columns(t, "a"), Properties: map[string]string{}}
			if c.property != "" {
				spec.Properties[delta.PropCheckpointInterval] = c.property
			}
			table, err := delta.Create(t.Context(), st, spec, o)
			require.NoError(t, err)
			if strings.HasPrefix(name, "more than") {
				// 5000 files: every fifth commit is enough.
				many := delta.Change{BlindAppend: true}
				for i := range 5000 {
					many.Add = append(many.Add, add(fmt.Sprint("many", i), 1))
				}
				commit(t, table, many)
				c.want = []int64{4, 9, 14, 19, 24, 29}
			}
			for v := table.Snapshot().Version(); v < 30; v++ {
				commit(t, table, adding(fmt.Sprint("f", v)))
				// Let the one in the background finish, to know which it is.
				require.Eventually(t, func() bool { return idle(st, table, c.want) }, 30*time.Second, time.Millisecond)
			}
			require.NoError(t, table.Close(t.Context()))
			require.NoError(t, table.Close(t.Context()), "once more")
			if c.atClose {
				c.want = append(c.want, 30)
			}
			var versions []int64
			for _, r := range got.all() {
				require.NoError(t, r.Err)
				versions = append(versions, r.Version)
			}
			require.Equal(t, c.want, versions)
		})
	}
}

// idle reports whether the checkpoints that should exist by now do.
func idle(st store.Store, table *delta.Table, want []int64) bool {
	for _, v := range want {
		if v > table.Snapshot().Version() {
			break
		}
		if _, err := st.Get(context.Background(), replay.CheckpointPath(v)); err != nil {
			return false
		}
	}
	return true
}

// delta-rs 3049: the writer knows no files, the checkpoint must have them all.
func TestCheckpointIsTheWholeState(t *testing.T) {
	t.Parallel()
	st := mem.New()
	table := create(t, st, delta.Options{CheckpointInterval: -1})
	big := strings.Repeat("x", 3000)
	for i := range 20 {
		c := adding(fmt.Sprintf("a b/%d:%%", i))
		c.Add[0].Tags = map[string]string{"t": "1"}
		c.Marks = []delta.Txn{{AppID: fmt.Sprint("app ", i%3), Version: int64(i)}}
		switch i {
		case 3:
			c.Add[0].Stats = ""
		case 4:
			c.Add[0].Stats = `{"numRecords":1,"minValues":{"b":"` + big + `"},"maxValues":{"a":1234567890123456789}}`
		}
		commit(t, open(t, st, delta.Options{CheckpointInterval: -1}), c)
		if i == 8 {
			_, err := table.Refresh(t.Context())
			require.NoError(t, err)
			require.NoError(t, table.Checkpoint(t.Context()))
		}
	}
	s, err := table.Refresh(t.Context())
	require.NoError(t, err)
	commit(t, table, delta.Change{ReadVersion: s.Version(), Remove: []action.Remove{add("a b/0:%", 1).Remove(0, true), add("a b/15:%", 1).Remove(0, true)}})
	want := adds(t, table.Snapshot())
	require.Len(t, want, 18)
	require.NoError(t, table.Checkpoint(t.Context()))
	for v := range table.Snapshot().Version() + 1 {
		require.NoError(t, st.Delete(t.Context(), replay.CommitPath(v)))
	}
	fresh := open(t, st, delta.Options{}).Snapshot()
	require.Equal(t, want, adds(t, fresh))
	require.EqualValues(t, 18, fresh.NumFiles())
	require.Equal(t, map[string]int64{"app 0": 18, "app 1": 19, "app 2": 17}, appVersions(fresh))
	require.Equal(t, table.Snapshot().Metadata(), fresh.Metadata())
	require.Equal(t, table.Snapshot().Protocol(), fresh.Protocol())
	for txn := range fresh.AppVersions() {
		require.NotNil(t, txn.LastUpdated, "Spark drops transactions without it")
	}

	var last map[string]any
	data, err := st.Get(t.Context(), "_delta_log/_last_checkpoint")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &last))
	require.EqualValues(t, 21, last["version"])
	require.EqualValues(t, 18+2+3+2, last["size"], "adds, removes, transactions, protocol and metadata")
	require.EqualValues(t, 18, last["numOfAddFiles"])
	object, err := st.Get(t.Context(), replay.CheckpointPath(21))
	require.NoError(t, err)
	require.EqualValues(t, len(object), last["sizeInBytes"])
}

func TestTombstonesExpire(t *testing.T) {
	t.Parallel()
	st := mem.New()
	var c clock
	table, err := delta.Create(t.Context(), st, delta.Spec{
		Schema:     columns(t, "a"),
		Properties: map[string]string{delta.PropDeletedFileRetention: "interval 1 hours"},
	}, delta.Options{Now: c.now, CheckpointInterval: -1})
	require.NoError(t, err)
	commit(t, table, adding("f0"))
	for i := range 6 {
		commit(t, table, replacing(table.Snapshot(), fmt.Sprint("f", i), fmt.Sprint("f", i+1)))
		c.advance(25 * time.Minute)
	}
	require.NoError(t, table.Checkpoint(t.Context()))
	data, err := st.Get(t.Context(), "_delta_log/_last_checkpoint")
	require.NoError(t, err)
	last, err := replay.ParseLastCheckpoint(data)
	require.NoError(t, err)
	require.EqualValues(t, 2+1+2, last.Size, "protocol, metadata, one file, two tombstones younger than an hour")
	require.Equal(t, []string{"f6"}, freshFiles(t, st))
}

func TestFailedCheckpointNeverFailsACommit(t *testing.T) {
	t.Parallel()
	for _, op := range []fault.Op{fault.Create, fault.Close, fault.Put} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			create(t, st, delta.Options{})
			broken := fault.Wrap(st, func(c fault.Call) fault.Fault {
				if c.Op == op {
					return fault.Fault{Before: errBroken}
				}
				return fault.Fault{}
			})
			var got results
			table := open(t, broken, delta.Options{CheckpointInterval: 3, OnCheckpoint: got.add})
			for i := range 30 {
				commit(t, table, adding(fmt.Sprint("f", i)))
			}
			require.NoError(t, table.Close(t.Context()))
			require.NotEmpty(t, got.all())
			require.LessOrEqual(t, len(got.all()), 3, "a failed one is not repeated with every commit")
			for _, r := range got.all() {
				require.ErrorIs(t, r.Err, errBroken)
			}
			commit(t, table, adding("one more"))
			require.Len(t, freshFiles(t, st), 31)
			require.ErrorIs(t, table.Checkpoint(t.Context()), errBroken)
		})
	}
}

func TestCloseWaitsForTheCheckpoint(t *testing.T) {
	t.Parallel()
	st := mem.New()
	release, begun := make(chan struct{}), make(chan struct{})
	slow := fault.Wrap(st, func(c fault.Call) fault.Fault {
		if c.Op != fault.Create {
			return fault.Fault{}
		}
		return fault.Fault{Run: func(ctx context.Context) {
			close(begun)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}}
	})
	table := create(t, slow, delta.Options{CheckpointInterval: 2})
	commit(t, table, adding("f"))
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, table.Close(ctx), context.DeadlineExceeded)
	require.NoError(t, table.Close(t.Context()))
	// A closed table still commits, without checkpoints.
	commit(t, table, adding("g"))
	close(release)
	_, err := st.Get(t.Context(), replay.CheckpointPath(1))
	require.ErrorIs(t, err, store.ErrNotFound, "it was given up")
}

// Two writers count the same commits: one checkpoint is enough for both.
func TestCheckpointsOfOthersCount(t *testing.T) {
	t.Parallel()
	st := mem.New()
	var got results
	o := delta.Options{CheckpointInterval: 10, OnCheckpoint: got.add}
	create(t, st, delta.Options{CheckpointInterval: -1})
	a, b := open(t, st, o), open(t, st, o)
	for i := range 9 {
		commit(t, a, adding(fmt.Sprint("a", i)))
	}
	require.NoError(t, a.Close(t.Context()))
	require.Len(t, got.all(), 1)
	for i := range 9 {
		commit(t, b, adding(fmt.Sprint("b", i)))
	}
	require.NoError(t, b.Close(t.Context()))
	require.Len(t, got.all(), 1)
	require.Len(t, freshFiles(t, st), 18)
}

func TestLastCheckpointNeverMovesBack(t *testing.T) {
	t.Parallel()
	st := mem.New()
	old := create(t, st, delta.Options{CheckpointInterval: -1})
	commit(t, old, adding("f1"))
	newer := open(t, st, delta.Options{CheckpointInterval: -1})
	commit(t, newer, adding("f2"))
	require.NoError(t, newer.Checkpoint(t.Context()))
	require.NoError(t, old.Checkpoint(t.Context()))
	data, err := st.Get(t.Context(), "_delta_log/_last_checkpoint")
	require.NoError(t, err)
	last, err := replay.ParseLastCheckpoint(data)
	require.NoError(t, err)
	require.EqualValues(t, 2, last.Version)
}

// Whatever is wrong with the pointer, the log has the truth.
func TestBrokenLastCheckpoint(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty":              "",
		"torn":               `{"version":1,"si`,
		"no version":         `{"size":3}`,
		"not there any more": `{"version":0,"size":3}`,
		"from the future":    `{"version":77,"size":3}`,
		"negative":           `{"version":-4}`,
		"wrong checksum":     `{"version":2,"size":3,"checksum":"00"}`,
		"a list":             `[1]`,
		"a fraction":         `{"version":1.5}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			table := create(t, st, delta.Options{CheckpointInterval: -1})
			for i := range 4 {
				commit(t, table, adding(fmt.Sprint("f", i)))
				if i == 1 {
					require.NoError(t, table.Checkpoint(t.Context()))
				}
			}
			require.NoError(t, st.Put(t.Context(), "_delta_log/_last_checkpoint", []byte(content)))
			require.Len(t, freshFiles(t, st), 4)
			require.NoError(t, table.Checkpoint(t.Context()))
			require.Len(t, freshFiles(t, st), 4)
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		st := mem.New()
		commit(t, create(t, st, delta.Options{}), adding("f"))
		broken := fault.Wrap(st, func(c fault.Call) fault.Fault {
			if strings.HasSuffix(c.Path, "_last_checkpoint") {
				return fault.Fault{Before: errors.New("forbidden")}
			}
			return fault.Fault{}
		})
		require.Len(t, freshFiles(t, broken), 1)
	})
}
