package sqlserversim

import (
	"context"
	"iter"
	"math"
	"sort"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// viewTable is a catalogue view in one statement. Rows of most views are made when the first scan begins, and kept. Views over objects are
// ordered by object_id: what asks for one object, as clients do, makes only its rows, until it has happened often enough for a
// join to be behind it.
type viewTable struct {
	ses     *session
	db      *database
	view    *view
	rows    []sqltype.Row
	made    bool
	partial int // bounded scans so far
}

// maxPartial is how many bounded scans are answered by themselves.
const maxPartial = 3

// Name is the view's full name.
func (t *viewTable) Name() tsql.ObjectName {
	return tsql.ObjectName{Database: t.db.name, Schema: t.view.schema, Name: t.view.name}
}

// Columns lists the columns.
func (t *viewTable) Columns() []sqltype.Column { return t.view.columns }

// Order is object_id for views over objects, else none.
func (t *viewTable) Order() []int {
	if !t.view.keyed {
		return nil
	}
	return []int{t.view.index["object_id"]}
}

// Unique is nothing.
func (t *viewTable) Unique() int { return 0 }

// Scan yields the rows.
func (t *viewTable) Scan(_ context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		rows, err := t.find(spec)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (t *viewTable) find(spec tsql.ScanSpec) ([]sqltype.Row, error) {
	low, high := objectBounds(spec)
	bounded := t.view.keyed && (len(spec.Lower.Values) > 0 || len(spec.Upper.Values) > 0)
	if bounded && !t.made && t.partial < maxPartial {
		t.partial++
		call := &viewCall{view: t.view, session: t.ses, db: t.db, low: low, high: high}
		err := t.view.rows(call)
		return call.out, err
	}
	if !t.made {
		call := &viewCall{view: t.view, session: t.ses, db: t.db, low: math.MinInt64, high: math.MaxInt64}
		if err := t.view.rows(call); err != nil {
			return nil, err
		}
		t.rows, t.made = call.out, true
	}
	if !bounded {
		return t.rows, nil
	}
	id := t.view.index["object_id"]
	from := sort.Search(len(t.rows), func(i int) bool { return t.rows[i][id].Int64() >= low })
	to := sort.Search(len(t.rows), func(i int) bool { return t.rows[i][id].Int64() > high })
	return t.rows[from:max(from, to)], nil
}

// objectBounds turns bounds into a closed interval of object ids.
func objectBounds(spec tsql.ScanSpec) (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	if b := spec.Lower; len(b.Values) > 0 {
		if low = b.Values[0].Int64(); !b.Inclusive {
			low++
		}
	}
	if b := spec.Upper; len(b.Values) > 0 {
		if high = b.Values[0].Int64(); !b.Inclusive {
			high--
		}
	}
	return low, high
}
