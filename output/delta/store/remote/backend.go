// Package remote makes a store.Store of an object store that is reached over HTTP.
//
// It holds what S3, Azure and Google Cloud Storage have in common: which requests
// are repeated and what a lost answer means, the conditional write that a commit
// is, the proof that a server has it, uploads in parts with bounded memory, and
// ranged reads. A provider brings a Backend, whose methods are single requests.
//
// # Lost answers
//
// A write whose answer is lost may have been done. Writes that replace are simply
// repeated. A conditional write is repeated too, and if the repetition is refused
// because an object exists, that object may be our own: every call gives its
// object a mark, and the mark of the object that is there decides. So nobody is
// told "exists" about his own write, and nobody "written" about another's.
package remote

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Backend is one bucket or container. Keys are whole object names. A method makes
// one request and does not repeat it. What the service refuses is a
// *ResponseError; any other error means that nobody knows what became of the
// request. All methods may be called concurrently.
type Backend interface {
	// Get starts to read an object or a part of it.
	Get(ctx context.Context, key string, r Range) (*Body, error)

	// Put writes an object with a mark.
	Put(ctx context.Context, key string, data []byte, o PutOptions) error

	// Mark reads the mark of an object; "" if it has none.
	Mark(ctx context.Context, key string) (string, error)

	// List returns a page of the objects whose keys begin with prefix. Those up to
	// startAfter may be left out. The token is that of the page before, "" for the
	// first.
	List(ctx context.Context, prefix, startAfter, token string) (Page, error)

	// Delete deletes an object.
	Delete(ctx context.Context, key string) error

	// Upload starts an object that is sent in parts.
	Upload(ctx context.Context, key, mark string) (Upload, error)
}

// Upload is an object that is sent in parts. Its methods are called one at a time
// and repeated with the same arguments after errors.
type Upload interface {
	// Part sends the next part, counted from 0. All but the last have the part
	// size of the Options; the last is not empty. The data is not kept.
	Part(ctx context.Context, n int, data []byte, last bool) error

	// Complete makes the object of the parts, after the last one.
	Complete(ctx context.Context) error

	// Abort removes the parts.
	Abort(ctx context.Context) error
}

// PutOptions are the choices of one write.
type PutOptions struct {
	// IfAbsent refuses the write with Present if the object exists.
	IfAbsent bool
	// Mark is stored with the object. "" stores none.
	Mark string
}

// MarkName is the name of the object metadata that holds the mark.
const MarkName = "writeid"

// Range is the part of an object to read. The zero Range is the whole.
type Range struct {
	// Off and Len are the part, Len 0 means all of the object.
	Off, Len int64
	// Tail reads the last Len bytes instead, or all if there are fewer, which may
	// also be refused with Status 416. A Backend whose service has no such request
	// returns a Body with a nil Reader.
	Tail bool
	// Version, if not "", is the Version of the Body that was seen before; another
	// is refused.
	Version string
}

// Body is an object or part of one that is being read.
type Body struct {
	// Reader is the content; the caller closes it.
	Reader io.ReadCloser
	// Len is the length of the content in bytes, Size that of the whole object.
	Len, Size int64
	// Version tells this content from what replaces it.
	Version string
}

// Page is a part of a listing.
type Page struct {
	Objects []Object
	// Token asks for the next page, "" if this is the last.
	Token string
}

// Object is a listed object.
type Object struct {
	Key     string
	Size    int64
	ModTime time.Time
}

// Kind is what an answer of the service means where the status alone does not tell.
type Kind int

// The kinds of answers.
const (
	// Plain: the status tells.
	Plain Kind = iota
	// Absent: there is no such object.
	Absent
	// Present: the object of a conditional write exists.
	Present
	// Busy: nothing was done, and the same request may be.
	Busy
)

// ResponseError is an answer of the service that is not a success.
type ResponseError struct {
	Kind   Kind
	Status int // of HTTP
	// Code is the service's word for it, Message its text; both may be "".
	Code, Message string
}

// Error is the status, the code and the message.
func (e *ResponseError) Error() string {
	text := fmt.Sprintf("the service answered %d", e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}
