package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Insert adds rows as one atomic statement. A row slice may be reused by rows; its values are kept. Errors: 515 for NULL in a
// NOT NULL column, 2627 and 2601 for a duplicate, 544 for a value of an identity column without IdentityInsert, 7139 for a
// large value on a tracked table, 3906 on a read-only database, 1222 and 1205.
func (tx *Tx) Insert(ctx context.Context, t *Table, spec InsertSpec, rows iter.Seq2[sqltype.Row, error]) (InsertResult, error) {
	s, err := tx.beginStatement(ctx, t, spec.Def)
	if err != nil {
		return InsertResult{}, err
	}
	in := &inserter{statement: s, spec: spec, defaults: map[int]func() (sqltype.Value, error){}}
	if err := in.prepare(); err != nil {
		return InsertResult{}, err
	}
	for values, err := range rows {
		if err == nil {
			err = in.add(ctx, values)
		}
		if err != nil {
			return InsertResult{}, s.undo(err)
		}
	}
	for _, row := range in.stored {
		if err := spec.Inserted(row); err != nil {
			return InsertResult{}, s.undo(err)
		}
	}
	return in.result, nil
}

// InsertRows is Insert of a list of rows.
func (tx *Tx) InsertRows(ctx context.Context, t *Table, spec InsertSpec, rows ...sqltype.Row) (InsertResult, error) {
	return tx.Insert(ctx, t, spec, func(yield func(sqltype.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	})
}

// statement is what the statements that change rows share.
type statement struct {
	tx    *Tx
	t     *Table
	def   *TableDef
	cells []cellType
	from  Mark // of the transaction at the start
}

// beginStatement takes the intent lock and binds to the definition.
func (tx *Tx) beginStatement(ctx context.Context, t *Table, bound *TableDef) (*statement, error) {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.settings.ReadOnly {
		return nil, fail(ErrReadOnlyDatabase, db.name)
	}
	if err := tx.lockWrite(ctx, t); err != nil {
		return nil, err
	}
	def := t.def.Load()
	if bound != nil && bound != def {
		return nil, ErrDefinitionChanged
	}
	if tx.opts.Isolation == Snapshot {
		if !db.settings.AllowSnapshot {
			return nil, fail(ErrSnapshotNotAllowed, db.name)
		}
		if snap, ok := tx.snapshot().tables[t]; !ok || snap.def != def {
			return nil, fail(ErrSnapshotDDL, db.name)
		}
	}
	s := &statement{tx: tx, t: t, def: def, from: tx.mark()}
	for _, c := range def.Columns {
		s.cells = append(s.cells, cellTypeOf(c.Type))
	}
	return s, nil
}

// undo takes the statement back after an error, which it returns.
func (s *statement) undo(err error) error {
	db := s.tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if !s.tx.ended {
		s.tx.undoTo(s.from)
	}
	return err
}

// check looks at the values of a whole row.
func (s *statement) check(row sqltype.Row, verb string) error {
	for i := range s.def.Columns {
		c := &s.def.Columns[i]
		v := row[i]
		if v.IsNull() {
			if !c.Nullable && c.Computed == nil {
				return fail(ErrNullNotAllowed, c.Name, s.tx.db.name+"."+s.def.FullName(), verb)
			}
			continue
		}
		if err := s.cells[i].checkCell(v); err != nil {
			return fmt.Errorf("column %s of %s: %w", c.Name, s.def.FullName(), err)
		}
	}
	return nil
}

// compute fills the computed columns.
func (s *statement) compute(row sqltype.Row) error {
	for _, i := range s.def.computedCols {
		v, err := s.def.Columns[i].Computed(row)
		if err != nil {
			return err
		}
		row[i] = v
	}
	return nil
}

// checkLOBs refuses values that are too large to capture [D, number K]; old is nil for an insert.
func (s *statement) checkLOBs(old, row sqltype.Row) error {
	limit := s.tx.db.server.maxTextReplSize()
	if s.t.tracked == 0 || limit < 0 {
		return nil
	}
	for i := range s.def.Columns {
		if !isLarge(s.def.Columns[i].Type) || row[i].IsNull() || old != nil && old[i] == row[i] {
			continue
		}
		if n := int64(valueBytes(row[i])); n > limit {
			return fail(ErrLOBTooLong, n, limit)
		}
	}
	return nil
}

// isLarge tells whether a type is (max), xml, or one of the old large types.
func isLarge(t sqltype.Type) bool {
	return t.Length == sqltype.Max || isOldLOB(t.Kind) || t.Kind == sqltype.KindXML
}

func isOldLOB(k sqltype.Kind) bool {
	return k == sqltype.KindText || k == sqltype.KindNText || k == sqltype.KindImage
}

// valueBytes is the length of a text or binary value in SQL Server: UTF-16 for the Unicode types.
func valueBytes(v sqltype.Value) int {
	s := v.Str()
	if !v.Kind().IsUnicode() {
		return len(s)
	}
	n := 0
	for _, r := range s {
		n += 2
		if r > 0xFFFF {
			n += 2
		}
	}
	return n
}

// inserter is one insert statement.
type inserter struct {
	*statement
	spec     InsertSpec
	columns  []int
	given    []bool // by ordinal
	defaults map[int]func() (sqltype.Value, error)
	result   InsertResult
	stored   []sqltype.Row // for spec.Inserted
}

func (in *inserter) prepare() error {
	def := in.def
	in.given = make([]bool, len(def.Columns))
	in.columns = in.spec.Columns
	if in.columns == nil {
		for i, c := range def.Columns {
			if c.Computed == nil && i != def.rowVersionCol && (i != def.identityCol || in.spec.IdentityInsert) {
				in.columns = append(in.columns, i)
			}
		}
	}
	for _, i := range in.columns {
		if i == def.identityCol && !in.spec.IdentityInsert {
			return fail(ErrIdentityOff, def.Name)
		}
		in.given[i] = true
	}
	for i, c := range def.Columns {
		if !in.given[i] && c.Default != nil {
			in.defaults[i] = c.Default
		}
	}
	return nil
}

// add stores one row.
func (in *inserter) add(ctx context.Context, values sqltype.Row) error {
	if len(values) != len(in.columns) {
		return fmt.Errorf("inserting into %s: %d values for %d columns", in.def.FullName(), len(values), len(in.columns))
	}
	row := make(sqltype.Row, len(in.def.Columns))
	for n, i := range in.columns {
		row[i] = values[n]
	}
	for i := range in.def.Columns {
		if give, ok := in.defaults[i]; ok {
			v, err := give()
			if err != nil {
				return err
			}
			row[i] = v
		}
	}
	in.generate(row)
	if err := in.compute(row); err != nil {
		return err
	}
	if err := in.check(row, "INSERT"); err != nil {
		return err
	}
	db := in.tx.db
	db.mu.Lock()
	err := in.tx.usable()
	if err == nil {
		err = in.checkLOBs(nil, row)
	}
	if err == nil {
		err = in.store(ctx, row)
	}
	db.mu.Unlock()
	if err != nil {
		return err
	}
	in.result.Count++
	if in.spec.Inserted != nil {
		in.stored = append(in.stored, row)
	}
	return nil
}

// generate gives the row its identity and rowversion. Numbers that a rollback gives up are not used again.
func (in *inserter) generate(row sqltype.Row) {
	t, def := in.t, in.def
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if i := def.identityCol; i >= 0 {
		id := def.Columns[i].Identity
		if in.given[i] {
			v := asInt64(row[i])
			if !t.identitySet || (v-t.identity)*id.Increment > 0 {
				t.identity, t.identitySet = v, true
			}
		} else {
			t.identity += id.Increment
			if !t.identitySet {
				t.identity, t.identitySet = id.Seed, true
			}
			row[i] = integerOf(def.Columns[i].Type, t.identity)
		}
		in.result.Identity = row[i]
	}
	t.db.stampRowVersion(def, row)
}

// stampRowVersion gives a row the next rowversion; db.mu is held.
func (db *Database) stampRowVersion(def *TableDef, row sqltype.Row) {
	if def.rowVersionCol < 0 {
		return
	}
	db.rowVer++
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], db.rowVer)
	row[def.rowVersionCol] = sqltype.Bytes(sqltype.KindRowVersion, string(b[:]))
}

// integerOf makes the value of an identity column: an integer kind or decimal with scale 0.
func integerOf(t sqltype.Type, v int64) sqltype.Value {
	if t.Kind == sqltype.KindDecimal {
		return sqltype.Decimal(sqltype.NumberFromInt64(v))
	}
	return sqltype.Integer(t.Kind, v)
}

func asInt64(v sqltype.Value) int64 {
	if v.Kind() == sqltype.KindDecimal {
		n, _ := v.Number().Int64()
		return n
	}
	return v.Int64()
}

// store puts a row into the table and the log; db.mu is held.
func (in *inserter) store(ctx context.Context, row sqltype.Row) error {
	if in.def.unmaterialized {
		in.t.logged++
		return in.logChange(nil, row, nil)
	}
	l := in.t.newLoc(in.def, row)
	if err := in.unique(ctx, l, row); err != nil {
		return err
	}
	if err := in.logChange(nil, row, nil); err != nil {
		return err
	}
	in.tx.change(in.t, l, row)
	return nil
}

// logChange writes the log record of a row's change. The images are kept only when somebody captures the table. db.mu is held.
func (s *statement) logChange(before, after sqltype.Row, seq *lsnKey) error {
	db := s.tx.db
	if s.t.tracked > 0 && db.settings.LogRecords > 0 && db.backlogRecords()+len(s.tx.log) >= db.settings.LogRecords {
		return fail(ErrLogFull, db.name, "REPLICATION")
	}
	lsn := s.tx.record(recordBytes + 16*len(s.def.Columns))
	if s.t.tracked == 0 {
		return nil
	}
	r := logRecord{lsn: lsn, seq: lsn, def: s.def, before: before, after: after}
	if seq != nil {
		r.seq = *seq
	}
	s.tx.log = append(s.tx.log, r)
	return nil
}

// unique waits for transactions that hold the row's keys, and fails when one is taken; l is the row's own place. db.mu is held.
func (s *statement) unique(ctx context.Context, l *loc, row sqltype.Row) error {
	for {
		blocker, err := s.conflict(l, row)
		if err != nil || blocker == nil {
			return err
		}
		if err := s.tx.wait(ctx, blocker); err != nil {
			return err
		}
	}
}

// conflict finds a duplicate of the row's keys, or the transaction whose end decides.
func (s *statement) conflict(l *loc, row sqltype.Row) (*Tx, error) {
	if s.def.keyUnique {
		if e := s.t.lookup(l); e != nil {
			if e.owner != nil && e.owner != s.tx {
				return e.owner, nil
			}
			if e.visible(s.tx) != nil {
				return nil, s.duplicate(s.def.clusteredIndex(), s.def.keyCols, row)
			}
		}
	}
	for i, x := range s.def.unique {
		key := keyOf(x.cols, row)
		for item := range s.t.unique[i].ascend(func(u uniqueItem) bool { return compareKeys(x.cols, u.key, key) >= 0 }) {
			if compareKeys(x.cols, item.key, key) != 0 {
				break
			}
			if compareLocs(s.def.keyCols, s.def.keyUnique, item.at, l) == 0 {
				continue
			}
			e := s.t.lookup(item.at)
			if e == nil {
				continue
			}
			if e.owner != nil && e.owner != s.tx {
				return e.owner, nil
			}
			if v := e.visible(s.tx); v != nil && sameKey(x.cols, v, row) {
				return nil, s.duplicate(s.def.Indexes[x.def], x.cols, row)
			}
		}
	}
	return nil, nil
}

func (s *statement) duplicate(x IndexDef, cols []keyColumn, row sqltype.Row) error {
	text := "("
	for i, v := range keyOf(cols, row) {
		if i > 0 {
			text += ", "
		}
		text += displayValue(v)
	}
	text += ")"
	switch {
	case x.PrimaryKey:
		return fail(ErrDuplicateKey, "PRIMARY KEY", x.Name, s.def.FullName(), text)
	case x.Constraint:
		return fail(ErrDuplicateKey, "UNIQUE KEY", x.Name, s.def.FullName(), text)
	}
	return fail(ErrDuplicateIndex, s.def.FullName(), x.Name, text)
}
