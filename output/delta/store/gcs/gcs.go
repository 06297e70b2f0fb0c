// Package gcs keeps a Delta table in Google Cloud Storage, with its JSON API over
// net/http: the client library would add 20 MB to a program.
//
// A commit is an insert with ifGenerationMatch=0. Only the log's pointer to its
// newest checkpoint is ever written twice, so the limit of one write a second per
// object does not matter.
//
// The API does not tell a missing bucket from a missing object when reading, so a
// table in a bucket that does not exist looks like none; writing it says which.
package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
)

// Config is how buckets are reached. The zero Config uses the application default
// credentials.
type Config struct {
	// Endpoint is the URL of another server than Google's.
	Endpoint string
	// Anonymous makes requests without credentials, for public buckets and
	// emulators.
	Anonymous bool
	// CredentialsFile is a JSON file of a service account or another identity,
	// CredentialsJSON the content of one; both "" for the default credentials.
	CredentialsFile, CredentialsJSON string

	// HTTPClient makes the requests, below the one that adds credentials; nil for
	// one of our own.
	HTTPClient *http.Client
	// Remote are the choices about repeating and sending. PartBytes must be a
	// multiple of 256 KiB.
	Remote remote.Options
}

const (
	defaultEndpoint = "https://storage.googleapis.com"
	scope           = "https://www.googleapis.com/auth/devstorage.read_write"

	// maxIdle is how many connections are kept; net/http keeps 2 per host.
	maxIdle = 32
)

// Provider opens gs: URIs: gs://bucket/path. Stores in one bucket share their
// connections and the proof of conditional writes.
func Provider(c Config) store.Provider {
	p := &provider{config: c, buckets: map[string]*remote.Bucket{}}
	return store.Provider{Schemes: []string{"gs"}, Open: p.open}
}

type provider struct {
	config Config

	mu      sync.Mutex
	client  *http.Client // nil until the first use
	buckets map[string]*remote.Bucket
}

func (p *provider) open(ctx context.Context, uri string) (store.Store, error) {
	_, rest, ok := strings.Cut(uri, "://")
	bucket, root, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" || strings.ContainsAny(bucket, "@:?#") {
		return nil, fmt.Errorf("table URI %q: want gs://bucket/path", uri)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	endpoint, err := p.config.endpoint()
	if err != nil {
		return nil, fmt.Errorf("opening store %s: %w", uri, err)
	}
	if p.client == nil {
		// The tokens outlive the context of whoever comes first.
		if p.client, err = p.config.client(context.WithoutCancel(ctx)); err != nil {
			return nil, fmt.Errorf("opening store %s: %w", uri, err)
		}
	}
	b, ok := p.buckets[bucket]
	if !ok {
		b = remote.NewBucket(&backend{client: p.client, endpoint: endpoint, bucket: bucket}, p.config.Remote)
		p.buckets[bucket] = b
	}
	root = strings.Trim(root, "/")
	return b.Store((&url.URL{Scheme: "gs", Host: bucket, Path: "/" + root}).String(), root)
}

func (c Config) endpoint() (string, error) {
	if c.Endpoint == "" {
		return defaultEndpoint, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("endpoint %q: want a URL such as http://127.0.0.1:4443", c.Endpoint)
	}
	return strings.TrimRight(c.Endpoint, "/"), nil
}

// client makes the client that adds credentials.
func (c Config) client(ctx context.Context) (*http.Client, error) {
	base := c.HTTPClient
	if base == nil {
		base = &http.Client{}
		if t, ok := http.DefaultTransport.(*http.Transport); ok {
			t = t.Clone()
			t.MaxIdleConnsPerHost = maxIdle
			t.DisableCompression = true // objects are read as they are
			base.Transport = t
		}
	}
	if c.Anonymous {
		return base, nil
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, base)
	found, err := c.credentials(ctx)
	if err != nil {
		return nil, err
	}
	return oauth2.NewClient(ctx, found.TokenSource), nil
}

func (c Config) credentials(ctx context.Context) (*google.Credentials, error) {
	data := []byte(c.CredentialsJSON)
	if c.CredentialsFile != "" {
		var err error
		if data, err = os.ReadFile(c.CredentialsFile); err != nil {
			return nil, fmt.Errorf("reading credentials_file: %w", err)
		}
	}
	if len(data) == 0 {
		found, err := google.FindDefaultCredentials(ctx, scope)
		if err != nil {
			return nil, fmt.Errorf("looking for credentials of Google Cloud: %w", err)
		}
		return found, nil
	}
	// The operator's own file may be of any type, so the type it names is the one
	// that is wanted.
	var named struct{ Type google.CredentialsType }
	err := json.Unmarshal(data, &named)
	var found *google.Credentials
	if err == nil {
		found, err = google.CredentialsFromJSONWithType(ctx, data, named.Type, scope)
	}
	if err != nil {
		// The parser's text can hold a piece of the file.
		return nil, errors.New("the credentials of Google Cloud cannot be read: want the JSON file of a service account or another identity")
	}
	return found, nil
}
