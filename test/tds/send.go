package tds

import "errors"

// sendFull sends the full packets of the buffer and keeps the rest, at least one byte, so that the last packet of an
// answer is never empty.
func (w *Writer) sendFull() {
	w.buf = w.frame(w.buf, false, 0)
}

// send sends the whole buffer; the last packet carries the status.
func (w *Writer) send(status uint8) {
	w.buf = w.frame(w.buf, true, status)
}

// frame cuts payload into packets and writes them. It returns the buffer holding what was kept.
func (w *Writer) frame(payload []byte, all bool, status uint8) []byte {
	rest := payload
	w.out = w.out[:0]
	for first := true; w.err == nil && (len(rest) > 0 || first && all && status&statusEOM != 0); first = false {
		n := min(w.c.nextPacket(), len(rest))
		last := n == len(rest)
		if last && !all {
			break
		}
		st := uint8(0)
		if last {
			st = status
		}
		var header [HeaderSize]byte
		putHeader(header[:], PacketTabular, st, n+HeaderSize, w.c.spid, w.id)
		w.id++
		w.out = append(append(w.out, header[:]...), rest[:n]...)
		rest = rest[n:]
		w.c.packets++
		if w.c.perPacket() {
			w.writeOut(st)
		}
	}
	if w.err == nil && len(w.out) > 0 {
		w.writeOut(0)
	}
	if status&statusEOM != 0 {
		w.id = 1
	}
	return payload[:copy(payload, rest)]
}

// writeOut writes the framed packets. When packets go one by one, the hook decides about this one first.
func (w *Writer) writeOut(status uint8) {
	if hook := w.c.hooks.Packet; hook != nil {
		packet := Packet{Number: w.c.packets, Size: len(w.out), Sent: w.c.sent, EOM: status&statusEOM != 0}
		w.injectPacket(hook(w.c, packet))
	}
	if w.err != nil {
		return
	}
	n, err := w.c.stream.Write(w.out)
	w.c.sent += int64(n)
	w.out = w.out[:0]
	if err != nil {
		w.fail(errors.Join(ErrDisconnected, err))
	}
}

// nextPacket gives the payload size of the next packet.
func (c *Conn) nextPacket() int {
	size := c.packetSize
	if hook := c.hooks.PacketSize; hook != nil {
		size = max(HeaderSize+1, min(size, hook(c, c.packets+1)))
	}
	return size - HeaderSize
}

// perPacket reports whether each packet is written by itself: one TLS record each, or for a hook.
func (c *Conn) perPacket() bool { return c.encrypted || c.hooks.Packet != nil }

// finish completes the answer. With attention it is cut and acknowledged.
func (w *Writer) finish(attention bool) error {
	if attention {
		w.cut()
	}
	if w.ended {
		if errors.Is(w.err, ErrFault) {
			return nil // the fault was a broken answer; the connection is the client's to drop
		}
		return w.err
	}
	if w.err != nil {
		return w.err
	}
	w.dropRow()
	if w.pending.token == tokenDoneInProc { // something must follow it (MS-TDS 2.2.7.7), and drivers wait for that
		w.release(DoneMore)
	}
	if w.pending.token == 0 {
		w.pending = pendingDone{token: tokenDone}
	}
	w.release(0)
	w.send(statusEOM)
	if cap(w.buf) > keepSize {
		w.buf = nil
	}
	return w.err
}

// cut prepares the acknowledgement of an attention: as the last token of the answer, or in a message of its own when the
// answer has been ended already.
func (w *Writer) cut() {
	if errors.Is(w.err, ErrAttention) || w.ended && errors.Is(w.err, ErrFault) {
		w.err = nil
	}
	if w.err != nil {
		return
	}
	w.dropRow()
	w.ended = false
	w.release(DoneMore)
	w.pending = pendingDone{tokenDone, Done{Status: DoneAttention}}
}
