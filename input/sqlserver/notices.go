package sqlserver

import "sync"

// maxNotices bounds the warnings that wait for a window.
const maxNotices = 32

// notices collects warnings until a window takes them along.
type notices struct {
	mu      sync.Mutex
	pending []string
}

func (n *notices) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pending) < maxNotices {
		n.pending = append(n.pending, text)
	}
}

func (n *notices) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.pending
	n.pending = nil
	return taken
}
