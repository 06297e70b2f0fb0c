package store

import (
	"context"
	"fmt"
)

// ConditionalPutError reports a store that cannot create an object only if there
// is none: it has no conditional writes, or ignores the condition. Two writers
// would overwrite each other's commits there, so nothing is written.
type ConditionalPutError struct {
	// URL names the store.
	URL string
	// Err is what the store did instead.
	Err error
}

// Error says what was seen and what to do.
func (e *ConditionalPutError) Error() string {
	return fmt.Sprintf("%s has no conditional writes, without which two writers overwrite each other's commits (%v): "+
		"use a server or a release of it that honours If-None-Match on PUT, take out the proxy that drops the header, or write to another store", e.URL, e.Err)
}

// Unwrap returns what was seen.
func (e *ConditionalPutError) Unwrap() error { return e.Err }

// Prober is a Store that can prove that its PutIfAbsent is what the contract
// says. PutIfAbsent of such a store proves it before its first write, so Probe
// only brings the answer forward, to the start of a program. A store whose
// PutIfAbsent needs no proof is no Prober.
type Prober interface {
	// Probe writes an object twice to see the second write refused, and removes
	// it. It returns a *ConditionalPutError, which is final, or an error that may
	// pass. A success is remembered.
	Probe(ctx context.Context) error
}

// Probe probes the store if it is a Prober.
func Probe(ctx context.Context, st Store) error {
	if p, ok := st.(Prober); ok {
		return p.Probe(ctx)
	}
	return nil
}
