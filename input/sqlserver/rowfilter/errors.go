package rowfilter

import (
	"errors"
	"fmt"
)

// StreamError says that the server's answer could not be followed any further. The connection is closed with it.
type StreamError struct {
	Statement string // the begin of its text, which holds no values
	Offset    int64  // bytes of the answer before the fault, packet headers left out
	Err       error
}

// Error names the statement and the place.
func (e *StreamError) Error() string {
	hint := ""
	var fault malformed
	if errors.As(e.Err, &fault) {
		hint = "; if it comes again, reader: driver leaves the decoding to the driver"
	}
	return fmt.Sprintf("reading rows off the wire, %d bytes into the answer to %q: %v%s", e.Offset, e.Statement, e.Err, hint)
}

func (e *StreamError) Unwrap() error { return e.Err }

// malformed says what in a stream is against the protocol. It never holds a value.
type malformed string

func (m malformed) Error() string { return string(m) }

// Refusal says why a rowset is left to the driver.
type Refusal struct {
	Reason Reason
	Detail string // for people: which column, which type
}

// Reason is the kind of a [Refusal], or empty. There are few, so that they can label a metric.
type Reason string

// The reasons.
const (
	Configured Reason = "configured" // the filter is switched off
	NoFilter   Reason = "no_filter"  // the connection has none
	WantedType Reason = "type"       // a type that the filter does not decode
	WantedPage Reason = "code_page"  // text in a code page that it does not know
	Encrypted  Reason = "encrypted"  // a column of Always Encrypted
	Shape      Reason = "shape"      // not the columns that were asked for
)

// statementStart is what an error shows of a statement's text.
func statementStart(text string) string {
	const most = 120
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
