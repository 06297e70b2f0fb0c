package gcs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
)

// backend is the requests for one bucket.
type backend struct {
	client   *http.Client
	endpoint string
	bucket   string
}

// contentType of all objects; nothing depends on it.
const contentType = "application/octet-stream"

// maxAnswer bounds what is read of an answer that is no object.
const maxAnswer = 16 << 20

// object is the URL of an object with a query.
func (b *backend) object(key string, query url.Values) string {
	return b.endpoint + "/storage/v1/b/" + url.PathEscape(b.bucket) + "/o/" + url.PathEscape(key) + "?" + query.Encode()
}

// uploads is the URL to send a new object to.
func (b *backend) uploads(query url.Values) string {
	return b.endpoint + "/upload/storage/v1/b/" + url.PathEscape(b.bucket) + "/o?" + query.Encode()
}

// do makes a request. Answers that are not a success are errors, but those given
// as fine.
func (b *backend) do(req *http.Request, fine ...int) (*http.Response, error) {
	response, err := b.client.Do(req)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	for _, status := range fine {
		if response.StatusCode == status {
			return response, nil
		}
	}
	return nil, errors.Join(answer(response), response.Body.Close())
}

// call makes a request whose answer is JSON, and reads it into out if that is not
// nil.
func (b *backend) call(req *http.Request, out any) error {
	response, err := b.do(req)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("reading the answer of the service: %w", err)
	}
	return nil
}

// answer reads an error of the service.
func answer(response *http.Response) error {
	out := &remote.ResponseError{Status: response.StatusCode}
	var body struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && json.Unmarshal(data, &body) == nil { // otherwise it is some proxy's page
		out.Message = body.Error.Message
		if len(body.Error.Errors) > 0 {
			out.Code = body.Error.Errors[0].Reason
		}
	}
	switch response.StatusCode {
	case http.StatusNotFound:
		out.Kind = remote.Absent
	case http.StatusPreconditionFailed:
		out.Kind = remote.Present
	}
	return out
}

// Get implements remote.Backend.
func (b *backend) Get(ctx context.Context, key string, r remote.Range) (*remote.Body, error) {
	query := url.Values{"alt": {"media"}}
	if r.Version != "" {
		query.Set("ifGenerationMatch", r.Version)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.object(key, query), nil)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Tail:
		req.Header.Set("Range", fmt.Sprintf("bytes=-%d", r.Len))
	case r.Len > 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.Off, r.Off+r.Len-1))
	}
	response, err := b.do(req)
	if err != nil {
		return nil, err
	}
	body := &remote.Body{Reader: response.Body, Len: response.ContentLength, Size: response.ContentLength, Version: response.Header.Get("X-Goog-Generation")}
	if contentRange := response.Header.Get("Content-Range"); contentRange != "" {
		_, total, _ := strings.Cut(contentRange, "/")
		if body.Size, err = strconv.ParseInt(total, 10, 64); err != nil {
			return nil, errors.Join(fmt.Errorf("the service answered with Content-Range %q, which has no size", contentRange), response.Body.Close())
		}
	}
	if body.Len < 0 {
		return nil, errors.Join(errors.New("the service answered without a length"), response.Body.Close())
	}
	return body, nil
}

// resource is what a new object is described by.
type resource struct {
	Name     string            `json:"name"`
	CRC32C   string            `json:"crc32c,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func describe(key, mark string) resource {
	r := resource{Name: key}
	if mark != "" {
		r.Metadata = map[string]string{remote.MarkName: mark}
	}
	return r
}

// castagnoli is the polynomial of the service's checksums.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// encodeSum writes a checksum as the service does.
func encodeSum(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// boundary separates the parts of a request. A random one would be needed only if
// somebody looked for it in the content, which has a length.
const boundary = "=-=rpconnect=-="

// Put implements remote.Backend, with a request of two parts: the description,
// with a checksum that the service compares, and the content.
func (b *backend) Put(ctx context.Context, key string, data []byte, o remote.PutOptions) error {
	r := describe(key, o.Mark)
	r.CRC32C = encodeSum(crc32.Checksum(data, castagnoli()))
	description, err := json.Marshal(r)
	if err != nil {
		return err
	}
	query := url.Values{"uploadType": {"multipart"}, "fields": {"name"}}
	if o.IfAbsent {
		query.Set("ifGenerationMatch", "0")
	}
	head := fmt.Appendf(nil, "--%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n%s\r\n--%s\r\nContent-Type: %s\r\n\r\n", boundary, description, boundary, contentType)
	tail := fmt.Appendf(nil, "\r\n--%s--\r\n", boundary)
	body := io.MultiReader(bytes.NewReader(head), bytes.NewReader(data), bytes.NewReader(tail))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.uploads(query), body)
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(head) + len(data) + len(tail))
	req.Header.Set("Content-Type", `multipart/related; boundary="`+boundary+`"`)
	return b.call(req, nil)
}

// Mark implements remote.Backend.
func (b *backend) Mark(ctx context.Context, key string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.object(key, url.Values{"fields": {"metadata"}}), nil)
	if err != nil {
		return "", err
	}
	var out resource
	err = b.call(req, &out)
	return out.Metadata[remote.MarkName], err
}

// List implements remote.Backend.
func (b *backend) List(ctx context.Context, prefix, startAfter, token string) (remote.Page, error) {
	query := url.Values{"fields": {"items(name,size,updated),nextPageToken"}}
	for name, value := range map[string]string{"prefix": prefix, "startOffset": startAfter, "pageToken": token} {
		if value != "" {
			query.Set(name, value)
		}
	}
	address := b.endpoint + "/storage/v1/b/" + url.PathEscape(b.bucket) + "/o?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return remote.Page{}, err
	}
	var out struct {
		Items []struct {
			Name    string
			Size    int64 `json:",string"`
			Updated time.Time
		}
		NextPageToken string
	}
	if err := b.call(req, &out); err != nil {
		return remote.Page{}, err
	}
	page := remote.Page{Token: out.NextPageToken}
	for _, item := range out.Items {
		page.Objects = append(page.Objects, remote.Object{Key: item.Name, Size: item.Size, ModTime: item.Updated})
	}
	return page, nil
}

// Delete implements remote.Backend.
func (b *backend) Delete(ctx context.Context, key string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, b.object(key, nil), nil)
	if err != nil {
		return err
	}
	return b.call(req, nil)
}
