package tds

import (
	"math/rand/v2"
	"time"
)

// Fate is what a [Proxy] does to one connection. The zero value forwards it.
type Fate struct {
	Refuse   bool          // close it as soon as it comes
	CutAfter int64         // bytes from the server after which it is closed; 0 does not cut
	How      Action        // of the cut: CloseConn or ResetConn
	Delay    time.Duration // each piece is held back
	Chunk    int           // largest piece forwarded at once; 0 for any
}

// Plan gives the fate of the n-th connection, n from 1. It must give the same fate whenever it is asked for the same connection.
type Plan func(n int) Fate

// Plan decides over each new connection by its number, until Restore.
func (p *Proxy) Plan(plan Plan) { p.set(func(m *proxyMode) { *m = proxyMode{plan: plan} }) }

// take puts a fate in place of the switches.
func (m *proxyMode) take(f Fate) {
	m.refuse, m.cutAfter, m.how, m.delay, m.chunk = f.Refuse, f.CutAfter, f.How, f.Delay, f.Chunk
}

// RandomPlan breaks about two of three connections: one of nine is refused, and the others are closed or reset after up to most bytes from
// the server, some in small pieces or slowed down. The fate of a connection follows from the seed and its number alone.
func RandomPlan(seed, most int64) Plan {
	return func(n int) Fate {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
		var f Fate
		switch rng.IntN(9) {
		case 0, 1, 2:
		case 3:
			f.Refuse = true
		default:
			f.CutAfter = 1 + rng.Int64N(most)
			if rng.IntN(2) == 0 {
				f.How = ResetConn
			} else {
				f.How = CloseConn
			}
		}
		if rng.IntN(4) == 0 {
			f.Chunk = 1 + rng.IntN(2000)
		}
		if rng.IntN(8) == 0 {
			f.Delay = time.Duration(rng.IntN(2000)) * time.Microsecond
		}
		return f
	}
}
