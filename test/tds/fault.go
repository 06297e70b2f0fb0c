package tds

import "time"

// Action is what a fault does.
type Action uint8

// Actions.
const (
	Proceed    Action = iota // nothing, after the fault's Delay
	CloseConn                // send what is written so far without the end-of-message bit, then close (FIN)
	ResetConn                // the same, then reset the connection (RST)
	Hang                     // send what is written so far, then nothing until Resume is closed or the client goes away
	EndAnswer                // send what is written so far, end the message without a DONE
	BadToken                 // write Token (0x99 when zero), end the message
	FailAnswer               // send Message and a DONE with the error bit; the rest of the answer is dropped
)

// Fault is one injected fault. The zero value lets things proceed. All waiting ends early when the client goes away or the server
// stops.
type Fault struct {
	Action  Action
	Delay   time.Duration   // wait this long first
	Partial bool            // with CloseConn, ResetConn and Hang: stop in the middle of a packet
	Token   byte            // of BadToken
	Message *ServerError    // of FailAnswer
	Resume  <-chan struct{} // ends a Hang; nil never does. Until then attentions go unanswered
}

// Packet describes a packet that is about to be written.
type Packet struct {
	Number int64 // counted from 1 over the connection
	Size   int   // bytes, header included
	Sent   int64 // bytes written before it on the connection, by answers to requests
	EOM    bool  // it ends its message
}

// Hooks decide about faults. A nil hook costs nothing. They are called by the connection's own goroutine and may block. The same
// hooks serve all connections of a server, unless [Conn.SetHooks] gives one its own.
type Hooks struct {
	// Connect is called for a new connection, before anything is read.
	Connect func(c *Conn) Fault
	// Login is called after LOGIN7 was read and before [Handler.Login].
	Login func(c *Conn, login *Login) Fault
	// Request is called before [Session.Handle].
	Request func(c *Conn, req *Request) Fault
	// Row is called after a row was written, n counted from 1 over the answer.
	Row func(c *Conn, n int64) Fault
	// Packet is called before a packet is sent.
	Packet func(c *Conn, p Packet) Fault
	// PacketSize gives the size in bytes of packet n of the connection, header included, to cut tokens at odd places. It is
	// kept between 9 and the size granted.
	PacketSize func(c *Conn, n int64) int
	// Shape cuts and slows the bytes of every write.
	Shape Shape
}

// Shape cuts what is written to the socket, below TLS, into pieces of Split bytes (0 does not cut), with a pause before
// each. One byte and a pause is a trickle.
type Shape struct {
	Split int
	Pause time.Duration
}

// SetHooks gives the connection hooks of its own. It may be called from hooks, from [Handler.Login] and
// [Session.Handle].
func (c *Conn) SetHooks(h Hooks) {
	c.hooks = h
	c.sock.setShape(h.Shape)
}

// Inject carries out a fault at this point of the answer, for hooks and for sessions that keep their own rules of when to break. A
// row that was not ended is left out. The error is [Writer.Err]: [ErrFault] when the answer is over.
func (w *Writer) Inject(f Fault) error {
	w.dropRow()
	if w.err != nil || f.Action == Proceed && f.Delay == 0 || !w.pause(f.Delay) {
		return w.err
	}
	switch f.Action {
	case Proceed:
	case CloseConn, ResetConn, Hang:
		w.pending = pendingDone{}
		if f.Partial {
			w.sendHalf()
		} else if !w.ended && len(w.buf) > 0 {
			w.send(0)
		}
		w.breakOff(f)
	case EndAnswer, BadToken:
		if f.Action == BadToken {
			token := f.Token
			if token == 0 {
				token = 0x99
			}
			w.Raw([]byte{token})
		}
		w.EndMessage()
		w.fail(ErrFault)
	case FailAnswer:
		if f.Message != nil {
			w.Message(f.Message)
		}
		w.Done(Done{Status: DoneError})
		w.release(0)
		w.send(statusEOM)
		w.ended = true
		w.fail(ErrFault)
	}
	return w.err
}

// injectPacket carries out a fault on the packet in the out buffer. Actions that concern tokens mean nothing here.
func (w *Writer) injectPacket(f Fault) {
	if f.Action == Proceed && f.Delay == 0 || !w.pause(f.Delay) {
		return
	}
	switch f.Action {
	case CloseConn, ResetConn, Hang:
		if f.Partial {
			w.write(w.out[:max(1, len(w.out)/2)])
			w.out = w.out[:copy(w.out, w.out[max(1, len(w.out)/2):])]
		}
		w.breakOff(f)
	}
}

// sendHalf sends the buffer without the second half of its last packet.
func (w *Writer) sendHalf() {
	w.buf = w.frame(w.buf, false, 0)
	n := max(len(w.buf), 1)
	var header [HeaderSize]byte
	putHeader(header[:], PacketTabular, 0, n+HeaderSize, w.c.spid, w.id)
	w.write(append(header[:], w.buf[:len(w.buf)/2]...))
}

// write writes bytes to the client outside the counted packets.
func (w *Writer) write(b []byte) {
	if w.err == nil {
		if _, err := w.c.stream.Write(b); err != nil {
			w.fail(err)
		}
	}
}

// breakOff closes, resets or hangs.
func (w *Writer) breakOff(f Fault) {
	switch f.Action {
	case CloseConn:
		w.c.hangUp(false)
	case ResetConn:
		w.c.hangUp(true)
	default:
		if w.c.hang(f.Resume) {
			return
		}
	}
	w.fail(ErrFault)
}

// pause waits; false means that the connection is over.
func (w *Writer) pause(d time.Duration) bool {
	if w.c.pause(d) {
		return true
	}
	w.fail(ErrFault)
	return false
}

// pause waits; false means that the connection is over.
func (c *Conn) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.gone.Done():
		return false
	}
}

// hang waits for resume; false means that the connection is over.
func (c *Conn) hang(resume <-chan struct{}) bool {
	select {
	case <-resume:
		return true
	case <-c.gone.Done():
		return false
	}
}

// early carries out a fault before there is an answer to write. Only closing, hanging and waiting mean anything there.
func (c *Conn) early(f Fault) error {
	if !c.pause(f.Delay) {
		return ErrFault
	}
	switch f.Action {
	case Proceed:
		return nil
	case Hang:
		if c.hang(f.Resume) {
			return nil
		}
	case ResetConn:
		c.hangUp(true)
	default:
		c.hangUp(false)
	}
	return ErrFault
}
