package sqlserversim

import (
	"context"
	"iter"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// changeColumns are the columns of cdc.<instance>_CT.
func changeColumns(i *engine.Instance) []sqltype.Column { return i.ChangeColumns() }

// functionColumns are the columns of the two query functions: the change table's without __$end_lsn and __$command_id, and for
// net changes without __$seqval [D].
func functionColumns(i *engine.Instance, net bool) []sqltype.Column {
	var out []sqltype.Column
	all := i.ChangeColumns()
	for n, c := range all {
		if n == engine.ChangeEndLSN || n == len(all)-1 || net && n == engine.ChangeSeqVal {
			continue
		}
		out = append(out, c)
	}
	return out
}

// changeTable is cdc.<instance>_CT in one statement. Reads stream from the engine's cursor; nothing is copied.
type changeTable struct {
	db       *database
	view     *engine.View
	instance *engine.Instance
	columns  []sqltype.Column
}

// Name is the table's full name.
func (t *changeTable) Name() tsql.ObjectName {
	return tsql.ObjectName{Database: t.db.name, Schema: "cdc", Name: t.instance.ChangeTableName()}
}

// Columns lists the columns.
func (t *changeTable) Columns() []sqltype.Column { return t.columns }

// Order is the clustered index: start_lsn, command_id, seqval, operation [M25].
func (t *changeTable) Order() []int { return t.instance.ChangeOrder() }

// Unique tells that all of it names a row.
func (t *changeTable) Unique() int { return 4 }

// Scan streams rows in order.
func (t *changeTable) Scan(ctx context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return t.scan(ctx, spec, false)
}

// ScanReverse streams rows in descending order.
func (t *changeTable) ScanReverse(ctx context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return t.scan(ctx, spec, true)
}

func (t *changeTable) scan(ctx context.Context, spec tsql.ScanSpec, reverse bool) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		c := t.view.ScanChanges(t.instance, engine.ChangeScan{
			Columns: spec.Columns, Lower: engine.Bound(spec.Lower), Upper: engine.Bound(spec.Upper), Reverse: reverse,
		})
		streamCursor(ctx, c, yield)
	}
}

// cancelEvery is how many rows pass between two looks at the context.
const cancelEvery = 1024

// streamCursor yields a cursor's rows until ctx ends.
func streamCursor(ctx context.Context, c *engine.Cursor, yield func(sqltype.Row, error) bool) {
	for n := 1; c.Next(); n++ {
		if !yield(c.Row(), nil) {
			return
		}
		if n%cancelEvery == 0 && ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
	}
}

// mappingTable is cdc.lsn_time_mapping in one statement.
type mappingTable struct {
	db      *database
	mapping engine.Mapping
	columns []sqltype.Column
}

// Name is the table's full name.
func (t *mappingTable) Name() tsql.ObjectName {
	return tsql.ObjectName{Database: t.db.name, Schema: "cdc", Name: "lsn_time_mapping"}
}

// Columns lists the columns.
func (t *mappingTable) Columns() []sqltype.Column { return t.columns }

// Order is start_lsn.
func (t *mappingTable) Order() []int { return []int{0} }

// Unique tells that start_lsn names a row.
func (t *mappingTable) Unique() int { return 1 }

// Scan yields the entries between the bounds.
func (t *mappingTable) Scan(ctx context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		from, to := t.bounds(spec)
		row := make(sqltype.Row, len(t.columns))
		for i := from; i < to; i++ {
			t.fill(row, i)
			if !yield(row, nil) {
				return
			}
			if i%cancelEvery == 0 && ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// ScanReverse yields them from the largest LSN down.
func (t *mappingTable) ScanReverse(_ context.Context, spec tsql.ScanSpec) iter.Seq2[sqltype.Row, error] {
	return func(yield func(sqltype.Row, error) bool) {
		from, to := t.bounds(spec)
		row := make(sqltype.Row, len(t.columns))
		for i := to - 1; i >= from; i-- {
			t.fill(row, i)
			if !yield(row, nil) {
				return
			}
		}
	}
}

// bounds turns bounds on start_lsn into row numbers, from included, to not.
func (t *mappingTable) bounds(spec tsql.ScanSpec) (from, to int) {
	from, to = 0, t.mapping.Len()
	if len(spec.Lower.Values) > 0 {
		from = t.edge(spec.Lower.Values[0], !spec.Lower.Inclusive)
	}
	if len(spec.Upper.Values) > 0 {
		to = t.edge(spec.Upper.Values[0], spec.Upper.Inclusive)
	}
	return from, max(from, to)
}

// edge is the first entry not below a binary value, or with past the first one above it. A value of more than ten bytes that is
// not zeros lies between two LSNs.
func (t *mappingTable) edge(v sqltype.Value, past bool) int {
	lsn := engine.LSNFromBytes([]byte(v.Str()))
	if c := sqltype.CompareBytes(v.Str(), string(lsn[:])); c > 0 {
		past = true
	}
	i := t.mapping.Search(lsn)
	if past && i < t.mapping.Len() && t.mapping.At(i).StartLSN == lsn {
		i++
	}
	return i
}

func (t *mappingTable) fill(row sqltype.Row, i int) {
	e := t.mapping.At(i)
	row[0] = engine.LSNValue(e.StartLSN)
	row[1], row[2] = e.TranBeginTime, e.TranEndTime
	row[3] = sqltype.VarBinary(e.TranID)
	row[4] = engine.LSNValue(e.TranBeginLSN)
}
