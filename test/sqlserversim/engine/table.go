package engine

import (
	"cmp"
	"sync/atomic"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Table is a base table. Its definition is [Table.Def]; rows are read and changed through a [Tx]. The handle stays the same
// under ALTER and rename.
type Table struct {
	db  *Database
	def atomic.Pointer[TableDef]

	// What follows is guarded by db.mu.
	rows        *sorted[*entry]
	unique      []*sorted[uniqueItem] // one per def.unique
	lock        tableLock
	nextRowID   int64
	identity    int64 // last identity given
	identitySet bool
	tracked     int // capture instances
	dropped     bool
	logged      int64 // rows ever inserted into an unmaterialized table
}

// Def is the table's present definition.
func (t *Table) Def() *TableDef { return t.def.Load() }

// Database is the database that the table is in.
func (t *Table) Database() *Database { return t.db }

// RowCount is the number of committed and uncommitted rows, as sys.partitions counts them.
func (t *Table) RowCount() int64 {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	var n int64
	for e := range t.rows.ascend(nil) {
		if e.owner == nil || e.new != nil {
			n++
		}
	}
	return n
}

// IdentityCurrent is IDENT_CURRENT: the last identity given, or the seed; false without an identity column.
func (t *Table) IdentityCurrent() (int64, bool) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	def := t.def.Load()
	if def.identityCol < 0 {
		return 0, false
	}
	if !t.identitySet {
		return def.Columns[def.identityCol].Identity.Seed, true
	}
	return t.identity, true
}

// Reseed is DBCC CHECKIDENT (…, RESEED, v): the next identity is v plus the increment.
func (t *Table) Reseed(v int64) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.identity, t.identitySet = v, true
}

// loc is a place in a table: the values of the clustered key, and the row id where that is not unique. Entries that follow one
// another in a place share it.
type loc struct {
	key []sqltype.Value
	id  int64
}

// entry is what a place holds: the committed row, and the row of the transaction that has it locked. It is immutable; a change
// replaces it.
type entry struct {
	*loc
	old     sqltype.Row // nil: none committed
	new     sqltype.Row // nil: deleted by owner
	owner   *Tx         // nil: not locked, and new means nothing
	version uint64      // commit number of old
}

// uniqueItem is an entry of a unique index: a key, and the place of a row that has it, committed or not.
type uniqueItem struct {
	key []sqltype.Value
	at  *loc
}

// visible is the row that a transaction sees when it may see it at once: its own, or the committed one.
func (e *entry) visible(tx *Tx) sqltype.Row {
	if e.owner != nil && e.owner == tx {
		return e.new
	}
	return e.old
}

// compareKeys orders two keys.
func compareKeys(cols []keyColumn, a, b []sqltype.Value) int {
	for i := range min(len(a), len(b), len(cols)) {
		d := sqltype.Compare(a[i], b[i], cols[i].collation)
		if d == 0 {
			continue
		}
		if cols[i].descending {
			return -d
		}
		return d
	}
	return 0
}

// sameKey tells whether two rows have one key.
func sameKey(cols []keyColumn, a, b sqltype.Row) bool {
	for _, c := range cols {
		if a[c.ordinal] != b[c.ordinal] && sqltype.Compare(a[c.ordinal], b[c.ordinal], c.collation) != 0 {
			return false
		}
	}
	return true
}

// keyOf takes the key columns out of a row.
func keyOf(cols []keyColumn, row sqltype.Row) []sqltype.Value {
	if len(cols) == 0 {
		return nil
	}
	key := make([]sqltype.Value, len(cols))
	for i, c := range cols {
		key[i] = row[c.ordinal]
	}
	return key
}

func compareLocs(cols []keyColumn, unique bool, a, b *loc) int {
	if d := compareKeys(cols, a.key, b.key); d != 0 || unique {
		return d
	}
	return cmp.Compare(a.id, b.id)
}

// emptyStorage makes the collections of a definition.
func (t *Table) emptyStorage(def *TableDef) {
	cols, unique := def.keyCols, def.keyUnique
	t.rows = newSorted(func(a, b *entry) int { return compareLocs(cols, unique, a.loc, b.loc) })
	t.unique = nil
	for _, x := range def.unique {
		t.unique = append(t.unique, newSorted(func(a, b uniqueItem) int {
			if d := compareKeys(x.cols, a.key, b.key); d != 0 {
				return d
			}
			return compareLocs(cols, unique, a.at, b.at)
		}))
	}
}

// newLoc gives the place for a new row.
func (t *Table) newLoc(def *TableDef, row sqltype.Row) *loc {
	l := &loc{key: keyOf(def.keyCols, row)}
	if !def.keyUnique {
		t.nextRowID++
		l.id = t.nextRowID
	}
	return l
}

// lookup finds the entry of a place.
func (t *Table) lookup(l *loc) *entry {
	def := t.def.Load()
	p := t.rows.seek(func(e *entry) bool { return compareLocs(def.keyCols, def.keyUnique, e.loc, l) >= 0 })
	if p.c == len(t.rows.chunks) {
		return nil
	}
	if e := t.rows.chunks[p.c].items[p.i]; compareLocs(def.keyCols, def.keyUnique, e.loc, l) == 0 {
		return e
	}
	return nil
}

// put replaces what a place holds, from one entry (nil: nothing) to another, and keeps the unique indexes in step.
func (t *Table) put(def *TableDef, from, to *entry) {
	switch {
	case to != nil:
		t.rows.set(to)
	case from != nil:
		t.rows.remove(from)
	}
	for i, x := range def.unique {
		tree := t.unique[i]
		if to != nil {
			for _, row := range []sqltype.Row{to.old, to.pending()} {
				if row != nil && !from.holds(x.cols, row) {
					tree.set(uniqueItem{keyOf(x.cols, row), to.loc})
				}
			}
		}
		if from != nil {
			for _, row := range []sqltype.Row{from.old, from.pending()} {
				if row != nil && !to.holds(x.cols, row) {
					tree.remove(uniqueItem{keyOf(x.cols, row), from.loc})
				}
			}
		}
	}
}

// pending is the owner's row, nil without an owner.
func (e *entry) pending() sqltype.Row {
	if e.owner == nil {
		return nil
	}
	return e.new
}

// holds tells whether one of the entry's rows has the key of row.
func (e *entry) holds(cols []keyColumn, row sqltype.Row) bool {
	if e == nil {
		return false
	}
	for _, r := range []sqltype.Row{e.old, e.pending()} {
		if r != nil && sameKey(cols, r, row) {
			return true
		}
	}
	return false
}

// tableLock is the state of a table's locks. Waiters wait for the end of a transaction that is in their way.
type tableLock struct {
	schema  *Tx // schema modification, or TABLOCKX
	shared  map[*Tx]bool
	writers map[*Tx]bool
	waiting *Tx           // wants schema; new writers queue behind it
	gaveUp  chan struct{} // closed when waiting got it or gave up
}
