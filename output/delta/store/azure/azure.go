// Package azure keeps a Delta table in Azure Blob Storage, with or without a
// hierarchical namespace (Data Lake Storage Gen2), and in OneLake.
//
// A commit is a Put Blob with "If-None-Match: *". All requests go to the blob
// endpoint, also for URIs that name the dfs one.
//
// Listings are not in byte order where the namespace is hierarchical, so a listing
// is read whole and sorted. Folders of such a namespace are no objects.
package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/remote"
)

// Config is how containers are reached. Of the credentials the first that is given
// counts, in the order of the fields; without any it is what the environment, the
// workload or the machine brings (azidentity's default chain).
type Config struct {
	// Account is the storage account of az: URIs, which name none.
	Account string
	// Endpoint is the URL of the blob service, for others than
	// https://ACCOUNT.blob.core.windows.net, such as http://127.0.0.1:10000/ACCOUNT.
	Endpoint string

	// ConnectionString holds account, endpoint and credentials.
	ConnectionString string
	// AccountKey is the shared key of the account.
	AccountKey string
	// SASToken is a shared access signature, a query string.
	SASToken string

	// HTTPClient makes the requests; nil for the SDK's own.
	HTTPClient *http.Client
	// Remote are the choices about repeating and sending.
	Remote remote.Options
}

// Provider opens URIs of these forms. Stores in one container share their
// connections.
//
//	abfss://container@account.dfs.core.windows.net/path (also abfs)
//	az://container/path (the account is configured)
//	https://account.blob.core.windows.net/container/path (also with dfs)
func Provider(c Config) store.Provider {
	c.Remote.Unordered = true
	p := &provider{config: c, buckets: map[place]*remote.Bucket{}}
	return store.Provider{Schemes: []string{"abfss", "abfs", "az", "https"}, Open: p.open}
}

type provider struct {
	config Config

	mu      sync.Mutex
	token   azcore.TokenCredential // nil until it is needed
	buckets map[place]*remote.Bucket
}

// place is a container of an account.
type place struct {
	host      string // of the blob service; "" for the configured account
	container string
}

func (p *provider) open(_ context.Context, uri string) (store.Store, error) {
	at, root, err := parse(uri)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.buckets[at]
	if !ok {
		client, err := p.client(at)
		if err != nil {
			return nil, fmt.Errorf("opening store %s: %w", plain(uri), err)
		}
		b = remote.NewBucket(&backend{client: client}, p.config.Remote)
		p.buckets[at] = b
	}
	name := url.URL{Scheme: "az", Host: at.container, Path: "/" + root}
	if at.host != "" {
		name = url.URL{Scheme: "https", Host: at.host, Path: "/" + at.container + "/" + root}
	}
	return b.Store(name.String(), root)
}

// plain is a URI without a query, which may be a signature.
func plain(uri string) string {
	uri, _, _ = strings.Cut(uri, "?")
	return uri
}

// parse splits a URI. Nothing in it is percent-encoded, as in other programs.
func parse(uri string) (at place, root string, err error) {
	wrong := fmt.Errorf("table URI %q: want abfss://container@account.dfs.core.windows.net/path, az://container/path "+
		"or https://account.blob.core.windows.net/container/path", plain(uri))
	if strings.Contains(uri, "?") {
		return place{}, "", fmt.Errorf("%w, and a signature in sas_token", wrong)
	}
	_, rest, ok := strings.Cut(uri, "://")
	authority, path, _ := strings.Cut(rest, "/")
	if !ok || authority == "" {
		return place{}, "", wrong
	}
	switch scheme := store.Scheme(uri); scheme {
	case "az":
		at.container = authority
	case "https":
		at.host = authority
		at.container, path, _ = strings.Cut(path, "/")
	default:
		if at.container, at.host, ok = strings.Cut(authority, "@"); !ok {
			return place{}, "", wrong
		}
	}
	at.host = strings.Replace(at.host, ".dfs.", ".blob.", 1)
	if at.container == "" || store.Scheme(uri) != "az" && !strings.Contains(at.host, ".blob.") {
		return place{}, "", wrong
	}
	return at, strings.Trim(path, "/"), nil
}

// client makes the SDK's client for a container. It repeats nothing: package
// remote does. The caller holds mu.
func (p *provider) client(at place) (*container.Client, error) {
	c := p.config
	options := &container.ClientOptions{ClientOptions: policy.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
	if c.HTTPClient != nil {
		options.Transport = c.HTTPClient
	}
	if c.ConnectionString != "" {
		client, err := container.NewClientFromConnectionString(c.ConnectionString, at.container, options)
		if err != nil {
			return nil, errors.New("connection_string cannot be read: copy it from the access keys of the account")
		}
		return client, nil
	}
	address, err := c.address(at)
	if err != nil {
		return nil, err
	}
	switch {
	case c.AccountKey != "":
		account := c.Account
		if account == "" {
			account, _, _ = strings.Cut(at.host, ".")
		}
		key, err := container.NewSharedKeyCredential(account, c.AccountKey)
		if err != nil {
			return nil, errors.New("account_key is not in base64: copy it from the access keys of the account")
		}
		return container.NewClientWithSharedKeyCredential(address, key, options)
	case c.SASToken != "":
		return container.NewClientWithNoCredential(address+"?"+strings.TrimPrefix(c.SASToken, "?"), options)
	}
	if p.token == nil {
		if p.token, err = azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options.ClientOptions}); err != nil {
			return nil, fmt.Errorf("looking for credentials of Azure: %w", err)
		}
	}
	return container.NewClient(address, p.token, options)
}

// address is the URL of a container.
func (c Config) address(at place) (string, error) {
	base := c.Endpoint
	switch {
	case base != "":
		if u, err := url.Parse(base); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
			return "", errors.New("endpoint is not a URL such as http://127.0.0.1:10000/account")
		}
	case at.host != "":
		base = "https://" + at.host
	case c.Account != "":
		base = "https://" + c.Account + ".blob.core.windows.net"
	default:
		return "", errors.New("an az: URI names no account: set account, or write abfss://container@account.dfs.core.windows.net/path")
	}
	return strings.TrimRight(base, "/") + "/" + url.PathEscape(at.container), nil
}
