package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
)

// backend is the requests for one bucket.
type backend struct {
	client *s3.Client
	bucket string
}

// contentType of all objects; nothing depends on it.
const contentType = "application/octet-stream"

// Get implements remote.Backend.
func (b *backend) Get(ctx context.Context, key string, r remote.Range) (*remote.Body, error) {
	in := &s3.GetObjectInput{Bucket: &b.bucket, Key: &key}
	switch {
	case r.Tail:
		in.Range = aws.String(fmt.Sprintf("bytes=-%d", r.Len))
	case r.Len > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", r.Off, r.Off+r.Len-1))
	}
	if r.Version != "" {
		in.IfMatch = &r.Version
	}
	out, err := b.client.GetObject(ctx, in)
	if err != nil {
		return nil, answer(err)
	}
	body := &remote.Body{Reader: out.Body, Len: aws.ToInt64(out.ContentLength), Version: aws.ToString(out.ETag)}
	body.Size = body.Len
	if out.ContentRange != nil {
		if body.Size, err = sizeOf(*out.ContentRange); err != nil {
			return nil, errors.Join(err, out.Body.Close())
		}
	}
	return body, nil
}

// sizeOf is the whole size in a Content-Range such as "bytes 5-9/10".
func sizeOf(contentRange string) (int64, error) {
	_, total, _ := strings.Cut(contentRange, "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the service answered with Content-Range %q, which has no size", contentRange)
	}
	return size, nil
}

// Put implements remote.Backend.
func (b *backend) Put(ctx context.Context, key string, data []byte, o remote.PutOptions) error {
	in := &s3.PutObjectInput{
		Bucket: &b.bucket, Key: &key, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		ContentType: aws.String(contentType), Metadata: metadata(o.Mark),
	}
	if o.IfAbsent {
		in.IfNoneMatch = aws.String("*")
	}
	_, err := b.client.PutObject(ctx, in)
	return answer(err)
}

func metadata(mark string) map[string]string {
	if mark == "" {
		return nil
	}
	return map[string]string{remote.MarkName: mark}
}

// Mark implements remote.Backend.
func (b *backend) Mark(ctx context.Context, key string) (string, error) {
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.bucket, Key: &key})
	if err != nil {
		return "", answer(err)
	}
	return out.Metadata[remote.MarkName], nil
}

// List implements remote.Backend.
func (b *backend) List(ctx context.Context, prefix, startAfter, token string) (remote.Page, error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.bucket}
	if prefix != "" {
		in.Prefix = &prefix
	}
	if startAfter != "" {
		in.StartAfter = &startAfter
	}
	if token != "" {
		in.ContinuationToken = &token
	}
	out, err := b.client.ListObjectsV2(ctx, in)
	if err != nil {
		return remote.Page{}, answer(err)
	}
	var page remote.Page
	for _, o := range out.Contents {
		page.Objects = append(page.Objects, remote.Object{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), ModTime: aws.ToTime(o.LastModified)})
	}
	if aws.ToBool(out.IsTruncated) {
		page.Token = aws.ToString(out.NextContinuationToken)
	}
	return page, nil
}

// Delete implements remote.Backend.
func (b *backend) Delete(ctx context.Context, key string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &key})
	return answer(err)
}

// Upload implements remote.Backend.
func (b *backend) Upload(ctx context.Context, key, mark string) (remote.Upload, error) {
	out, err := b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &b.bucket, Key: &key, ContentType: aws.String(contentType), Metadata: metadata(mark),
	})
	if err != nil {
		return nil, answer(err)
	}
	return &upload{backend: b, key: key, id: aws.ToString(out.UploadId)}, nil
}

// upload is a multipart upload.
type upload struct {
	*backend
	key, id string
	parts   []types.CompletedPart
}

// Part implements remote.Upload. A part that is sent again replaces itself.
func (u *upload) Part(ctx context.Context, n int, data []byte, _ bool) error {
	number := aws.Int32(int32(n + 1))
	out, err := u.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &u.bucket, Key: &u.key, UploadId: &u.id, PartNumber: number,
		Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
	})
	if err != nil {
		return answer(err)
	}
	u.parts = append(u.parts, types.CompletedPart{PartNumber: number, ETag: out.ETag})
	return nil
}

// Complete implements remote.Upload.
func (u *upload) Complete(ctx context.Context) error {
	_, err := u.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &u.bucket, Key: &u.key, UploadId: &u.id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
	})
	return answer(err)
}

// Abort implements remote.Upload.
func (u *upload) Abort(ctx context.Context) error {
	_, err := u.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &u.bucket, Key: &u.key, UploadId: &u.id})
	return answer(err)
}

// answer turns what the service answered into a remote.ResponseError.
func answer(err error) error {
	var response *smithyhttp.ResponseError
	if err == nil || !errors.As(err, &response) || response.Response == nil {
		return err
	}
	status := response.HTTPStatusCode()
	if status < 300 {
		return err // the answer of a success could not be read
	}
	out := &remote.ResponseError{Status: status}
	var api smithy.APIError
	if errors.As(err, &api) {
		out.Code, out.Message = api.ErrorCode(), api.ErrorMessage()
	}
	switch {
	case out.Code == "NoSuchKey" || out.Code == "NotFound" || out.Code == "NoSuchUpload":
		out.Kind = remote.Absent
	case status == http.StatusPreconditionFailed:
		out.Kind = remote.Present
	case out.Code == "ConditionalRequestConflict" || out.Code == "OperationAborted":
		out.Kind = remote.Busy
	case errors.As(err, new(*smithy.DeserializationError)):
		return err // what the service refuses, or that nothing is there, was in a body that broke off
	case status == http.StatusMovedPermanently || status == http.StatusTemporaryRedirect:
		out.Message += " (the bucket is in another region: set region)"
	}
	return out
}
