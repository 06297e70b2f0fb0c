package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
)

// memory is a cache that a test can look into.
type memory map[string][]byte

func (m memory) Get(_ context.Context, key string) ([]byte, error) {
	value, ok := m[key]
	if !ok {
		return nil, service.ErrKeyNotFound
	}
	return value, nil
}

func (m memory) Set(_ context.Context, key string, value []byte, _ *time.Duration) error {
	m[key] = slices.Clone(value)
	return nil
}

func (m memory) access(_ context.Context, fn func(checkpoint.Cache)) error {
	fn(m)
	return nil
}

var orders = mssqlcdc.TableID{Schema: "dbo", Name: "orders"}

func state(n byte) checkpoint.State {
	return checkpoint.State{
		Version: checkpoint.StateVersion, LSN: mssqlcdc.LSN{9: n}, DataLSN: mssqlcdc.LSN{9: n - 1},
		CommitTime: time.Date(2026, 11, 30, 0, 0, int(n), 0, time.UTC), Instance: "dbo_orders",
	}
}

func TestLoadGivesTheLastSaved(t *testing.T) {
	t.Parallel()
	cache := memory{}
	store := checkpoint.NewStore(cache.access, "orders")
	_, found, err := store.Load(t.Context(), orders)
	require.NoError(t, err)
	require.False(t, found)

	other := mssqlcdc.TableID{Schema: "dbo", Name: "lines"}
	require.NoError(t, store.Save(t.Context(), other, state(99)))
	for n := byte(1); n < 8; n++ {
		require.NoError(t, store.Save(t.Context(), orders, state(n)))
		for _, reader := range []*checkpoint.Store{store, checkpoint.NewStore(cache.access, "orders")} {
			got, found, err := reader.Load(t.Context(), orders)
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, state(n), got)
		}
	}
	require.Len(t, cache, 3, "two slots of one table and one of the other")
}

// A write that is cut off at any byte, over any older content, leaves the state
// before it; so does one bit that flips.
func TestTornAtEveryByte(t *testing.T) {
	t.Parallel()
	for saved := byte(1); saved <= 4; saved++ {
		cache := memory{}
		store := checkpoint.NewStore(cache.access, "k")
		for n := byte(1); n <= saved; n++ {
			require.NoError(t, store.Save(t.Context(), orders, state(n)))
		}
		before := maps.Clone(cache)
		require.NoError(t, store.Save(t.Context(), orders, state(saved+1)))
		key := changedKey(before, cache)
		whole, old := cache[key], before[key]

		check := func(torn []byte, what string) {
			cache[key] = torn
			got, found, err := checkpoint.NewStore(cache.access, "k").Load(t.Context(), orders)
			require.NoError(t, err, what)
			require.True(t, found, what)
			require.Equal(t, state(saved), got, what)
		}
		for cut := range len(whole) {
			check(whole[:cut], fmt.Sprintf("cut at byte %d", cut))
			if old != nil && cut < len(old) && cut > 0 && string(old[cut:]) != string(whole[cut:]) {
				mixed := append(slices.Clone(whole[:cut]), old[cut:]...)
				if string(mixed) != string(old) {
					check(mixed, fmt.Sprintf("written up to byte %d over the old content", cut))
				}
			}
			flipped := slices.Clone(whole)
			flipped[cut] ^= 0x10
			cache[key] = flipped
			got, _, err := checkpoint.NewStore(cache.access, "k").Load(t.Context(), orders)
			if err == nil { // a flip in the format's version is refused by name
				require.Equal(t, state(saved), got, "bit flipped in byte %d", cut)
			}
		}

		// Writing goes on after a torn slot, and the next state wins.
		cache[key] = whole[:len(whole)/2]
		again := checkpoint.NewStore(cache.access, "k")
		_, _, err := again.Load(t.Context(), orders)
		require.NoError(t, err)
		require.NoError(t, again.Save(t.Context(), orders, state(saved+2)))
		got, _, err := checkpoint.NewStore(cache.access, "k").Load(t.Context(), orders)
		require.NoError(t, err)
		require.Equal(t, state(saved+2), got)
	}
}

func changedKey(before, after memory) string {
	for key, value := range after {
		if string(before[key]) != string(value) {
			return key
		}
	}
	return ""
}

func TestBothSlotsTornIsAnError(t *testing.T) {
	t.Parallel()
	cache := memory{}
	store := checkpoint.NewStore(cache.access, "k")
	require.NoError(t, store.Save(t.Context(), orders, state(1)))
	for key := range cache {
		cache[key] = []byte("mssql_cdc 1 1 ")
	}
	_, _, err := checkpoint.NewStore(cache.access, "k").Load(t.Context(), orders)
	require.ErrorIs(t, err, checkpoint.ErrTorn)
	require.ErrorContains(t, err, "dbo.orders")
	require.ErrorContains(t, err, "k/dbo.orders/1")
}

func TestNewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	s := state(2)
	s.Version = checkpoint.StateVersion + 1
	require.ErrorContains(t, s.Validate(), "run the newer release")
	for name, change := range map[string]func(*checkpoint.State){
		"without an LSN":             func(s *checkpoint.State) { s.LSN = mssqlcdc.LSN{} },
		"lies before its data":       func(s *checkpoint.State) { s.DataLSN = mssqlcdc.LSN{0: 1} },
		"without a capture instance": func(s *checkpoint.State) { s.Instance = "" },
	} {
		s := state(2)
		change(&s)
		require.ErrorContains(t, s.Validate(), name)
		require.Error(t, checkpoint.NewStore(memory{}.access, "k").Save(t.Context(), orders, s))
	}
}

func TestErrorsOfTheCacheAreReturned(t *testing.T) {
	t.Parallel()
	down := errors.New("cache is down")
	store := checkpoint.NewStore(func(context.Context, func(checkpoint.Cache)) error { return down }, "k")
	_, _, err := store.Load(t.Context(), orders)
	require.ErrorIs(t, err, down, "a cache that fails must not look like an empty one")
	require.ErrorIs(t, store.Save(t.Context(), orders, state(1)), down)
}

func TestAtomicFile(t *testing.T) {
	t.Parallel()
	directory := filepath.Join(t.TempDir(), "a[b]*", "state")
	cache, err := checkpoint.NewAtomicFile(directory)
	require.NoError(t, err)
	ctx := t.Context()

	_, err = cache.Get(ctx, "k")
	require.ErrorIs(t, err, service.ErrKeyNotFound)
	require.NoError(t, cache.Set(ctx, "k", []byte("1"), nil))
	require.NoError(t, cache.Set(ctx, "k", []byte("22"), nil))
	got, err := cache.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "22", string(got))
	require.ErrorIs(t, cache.Add(ctx, "k", []byte("3"), nil), service.ErrKeyAlreadyExists)
	require.NoError(t, cache.Add(ctx, "new", nil, nil))
	require.NoError(t, cache.Delete(ctx, "k"))
	require.NoError(t, cache.Delete(ctx, "k"))
	_, err = cache.Get(ctx, "k")
	require.ErrorIs(t, err, service.ErrKeyNotFound)

	// What a crash between write and rename leaves goes away at the next start.
	left := filepath.Join(directory, "~tmp-1234")
	require.NoError(t, os.WriteFile(left, []byte("half"), 0o600))
	_, err = checkpoint.NewAtomicFile(directory)
	require.NoError(t, err)
	require.NoFileExists(t, left)
	got, err = cache.Get(ctx, "new")
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestAtomicFileKeepsKeysApart(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	cache, err := checkpoint.NewAtomicFile(directory)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-bA-B./\\~%:*é ]{1,12}`), 1, 6, rapid.ID).Draw(t, "keys")
		for i, key := range keys {
			require.NoError(t, cache.Set(context.Background(), key, []byte{byte(i)}, nil))
		}
		for i, key := range keys {
			got, err := cache.Get(context.Background(), key)
			require.NoError(t, err)
			require.Equal(t, []byte{byte(i)}, got, "%q", key)
		}
	})
	_, err = cache.Get(t.Context(), string(make([]byte, 300)))
	require.ErrorContains(t, err, "file name of")
	parent, err := os.ReadDir(filepath.Dir(directory))
	require.NoError(t, err)
	require.Len(t, parent, 1, "no key left the folder")
}

func TestAtomicFileConcurrently(t *testing.T) {
	t.Parallel()
	cache, err := checkpoint.NewAtomicFile(t.TempDir())
	require.NoError(t, err)
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			for range 10 {
				if err := cache.Set(context.Background(), "k", []byte{byte(n), byte(n)}, nil); err != nil {
					t.Errorf("storing: %v", err)
				}
				got, err := cache.Get(context.Background(), "k")
				if err != nil || len(got) != 2 || got[0] != got[1] {
					t.Errorf("read %v, %v", got, err)
				}
			}
		})
	}
	group.Wait()
}

func TestAtomicFileAsPlugin(t *testing.T) {
	t.Parallel()
	env := service.NewEmptyEnvironment()
	require.NoError(t, checkpoint.RegisterAtomicFile(env))
	found := false
	env.WalkCaches(func(name string, _ *service.ConfigView) { found = found || name == "atomic_file" })
	require.True(t, found)
	_, err := checkpoint.NewAtomicFile("")
	require.ErrorContains(t, err, "directory must not be empty")
}

func FuzzLoad(f *testing.F) {
	cache := memory{}
	store := checkpoint.NewStore(cache.access, "k")
	if err := store.Save(context.Background(), orders, state(1)); err != nil {
		f.Fatal(err)
	}
	for _, raw := range cache {
		f.Add(raw)
	}
	f.Add([]byte("mssql_cdc 2 1 00000000 {}"))
	f.Add([]byte("mssql_cdc 1 18446744073709551616 00000000 {}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		cache := memory{"k/dbo.orders/0": raw}
		got, found, err := checkpoint.NewStore(cache.access, "k").Load(t.Context(), orders)
		if err == nil && found {
			require.NoError(t, got.Validate())
		}
	})
}
