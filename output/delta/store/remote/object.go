package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

const (
	// tailBytes is how much of an object's end is read with its opening: the
	// footer of a Parquet file is there, and of a small file everything.
	tailBytes = 64 << 10

	// maxRead bounds one request for a part of an object.
	maxRead = 16 << 20
)

// Open implements store.Store. It reads the end of the object along. An object
// that is replaced afterwards cannot be read any further.
func (s *Store) Open(ctx context.Context, path string) (store.Object, error) {
	key, err := s.key(path)
	if err != nil {
		return nil, err
	}
	o := &object{ctx: ctx, s: s, path: path, key: key}
	err = s.retry(ctx, func(ctx context.Context) error {
		body, err := s.b.Get(ctx, key, Range{Len: tailBytes, Tail: true})
		var response *ResponseError
		if errors.As(err, &response) && response.Status == http.StatusRequestedRangeNotSatisfiable {
			// It is empty, or, to some servers, too short to have so long an end.
			body, err = s.b.Get(ctx, key, Range{})
		}
		if err != nil {
			return err
		}
		o.size, o.version = body.Size, body.Version
		if body.Reader == nil {
			return nil
		}
		o.tail, err = body.read()
		return err
	})
	if err == nil && o.tail == nil && o.size > 0 {
		tail := make([]byte, min(o.size, tailBytes))
		if err = o.fetch(tail, o.size-int64(len(tail))); err == nil {
			o.tail = tail
		}
	}
	if err != nil {
		return nil, explain("reading", path, err)
	}
	return o, nil
}

// object is an object opened for reading.
type object struct {
	ctx     context.Context // covers every later read, as Open says
	s       *Store
	path    string
	key     string
	size    int64
	version string
	tail    []byte // its last bytes
}

// Size implements store.Object.
func (o *object) Size() int64 { return o.size }

// Close implements store.Object.
func (o *object) Close() error { return nil }

// ReadAt implements io.ReaderAt. Each call is a request, unless it is about the end
// of the object.
func (o *object) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("reading %s: offset %d is negative", o.path, off)
	}
	if off >= o.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > o.size-off
	if short {
		p = p[:o.size-off]
	}
	n, inTail := 0, o.size-int64(len(o.tail))
	for n < len(p) {
		at := off + int64(n)
		if at >= inTail {
			n += copy(p[n:], o.tail[at-inTail:])
			continue
		}
		part := p[n:min(len(p), n+maxRead)]
		if rest := inTail - at; int64(len(part)) > rest {
			part = part[:rest]
		}
		if err := o.fetch(part, at); err != nil {
			return n, explain("reading", o.path, err)
		}
		n += len(part)
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}

// fetch reads exactly the bytes from off on.
func (o *object) fetch(p []byte, off int64) error {
	return o.s.retry(o.ctx, func(ctx context.Context) error {
		body, err := o.s.b.Get(ctx, o.key, Range{Off: off, Len: int64(len(p)), Version: o.version})
		if err != nil {
			return err
		}
		if body.Len != int64(len(p)) {
			return errors.Join(fmt.Errorf("asked for %d bytes, got %d", len(p), body.Len), body.Reader.Close())
		}
		_, err = io.ReadFull(body.Reader, p)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return errors.Join(err, body.Reader.Close())
	})
}
