package tds

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"sync"
)

// Server serves TDS connections. Its methods may be called by many goroutines.
type Server struct {
	cfg     Config
	handler Handler

	mu    sync.Mutex
	spid  uint16
	conns map[uint16]*Conn
}

// NewServer makes a server.
func NewServer(cfg Config, h Handler) *Server {
	return &Server{cfg: cfg.withDefaults(), handler: h, spid: firstSPID - 1, conns: map[uint16]*Conn{}}
}

// User sessions of SQL Server begin at 51.
const (
	firstSPID = 51
	lastSPID  = 32767
)

// Serve takes connections from l until ctx ends or l fails. It closes l and every connection, and returns when all have
// ended; nil after the end of ctx.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer func() {
		stop()
		cancel()
		_ = l.Close()
		conns.Wait()
	}()
	for {
		nc, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accepting a connection: %w", err)
		}
		conns.Go(func() { _ = s.ServeConn(ctx, nc) })
	}
}

// ServeConn serves one connection and closes it. It returns what [Config.OnEnd] gets.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) error {
	c := newConn(ctx, nc, &s.cfg, 0)
	s.add(c)
	stop := context.AfterFunc(ctx, func() { c.hangUp(false) })
	err := c.serve(s.handler)
	stop()
	c.goodbye()
	s.remove(c)
	if s.cfg.OnEnd != nil {
		s.cfg.OnEnd(c, err)
	}
	return err
}

// Conns gives the connections that are open now, in no order.
func (s *Server) Conns() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		s.mu.Lock()
		list := make([]*Conn, 0, len(s.conns))
		for _, c := range s.conns {
			list = append(list, c)
		}
		s.mu.Unlock()
		for _, c := range list {
			if !yield(c) {
				return
			}
		}
	}
}

// Conn gives the connection of a session id; false if there is none. Closing it is what KILL does.
func (s *Server) Conn(spid uint16) (*Conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.conns[spid]
	return c, ok
}

// add gives the connection a free session id.
func (s *Server) add(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range lastSPID {
		if s.spid++; s.spid > lastSPID {
			s.spid = firstSPID
		}
		if _, taken := s.conns[s.spid]; !taken {
			break
		}
	}
	c.spid = s.spid
	s.conns[c.spid] = c
}

// remove forgets a connection.
func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c.spid)
}

// serve takes a connection through its life. The error is nil when the client closed it between requests.
func (c *Conn) serve(h Handler) error {
	if hook := c.hooks.Connect; hook != nil {
		if err := c.early(hook(c)); err != nil {
			return err
		}
	}
	login, err := c.handshake()
	if err != nil {
		return c.endOf(fmt.Errorf("logging in: %w", err))
	}
	if hook := c.hooks.Login; hook != nil {
		if err := c.early(hook(c, login)); err != nil {
			return err
		}
	}
	w := &Writer{c: c}
	answer, session, err := h.Login(c.gone, c, login)
	if err != nil {
		return c.endOf(fmt.Errorf("logging in: %w", c.refuse(w, err)))
	}
	if session != nil {
		defer session.Close()
	}
	if answer == nil {
		answer = &LoginAnswer{}
	}
	if err := c.accept(w, answer); err != nil {
		return c.endOf(fmt.Errorf("answering the login: %w", err))
	}
	if session == nil {
		return nil // routed elsewhere
	}
	return c.loop(w, session)
}

// endOf replaces an error that only follows from this side's closing by the reason for that.
func (c *Conn) endOf(err error) error {
	if err == nil || errors.Is(err, ErrFault) {
		return err
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	if c.gone.Err() != nil && !errors.Is(err, context.Cause(c.gone)) {
		return errors.Join(context.Cause(c.gone), err)
	}
	return err
}

// queueLength bounds the requests a client may send ahead of the answers.
const queueLength = 64

// loop answers requests until the client closes. The reader runs beside it and is waited for.
func (c *Conn) loop(w *Writer, session Session) error {
	jobs := make(chan *job, queueLength)
	var reader sync.WaitGroup
	reader.Go(func() { c.read(jobs) })
	defer reader.Wait()
	defer c.goodbye()
	for j := range jobs {
		if j.err != nil {
			if errors.Is(j.err, io.EOF) && !errors.Is(j.err, io.ErrUnexpectedEOF) {
				return nil
			}
			return c.endOf(j.err)
		}
		if err := c.answer(w, session, j); err != nil {
			return c.endOf(err) // before this side's own closing becomes the reason
		}
	}
	return c.endOf(ErrClosed)
}

// read reads messages until the connection ends. It is what notices attentions and the client's going away while rows
// are written.
func (c *Conn) read(jobs chan<- *job) {
	defer close(jobs)
	p := packetReader{r: bufio.NewReaderSize(c.stream, DefaultPacketSize), limit: c.cfg.MaxRequest}
	for {
		msg, err := p.next()
		if err == nil && msg.typ == PacketAttention && c.running.attention() {
			continue
		}
		j := &job{msg: msg, err: err}
		if err == nil && msg.typ != PacketAttention && !msg.ignored {
			j.ctx, j.cancel = context.WithCancelCause(c.gone)
			c.running.add(j)
		}
		if err != nil {
			c.running.stopAll(fmt.Errorf("%w: %w", ErrDisconnected, err))
			c.end(ErrDisconnected)
		}
		select {
		case jobs <- j:
		case <-c.gone.Done():
			if err == nil {
				c.running.stopAll(context.Cause(c.gone))
				return
			}
			select {
			case jobs <- j: // the last word, if there is room
			default:
			}
		}
		if err != nil {
			return
		}
	}
}

// answer answers one message.
func (c *Conn) answer(w *Writer, session Session, j *job) error {
	switch {
	case j.msg.typ == PacketAttention:
		w.begin(c.gone)
		return w.finish(true)
	case j.msg.ignored: // MS-TDS 2.2.1.7: no acknowledgement, a DONE with the error bit
		w.begin(c.gone)
		w.Done(Done{Status: DoneError})
		return w.finish(false)
	}
	req, err := ParseRequest(j.msg.typ, j.msg.payload, c.login.Version)
	if err != nil {
		return err
	}
	w.begin(j.ctx)
	if j.msg.status&statusResetKeep != 0 {
		req.Reset = ResetKeepTransaction
	} else if j.msg.status&statusReset != 0 {
		req.Reset = ResetConnection
	}
	if req.Reset != ResetNone {
		w.EnvResetAck()
	}
	if hook := c.hooks.Request; hook != nil {
		err = w.Inject(hook(c, req))
	}
	if err == nil {
		err = session.Handle(j.ctx, req, w)
	}
	attention := c.running.done()
	if !attention && err != nil && w.err == nil && !w.ended {
		if err = w.explain(err); err != nil {
			return err
		}
	}
	if err := w.finish(attention); err != nil {
		return err
	}
	if w.fatal {
		return fmt.Errorf("answer held an error of class %d or above: %w", fatalClass, ErrClosed)
	}
	return nil
}

// explain sends the server errors a handler has returned, and gives back an error that is none.
func (w *Writer) explain(err error) error {
	messages := messagesOf(err)
	if len(messages) == 0 {
		return err
	}
	w.dropRow()
	for _, m := range messages {
		w.Message(m)
	}
	w.Done(Done{Status: DoneError})
	return nil
}
