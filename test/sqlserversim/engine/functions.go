package engine

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// The functions' names as message 313 prints them, the blank and dots included: a placeholder object's, the same for every
// instance and cause [D, M25].
const (
	allChangesName = "cdc.fn_cdc_get_all_changes_ ... "
	netChangesName = "cdc.fn_cdc_get_net_changes_ ... "
)

// AllChangesColumns lists the columns of cdc.fn_cdc_get_all_changes_<instance>: without __$end_lsn and __$command_id [M22, M25].
func (i *Instance) AllChangesColumns() []sqltype.Column {
	all := i.ChangeColumns()
	out := []sqltype.Column{all[ChangeStartLSN], all[ChangeSeqVal], all[ChangeOperation], all[ChangeUpdateMask]}
	return append(out, all[ChangeFirst:ChangeFirst+len(i.Columns)]...)
}

// NetChangesColumns lists the columns of cdc.fn_cdc_get_net_changes_<instance> [D].
func (i *Instance) NetChangesColumns() []sqltype.Column {
	all := i.ChangeColumns()
	out := []sqltype.Column{all[ChangeStartLSN], all[ChangeOperation], all[ChangeUpdateMask]}
	return append(out, all[ChangeFirst:ChangeFirst+len(i.Columns)]...)
}

// checkWindow is the range check of the query functions: 313 for NULL, from below min LSN, to above max LSN, from above to, or
// an unknown filter [D, M25; from > to inside the interval K].
func (v *View) checkWindow(i *Instance, from, to *LSN, filter, function string, filters ...string) (string, error) {
	filter = strings.ToLower(strings.TrimSpace(filter))
	top, ok := v.MaxLSN()
	low, _, _ := v.MinLSN(i.Name)
	if from == nil || to == nil || !ok || from.Less(low) || top.Less(*to) || to.Less(*from) || !slices.Contains(filters, filter) {
		return "", fail(ErrFunctionRange, function)
	}
	return filter, nil
}

// AllChanges is cdc.fn_cdc_get_all_changes_<instance>: the rows of the closed interval in the change table's order. The filters
// are "all" (without operation 3) and "all update old", blanks around and case ignored. columns are ordinals of AllChangesColumns
// that are needed, nil for all. Nil LSNs are NULL. Errors: 208 without such an instance, 313 from checkWindow.
func (v *View) AllChanges(instance string, from, to *LSN, filter string, columns []int) (*Cursor, error) {
	i, ok := v.Instance(instance)
	if !ok {
		return nil, fail(ErrInvalidObject, "cdc.fn_cdc_get_all_changes_"+instance)
	}
	filter, err := v.checkWindow(i, from, to, filter, allChangesName, "all", "all update old")
	if err != nil {
		return nil, err
	}
	spec := LSNRange(*from, *to, nil)
	spec.WithoutBefore = filter == "all"
	source := []int{ChangeStartLSN, ChangeSeqVal, ChangeOperation, ChangeUpdateMask}
	return v.newCursor(i, spec, project(source, len(i.Columns), columns), len(source)+len(i.Columns)), nil
}

// project lists the cells of a function's row: metadata columns, then the captured ones.
func project(metadata []int, captured int, columns []int) []cell {
	width := len(metadata) + captured
	if columns == nil {
		for c := range width {
			columns = append(columns, c)
		}
	}
	out := make([]cell, 0, len(columns))
	for _, c := range columns {
		in := ChangeFirst + c - len(metadata)
		if c < len(metadata) {
			in = metadata[c]
		}
		out = append(out, cell{out: c, in: in})
	}
	return out
}

// NetCursor iterates over net changes. Like Cursor it holds no lock.
type NetCursor struct {
	cursor *Cursor
	picks  []netChange
	masked bool
	next   int
}

// netChange is what a key's changes come to.
type netChange struct {
	row       int64 // absolute number of the last change, whose image counts
	first, op uint8
	mask      []byte
}

// NetChanges is cdc.fn_cdc_get_net_changes_<instance>: one row per key for the whole window, in the order of the keys' last
// changes. The filters are "all", "all with mask" and "all with merge", where 2 and 4 become 5 [D, M25]. Errors: 208 without
// such an instance or without net changes, 313 from checkWindow.
func (v *View) NetChanges(instance string, from, to *LSN, filter string, columns []int) (*NetCursor, error) {
	i, ok := v.Instance(instance)
	if !ok || !i.SupportsNetChanges {
		return nil, fail(ErrInvalidObject, "cdc.fn_cdc_get_net_changes_"+instance)
	}
	filter, err := v.checkWindow(i, from, to, filter, netChangesName, "all", "all with mask", "all with merge")
	if err != nil {
		return nil, err
	}
	metadata := []int{ChangeStartLSN, ChangeOperation, ChangeUpdateMask}
	n := &NetCursor{masked: filter == "all with mask"}
	n.cursor = v.newCursor(i, LSNRange(*from, *to, nil), project(metadata, len(i.Columns), columns), len(metadata)+len(i.Columns))
	for _, c := range v.netChanges(i, *from, *to) {
		if c.settle(filter == "all with merge") {
			n.picks = append(n.picks, c)
		}
	}
	slices.SortFunc(n.picks, func(a, b netChange) int { return cmp.Compare(a.row, b.row) })
	return n, nil
}

// netChanges collapses the window by key.
func (v *View) netChanges(i *Instance, from, to LSN) map[string]netChange {
	spec := LSNRange(from, to, []int{})
	var keys []int
	for _, x := range i.IndexColumns {
		c := i.capturedID(x.ColumnID)
		keys = append(keys, c)
		spec.Columns = append(spec.Columns, ChangeFirst+c)
	}
	collations := make([]*sqltype.Collation, len(keys))
	for n, c := range keys {
		if l, ok := sqltype.LookupCollation(i.Columns[c].Type.Collation); ok {
			collations[n] = l
		}
	}
	out := map[string]netChange{}
	cur := (&View{}).ScanChanges(i, spec) // without hooks
	row := cur.lo
	var key []byte
	for cur.Next() {
		s, at := cur.store.at(row)
		row++
		op := s.op[at]
		if op == opBefore {
			continue
		}
		key = key[:0]
		for n, c := range keys {
			key = appendKey(key, cur.row[ChangeFirst+c], collations[n])
		}
		l := cur.store.layout
		mask := s.mask[at*l.maskLen : (at+1)*l.maskLen]
		c, seen := out[string(key)]
		if !seen {
			c.first = op
			c.mask = make([]byte, l.maskLen)
		}
		c.row, c.op = row-1, op
		for b := range mask {
			c.mask[b] |= mask[b]
		}
		out[string(key)] = c
	}
	return out
}

// settle turns first and last operation into the net one; false when nothing is left of it.
func (c *netChange) settle(merge bool) bool {
	before, after := c.first != opInsert, c.op != opDelete
	switch {
	case !before && !after:
		return false
	case !after:
		c.op = opDelete
	case merge:
		c.op = 5
	case before:
		c.op = opAfter
	default:
		c.op = opInsert
	}
	return true
}

// appendKey appends a value so that equal values, and only they, give equal bytes.
func appendKey(b []byte, v sqltype.Value, c *sqltype.Collation) []byte {
	switch {
	case v.IsNull():
		return append(b, 0)
	case v.Kind().IsText():
		if c != nil {
			k := c.Key(v.Str())
			return append(binary.BigEndian.AppendUint32(append(b, 1), uint32(len(k))), k...)
		}
		fallthrough
	case v.Kind().IsBinary():
		return append(binary.BigEndian.AppendUint32(append(b, 1), uint32(len(v.Str()))), v.Str()...)
	}
	text := v.String()
	return append(binary.BigEndian.AppendUint32(append(b, 2), uint32(len(text))), text...)
}

// Next moves to the next row; false at the end.
func (n *NetCursor) Next() bool {
	if n.next == len(n.picks) {
		return false
	}
	c := n.cursor
	pick := n.picks[n.next]
	n.next++
	s, at := c.store.at(pick.row)
	if c.block == nil {
		c.block = make([]sqltype.Value, c.width)
	}
	c.decode(s, at, 1)
	c.row = c.block[:c.width:c.width]
	for _, w := range c.wanted {
		switch w.in {
		case ChangeOperation:
			c.row[w.out] = sqltype.Int(int32(pick.op))
		case ChangeUpdateMask:
			c.row[w.out] = sqltype.Value{}
			if n.masked {
				c.row[w.out] = sqltype.VarBinary(pick.mask)
			}
		}
	}
	return true
}

// Row is the present row; valid until the next call of Next.
func (n *NetCursor) Row() sqltype.Row { return n.cursor.row }

// All yields the remaining rows.
func (n *NetCursor) All() iter.Seq[sqltype.Row] {
	return func(yield func(sqltype.Row) bool) {
		for n.Next() {
			if !yield(n.Row()) {
				return
			}
		}
	}
}
