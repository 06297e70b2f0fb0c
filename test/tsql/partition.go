package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// partition is one partition of a window, sorted, while a function is computed.
type partition struct {
	o     *windowOp
	f     *frame
	call  *windowCall
	index int
	rows  []int32 // in the window's order
}

func (p *partition) set(i int, v sqltype.Value) { p.o.vals[p.rows[i]][p.index] = v }

// peers tells whether two rows are equal in the window's order.
func (p *partition) peers(i, j int) bool {
	return compareRows(p.call.keys, p.o.keys[p.rows[i]], p.o.keys[p.rows[j]]) == 0
}

func (p *partition) compute() error {
	switch p.call.name {
	case "ROW_NUMBER":
		for i := range p.rows {
			p.set(i, sqltype.BigInt(int64(i+1)))
		}
	case "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST":
		p.rank()
	case "NTILE":
		return p.ntile()
	case "LAG", "LEAD":
		return p.lag()
	case "FIRST_VALUE", "LAST_VALUE":
		return p.edge()
	default:
		return p.aggregate()
	}
	return nil
}

func (p *partition) rank() {
	rank, dense := 1, 1
	n := len(p.rows)
	for i := range p.rows {
		if i > 0 && !p.peers(i-1, i) {
			rank = i + 1
			dense++
		}
		switch p.call.name {
		case "RANK":
			p.set(i, sqltype.BigInt(int64(rank)))
		case "DENSE_RANK":
			p.set(i, sqltype.BigInt(int64(dense)))
		case "PERCENT_RANK":
			r := 0.0
			if n > 1 {
				r = float64(rank-1) / float64(n-1)
			}
			p.set(i, sqltype.Float(r))
		default:
			last := i
			for last+1 < n && p.peers(i, last+1) {
				last++
			}
			p.set(i, sqltype.Float(float64(last+1)/float64(n)))
		}
	}
}

// ntile deals the rows into n groups; the first ones are larger by one.
func (p *partition) ntile() error {
	p.o.bind(p.f, p.rows[0])
	n, err := p.call.buckets(p.f)
	if err != nil {
		return err
	}
	for i := range p.rows {
		p.set(i, sqltype.BigInt(bucketOf(int64(i), int64(len(p.rows)), n)))
	}
	return nil
}

// buckets is the argument of NTILE.
func (w *windowCall) buckets(f *frame) (int64, error) {
	v, err := w.args[0].eval(f)
	if err != nil {
		return 0, err
	}
	if v.IsNull() || v.Int64() < 1 {
		return 0, sqlerr.New(4195, 16, 1, "The number of buckets parameter in the ntile function must be a positive integer.")
	}
	return v.Int64(), nil
}

// bucketOf is the bucket of row i of total, from 1.
func bucketOf(i, total, n int64) int64 {
	size, larger := total/n, total%n
	if i < larger*(size+1) {
		return i/(size+1) + 1
	}
	return larger + (i-larger*(size+1))/size + 1
}

func (p *partition) lag() error {
	for i := range p.rows {
		p.o.bind(p.f, p.rows[i])
		off := int64(1)
		if len(p.call.args) > 1 {
			v, err := p.call.args[1].eval(p.f)
			if err != nil {
				return err
			}
			if off = v.Int64(); off < 0 || v.IsNull() {
				return sqlerr.New(8730, 16, 1, "Offset parameter for Lag and Lead functions cannot be a negative value.")
			}
		}
		j := int64(i) - off
		if p.call.name == "LEAD" {
			j = int64(i) + off
		}
		arg := p.call.args[0]
		switch {
		case j >= 0 && j < int64(len(p.rows)):
			p.o.bind(p.f, p.rows[j])
		case len(p.call.args) > 2:
			arg = p.call.args[2]
		default:
			p.set(i, sqltype.Null())
			continue
		}
		v, err := arg.eval(p.f)
		if err != nil {
			return err
		}
		p.set(i, v)
	}
	return nil
}

// bounds gives the first and last row of the frame of row i.
func (p *partition) bounds(i int) (lo, hi int) {
	n := len(p.rows)
	fr := p.call.frame
	if len(p.call.order) == 0 {
		return 0, n - 1
	}
	if fr == nil { // RANGE UNBOUNDED PRECEDING
		return 0, p.lastPeer(i)
	}
	switch fr.Lo {
	case ast.Preceding:
		lo = max(0, i-int(p.call.lo))
	case ast.Following:
		lo = i + int(p.call.lo)
	case ast.CurrentRow:
		lo = i
		for !fr.Rows && lo > 0 && p.peers(lo-1, i) {
			lo--
		}
	}
	switch fr.Hi {
	case ast.UnboundedFollowing:
		hi = n - 1
	case ast.Preceding:
		hi = i - int(p.call.hi)
	case ast.Following:
		hi = min(n-1, i+int(p.call.hi))
	default:
		hi = i
		if !fr.Rows {
			hi = p.lastPeer(i)
		}
	}
	return lo, hi
}

func (p *partition) lastPeer(i int) int {
	for i+1 < len(p.rows) && p.peers(i, i+1) {
		i++
	}
	return i
}

func (p *partition) edge() error {
	for i := range p.rows {
		lo, hi := p.bounds(i)
		j := lo
		if p.call.name == "LAST_VALUE" {
			j = hi
		}
		if lo > hi {
			p.set(i, sqltype.Null())
			continue
		}
		p.o.bind(p.f, p.rows[j])
		v, err := p.call.args[0].eval(p.f)
		if err != nil {
			return err
		}
		p.set(i, v)
	}
	return nil
}

// aggregate computes a running or whole aggregate; a frame that only grows is not computed anew.
func (p *partition) aggregate() error {
	a := p.call.agg
	var acc accumulator
	from, next := 0, 0
	for i := range p.rows {
		lo, hi := p.bounds(i)
		if lo != from || hi < next-1 {
			acc, from, next = accumulator{}, lo, lo
		}
		for ; next <= hi; next++ {
			p.o.bind(p.f, p.rows[next])
			if err := a.add(p.f, &acc); err != nil {
				return err
			}
		}
		v, err := a.result(&acc)
		if err != nil {
			return err
		}
		p.set(i, v)
	}
	return nil
}
