package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// SnapshotStamp is where a snapshot of the instance's table begins: the later of max_lsn and the LSN before the instance's
// first, with the time of the last commit at or before it. What is read from the table after this call holds every commit up
// to it. ErrNotYetCaptured if the database has no commit with a time yet.
func (c *Client) SnapshotStamp(ctx context.Context, instance mssqlcdc.CaptureInstance) (Head, error) {
	head, err := c.MaxLSN(ctx)
	if err != nil {
		return Head{}, err
	}
	if first := instance.StartLSN.Prev(); head.LSN.Less(first) {
		head.LSN = first
	}
	if head.Time.IsZero() && !head.LSN.IsZero() {
		if head.Time, _, err = c.CommitTime(ctx, head.LSN, false); err != nil {
			return Head{}, err
		}
	}
	if head.Time.IsZero() {
		return Head{}, fmt.Errorf("stamping a snapshot of %s: capture instance %s: %w", instance.Table, instance.Name, ErrNotYetCaptured)
	}
	return head, nil
}

// MaxKey is the key of the table's last row. An empty Bound says that there is no row, or no key.
func (c *Client) MaxKey(ctx context.Context, layout Layout, key SnapshotKey) (Bound, error) {
	doing := "looking for the last key of " + layout.Instance.Table.String()
	columns, err := key.compile()
	if err != nil || len(columns) == 0 {
		return nil, during(doing, err)
	}
	picked, order := pickLists(columns, " DESC")
	text := fmt.Sprintf("SELECT TOP (1) %s FROM %s AS c ORDER BY %s", picked, layout.Instance.Table.Quoted(), order)
	bound, err := askBound(ctx, c.onTable(layout, key), layout, key, columns, text, nil)
	return bound, during(doing, err)
}

// NextBound is where the chunk ends that begins at from (open: at the beginning) and holds at least so many rows: the first key
// after that of its last row, so that a value is never split over two chunks. It is never after upto, the last key
// that is wanted (open: the table's last). An empty Bound says that what is left up to upto fits into one chunk.
//
// It reads the keys of a few times so many rows at most, where an index is on the columns. It holds for any place that from is,
// also of a row that is gone.
func (c *Client) NextBound(ctx context.Context, layout Layout, key SnapshotKey, from, upto Bound, rows int64) (Bound, error) {
	doing := "looking for the end of a chunk of " + layout.Instance.Table.String()
	if rows < 1 {
		return nil, fmt.Errorf("%s: %d rows a chunk, want at least 1", doing, rows)
	}
	columns, err := key.compile()
	if err != nil || len(columns) == 0 {
		return nil, during(doing, err)
	}
	lower, upper := edge{bound: from, inclusive: true, param: "f"}, edge{bound: upto, inclusive: true, param: "t"}
	bound, err := keyBehind(ctx, c.onTable(layout, key), layout, key, keyRange{columns, lower, upper}, rows)
	return bound, during(doing, err)
}

// keyBehind is the first key of a range behind its first rows, so many of them or, where rows share a key, a few more: a value is
// never split. It is empty if the range has no more rows.
func keyBehind(ctx context.Context, ask asking, layout Layout, key SnapshotKey, within keyRange, rows int64) (Bound, error) {
	if key.Unique {
		return nthKey(ctx, ask, layout, key, within, rows+1)
	}
	last, err := nthKey(ctx, ask, layout, key, within, rows)
	if err != nil || last.open() {
		return nil, err
	}
	// Rows can come and go between the two questions. A bound is then the start of a chunk of some more or some fewer
	// rows, and still a place within the range.
	within.lower = edge{bound: last, param: "f"}
	return nthKey(ctx, ask, layout, key, within, 1)
}

// EndBound is the first key after last, which bounds a chunk that ends with last from above. An empty Bound says that there is
// none.
func (c *Client) EndBound(ctx context.Context, layout Layout, key SnapshotKey, last Bound) (Bound, error) {
	doing := "looking for the first key after the last chunk of " + layout.Instance.Table.String()
	columns, err := key.compile()
	if err != nil || len(columns) == 0 {
		return nil, during(doing, err)
	}
	bound, err := nthKey(ctx, c.onTable(layout, key), layout, key, keyRange{columns: columns, lower: edge{bound: last, param: "f"}}, 1)
	return bound, during(doing, err)
}

// during puts what was being done in front of an error.
func during(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// nthKey is the n-th key of a range in key order, rows of one key counted one by one; empty if the range holds fewer rows.
func nthKey(ctx context.Context, ask asking, layout Layout, key SnapshotKey, within keyRange, n int64) (Bound, error) {
	for _, e := range []edge{within.lower, within.upper} {
		if err := e.check(len(within.columns)); err != nil {
			return nil, err
		}
	}
	pieces := within.pieces()
	if len(pieces) == 0 {
		return nil, nil
	}
	args := append([]sql.NamedArg{sql.Named("skip", n-1)}, within.args()...)
	if len(pieces) > 1 {
		args = append(args, sql.Named("n", n))
	}
	return askBound(ctx, ask, layout, key, within.columns, nthStatement(layout.Instance.Table.Quoted(), within.columns, pieces), args)
}

// nthStatement picks one row of the pieces. Of each piece at most as many rows are read as are counted in all.
func nthStatement(table string, columns []keyColumn, pieces []string) string {
	picked, order := pickLists(columns, "")
	const one = " OFFSET @skip ROWS FETCH NEXT 1 ROWS ONLY"
	if len(pieces) == 1 {
		return fmt.Sprintf("SELECT %s FROM %s AS c%s ORDER BY %s", picked, table, where(pieces[0]), order) + one
	}
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = keyAlias(i)
	}
	list := strings.Join(names, ", ")
	selects := make([]string, len(pieces))
	for i, piece := range pieces {
		selects[i] = fmt.Sprintf("SELECT %s FROM (SELECT TOP (@n) %s FROM %s AS c%s ORDER BY %s) AS p%d", list, picked, table, where(piece), order, i)
	}
	return fmt.Sprintf("SELECT %s FROM (%s) AS u ORDER BY %s", list, strings.Join(selects, "\nUNION ALL "), list) + one
}

func where(condition string) string {
	if condition == "" {
		return ""
	}
	return " WHERE " + condition
}

// keyAlias is what a column of the key is called in a result. The table may have a column of this name: inside, its columns are
// named with the alias c.
func keyAlias(i int) string { return fmt.Sprintf("[k%d]", i) }

// pickLists are the columns of the key with their aliases, and the order by them.
func pickLists(columns []keyColumn, direction string) (picked, order string) {
	names, orders := make([]string, len(columns)), make([]string, len(columns))
	for i, column := range columns {
		names[i], orders[i] = column.name+" AS "+keyAlias(i), column.name+direction
	}
	return strings.Join(names, ", "), strings.Join(orders, ", ")
}

// askBound runs a statement that gives a key or nothing, and writes the key as a Bound.
func askBound(ctx context.Context, ask asking, layout Layout, key SnapshotKey, columns []keyColumn, statement string, args []sql.NamedArg) (Bound, error) {
	written, exact := make([]string, len(columns)), make([]string, len(columns))
	for i, column := range columns {
		q := "q." + keyAlias(i)
		text := column.typ.write(q)
		written[i] = fmt.Sprintf("%s AS v%d", text, i)
		exact[i] = fmt.Sprintf("(%s IS NULL OR %s = %s)", q, q, column.typ.read(text))
	}
	// The server itself says whether it would read the texts back as the same key.
	text := fmt.Sprintf("SELECT %s, CASE WHEN %s THEN 1 ELSE 0 END AS exact\nFROM (%s) AS q", strings.Join(written, ", "), strings.Join(exact, " AND "), statement)
	rows, err := ask(ctx, text, args)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if len(rows) > 1 {
		return nil, fmt.Errorf("the result has %d rows, want 1", len(rows))
	}
	return boundOf(layout.Instance, key, rows[0])
}

func boundOf(instance mssqlcdc.CaptureInstance, key SnapshotKey, row record) (Bound, error) {
	exact, _ := row.number("exact")
	bound := make(Bound, len(key.Columns))
	for i := range bound {
		switch value := row[fmt.Sprintf("v%d", i)].(type) {
		case nil:
		case string:
			bound[i] = &value
			// Half a surrogate pair does not survive the way through a client.
			if strings.ContainsRune(value, '\uFFFD') {
				exact = 0
			}
		default:
			return nil, errors.New("the result does not hold the texts that were asked for")
		}
	}
	if exact != 1 {
		return nil, &SchemaError{
			Instance: instance.Name, Reason: "a value that a snapshot would be cut at does not read back as it was written",
			Cure: "cut the snapshot on other columns",
		}
	}
	return bound, nil
}
