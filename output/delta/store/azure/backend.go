package azure

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
)

// backend is the requests for one container.
type backend struct{ client *container.Client }

// folderMark is the metadata of the folders of a hierarchical namespace, which are
// blobs for the blob endpoint.
const folderMark = "hdi_isfolder"

// value finds metadata: the case of names is not kept.
func value(metadata map[string]*string, name string) string {
	for key, v := range metadata {
		if strings.EqualFold(key, name) && v != nil {
			return *v
		}
	}
	return ""
}

func isFolder(metadata map[string]*string) bool {
	return strings.EqualFold(value(metadata, folderMark), "true")
}

func absent() error {
	return &remote.ResponseError{Kind: remote.Absent, Status: http.StatusNotFound, Code: string(bloberror.BlobNotFound)}
}

// Get implements remote.Backend. The service has no ranges that count from the end:
// Range.Tail is a request for the size alone.
func (b *backend) Get(ctx context.Context, key string, r remote.Range) (*remote.Body, error) {
	client := b.client.NewBlobClient(key)
	if r.Tail {
		out, err := client.GetProperties(ctx, nil)
		if err != nil {
			return nil, answer(err)
		}
		if isFolder(out.Metadata) {
			return nil, absent()
		}
		return &remote.Body{Size: value64(out.ContentLength), Version: tag(out.ETag)}, nil
	}
	options := &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: r.Off, Count: r.Len}}
	if r.Version != "" {
		options.AccessConditions = condition(&blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(r.Version))})
	}
	out, err := client.DownloadStream(ctx, options)
	if err != nil {
		return nil, answer(err)
	}
	if isFolder(out.Metadata) {
		return nil, errors.Join(absent(), out.Body.Close())
	}
	length := value64(out.ContentLength)
	return &remote.Body{Reader: out.Body, Len: length, Size: length, Version: tag(out.ETag)}, nil
}

func value64(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

func tag(p *azcore.ETag) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

func condition(c *blob.ModifiedAccessConditions) *blob.AccessConditions {
	return &blob.AccessConditions{ModifiedAccessConditions: c}
}

// Put implements remote.Backend.
func (b *backend) Put(ctx context.Context, key string, data []byte, o remote.PutOptions) error {
	options := &blockblob.UploadOptions{Metadata: metadata(o.Mark)}
	if o.IfAbsent {
		options.AccessConditions = condition(&blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)})
	}
	_, err := b.client.NewBlockBlobClient(key).Upload(ctx, body(data), options)
	return answer(err)
}

func body(data []byte) io.ReadSeekCloser { return streaming.NopCloser(bytes.NewReader(data)) }

func metadata(mark string) map[string]*string {
	if mark == "" {
		return nil
	}
	return map[string]*string{remote.MarkName: &mark}
}

// Mark implements remote.Backend.
func (b *backend) Mark(ctx context.Context, key string) (string, error) {
	out, err := b.client.NewBlobClient(key).GetProperties(ctx, nil)
	if err != nil {
		return "", answer(err)
	}
	return value(out.Metadata, remote.MarkName), nil
}

// List implements remote.Backend.
func (b *backend) List(ctx context.Context, prefix, _, token string) (remote.Page, error) {
	options := &container.ListBlobsFlatOptions{Include: container.ListBlobsInclude{Metadata: true}}
	if prefix != "" {
		options.Prefix = &prefix
	}
	if token != "" {
		options.Marker = &token
	}
	out, err := b.client.NewListBlobsFlatPager(options).NextPage(ctx)
	if err != nil {
		return remote.Page{}, answer(err)
	}
	var page remote.Page
	if out.NextMarker != nil {
		page.Token = *out.NextMarker
	}
	for _, item := range out.Segment.BlobItems {
		if item.Name == nil || item.Properties == nil || isFolder(item.Metadata) {
			continue
		}
		o := remote.Object{Key: *item.Name, Size: value64(item.Properties.ContentLength)}
		if item.Properties.LastModified != nil {
			o.ModTime = *item.Properties.LastModified
		}
		page.Objects = append(page.Objects, o)
	}
	return page, nil
}

// Delete implements remote.Backend.
func (b *backend) Delete(ctx context.Context, key string) error {
	_, err := b.client.NewBlobClient(key).Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
	return answer(err)
}

// Upload implements remote.Backend. Blocks need no beginning.
func (b *backend) Upload(_ context.Context, key, mark string) (remote.Upload, error) {
	return &upload{client: b.client.NewBlockBlobClient(key), mark: mark}, nil
}

// upload is a blob of blocks.
type upload struct {
	client *blockblob.Client
	mark   string
	blocks []string
}

// Part implements remote.Upload. A block that is sent again replaces itself. The
// ids hold the mark, so that those of another upload are not taken for ours.
func (u *upload) Part(ctx context.Context, n int, data []byte, _ bool) error {
	id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%06d", u.mark, n))
	if _, err := u.client.StageBlock(ctx, id, body(data), nil); err != nil {
		return answer(err)
	}
	u.blocks = append(u.blocks, id)
	return nil
}

// Complete implements remote.Upload. Done twice it makes the same blob again.
func (u *upload) Complete(ctx context.Context) error {
	_, err := u.client.CommitBlockList(ctx, u.blocks, &blockblob.CommitBlockListOptions{Metadata: metadata(u.mark)})
	return answer(err)
}

// Abort implements remote.Upload. Blocks that belong to no blob disappear by
// themselves after a week, and nothing else removes them.
func (u *upload) Abort(context.Context) error { return nil }

// answer turns what the service answered into a remote.ResponseError. The SDK's
// text is left out: it repeats the request.
func answer(err error) error {
	var response *azcore.ResponseError
	if err == nil || !errors.As(err, &response) {
		return err
	}
	out := &remote.ResponseError{Status: response.StatusCode, Code: response.ErrorCode}
	switch {
	case out.Code == string(bloberror.BlobNotFound) || out.Code == "PathNotFound":
		out.Kind = remote.Absent
	case out.Code == string(bloberror.BlobAlreadyExists) || out.Status == http.StatusPreconditionFailed:
		out.Kind = remote.Present
	}
	return out
}
