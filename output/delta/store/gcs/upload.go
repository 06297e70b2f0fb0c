package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
)

// Upload implements remote.Backend with a resumable upload.
func (b *backend) Upload(ctx context.Context, key, mark string) (remote.Upload, error) {
	description, err := json.Marshal(describe(key, mark))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.uploads(url.Values{"uploadType": {"resumable"}}), bytes.NewReader(description))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json; charset=UTF-8")
	req.Header.Set("X-Upload-Content-Type", contentType)
	response, err := b.do(req)
	if err != nil {
		return nil, err
	}
	session := response.Header.Get("Location")
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	if session == "" {
		return nil, errors.New("the service began an upload without saying where it goes")
	}
	return &upload{backend: b, key: key, session: session, part: -1}, nil
}

// upload is a resumable upload. Its session is a secret: whoever knows it may
// write.
type upload struct {
	*backend
	key     string
	session string

	part  int    // the part being sent
	start int64  // where it begins
	sum   uint32 // checksum of all up to its end
	sent  int64  // how much the service has, as far as known
	open  bool   // the last request failed: nobody knows how much it has
	made  *resource
}

// Part implements remote.Upload.
func (u *upload) Part(ctx context.Context, n int, data []byte, last bool) error {
	if n != u.part {
		u.part, u.start = n, u.sent
		u.sum = crc32.Update(u.sum, castagnoli(), data)
	}
	end := u.start + int64(len(data))
	total := "*"
	if last {
		total = strconv.FormatInt(end, 10)
	}
	if u.open {
		// An empty request asks how far it came.
		if err := u.put(ctx, nil, "bytes */"+total); err != nil {
			return err
		}
		u.open = false
	}
	for u.made == nil && u.sent < end {
		if u.sent < u.start {
			return &remote.ResponseError{Status: http.StatusGone, Message: fmt.Sprintf("the upload went back from byte %d to %d", u.start, u.sent)}
		}
		before, rest := u.sent, data[u.sent-u.start:]
		if err := u.put(ctx, rest, fmt.Sprintf("bytes %d-%d/%s", u.sent, end-1, total)); err != nil {
			u.open = true
			return err
		}
		if u.made == nil && u.sent <= before {
			return errors.New("the service took nothing of a part")
		}
	}
	if last {
		return u.compare(ctx)
	}
	return nil
}

// compare compares the checksum of the object with that of what was sent. Parts
// that were put together wrongly must not be seen as an object.
func (u *upload) compare(ctx context.Context) error {
	switch {
	case u.made == nil:
		return errors.New("the service has all parts and no object of them")
	case u.made.CRC32C == encodeSum(u.sum):
		return nil
	}
	err := fmt.Errorf("the service made an object of the parts whose checksum is %q and not %q; it is deleted again", u.made.CRC32C, encodeSum(u.sum))
	return errors.Join(err, u.Delete(ctx, u.key))
}

// put sends bytes, or none, and takes in how much the service has then.
func (u *upload) put(ctx context.Context, data []byte, contentRange string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, u.session, bytes.NewReader(data))
	if err != nil {
		return errors.New("the service gave an address for an upload that is no URL")
	}
	req.Header.Set("Content-Range", contentRange)
	response, err := u.do(req, http.StatusPermanentRedirect)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusPermanentRedirect { // "resume incomplete" here
		var made resource
		if err := json.Unmarshal(answer, &made); err != nil {
			return fmt.Errorf("reading the answer of the service: %w", err)
		}
		u.made = &made
		return nil
	}
	u.sent = 0
	if have := response.Header.Get("Range"); have != "" { // "bytes=0-41"
		_, end, _ := strings.Cut(have, "-")
		n, err := strconv.ParseInt(end, 10, 64)
		if err != nil {
			return fmt.Errorf("the service answered with Range %q, which has no end", have)
		}
		u.sent = n + 1
	}
	return nil
}

// Complete implements remote.Upload: the last part has completed the object.
func (u *upload) Complete(context.Context) error { return nil }

// Abort implements remote.Upload.
func (u *upload) Abort(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, u.session, nil)
	if err != nil {
		return nil // no URL, as Part has said
	}
	response, err := u.do(req, 499, http.StatusNotFound, http.StatusGone) // 499 is its success
	if err != nil {
		return err
	}
	return response.Body.Close()
}
