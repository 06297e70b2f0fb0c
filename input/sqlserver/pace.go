package sqlserver

import "sync"

const (
	// firstStep is how many commits of the database the first sub-range of an unknown table spans.
	firstStep = 256
	// maxStep bounds the look-ahead in the mapping of commits, for tables with few changes in a busy database.
	maxStep = 200_000
	// paceChange bounds how fast the step follows: the next range may be nothing like the last.
	paceChange = 8
)

// paces remembers how densely the changes of each instance lie among the commits of the database. It decides how a window
// is cut into sub-ranges, never what it holds.
type paces struct {
	mu   sync.Mutex
	byCI map[string]*pace
}

// pace is what was learned about one instance.
type pace struct {
	mu      sync.Mutex
	step    int64 // commits of the database per sub-range
	backlog bool  // the last window was cut by a limit or long: reading in sub-ranges pays
}

func (p *paces) of(instance string) *pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byCI == nil {
		p.byCI = map[string]*pace{}
	}
	found := p.byCI[instance]
	if found == nil {
		found = &pace{step: firstStep, backlog: true}
		p.byCI[instance] = found
	}
	return found
}

func (p *pace) next() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.step
}

// learn takes in that a sub-range of step commits filled so many parts; want is how many it should fill.
func (p *pace) learn(step int64, parts, want float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	better := float64(step*paceChange + 1)
	if parts > 0 {
		better = float64(step) * want / parts
	}
	low, high := max(step/paceChange, 1), min(step*paceChange+1, maxStep)
	p.step = max(min(int64(better), high), min(low, high))
}

func (p *pace) windowEnded(long bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backlog = long
}

func (p *pace) expectsBacklog() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.backlog
}
