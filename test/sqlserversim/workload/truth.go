package workload

import (
	"maps"
	"slices"
	"sync"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// Change is one change row that a workload caused, as CDC records it: operation 1 delete, 2 insert, 3 and 4 the images before and
// after an update. An update of the primary key is a 1 and a 2.
type Change struct {
	Table     string // schema.table
	Txn       int    // number of the workload's transaction, from 1
	Operation int
	Key       string // primary key as text, parts joined by "/"
	Values    sqltype.Row
}

// Truth is what a workload has done so far: what a complete and exact reader must end up with.
type Truth struct {
	// Changes lists every change row in commit order.
	Changes []Change
	// Transactions counts committed transactions that changed a tracked table.
	Transactions int
	// Rows are the tables' present rows by key.
	Rows map[string]map[string]sqltype.Row
	// Columns names the columns of each table, in the order of Values.
	Columns map[string][]string
}

// Count is the number of change rows of a table; of all tables for an empty name.
func (t Truth) Count(table string) int {
	n := 0
	for _, c := range t.Changes {
		if table == "" || c.Table == table {
			n++
		}
	}
	return n
}

// CountOperation is the number of change rows of a table with one operation.
func (t Truth) CountOperation(table string, operation int) int {
	n := 0
	for _, c := range t.Changes {
		if c.Table == table && c.Operation == operation {
			n++
		}
	}
	return n
}

// Tables lists the tables by name.
func (t Truth) Tables() []string { return slices.Sorted(maps.Keys(t.Columns)) }

// recorder gathers the truth. Changes of a transaction wait until it commits.
type recorder struct {
	mu      sync.Mutex
	truth   Truth
	pending []Change
}

func newRecorder(columns map[string][]string) *recorder {
	r := &recorder{truth: Truth{Columns: columns, Rows: map[string]map[string]sqltype.Row{}}}
	for table := range columns {
		r.truth.Rows[table] = map[string]sqltype.Row{}
	}
	return r
}

// note adds a change to the open transaction. The row is kept.
func (r *recorder) note(table string, operation int, key string, values sqltype.Row) {
	r.pending = append(r.pending, Change{Table: table, Operation: operation, Key: key, Values: slices.Clone(values)})
}

// row is the present row of a key, as the open transaction sees it; nil when there is none.
func (r *recorder) row(table, key string) sqltype.Row {
	for _, c := range slices.Backward(r.pending) {
		if c.Table == table && c.Key == key {
			if c.Operation == 1 {
				return nil
			}
			return c.Values
		}
	}
	return r.truth.Rows[table][key]
}

// commit makes the open transaction part of the truth; rollback forgets it.
func (r *recorder) commit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) > 0 {
		r.truth.Transactions++
	}
	for _, c := range r.pending {
		c.Txn = r.truth.Transactions
		r.truth.Changes = append(r.truth.Changes, c)
		switch c.Operation {
		case 1:
			delete(r.truth.Rows[c.Table], c.Key)
		case 2, 4:
			r.truth.Rows[c.Table][c.Key] = c.Values
		}
	}
	r.pending = nil
}

func (r *recorder) rollback() { r.pending = nil }

// snapshot copies the truth.
func (r *recorder) snapshot() Truth {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.truth
	t.Changes = slices.Clone(t.Changes)
	t.Rows = make(map[string]map[string]sqltype.Row, len(r.truth.Rows))
	for table, rows := range r.truth.Rows {
		t.Rows[table] = maps.Clone(rows)
	}
	return t
}
