package tds

import "errors"

// Headers is what ALL_HEADERS says in front of a request (MS-TDS 2.2.5.3). All clients seen send the transaction header
// alone.
type Headers struct {
	Transaction uint64 // descriptor of the transaction the request belongs to, 0 for none
	Outstanding uint32 // number of requests under way, 1 without MARS
	Activity    []byte // of the trace activity header: 16 bytes of id, 4 of sequence; nil when absent
	Query       []byte // of the query notifications header, as it came; nil when absent
}

// errHeaders is the reason for refusing ALL_HEADERS.
var errHeaders = errors.New("header lengths that do not add up")

// headers reads ALL_HEADERS. A header of an unknown type is skipped by its length.
func (d *decoder) headers() Headers {
	var h Headers
	start := d.off
	total := int(d.u32("total length of headers"))
	if d.err == nil && (total < 4 || total > len(d.b)-start) {
		d.fail("headers", errHeaders)
	}
	for d.err == nil && d.off-start < total {
		n := int(d.u32("header length"))
		typ := d.u16("header type")
		if d.err == nil && (n < 6 || n-6 > total-(d.off-start)) {
			d.fail("header", errHeaders)
		}
		in := decoder{b: d.take("header", n-6)}
		switch typ {
		case 1:
			h.Query = in.b
		case 2:
			h.Transaction, h.Outstanding = in.u64("transaction descriptor"), in.u32("outstanding requests")
		case 3:
			h.Activity = in.b
		}
		if d.err == nil && in.err != nil {
			d.err = in.err
		}
	}
	return h
}
