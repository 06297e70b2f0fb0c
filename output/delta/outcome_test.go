package delta_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

var errBroken = errors.New("connection reset")

// script is the faults of calls by their text, for example "put-if-absent 1 #2":
// the operation, the version (or the end of the path), and which such call it
// is; without the number every one.
type script map[string]fault.Fault

func (s script) decide(c fault.Call) fault.Fault {
	path := c.Path
	if name, ok := strings.CutPrefix(path, "_delta_log/"); ok {
		path = strings.TrimLeft(strings.TrimSuffix(name, ".json"), "0")
	}
	key := string(c.Op) + " " + path
	if f, ok := s[fmt.Sprintf("%s #%d", key, c.N)]; ok {
		return f
	}
	return s[key]
}

// faulty makes a table in memory with one row file f0 (version 1) and opens it
// through a store with the faults.
func faulty(t *testing.T, o delta.Options, faults script) (*delta.Table, *fault.Store, store.Store) {
	t.Helper()
	st := mem.New()
	commit(t, create(t, st, o), adding("f0"))
	broken := fault.Wrap(st, faults.decide)
	table := open(t, broken, o)
	broken.Reset()
	return table, broken, st
}

func fenced(version int64, paths ...string) delta.Change {
	c := adding(paths...)
	c.Fenced = &delta.Txn{AppID: "app", Version: version}
	return c
}

// Each case loses or breaks requests of one commit, of version 2, and says what
// must come out. The first two are delta PR 7345 and delta-go PR 341.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	const put, get = "put-if-absent 2", "get 2"
	for name, c := range map[string]struct {
		faults   script
		attempts int // 0: an unknown outcome
	}{
		"answer lost":                        {script{put + " #1": {After: errBroken}}, 1},
		"request lost":                       {script{put + " #1": {Before: errBroken}}, 2},
		"request lost thrice":                {script{put + " #1": {Before: errBroken}, put + " #2": {Before: errBroken}, put + " #3": {Before: errBroken}}, 4},
		"answer lost, first look fails":      {script{put + " #1": {After: errBroken}, get + " #1": {Before: errBroken}}, 2},
		"request lost, first look fails":     {script{put + " #1": {Before: errBroken}, get + " #1": {Before: errBroken}}, 2},
		"client retried inside, says exists": {script{put + " #1": {After: store.ErrExists}}, 1},
		"says exists, and is not there":      {script{put + " #1": {Before: store.ErrExists}}, 2},
		"forbidden to look":                  {script{put + " #1": {After: errBroken}, get: {Before: errBroken}}, 0},
		"nothing goes through":               {script{put: {Before: errBroken}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, broken, st := faulty(t, quick(), c.faults)
			r, err := table.Commit(t.Context(), fenced(1, "f1"))
			if c.attempts == 0 {
				var unknown *delta.UnknownOutcomeError
				require.ErrorAs(t, err, &unknown)
				require.ErrorIs(t, err, delta.ErrUnknownOutcome)
				require.ErrorIs(t, err, errBroken)
				require.EqualValues(t, 2, unknown.Version)
				return
			}
			require.NoError(t, err)
			require.Equal(t, delta.Committed, r.State)
			require.EqualValues(t, 2, r.Version)
			require.Equal(t, c.attempts, r.Attempts, "%v", broken.Calls("_delta_log"))
			require.EqualValues(t, 2, table.Snapshot().Version())
			require.Equal(t, []string{"f0", "f1"}, freshFiles(t, st))
		})
	}
}

func TestNotDoneIsNotRepeated(t *testing.T) {
	t.Parallel()
	full := store.NotDone(errors.New("disk full"))
	table, broken, _ := faulty(t, delta.Options{}, script{"put-if-absent 2": {Before: full}})
	_, err := table.Commit(t.Context(), fenced(1, "f1"))
	require.ErrorContains(t, err, "disk full")
	require.NotErrorIs(t, err, delta.ErrUnknownOutcome)
	require.Len(t, broken.Calls("_delta_log"), 1)
}

func TestUnknownOutcomeIsSettledByRepetition(t *testing.T) {
	t.Parallel()
	for name, landed := range map[string]bool{"it had landed": true, "it had not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			down := true
			f := fault.Fault{Before: errBroken}
			if landed {
				f = fault.Fault{After: errBroken}
			}
			st := mem.New()
			commit(t, create(t, st, delta.Options{}), adding("f0"))
			table := open(t, fault.Wrap(st, func(c fault.Call) fault.Fault {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case !down || !strings.Contains(c.Path, "02.json"):
					return fault.Fault{}
				case c.Op == fault.PutIfAbsent:
					return f
				default:
					return fault.Fault{Before: errBroken}
				}
			}), quick())
			_, err := table.Commit(t.Context(), fenced(1, "f1"))
			var unknown *delta.UnknownOutcomeError
			require.ErrorAs(t, err, &unknown)
			mu.Lock()
			down = false
			mu.Unlock()

			// Others go on meanwhile.
			commit(t, open(t, st, delta.Options{}), adding("other"))

			again := fenced(1, "f1")
			again.ID = unknown.ID
			r, err := table.Commit(t.Context(), again)
			require.NoError(t, err)
			require.Equal(t, delta.Committed, r.State)
			if landed {
				require.EqualValues(t, 2, r.Version)
				require.Zero(t, r.Attempts)
			} else {
				require.EqualValues(t, 3, r.Version)
			}
			require.Equal(t, []string{"f0", "f1", "other"}, freshFiles(t, st))
			commit(t, table, fenced(2, "f2"))
			require.Equal(t, []string{"f0", "f1", "f2", "other"}, freshFiles(t, st))
		})
	}
}

// A request that lands after the client gave up must not look like a second
// writer, and its rows must not be committed twice.
func TestLateLanding(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]int64{"the same batch again": 1, "the next batch": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := mem.New()
			commit(t, create(t, st, delta.Options{}), adding("f0"))
			var once sync.Once
			broken := fault.Wrap(st, func(c fault.Call) (f fault.Fault) {
				if c.Op == fault.PutIfAbsent {
					once.Do(func() { f = fault.Fault{Before: errBroken, Late: true} })
				}
				return f
			})
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(20*time.Millisecond, cancel)
			defer stop.Stop()
			// The first request is on its way for long; the caller gives up while
			// looking what became of it.
			slow := fault.Wrap(broken, func(c fault.Call) fault.Fault {
				if c.Op == fault.Get && strings.HasSuffix(c.Path, "2.json") {
					return fault.Fault{Run: func(context.Context) { <-ctx.Done() }}
				}
				return fault.Fault{}
			})
			table := open(t, slow, quick())
			_, err := table.Commit(ctx, fenced(1, "f1"))
			require.ErrorIs(t, err, delta.ErrUnknownOutcome)
			require.ErrorIs(t, err, context.Canceled)

			require.NoError(t, broken.Land(t.Context()))
			_, err = table.Commit(t.Context(), fenced(batch, "f1 again"))
			var lost *delta.FencedError
			require.ErrorAs(t, err, &lost)
			require.True(t, lost.Own, "%v", err)
			require.EqualValues(t, 2, lost.Version)
			// The caller reads its position and goes on behind it.
			v, ok := table.Snapshot().AppVersion("app")
			require.True(t, ok)
			require.EqualValues(t, 1, v)
			commit(t, table, fenced(v+1, "f2"))
			require.Equal(t, []string{"f0", "f1", "f2"}, freshFiles(t, st))
		})
	}
}

// While nobody can see whose commit has taken the application id, it is not
// called another writer's: a caller stops over that for good.
func TestLateLandingThatCannotBeSeenAtOnce(t *testing.T) {
	t.Parallel()
	st := mem.New()
	commit(t, create(t, st, delta.Options{}), adding("f0"))
	faults := make(chan fault.Fault, 2)
	gets := make(chan fault.Fault, 2)
	broken := fault.Wrap(st, func(c fault.Call) fault.Fault {
		from := faults
		switch {
		case c.Op == fault.Get && strings.HasSuffix(c.Path, "2.json"):
			from = gets
		case c.Op != fault.PutIfAbsent:
			return fault.Fault{}
		}
		select {
		case f := <-from:
			return f
		default:
			return fault.Fault{}
		}
	})
	table := open(t, broken, quick())
	ctx, cancel := context.WithCancel(t.Context())
	faults <- fault.Fault{Before: errBroken, Late: true}
	gets <- fault.Fault{Run: func(context.Context) { cancel() }}
	_, err := table.Commit(ctx, fenced(1, "f1"))
	require.ErrorIs(t, err, delta.ErrUnknownOutcome)

	require.NoError(t, broken.Land(t.Context()))
	// The commit that is in the way is read, and then not found again.
	gets <- fault.Fault{}
	gets <- fault.Fault{Before: errBroken}
	_, err = table.Commit(t.Context(), fenced(1, "f1 again"))
	require.ErrorIs(t, err, errBroken)
	require.NotErrorIs(t, err, delta.ErrFenced)

	_, err = table.Commit(t.Context(), fenced(1, "f1 again"))
	var lost *delta.FencedError
	require.ErrorAs(t, err, &lost)
	require.True(t, lost.Own, "%v", err)
	require.Equal(t, []string{"f0", "f1"}, freshFiles(t, st))
}

// Two handles on one table, the first of which holds an old snapshot.
func TestFencing(t *testing.T) {
	t.Parallel()
	st := mem.New()
	create(t, st, delta.Options{})
	ours, theirs := open(t, st, delta.Options{}), open(t, st, delta.Options{})
	commit(t, theirs, fenced(1, "theirs"))

	// kafka-delta-ingest 25, and both took the same number (delta-rs 2580).
	_, err := ours.Commit(t.Context(), fenced(1, "ours"))
	var lost *delta.FencedError
	require.ErrorAs(t, err, &lost)
	require.ErrorIs(t, err, delta.ErrFenced)
	require.False(t, lost.Own)
	require.EqualValues(t, 1, lost.Version)
	require.NotEmpty(t, lost.TxnID)

	// A higher number does not help against a commit that came in between.
	commit(t, theirs, fenced(2, "theirs 2"))
	_, err = ours.Commit(t.Context(), fenced(9, "ours"))
	require.ErrorAs(t, err, &lost)
	require.EqualValues(t, 2, lost.Version)

	// A number that is not above the known one is refused without a request.
	_, err = ours.Commit(t.Context(), fenced(2, "ours"))
	require.ErrorAs(t, err, &lost)
	require.EqualValues(t, -1, lost.Version)
	require.Equal(t, []int64{2, 2}, []int64{lost.Have, lost.Want})

	// Nor does it help to take the number from a refreshed snapshot.
	commit(t, theirs, fenced(3, "theirs 3"))
	writer := open(t, st, delta.Options{})
	commit(t, writer, fenced(4, "writer"))
	commit(t, theirs, adding("something else"))
	other := open(t, st, delta.Options{})
	commit(t, other, fenced(5, "other"))
	s, err := writer.Refresh(t.Context())
	require.NoError(t, err)
	v, _ := s.AppVersion("app")
	_, err = writer.Commit(t.Context(), fenced(v+1, "interleaved"))
	require.ErrorIs(t, err, delta.ErrFenced)

	// Watermarks of others are no fence, and may fall.
	marks := adding("mark")
	marks.Marks = []delta.Txn{{AppID: "app", Version: -5}}
	commit(t, ours, marks)
	require.Equal(t, map[string]int64{"app": -5}, appVersions(ours.Snapshot()))
	require.NotContains(t, freshFiles(t, st), "ours")
}

func TestKeyed(t *testing.T) {
	t.Parallel()
	st := mem.New()
	create(t, st, delta.Options{})
	keyed := func(version int64, path string) delta.Change {
		c := adding(path)
		c.Keyed = &delta.Txn{AppID: "key", Version: version}
		return c
	}
	ours, theirs := open(t, st, delta.Options{}), open(t, st, delta.Options{})
	commit(t, theirs, keyed(5, "five"))
	for _, v := range []int64{4, 5} {
		r, err := ours.Commit(t.Context(), keyed(v, "again")) // sees it by losing the race
		require.NoError(t, err)
		require.Equal(t, delta.AlreadyApplied, r.State)
		require.EqualValues(t, 1, r.Version)
		r, err = theirs.Commit(t.Context(), keyed(v, "again")) // knows it
		require.NoError(t, err)
		require.Equal(t, delta.AlreadyApplied, r.State)
	}
	commit(t, ours, keyed(6, "six"))
	require.Equal(t, []string{"five", "six"}, freshFiles(t, st))
}

func TestContention(t *testing.T) {
	t.Parallel()
	st := mem.New()
	create(t, st, delta.Options{})
	// Somebody else is always one step ahead.
	racer := open(t, st, delta.Options{CheckpointInterval: -1})
	n := 0
	ahead := fault.Wrap(st, func(c fault.Call) fault.Fault {
		if c.Op != fault.PutIfAbsent {
			return fault.Fault{}
		}
		n++
		path := fmt.Sprint("racer ", n)
		return fault.Fault{Run: func(context.Context) { commit(t, racer, adding(path)) }}
	})
	ours := open(t, ahead, delta.Options{CommitTimeout: 150 * time.Millisecond, CheckpointInterval: -1})
	_, err := ours.Commit(t.Context(), adding("ours"))
	require.ErrorIs(t, err, delta.ErrCommitTimeout)
	require.NotErrorIs(t, err, delta.ErrUnknownOutcome, "every lost race is a certain answer")
	require.NotContains(t, freshFiles(t, st), "ours")
	require.Equal(t, racer.Snapshot().Version(), ours.Snapshot().Version())
}

// delta-rs 3166: blind appends never conflict, however many writers there are.
func TestConcurrentAppends(t *testing.T) {
	t.Parallel()
	for name, rate := range map[string]float64{"without faults": 0, "with faults": 0.15} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const writers, each = 8, 50
			seed := uint64(time.Now().UnixNano())
			t.Log("seed", seed)
			st := mem.New()
			create(t, st, delta.Options{})
			var wg sync.WaitGroup
			errs := make(chan error, writers)
			for w := range writers {
				table := openFlaky(t, st, seed+uint64(w), rate)
				wg.Go(func() { errs <- appendMany(t.Context(), table, w, each) })
			}
			wg.Wait()
			for range writers {
				require.NoError(t, <-errs)
			}
			require.Len(t, freshFiles(t, st), writers*each)
			s := open(t, st, delta.Options{}).Snapshot()
			require.EqualValues(t, writers*each, s.Version())
			for w := range writers {
				v, _ := s.AppVersion(fmt.Sprint("writer ", w))
				require.EqualValues(t, each, v)
			}
		})
	}
}

// openFlaky opens a table whose store begins to fail once it is open.
func openFlaky(t *testing.T, st store.Store, seed uint64, rate float64) *delta.Table {
	t.Helper()
	random := fault.Random(seed, rate)
	var armed atomic.Bool
	table := open(t, fault.Wrap(st, func(c fault.Call) fault.Fault {
		if !armed.Load() {
			return fault.Fault{}
		}
		return random(c)
	}), delta.Options{CheckpointInterval: 20, CommitTimeout: 20 * time.Second})
	armed.Store(true)
	return table
}

// appendMany commits files one by one under an application id of its own.
func appendMany(ctx context.Context, table *delta.Table, writer, n int) error {
	for i := range n {
		c := adding(fmt.Sprintf("%d-%d", writer, i))
		c.Fenced = &delta.Txn{AppID: fmt.Sprint("writer ", writer), Version: int64(i + 1)}
		if _, err := table.Commit(ctx, c); err != nil {
			return fmt.Errorf("writer %d, commit %d: %w", writer, i, err)
		}
	}
	return nil
}
