package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
)

// fake is a service in memory. Its hook may answer a request instead.
type fake struct {
	mu      sync.Mutex
	objects map[string]entry
	calls   []string
	page    int // objects per page of a listing; 0 for all
	order   func(a, b string) int
	hook    func(call string) error
}

type entry struct {
	data []byte
	mark string
	time int
}

func newFake() *fake { return &fake{objects: map[string]entry{}, order: strings.Compare} }

// begin counts a request and asks the hook. The caller holds no lock.
func (f *fake) begin(ctx context.Context, op, key string) error {
	f.mu.Lock()
	call := op + " " + key
	f.calls = append(f.calls, call)
	hook := f.hook
	f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if hook != nil {
		return hook(call)
	}
	return nil
}

func (f *fake) count(part string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, call := range f.calls {
		if strings.Contains(call, part) {
			n++
		}
	}
	return n
}

func status(code int) error { return &remote.ResponseError{Status: code} }

func (f *fake) Get(ctx context.Context, key string, r remote.Range) (*remote.Body, error) {
	if err := f.begin(ctx, "get", key); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.objects[key]
	size := int64(len(e.data))
	version := fmt.Sprint(e.time)
	switch {
	case !ok:
		return nil, &remote.ResponseError{Kind: remote.Absent, Status: http.StatusNotFound}
	case r.Version != "" && r.Version != version:
		return nil, status(http.StatusPreconditionFailed)
	case r.Tail && size == 0:
		return nil, status(http.StatusRequestedRangeNotSatisfiable)
	case r.Tail:
		r.Off = max(0, size-r.Len)
		r.Len = size - r.Off
	case r.Len == 0:
		r.Len = size
	}
	part := e.data[r.Off:min(size, r.Off+r.Len)]
	return &remote.Body{Reader: io.NopCloser(bytes.NewReader(part)), Len: int64(len(part)), Size: size, Version: version}, nil
}

func (f *fake) Put(ctx context.Context, key string, data []byte, o remote.PutOptions) error {
	if err := f.begin(ctx, "put", key); err != nil {
		return err
	}
	return f.set(key, data, o)
}

func (f *fake) set(key string, data []byte, o remote.PutOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.objects[key]; ok && o.IfAbsent {
		return &remote.ResponseError{Kind: remote.Present, Status: http.StatusPreconditionFailed}
	}
	f.objects[key] = entry{data: bytes.Clone(data), mark: o.Mark, time: len(f.calls)}
	return nil
}

func (f *fake) Mark(ctx context.Context, key string) (string, error) {
	err := f.begin(ctx, "mark", key)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.objects[key].mark, err
}

func (f *fake) List(ctx context.Context, prefix, _, token string) (remote.Page, error) {
	if err := f.begin(ctx, "list", prefix); err != nil {
		return remote.Page{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var keys []string
	for key := range f.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, f.order)
	var page remote.Page
	start := max(0, slices.Index(keys, token))
	for i, key := range keys[start:] {
		if f.page > 0 && i == f.page {
			page.Token = key
			break
		}
		page.Objects = append(page.Objects, remote.Object{Key: key, Size: int64(len(f.objects[key].data)), ModTime: time.Now()})
	}
	return page, nil
}

func (f *fake) Delete(ctx context.Context, key string) error {
	if err := f.begin(ctx, "delete", key); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.objects, key)
	return nil
}

func (f *fake) Upload(ctx context.Context, key, mark string) (remote.Upload, error) {
	return &fakeUpload{fake: f, key: key, mark: mark, parts: map[int][]byte{}}, f.begin(ctx, "upload", key)
}

type fakeUpload struct {
	*fake
	key, mark string
	parts     map[int][]byte
	over      bool
}

func (u *fakeUpload) Part(ctx context.Context, n int, data []byte, _ bool) error {
	u.parts[n] = bytes.Clone(data)
	return u.begin(ctx, "part", fmt.Sprint(u.key, " ", len(data)))
}

func (u *fakeUpload) Complete(ctx context.Context) error {
	if u.over {
		return &remote.ResponseError{Kind: remote.Absent, Status: http.StatusNotFound, Code: "NoSuchUpload"}
	}
	var all []byte
	for n := range len(u.parts) {
		all = append(all, u.parts[n]...)
	}
	u.over = true
	if err := u.set(u.key, all, remote.PutOptions{Mark: u.mark}); err != nil {
		return err
	}
	return u.begin(ctx, "complete", u.key)
}

func (u *fakeUpload) Abort(ctx context.Context) error {
	u.over = true
	return u.begin(ctx, "abort", u.key)
}

func options() remote.Options {
	return remote.Options{Pause: time.Microsecond, Attempts: 4, PartBytes: 1 << 10}
}

func openAt(t *testing.T, f *fake, o remote.Options) store.Store {
	t.Helper()
	st, err := remote.NewBucket(f, o).Store("fake://bucket/root", "root")
	require.NoError(t, err)
	return st
}
