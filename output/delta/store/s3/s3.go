// Package s3 keeps a Delta table in Amazon S3 or a server that speaks its protocol.
//
// A commit is a PUT with "If-None-Match: *", which AWS has had since August 2024.
// Servers that ignore the header are found out before the first commit and
// refused; see [store.ConditionalPutError]. The answer 409
// ConditionalRequestConflict means that nothing was written, and the request is
// repeated.
//
// What a killed process had sent of a large file stays as an unfinished upload: a
// lifecycle rule for incomplete multipart uploads removes it.
//
// Directory buckets (S3 Express) list in no order and are refused. Delta Spark
// without conditional writes must not write to the same table.
package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
)

// Config is how buckets are reached. The zero Config takes everything from where
// AWS programs take it: environment, shared files, and the roles of the machine.
type Config struct {
	// Region of the buckets; "" is the environment's, and us-east-1 for an Endpoint
	// where that names none either.
	Region string
	// Endpoint is the URL of another server than AWS; "" is the environment's or
	// AWS.
	Endpoint string
	// PathStyle puts the bucket into the path instead of the host name. nil does so
	// for every server but AWS.
	PathStyle *bool
	// AccessKeyID and SecretAccessKey are explicit credentials, with SessionToken
	// if they are temporary; both "" for the default chain.
	AccessKeyID, SecretAccessKey, SessionToken string

	// HTTPClient makes the requests of S3, not those for credentials; nil for the
	// SDK's own.
	HTTPClient *http.Client
	// Remote are the choices about repeating and sending.
	Remote remote.Options
}

// defaultRegion is the region in signatures for servers that have none.
const defaultRegion = "us-east-1"

// Provider opens s3: and s3a: URIs: s3://bucket/path. Stores in one bucket share
// their connections and the proof of conditional writes.
func Provider(c Config) store.Provider {
	p := &provider{config: c, buckets: map[string]*remote.Bucket{}}
	return store.Provider{Schemes: []string{"s3", "s3a"}, Open: p.open}
}

type provider struct {
	config Config

	mu      sync.Mutex
	client  *s3.Client // nil until the first use
	buckets map[string]*remote.Bucket
}

func (p *provider) open(ctx context.Context, uri string) (store.Store, error) {
	bucket, root, err := parse(uri)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.client == nil {
		if p.client, err = p.config.client(ctx); err != nil {
			return nil, fmt.Errorf("opening store %s: %w", uri, err)
		}
	}
	b, ok := p.buckets[bucket]
	if !ok {
		b = remote.NewBucket(&backend{client: p.client, bucket: bucket}, p.config.Remote)
		p.buckets[bucket] = b
	}
	return b.Store((&url.URL{Scheme: "s3", Host: bucket, Path: "/" + root}).String(), root)
}

// parse splits a URI. Nothing in it is percent-encoded, as in other programs.
func parse(uri string) (bucket, root string, err error) {
	_, rest, ok := strings.Cut(uri, "://")
	bucket, root, _ = strings.Cut(rest, "/")
	switch {
	case !ok || bucket == "" || strings.ContainsAny(bucket, "@:?#"):
		return "", "", fmt.Errorf("table URI %q: want s3://bucket/path", uri)
	case strings.HasSuffix(bucket, "--x-s3"):
		return "", "", fmt.Errorf("table URI %q names a directory bucket, which lists in no order: use a general purpose bucket", uri)
	}
	return bucket, strings.Trim(root, "/"), nil
}

// client makes the SDK's client. It repeats nothing: package remote does.
func (c Config) client(ctx context.Context) (*s3.Client, error) {
	if (c.AccessKeyID == "") != (c.SecretAccessKey == "") {
		return nil, errors.New("access_key_id and secret_access_key must be given together")
	}
	if c.Endpoint != "" {
		if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("endpoint %q: want a URL such as https://host:9000", c.Endpoint)
		}
	}
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithLogger(logging.Nop{}),
		awsconfig.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		// Many servers refuse the checksums that the SDK adds by default. The signature
		// covers a hash of the content.
		awsconfig.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		awsconfig.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if c.Region != "" {
		options = append(options, awsconfig.WithRegion(c.Region))
	}
	if c.AccessKeyID != "" {
		options = append(options, awsconfig.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.SecretAccessKey, c.SessionToken)))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
		if c.HTTPClient != nil {
			o.HTTPClient = c.HTTPClient
		}
		own := o.BaseEndpoint != nil // from the environment, too
		o.UsePathStyle = own
		if c.PathStyle != nil {
			o.UsePathStyle = *c.PathStyle
		}
		if own {
			o.Region = cmp.Or(o.Region, defaultRegion)
		}
	})
	if client.Options().Region == "" {
		return nil, errors.New("no AWS region: set region, or AWS_REGION in the environment")
	}
	return client, nil
}
