package engine

import (
	"slices"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// capture is one scan at work. It is not visible to anyone until publish.
type capture struct {
	db           *Database
	targets      map[int32][]*captureTarget // by source object, instances by creation
	mapping      []mappingEntry
	ddl          []DDLEntry
	transactions int
	commands     int
	rows         int64
	command      int32 // last __$command_id of the present transaction
}

// captureTarget is an instance that a scan writes to.
type captureTarget struct {
	inst    *Instance
	columns []CapturedColumn // changed by ALTER COLUMN
	altered bool
	app     *changeAppender // nil until the first row
	def     *TableDef       // that ordinals is for
	ords    []int           // of the captured columns in def, -1 when gone or computed
	before  []sqltype.Value
	after   []sqltype.Value
	mask    []byte
}

func newCapture(db *Database, view *View) *capture {
	c := &capture{db: db, targets: map[int32][]*captureTarget{}}
	for _, i := range view.instances {
		c.targets[i.SourceObjectID] = append(c.targets[i.SourceObjectID], &captureTarget{
			inst: i, columns: i.Columns,
		})
	}
	return c
}

// transaction captures one transaction. Its commands are numbered through all its instances in the order of the log: with two
// instances of a table the first one's commands are 1, 3, 5 and the second one's 2, 4, 6 [M22].
func (c *capture) transaction(tx *logTx) error {
	if tx.marker {
		return nil
	}
	c.transactions++
	c.command = 0
	tracked := false
	for i := range tx.records {
		r := &tx.records[i]
		for _, t := range c.targets[r.def.ObjectID] {
			if !t.inst.after.less(r.lsn) {
				continue
			}
			if r.ddl != nil {
				if err := c.ddlRecord(t, r); err != nil {
					return err
				}
				continue
			}
			tracked = true
			if err := c.record(t, tx, r); err != nil {
				return err
			}
		}
	}
	if tracked {
		loc := c.db.server.loc
		c.mapping = append(c.mapping, mappingEntry{
			start: tx.commit, begin: tx.begin, tranID: tx.id,
			beginTime: wallClock(tx.beginTime, loc), endTime: wallClock(tx.endTime, loc),
		})
	}
	return nil
}

// open starts to write.
func (t *captureTarget) open() {
	if t.app != nil {
		return
	}
	n := len(t.columns)
	t.app = t.inst.changes.appender()
	t.before, t.after, t.mask = make([]sqltype.Value, n), make([]sqltype.Value, n), make([]byte, (n+7)/8)
}

// record captures a row's change for one instance.
func (c *capture) record(t *captureTarget, tx *logTx, r *logRecord) error {
	t.open()
	t.bind(r.def)
	start := tx.commit.lsn()
	row := changeRow{seq: r.seq.lsn(), mask: t.app.layout.fullMask}
	switch {
	case r.before == nil:
		row.op, row.values = opInsert, t.after
		t.image(t.after, r.after)
	case r.after == nil:
		row.op, row.values = opDelete, t.before
		t.image(t.before, r.before)
		t.hideOldLOBs(t.before)
	default:
		return c.update(t, start, row, r)
	}
	return c.write(t, start, &row, true)
}

// update writes the rows 3 and 4, unless no captured column changed [M22].
func (c *capture) update(t *captureTarget, start LSN, row changeRow, r *logRecord) error {
	clear(t.mask)
	changed := false
	for i, o := range t.ords {
		if o >= 0 && r.before[o] != r.after[o] {
			setMaskBit(t.mask, i)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	t.image(t.before, r.before)
	t.image(t.after, r.after)
	t.hideOldLOBs(t.before)
	for i := range t.columns {
		if t.columns[i].large && !maskBit(t.mask, i) {
			t.before[i] = sqltype.Value{}
		}
	}
	row.mask = t.mask
	row.op, row.values = opBefore, t.before
	if err := c.write(t, start, &row, true); err != nil {
		return err
	}
	row.op, row.values = opAfter, t.after
	return c.write(t, start, &row, false)
}

// write appends a change row; the first one of a command takes the next command id.
func (c *capture) write(t *captureTarget, start LSN, row *changeRow, first bool) error {
	if first {
		c.command++
		c.commands++
	}
	row.command = c.command
	cells := t.app.layout.cells
	for i, v := range row.values {
		if err := cells[i].checkCell(v); err != nil {
			stored, convErr := convertColumn(v, t.columns[i].Type, t.inst.ChangeTableName(), t.columns[i].Name)
			if convErr != nil {
				return convErr
			}
			row.values[i] = stored
		}
	}
	t.app.add(start, row)
	c.rows++
	return nil
}

// bind looks up where the captured columns are in rows of a definition. A column that was dropped from the table is NULL from then
// on; one that was dropped and made again has another id and is not captured [M22].
func (t *captureTarget) bind(def *TableDef) {
	if t.def == def {
		return
	}
	t.def, t.ords = def, t.ords[:0]
	for _, c := range t.columns {
		o := def.OrdinalOf(c.ColumnID)
		if c.IsComputed {
			o = -1
		}
		t.ords = append(t.ords, o)
	}
}

// image takes the captured columns out of a row.
func (t *captureTarget) image(out []sqltype.Value, row sqltype.Row) {
	for i, o := range t.ords {
		if o < 0 {
			out[i] = sqltype.Value{}
			continue
		}
		out[i] = row[o]
	}
}

// hideOldLOBs makes text, ntext and image NULL, as in operations 1 and 3 [D].
func (t *captureTarget) hideOldLOBs(values []sqltype.Value) {
	for i := range t.columns {
		if t.columns[i].oldLOB {
			values[i] = sqltype.Value{}
		}
	}
}

// ddlRecord captures a DDL statement: the history's row, and for a captured column whose type changed the change table itself.
func (c *capture) ddlRecord(t *captureTarget, r *logRecord) error {
	entry := DDLEntry{
		SourceObjectID: t.inst.SourceObjectID, ObjectID: t.inst.ObjectID, Command: r.ddl.command, LSN: r.lsn.lsn(), Time: r.ddl.time,
	}
	col := t.column(r.ddl.columnID)
	if r.ddl.columnID != 0 && col >= 0 {
		entry.RequiredColumnUpdate = true
		if err := t.alter(col, r.ddl.newType); err != nil {
			return err
		}
	}
	c.ddl = append(c.ddl, entry)
	return nil
}

func (t *captureTarget) column(id int32) int {
	return slices.IndexFunc(t.columns, func(x CapturedColumn) bool { return x.ColumnID == id })
}

// alter changes the type of a captured column and converts the change table's rows [M22, M25].
func (t *captureTarget) alter(col int, typ sqltype.Type) error {
	t.open()
	columns := slices.Clone(t.columns)
	columns[col].setType(typ)
	table, name := t.inst.ChangeTableName(), columns[col].Name
	err := t.app.convert(newLayout(columns), col, func(v sqltype.Value) (sqltype.Value, error) {
		return convertColumn(v, columns[col].Type, table, name)
	})
	if err != nil {
		return err
	}
	t.columns, t.altered, t.def = columns, true, nil
	return nil
}
