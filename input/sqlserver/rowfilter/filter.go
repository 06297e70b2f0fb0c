package rowfilter

import (
	"encoding/binary"
	"fmt"
	"io"
)

// filter takes the rows out of one answer. It belongs to the goroutine that reads.
//
//	raw     bytes of the transport, packet headers included
//	tokens  the payload that was not done with yet, packet headers left out
//	forward tokens for the driver, not in packets yet
//	out     packets for the driver
type filter struct {
	reading *reading // whose answer it is set up for

	raw        []byte
	rawR, rawW int

	tokens []byte
	at     int // tokens before it are done with
	need   int // bytes from at on that are wanted before it is worth looking again
	left   int // payload bytes of the packet at hand that are still in raw
	last   bool
	ended  bool // the last packet's payload is in tokens

	forward []byte
	out     []byte
	outR    int
	header  [headerSize]byte // of the packet at hand
	sizes   sizes
}

const (
	rawSize     = 64 << 10
	tokensSize  = rawSize + 16<<10
	mostKept    = 1 << 20 // bytes of tokens that are kept between rows
	outPayload  = 504     // with its header it fits into every packet size
	mostForward = 16 << 10
)

// start prepares for a new answer. What is left in raw stays: it is served first.
func (f *filter) start() {
	if f.raw == nil {
		f.raw = make([]byte, rawSize)
	}
	if f.tokens == nil || cap(f.tokens) > mostKept {
		f.tokens = make([]byte, 0, tokensSize)
	}
	f.tokens, f.at, f.need, f.left, f.last, f.ended = f.tokens[:0], 0, 0, 0, false, false
	f.forward, f.out, f.outR = f.forward[:0], f.out[:0], 0
}

// copyOut gives the driver what is ready for it.
func (f *filter) copyOut(p []byte) int {
	if f.outR == len(f.out) {
		return 0
	}
	n := copy(p, f.out[f.outR:])
	if f.outR += n; f.outR == len(f.out) {
		f.out, f.outR = f.out[:0], 0
	}
	return n
}

// copyRaw gives the driver what was read beyond the answer.
func (f *filter) copyRaw(p []byte) int {
	n := copy(p, f.raw[f.rawR:f.rawW])
	f.rawR += n
	return n
}

// step reads on until there is something for the driver. The reading is complete when nothing of the answer is left to filter.
func (f *filter) step(r *reading, source io.Reader) error {
	for {
		switch leave, err := f.walk(r); {
		case err != nil:
			return r.fail(err)
		case leave:
			f.spill()
			r.complete.Store(true)
			return nil
		}
		over := f.ended && f.at == len(f.tokens)
		if len(f.forward) > 0 {
			f.frame(over)
		}
		if over {
			if len(f.out) == 0 {
				return r.fail(malformed("the answer ends without a token for the driver"))
			}
			r.complete.Store(true)
			return nil
		}
		if len(f.out) > 0 {
			return nil
		}
		if f.ended {
			return r.fail(malformed("the answer ends inside a token"))
		}
		if err := f.fill(source); err != nil {
			return r.fail(err)
		}
	}
}

// walk passes over the tokens that are there: rows are taken, the others put aside for the driver. It stops before a row
// while tokens wait, so that the driver sees these at once, and where more bytes are wanted. leave says that the rest of the
// answer is for the driver alone.
func (f *filter) walk(r *reading) (leave bool, err error) {
	for f.at < len(f.tokens) && len(f.forward) < mostForward {
		b := f.tokens[f.at:]
		if len(b) < f.need && !f.ended {
			return false, nil
		}
		n, need := 0, 0
		switch b[0] {
		case tokenRow, tokenNBCRow:
			if len(f.forward) > 0 {
				return false, nil
			}
			if r.decoder == nil {
				return false, malformed("a row before its columns")
			}
			n, need, err = r.row(b)
		case tokenColMetadata:
			var wire []wireColumn
			var why *Refusal
			if r.decoder != nil {
				return true, nil // only the first rowset is read; the driver passes over the others
			}
			if wire, n, need, why = parseColumns(b); need == 0 && why == nil && len(wire) > 0 {
				why = r.columns(wire, &f.sizes)
			}
			if why != nil {
				r.refuse(why)
				return true, nil
			}
			f.forward = append(f.forward, b[:n]...)
		default:
			if n, need, err = tokenLength(b); err != nil && r.decoder == nil {
				// Nothing was taken yet: the driver may know better.
				r.refuse(&Refusal{Reason: Shape, Detail: err.Error()})
				return true, nil
			}
			f.forward = append(f.forward, b[:n]...)
		}
		if err != nil {
			return false, err
		}
		if f.need = need; need > 0 {
			if f.ended {
				return false, malformed("the answer ends inside a token")
			}
			return false, nil
		}
		f.at += n
		r.offset += int64(n)
	}
	return false, nil
}

// frame makes packets of the tokens that wait. over says that nothing follows them.
func (f *filter) frame(over bool) {
	for rest := f.forward; len(rest) > 0; {
		n := min(len(rest), outPayload)
		status := byte(0)
		if over && n == len(rest) {
			status = statusLast
		}
		f.packet(status, n)
		f.out = append(f.out, rest[:n]...)
		rest = rest[n:]
	}
	f.forward = f.forward[:0]
}

// packet begins a packet for the driver.
func (f *filter) packet(status byte, payload int) {
	f.out = append(f.out, packetReply, status, 0, 0, f.header[4], f.header[5], f.header[6], 0)
	binary.BigEndian.PutUint16(f.out[len(f.out)-6:], uint16(headerSize+payload))
}

// spill hands the rest of the answer to the driver as it is: what was taken out of packets already, what is left of the packet
// at hand, and then the stream.
func (f *filter) spill() {
	f.forward = append(f.forward, f.tokens[f.at:]...)
	f.at = len(f.tokens)
	f.frame(f.ended)
	if f.left > 0 {
		status := byte(0)
		if f.last {
			status = statusLast
		}
		f.packet(status, f.left)
		f.left = 0
	}
}

// fill reads from the transport and moves payload to tokens.
func (f *filter) fill(source io.Reader) error {
	switch {
	case f.at == len(f.tokens) && cap(f.tokens) > mostKept:
		f.tokens, f.at = make([]byte, 0, tokensSize), 0
	case f.at > 0:
		f.tokens, f.at = f.tokens[:copy(f.tokens, f.tokens[f.at:])], 0
	}
	if f.left == 0 && f.rawW-f.rawR < headerSize || f.rawR == f.rawW {
		f.rawW = copy(f.raw, f.raw[f.rawR:f.rawW])
		f.rawR = 0
		n, err := source.Read(f.raw[f.rawW:])
		f.rawW += n
		if n == 0 && err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return f.unpack()
}

// unpack takes the headers of the packets in raw away.
func (f *filter) unpack() error {
	for !f.ended {
		if f.left == 0 {
			if f.rawW-f.rawR < headerSize {
				return nil
			}
			f.rawR += copy(f.header[:], f.raw[f.rawR:])
			length := be16(f.header[2:])
			if f.header[0] != packetReply || length < headerSize {
				return malformed(fmt.Sprintf("a packet of type %d and %d bytes", f.header[0], length))
			}
			f.left, f.last = length-headerSize, f.header[1]&statusLast != 0
		}
		n := min(f.left, f.rawW-f.rawR)
		f.tokens = append(f.tokens, f.raw[f.rawR:f.rawR+n]...)
		f.rawR += n
		f.left -= n
		switch {
		case f.left == 0 && f.last:
			f.ended = true
		case f.rawR == f.rawW:
			return nil
		}
	}
	return nil
}
