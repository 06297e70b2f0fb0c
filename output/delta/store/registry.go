package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Provider opens stores for some URL schemes. Each provider package has a
// function that returns its Provider; a program links only those it registers.
type Provider struct {
	// Schemes are the URL schemes in lower case, for example "s3". The empty
	// scheme stands for a plain path.
	Schemes []string

	// Open opens the store at uri, as the user wrote it.
	Open func(ctx context.Context, uri string) (Store, error)
}

// Registry finds the provider for a URI. It is immutable and safe for
// concurrent use.
type Registry struct {
	providers map[string]Provider
}

// NewRegistry makes a registry of the given providers. Where two claim one
// scheme, the later one has it.
func NewRegistry(providers ...Provider) *Registry {
	r := &Registry{providers: map[string]Provider{}}
	for _, p := range providers {
		for _, scheme := range p.Schemes {
			r.providers[scheme] = p
		}
	}
	return r
}

// Open opens the store at uri by its scheme.
func (r *Registry) Open(ctx context.Context, uri string) (Store, error) {
	if uri == "" {
		return nil, fmt.Errorf("opening store: the path or URI is empty")
	}
	scheme := Scheme(uri)
	p, ok := r.providers[scheme]
	if !ok {
		return nil, fmt.Errorf("opening store: no provider for scheme %q (known: %s)", scheme, strings.Join(r.Schemes(), ", "))
	}
	return p.Open(ctx, uri)
}

// Schemes returns the registered schemes, sorted; the empty one as "path".
func (r *Registry) Schemes() []string {
	var out []string
	for scheme := range r.providers {
		if scheme == "" {
			scheme = "path"
		}
		out = append(out, scheme)
	}
	slices.Sort(out)
	return out
}

// Scheme returns the lower-case URL scheme of uri, or "" for a plain path. A
// single letter is a Windows drive, not a scheme.
func Scheme(uri string) string {
	i := strings.IndexByte(uri, ':')
	if i < 2 {
		return ""
	}
	scheme := strings.ToLower(uri[:i])
	for j, c := range scheme {
		letter := c >= 'a' && c <= 'z'
		if !letter && (j == 0 || !strings.ContainsRune("0123456789+.-", c)) {
			return ""
		}
	}
	return scheme
}
