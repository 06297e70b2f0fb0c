package tsql

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// joinOp runs its right side for each row of its left side.
type joinOp struct{ l, r rowOp }

func (o *joinOp) run(f *frame, yield func() error) error {
	refresh(o.r)
	return o.l.run(f, func() error { return o.r.run(f, yield) })
}

// refresh makes a stored right side that depends on an outer query read its input
// again.
func refresh(op rowOp) {
	if f, ok := op.(*filterOp); ok {
		op = f.in
	}
	if s, ok := op.(*storedOp); ok && !s.reuse {
		s.full = false
	}
}

// nullRow names a slot and the width of its rows.
type nullRow struct{ slot, width int }

// leftOp is a left outer join: a row of the left side without a partner comes with
// NULLs on the right.
type leftOp struct {
	l, r  rowOp
	nulls []nullRow
}

func (o *leftOp) run(f *frame, yield func() error) error {
	refresh(o.r)
	nulls := make([]sqltype.Row, len(o.nulls))
	for i, n := range o.nulls {
		nulls[i] = make(sqltype.Row, n.width)
	}
	var matched bool
	inner := func() error {
		matched = true
		return yield()
	}
	return o.l.run(f, func() error {
		matched = false
		if err := o.r.run(f, inner); err != nil || matched {
			return err
		}
		for i, n := range o.nulls {
			f.rows[n.slot] = nulls[i]
		}
		return yield()
	})
}

// hashKey is one equality of a hash join: build is computed on the stored side,
// probe on the other.
type hashKey struct {
	build, probe *expr
	coll         *sqltype.Collation
}

// hashKey takes an equality apart whose sides belong to the stored slots and to the others.
func (c *compiler) hashKey(cd *cond, stored slotSet) (hashKey, bool) {
	cmp := cd.cmp
	if cmp == nil || cmp.op != "=" {
		return hashKey{}, false
	}
	build, probe := cmp.l, cmp.r
	if !build.deps.intersects(stored) {
		build, probe = probe, build
	}
	if probe.deps.intersects(stored) || !build.deps.intersects(stored) {
		return hashKey{}, false
	}
	for i := range build.deps {
		var own uint64
		if i < len(stored) {
			own = stored[i]
		}
		if build.deps[i]&^own != 0 {
			return hashKey{}, false
		}
	}
	k := hashKey{build: build, probe: probe, coll: cmp.coll}
	if !cmp.common.Kind.IsText() && !cmp.common.Kind.IsBinary() {
		b, err := c.convertTo(build, cmp.common, true)
		if err != nil {
			return k, false
		}
		p, err := c.convertTo(probe, cmp.common, true)
		if err != nil {
			return k, false
		}
		k.build, k.probe = b, p
	}
	return k, true
}

// storedOp reads its input once and yields it again and again, by hash where
// there are keys.
type storedOp struct {
	in    rowOp
	store rowStore
	keys  []hashKey
	reuse bool // the input is the same for the whole statement
	index map[string][]int32
	full  bool
	owner *frame
	buf   []byte
}

func (o *storedOp) run(f *frame, yield func() error) error {
	if !o.full || o.owner != f {
		if err := o.load(f); err != nil {
			return err
		}
	}
	if len(o.keys) == 0 {
		for i := range o.store.n {
			o.store.bind(f, i)
			if err := yield(); err != nil {
				return err
			}
		}
		return nil
	}
	o.buf = o.buf[:0]
	for _, k := range o.keys {
		v, err := k.probe.eval(f)
		if err != nil || v.IsNull() {
			return err
		}
		o.buf = appendKey(o.buf, v, k.coll)
	}
	for _, i := range o.index[string(o.buf)] {
		o.store.bind(f, int(i))
		if err := yield(); err != nil {
			return err
		}
	}
	return nil
}

// load stores the input and indexes it.
func (o *storedOp) load(f *frame) error {
	o.store.reset()
	o.full, o.owner = true, f
	if len(o.keys) > 0 {
		o.index = make(map[string][]int32)
	}
	return o.in.run(f, func() error {
		if len(o.keys) > 0 {
			o.buf = o.buf[:0]
			for _, k := range o.keys {
				v, err := k.build.eval(f)
				if err != nil || v.IsNull() {
					return err
				}
				o.buf = appendKey(o.buf, v, k.coll)
			}
			o.index[string(o.buf)] = append(o.index[string(o.buf)], int32(o.store.n))
		}
		o.store.add(f)
		return nil
	})
}

// planFull plans a full outer join: a left join, then the rows of the right
// side that had no partner.
func (c *compiler) planFull(n *joinNode, conds []*cond, bound slotSet) (rowOp, *ordering) {
	l, _ := c.plan(n.l, nil, bound)
	inner, _ := c.plan(n.r, nil, union(bound, n.l.slots()))
	op := &fullOp{l: l, r: &storedOp{in: inner, store: rowStore{slots: storeSlots(n.r)}}, on: andAll(n.on), left: nullRows(n.l), right: nullRows(n.r)}
	return filtered(op, conds), nil
}

type fullOp struct {
	l           rowOp
	r           *storedOp
	on          condFn
	left, right []nullRow
}

func (o *fullOp) run(f *frame, yield func() error) error {
	if err := o.r.load(f); err != nil {
		return err
	}
	store := &o.r.store
	hit := make([]bool, store.n)
	setNull := func(list []nullRow) {
		for _, n := range list {
			f.rows[n.slot] = make(sqltype.Row, n.width)
		}
	}
	err := o.l.run(f, func() error {
		matched := false
		for i := range hit {
			store.bind(f, i)
			ok, err := o.on(f)
			if err != nil {
				return err
			}
			if ok != isTrue {
				continue
			}
			matched, hit[i] = true, true
			if err := yield(); err != nil {
				return err
			}
		}
		if matched {
			return nil
		}
		setNull(o.right)
		return yield()
	})
	if err != nil {
		return err
	}
	for i, h := range hit {
		if h {
			continue
		}
		setNull(o.left)
		store.bind(f, i)
		if err := yield(); err != nil {
			return err
		}
	}
	return nil
}
