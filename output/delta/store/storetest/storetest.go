// Package storetest is the suite that every store.Store must pass.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Opener makes an empty place for objects and returns a function that opens a
// store on it; every call gives a handle of its own onto the same objects.
type Opener func(t *testing.T) (open func() store.Store)

// Run runs the suite. Each case has a place of its own.
func Run(t *testing.T, opener Opener) {
	cases := []struct {
		name string
		run  func(t *testing.T, open func() store.Store)
	}{
		{"get returns what put wrote", getAfterPut},
		{"absence is ErrNotFound", absent},
		{"put replaces", putReplaces},
		{"put if absent creates once", putIfAbsentOnce},
		{"put if absent has one winner", putIfAbsentRace},
		{"put if absent shows whole objects", putIfAbsentWhole},
		{"list is in byte order at any depth", listOrder},
		{"list by prefix and start", listRanges},
		{"list of nothing is empty", listEmpty},
		{"list can be left early", listBreak},
		{"list tells size and time", listInfo},
		{"create shows nothing before close", createHidden},
		{"create replaces on close", createReplaces},
		{"abort leaves nothing", createAbort},
		{"create without a writer", createNothing},
		{"close and abort are idempotent", createIdempotent},
		{"open reads at any offset", openReads},
		{"delete ignores what is absent", deleteAbsent},
		{"names keep their bytes", oddNames},
		{"paths cannot leave the root", badPaths},
		{"a cancelled context stops", cancelled},
		{"large objects", largeObject},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, opener(t))
		})
	}
}

func put(t *testing.T, s store.Store, paths ...string) {
	t.Helper()
	for _, path := range paths {
		require.NoError(t, s.Put(t.Context(), path, []byte(path)))
	}
}

func list(t *testing.T, s store.Store, prefix, startAfter string) []string {
	t.Helper()
	paths := []string{}
	for info, err := range s.List(t.Context(), prefix, startAfter) {
		require.NoError(t, err)
		paths = append(paths, info.Path)
	}
	return paths
}

func getAfterPut(t *testing.T, open func() store.Store) {
	s := open()
	for _, data := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte{0, 255}, 1000)} {
		require.NoError(t, s.Put(t.Context(), "a/b/c", data))
		got, err := open().Get(t.Context(), "a/b/c")
		require.NoError(t, err)
		require.Len(t, got, len(data))
		require.True(t, bytes.Equal(data, got))
	}
	data := []byte("mine")
	require.NoError(t, s.Put(t.Context(), "d", data))
	data[0] = 'X'
	got, err := s.Get(t.Context(), "d")
	require.NoError(t, err)
	require.Equal(t, "mine", string(got), "the store must not keep the caller's slice")
}

func absent(t *testing.T, open func() store.Store) {
	s := open()
	_, err := s.Get(t.Context(), "_delta_log/0.json")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Open(t.Context(), "_delta_log/0.json")
	require.ErrorIs(t, err, store.ErrNotFound)
	put(t, s, "dir/file")
	_, err = s.Get(t.Context(), "dir")
	require.ErrorIs(t, err, store.ErrNotFound, "a folder is no object")
	_, err = s.Open(t.Context(), "dir")
	require.ErrorIs(t, err, store.ErrNotFound, "a folder is no object")
}

func putReplaces(t *testing.T, open func() store.Store) {
	s := open()
	require.NoError(t, s.Put(t.Context(), "p", []byte("a longer first version")))
	require.NoError(t, s.Put(t.Context(), "p", []byte("second")))
	got, err := s.Get(t.Context(), "p")
	require.NoError(t, err)
	require.Equal(t, "second", string(got))
}

func putIfAbsentOnce(t *testing.T, open func() store.Store) {
	s := open()
	require.NoError(t, s.PutIfAbsent(t.Context(), "log/1", []byte("first")))
	require.ErrorIs(t, s.PutIfAbsent(t.Context(), "log/1", []byte("second")), store.ErrExists)
	require.ErrorIs(t, open().PutIfAbsent(t.Context(), "log/1", []byte("first")), store.ErrExists)
	got, err := s.Get(t.Context(), "log/1")
	require.NoError(t, err)
	require.Equal(t, "first", string(got))
	require.NoError(t, s.Delete(t.Context(), "log/1"))
	require.NoError(t, s.PutIfAbsent(t.Context(), "log/1", []byte("third")))
	require.Equal(t, []string{"log/1"}, list(t, s, "", ""), "a lost race must leave nothing behind")
}

func putIfAbsentRace(t *testing.T, open func() store.Store) {
	const writers, keys = 8, 25
	wins := make([][]string, writers)
	var wg sync.WaitGroup
	failures := make(chan error, writers*keys)
	for w := range writers {
		s := open()
		wg.Go(func() {
			for k := range keys {
				path := fmt.Sprintf("race/%03d", k)
				switch err := s.PutIfAbsent(t.Context(), path, fmt.Appendf(nil, "writer %d", w)); {
				case err == nil:
					wins[w] = append(wins[w], path)
				case !errors.Is(err, store.ErrExists):
					failures <- err
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	owner := map[string]int{}
	for w, paths := range wins {
		for _, path := range paths {
			_, twice := owner[path]
			require.False(t, twice, "%s has two winners", path)
			owner[path] = w
		}
	}
	require.Len(t, owner, keys)
	for path, w := range owner {
		got, err := open().Get(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("writer %d", w), string(got))
	}
}

func putIfAbsentWhole(t *testing.T, open func() store.Store) {
	const rounds = 20
	data := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	writer, reader := open(), open()
	done := make(chan error, 1)
	go func() {
		for i := range rounds {
			if err := writer.PutIfAbsent(t.Context(), fmt.Sprintf("big/%03d", i), data); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range rounds {
		for {
			got, err := reader.Get(t.Context(), fmt.Sprintf("big/%03d", i))
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			require.NoError(t, err)
			require.Len(t, got, len(data), "a reader saw half an object")
			break
		}
	}
	require.NoError(t, <-done)
}

func createHidden(t *testing.T, open func() store.Store) {
	s := open()
	w, err := s.Create(t.Context(), "data/part")
	require.NoError(t, err)
	_, err = w.Write([]byte("half"))
	require.NoError(t, err)
	_, err = open().Get(t.Context(), "data/part")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Empty(t, list(t, open(), "", ""))
	_, err = w.Write([]byte(" and half"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	got, err := open().Get(t.Context(), "data/part")
	require.NoError(t, err)
	require.Equal(t, "half and half", string(got))
	require.Equal(t, []string{"data/part"}, list(t, s, "", ""))
}

func createReplaces(t *testing.T, open func() store.Store) {
	s := open()
	put(t, s, "p")
	w, err := s.Create(t.Context(), "p")
	require.NoError(t, err)
	_, err = w.Write([]byte("new"))
	require.NoError(t, err)
	got, err := s.Get(t.Context(), "p")
	require.NoError(t, err)
	require.Equal(t, "p", string(got))
	require.NoError(t, w.Close())
	got, err = s.Get(t.Context(), "p")
	require.NoError(t, err)
	require.Equal(t, "new", string(got))
}

func createAbort(t *testing.T, open func() store.Store) {
	s := open()
	w, err := s.Create(t.Context(), "data/part")
	require.NoError(t, err)
	_, err = w.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, w.Abort())
	_, err = s.Get(t.Context(), "data/part")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Empty(t, list(t, s, "", ""))
}

// A writer that is nil must be equal to nil: whoever wraps a store asks.
func createNothing(t *testing.T, open func() store.Store) {
	w, err := open().Create(t.Context(), "../outside")
	require.Error(t, err)
	require.True(t, w == nil)
}

func createIdempotent(t *testing.T, open func() store.Store) {
	s := open()
	w, err := s.Create(t.Context(), "closed")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.NoError(t, w.Abort())
	_, err = w.Write([]byte("late"))
	require.Error(t, err)
	require.Equal(t, []string{"closed"}, list(t, s, "", ""))

	w, err = s.Create(t.Context(), "aborted")
	require.NoError(t, err)
	require.NoError(t, w.Abort())
	require.NoError(t, w.Abort())
	require.NoError(t, w.Close())
	require.Equal(t, []string{"closed"}, list(t, s, "", ""))
}

func openReads(t *testing.T, open func() store.Store) {
	s := open()
	data := []byte("0123456789")
	require.NoError(t, s.Put(t.Context(), "o", data))
	obj, err := s.Open(t.Context(), "o")
	require.NoError(t, err)
	require.EqualValues(t, 10, obj.Size())
	buf := make([]byte, 4)
	n, err := obj.ReadAt(buf, 3)
	require.NoError(t, err)
	require.Equal(t, "3456", string(buf[:n]))
	n, err = obj.ReadAt(buf, 8)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "89", string(buf[:n]))
	all, err := io.ReadAll(io.NewSectionReader(obj, 0, obj.Size()))
	require.NoError(t, err)
	require.Equal(t, data, all)
	require.NoError(t, obj.Close())
}

func deleteAbsent(t *testing.T, open func() store.Store) {
	s := open()
	put(t, s, "a", "b", "c/d")
	require.NoError(t, s.Delete(t.Context(), "a", "nothing", "no/where", "c/d"))
	require.Equal(t, []string{"b"}, list(t, s, "", ""))
	require.NoError(t, s.Delete(t.Context()))
}

func oddNames(t *testing.T, open func() store.Store) {
	s := open()
	names := []string{"p=a%3Ab%2520/x", "p=ü/x", "a b", "a+b", "a&b;c", "x=1/y=__HIVE_DEFAULT_PARTITION__/z", "%", "#?"}
	put(t, s, names...)
	for _, name := range names {
		got, err := s.Get(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, name, string(got))
	}
	require.ElementsMatch(t, names, list(t, s, "", ""))
}

func badPaths(t *testing.T, open func() store.Store) {
	s := open()
	for _, path := range []string{"", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\x00b"} {
		require.Error(t, s.Put(t.Context(), path, nil), "put %q", path)
		require.Error(t, s.PutIfAbsent(t.Context(), path, nil), "put if absent %q", path)
		_, err := s.Get(t.Context(), path)
		require.Error(t, err, "get %q", path)
		_, err = s.Open(t.Context(), path)
		require.Error(t, err, "open %q", path)
		_, err = s.Create(t.Context(), path)
		require.Error(t, err, "create %q", path)
		require.Error(t, s.Delete(t.Context(), path), "delete %q", path)
	}
	require.Empty(t, list(t, s, "", ""))
}

func cancelled(t *testing.T, open func() store.Store) {
	s := open()
	put(t, s, "a")
	ctx, cancel := context.WithCancel(t.Context())
	w, err := s.Create(ctx, "b")
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, w.Close(), context.Canceled)
	_, err = s.Get(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Put(ctx, "c", nil), context.Canceled)
	require.ErrorIs(t, s.PutIfAbsent(ctx, "c", nil), context.Canceled)
	require.ErrorIs(t, s.Delete(ctx, "a"), context.Canceled)
	for _, err := range s.List(ctx, "", "") {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, []string{"a"}, list(t, s, "", ""))
}

func largeObject(t *testing.T, open func() store.Store) {
	s := open()
	w, err := s.Create(t.Context(), "large")
	require.NoError(t, err)
	chunk := bytes.Repeat([]byte("abcdefgh"), 8<<10)
	for range 300 {
		n, err := w.Write(chunk)
		require.NoError(t, err)
		require.Equal(t, len(chunk), n)
	}
	require.NoError(t, w.Close())
	obj, err := s.Open(t.Context(), "large")
	require.NoError(t, err)
	defer func() { require.NoError(t, obj.Close()) }()
	require.EqualValues(t, 300*len(chunk), obj.Size())
	tail := make([]byte, 8)
	_, err = obj.ReadAt(tail, obj.Size()-8)
	require.NoError(t, err)
	require.Equal(t, "abcdefgh", string(tail))
}

func listInfo(t *testing.T, open func() store.Store) {
	s := open()
	before := time.Now().Add(-time.Minute)
	require.NoError(t, s.Put(t.Context(), "x/y", make([]byte, 12345)))
	for info, err := range s.List(t.Context(), "x/", "") {
		require.NoError(t, err)
		require.Equal(t, "x/y", info.Path)
		require.EqualValues(t, 12345, info.Size)
		require.True(t, info.ModTime.After(before))
	}
}
