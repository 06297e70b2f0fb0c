package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/storetest"
)

var errLost = errors.New("lost")

func TestContract(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*fake, *remote.Options){
		"in order":  func(f *fake, _ *remote.Options) { f.page = 3 },
		"unordered": func(f *fake, o *remote.Options) { f.page = 3; f.order = descending; o.Unordered = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) func() store.Store {
				f, o := newFake(), options()
				prepare(f, &o)
				return func() store.Store { return openAt(t, f, o) }
			})
		})
	}
}

func descending(a, b string) int { return strings.Compare(b, a) }

func TestAListingOutOfOrderIsAnError(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.order = descending
	st := openAt(t, f, options())
	require.NoError(t, st.Put(t.Context(), "a", nil))
	require.NoError(t, st.Put(t.Context(), "b", nil))
	var last error
	for _, err := range st.List(t.Context(), "", "") {
		last = err
	}
	require.ErrorContains(t, last, "byte order")
}

func TestNamesThatAreNoPathsAreNotListed(t *testing.T) {
	t.Parallel()
	f := newFake()
	for _, key := range []string{"root/", "root/_delta_log/", "root/a//b", "root/a", "rootless"} {
		require.NoError(t, f.set(key, nil, remote.PutOptions{}))
	}
	var paths []string
	for info, err := range openAt(t, f, options()).List(t.Context(), "", "") {
		require.NoError(t, err)
		paths = append(paths, info.Path)
	}
	require.Equal(t, []string{"a"}, paths)
}

// Requests are repeated for errors that pass and not for others, and never more
// often than is said.
func TestWhatIsRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		calls int
	}{
		{errLost, 4},
		{status(500), 4},
		{status(503), 4},
		{status(429), 4},
		{&remote.ResponseError{Status: 400, Code: "RequestTimeout"}, 4},
		{&remote.ResponseError{Status: 403, Code: "RequestTimeTooSkewed"}, 4},
		{&remote.ResponseError{Kind: remote.Busy, Status: 409}, 4},
		{status(400), 1},
		{status(401), 1},
		{status(403), 1},
		{status(409), 1},
		{status(501), 1},
	} {
		f := newFake()
		f.hook = func(string) error { return c.err }
		_, err := openAt(t, f, options()).Get(t.Context(), "x")
		require.ErrorIs(t, err, c.err)
		require.NotErrorIs(t, err, store.ErrNotFound)
		require.Equal(t, c.calls, f.count("get"), "%v", c.err)
	}
}

func TestARequestHasATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		slow := 0
		o := options()
		o.Timeout = time.Minute
		st := openAt(t, f, o)
		require.NoError(t, st.Put(t.Context(), "x", []byte("data")))
		f.hook = func(string) error {
			if slow++; slow < 3 {
				time.Sleep(2 * time.Minute)
				return context.DeadlineExceeded // as a client says whose request was cut
			}
			return nil
		}
		got, err := st.Get(t.Context(), "x")
		require.NoError(t, err)
		require.Equal(t, "data", string(got))
		slow = -100
		_, err = st.Get(t.Context(), "x")
		require.ErrorContains(t, err, "no answer within 1m0s")
		require.NotErrorIs(t, err, context.DeadlineExceeded, "it is not the caller's time that is over")
	})
}

func TestURLsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hook = func(string) error {
		return &url.Error{Op: "Get", URL: "https://host/x?sig=secret", Err: errLost}
	}
	_, err := openAt(t, f, options()).Get(t.Context(), "x")
	require.ErrorIs(t, err, errLost)
	require.NotContains(t, err.Error(), "secret")
}

// The proof is made once per bucket, and only a proof is remembered.
func TestProbe(t *testing.T) {
	t.Parallel()
	f := newFake()
	bucket := remote.NewBucket(f, options())
	one, err := bucket.Store("fake://bucket/one", "one")
	require.NoError(t, err)
	two, err := bucket.Store("fake://bucket/two", "two")
	require.NoError(t, err)
	f.hook = func(string) error { return status(503) }
	err = one.PutIfAbsent(t.Context(), "a", nil)
	require.ErrorIs(t, err, store.ErrNotDone)
	var refused *store.ConditionalPutError
	require.False(t, errors.As(err, &refused), "that may pass")
	f.hook = nil
	require.NoError(t, one.PutIfAbsent(t.Context(), "a", nil))
	probes := f.count(".probe-")
	require.NoError(t, one.PutIfAbsent(t.Context(), "b", nil))
	require.NoError(t, two.PutIfAbsent(t.Context(), "a", nil))
	require.NoError(t, store.Probe(t.Context(), two))
	require.Equal(t, probes, f.count(".probe-"))
	require.Len(t, f.objects, 3, "nothing is left of it")

	for name, hook := range map[string]func(f *fake) func(string) error{
		"unknown to the service": func(*fake) func(string) error { return func(string) error { return status(http.StatusNotImplemented) } },
		"inverted": func(*fake) func(string) error {
			return func(string) error { return &remote.ResponseError{Kind: remote.Present, Status: 412} }
		},
		"ignored": func(f *fake) func(string) error {
			return func(string) error { f.mu.Lock(); defer f.mu.Unlock(); clear(f.objects); return nil }
		},
	} {
		f := newFake()
		f.hook = hook(f)
		st := openAt(t, f, options())
		for range 2 {
			err := st.PutIfAbsent(t.Context(), "a", nil)
			require.ErrorAs(t, err, &refused, name)
			require.ErrorIs(t, err, store.ErrNotDone)
			require.ErrorContains(t, err, "fake://bucket/root")
		}
		require.Zero(t, f.count("put root/a"), "nothing is written there: %s", name)
	}
	require.NoError(t, store.Probe(t.Context(), nil), "a store that needs no proof")
}

// Reading part by part is reading the whole.
func TestReadAt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 100, 64 << 10, 64<<10 + 1, 200_000}).Draw(rt, "size")
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7)
		}
		f := newFake()
		st := openAt(t, f, options())
		require.NoError(rt, st.Put(t.Context(), "x", data))
		o, err := st.Open(t.Context(), "x")
		require.NoError(rt, err)
		require.EqualValues(rt, size, o.Size())
		off := rapid.IntRange(0, size+10).Draw(rt, "off")
		part := make([]byte, rapid.IntRange(0, size+10).Draw(rt, "len"))
		n, err := o.ReadAt(part, int64(off))
		wantN, wantErr := bytes.NewReader(data).ReadAt(bytes.Clone(part), int64(off))
		require.Equal(rt, wantN, n)
		require.Equal(rt, wantErr, err)
		require.True(rt, bytes.Equal(data[min(off, size):min(off, size)+n], part[:n]))
	})
}

func TestAReplacedObjectIsNotMixed(t *testing.T) {
	t.Parallel()
	f := newFake()
	st := openAt(t, f, options())
	require.NoError(t, st.Put(t.Context(), "x", make([]byte, 200_000)))
	o, err := st.Open(t.Context(), "x")
	require.NoError(t, err)
	require.NoError(t, st.Put(t.Context(), "x", bytes.Repeat([]byte{1}, 200_000)))
	_, err = o.ReadAt(make([]byte, 10), 0)
	require.ErrorContains(t, err, "412")
	_, err = o.ReadAt(make([]byte, 10), -1)
	require.Error(t, err)
	_, err = o.ReadAt(make([]byte, 10), 200_000)
	require.ErrorIs(t, err, io.EOF)
}

// Whatever the pieces, the object is what was written; a lost answer at any request
// changes nothing.
func TestUploads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFake()
		st := openAt(t, f, options())
		lost := rapid.IntRange(-1, 8).Draw(rt, "lost")
		f.hook = func(string) error {
			if lost--; lost == 0 {
				return errLost
			}
			return nil
		}
		w, err := st.Create(t.Context(), "x")
		require.NoError(rt, err)
		var all []byte
		for i, size := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 500, 1023, 1024, 1025, 3000}), 0, 6).Draw(rt, "pieces") {
			piece := bytes.Repeat([]byte{byte(i + 1)}, size)
			all = append(all, piece...)
			n, err := w.Write(piece)
			require.NoError(rt, err)
			require.Equal(rt, size, n)
			clear(piece) // it is the caller's again
		}
		require.NoError(rt, w.Close())
		lost = -1
		got, err := st.Get(t.Context(), "x")
		require.NoError(rt, err)
		require.True(rt, bytes.Equal(all, got))
		require.Equal(rt, len(all) > 1024, f.count("upload ") > 0, "parts are for what does not fit into one")
	})
}

func TestABrokenUploadIsRemoved(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hook = func(call string) error {
		if strings.HasPrefix(call, "part") {
			return status(403)
		}
		return nil
	}
	st := openAt(t, f, options())
	w, err := st.Create(t.Context(), "x")
	require.NoError(t, err)
	var failed error
	for range 10 {
		if _, failed = w.Write(make([]byte, 1024)); failed != nil {
			break
		}
	}
	require.ErrorContains(t, failed, "403")
	require.ErrorContains(t, w.Close(), "403")
	require.Equal(t, 1, f.count("abort"))

	ctx, cancel := context.WithCancel(t.Context())
	f.hook = nil
	w, err = st.Create(ctx, "y")
	require.NoError(t, err)
	_, err = w.Write(make([]byte, 5000))
	require.NoError(t, err)
	cancel()
	_, err = w.Write(make([]byte, 5000))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, w.Abort(), "what was sent is removed all the same")
	require.Equal(t, 2, f.count("abort"))
	_, err = st.Get(t.Context(), "y")
	require.ErrorIs(t, err, store.ErrNotFound)
}

// A writer holds two parts at most, however large the object.
func TestAWriterHasBoundedMemory(t *testing.T) {
	const parts = 200
	o := options()
	o.PartBytes = 64 << 10
	st, err := remote.NewBucket(&sink{fake: newFake()}, o).Store("fake://bucket", "")
	require.NoError(t, err)
	piece := make([]byte, 8<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w, err := st.Create(t.Context(), "x")
	require.NoError(t, err)
	for range parts * 8 {
		_, err := w.Write(piece)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(10*o.PartBytes))
}

// sink takes parts and keeps nothing.
type sink struct{ *fake }

func (s *sink) Upload(context.Context, string, string) (remote.Upload, error) { return nothing{}, nil }

type nothing struct{}

func (nothing) Part(context.Context, int, []byte, bool) error { return nil }
func (nothing) Complete(context.Context) error                { return nil }
func (nothing) Abort(context.Context) error                   { return nil }

func TestDeletesGoOn(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.hook = func(call string) error {
		if call == "delete root/3" {
			return status(403)
		}
		return nil
	}
	st := openAt(t, f, options())
	var paths []string
	for i := range 30 {
		paths = append(paths, fmt.Sprint(i))
		require.NoError(t, st.Put(t.Context(), paths[i], nil))
	}
	require.ErrorContains(t, st.Delete(t.Context(), paths...), "deleting 3")
	require.Len(t, f.objects, 1)
}

func TestRoots(t *testing.T) {
	t.Parallel()
	b := remote.NewBucket(newFake(), remote.Options{})
	for _, root := range []string{"/a", "a/", "a//b", "..", "a/../b"} {
		_, err := b.Store("fake://x", root)
		require.Error(t, err, root)
	}
	st, err := b.Store("fake://x", "")
	require.NoError(t, err)
	require.NoError(t, st.PutIfAbsent(t.Context(), "a/b", nil))
	require.ErrorIs(t, st.PutIfAbsent(t.Context(), "a/b", nil), store.ErrExists)
}
