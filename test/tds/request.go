package tds

import (
	"errors"
	"fmt"
)

// Reset says what the client asks for before the request is carried out (MS-TDS 2.2.3.1.2, Status). The session
// does it; the writer acknowledges it.
type Reset uint8

// Kinds of reset.
const (
	ResetNone            Reset = iota
	ResetConnection            // session settings, temporary objects and open transactions go
	ResetKeepTransaction       // the same, but the transaction stays
)

// Request is one request of a logged-in client.
type Request struct {
	Headers Headers
	Reset   Reset
	Body    Body
}

// Body is the content of a request: [*SQLBatch], [*RPC], [*Transaction], [*BulkLoad] or [*Invalid].
type Body interface{ body() }

// SQLBatch is a batch of SQL text.
type SQLBatch struct {
	Text string
}

// BulkLoad is the data stream of a bulk copy. It is recognised so that it can be refused.
type BulkLoad struct {
	Data []byte // COLMETADATA, ROW and DONE tokens as the client sent them
}

// Invalid is a request that could not be decoded. The message was read to its end, so the connection can go on after an
// answer. Err holds an [UnsupportedError] when the request is well formed.
type Invalid struct {
	Type PacketType
	Err  error
}

func (*SQLBatch) body()    {}
func (*RPC) body()         {}
func (*Transaction) body() {}
func (*BulkLoad) body()    {}
func (*Invalid) body()     {}

// errOddText is the reason for refusing a batch.
var errOddText = errors.New("text of an odd number of bytes")

// ParseRequest decodes the payload of a whole message, packet headers taken off. Below TDS 7.2 there are no ALL_HEADERS. An
// unknown packet type is an error; anything else that is wrong gives an [Invalid] body. []byte values alias the payload.
func ParseRequest(typ PacketType, payload []byte, v Version) (*Request, error) {
	d := &decoder{b: payload}
	req := &Request{}
	if typ == PacketBulkLoad {
		req.Body = &BulkLoad{Data: payload}
		return req, nil
	}
	if typ != PacketBatch && typ != PacketRPC && typ != PacketTransaction {
		return nil, fmt.Errorf("%s is no request of a logged-in client", typ)
	}
	if v.Wide() {
		req.Headers = d.headers()
	}
	switch typ {
	case PacketBatch:
		if d.left()%2 != 0 {
			d.fail("batch", errOddText)
		}
		req.Body = &SQLBatch{Text: d.text("batch", d.left()/2)}
	case PacketRPC:
		req.Body = d.rpc(v)
	default:
		req.Body = d.transaction()
	}
	if d.err != nil {
		req.Body = &Invalid{Type: typ, Err: fmt.Errorf("reading %s: %w", typ, d.err)}
	}
	return req, nil
}
