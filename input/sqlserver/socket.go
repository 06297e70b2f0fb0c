package sqlserver

import (
	"net"
	"sync"
	"time"
)

// socket is a connection whose reads and writes end after a silence, and that can be closed from anywhere.
type socket struct {
	net.Conn

	set     *socketSet
	silence time.Duration
	closing sync.Once
	err     error
}

// Read waits for the server no longer than the silence that is allowed. The driver reads only while it waits for a
// response, so a consumer that is slow does not count.
func (s *socket) Read(p []byte) (int, error) {
	if err := s.SetReadDeadline(time.Now().Add(s.silence)); err != nil {
		return 0, err
	}
	return s.Conn.Read(p)
}

// Write is bounded like Read: a peer that is gone stops taking bytes.
func (s *socket) Write(p []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(s.silence)); err != nil {
		return 0, err
	}
	return s.Conn.Write(p)
}

// Close closes once; later calls have the first one's result.
func (s *socket) Close() error {
	s.closing.Do(func() {
		s.err = s.Conn.Close()
		s.set.remove(s)
	})
	return s.err
}

// closeNow is Close for places that have nobody to tell.
func (s *socket) closeNow() { _ = s.Close() }

// socketSet is all open sockets of a client.
type socketSet struct {
	silence time.Duration

	mu     sync.Mutex
	open   map[*socket]struct{}
	closed bool
}

func newSocketSet(silence time.Duration) *socketSet {
	return &socketSet{silence: silence, open: map[*socket]struct{}{}}
}

func (s *socketSet) add(raw net.Conn) *socket {
	added := &socket{Conn: raw, set: s, silence: s.silence}
	s.mu.Lock()
	closed := s.closed
	s.open[added] = struct{}{}
	s.mu.Unlock()
	if closed {
		added.closeNow()
	}
	return added
}

func (s *socketSet) remove(gone *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, gone)
}

// closeAll closes every socket, and those that are added later.
func (s *socketSet) closeAll() {
	s.mu.Lock()
	s.closed = true
	open := make([]*socket, 0, len(s.open))
	for o := range s.open {
		open = append(open, o)
	}
	s.mu.Unlock()
	for _, o := range open {
		o.closeNow()
	}
}
