package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// record is one row of a metadata result by column name in lower case. System procedures have grown columns over the
// versions, so nothing is read by position.
type record map[string]any

// query runs a metadata statement on a pinned connection and reads all of its result.
func query(ctx context.Context, conn *sql.Conn, statement string, args ...any) (result []record, err error) {
	rows, err := conn.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := rows.Close(); err == nil {
			err = closing
		}
	}()
	return readRows(rows)
}

// readRows reads the current rowset.
func readRows(rows *sql.Rows) ([]record, error) {
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var result []record
	for rows.Next() {
		values := make([]any, len(names))
		targets := make([]any, len(names))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		row := record{}
		for i, name := range names {
			row[strings.ToLower(name)] = values[i]
		}
		result = append(result, row)
	}
	return result, rows.Err()
}

// one runs a statement whose result is one row.
func one(ctx context.Context, conn *sql.Conn, statement string, args ...any) (record, error) {
	rows, err := query(ctx, conn, statement, args...)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("the result has %d rows, want 1", len(rows))
	}
	return rows[0], nil
}

// text is a character column; NULL is empty.
func (r record) text(column string) string {
	switch v := r[column].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// number is an integer column, false for NULL.
func (r record) number(column string) (int64, bool) {
	switch v := r[column].(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// lsn is a binary(10) column; NULL is zero.
func (r record) lsn(column string) (mssqlcdc.LSN, error) {
	raw, ok := r[column].([]byte)
	if !ok || len(raw) == 0 {
		return mssqlcdc.LSN{}, nil
	}
	l, err := mssqlcdc.LSNFromBytes(raw)
	if err != nil {
		return mssqlcdc.LSN{}, fmt.Errorf("column %s: %w", column, err)
	}
	return l, nil
}

// wall is a datetime column, false for NULL.
func (r record) wall(column string) (time.Time, bool) {
	t, ok := r[column].(time.Time)
	return t, ok
}

// lsnArg passes an LSN as bytes: the parameter is then always declared varbinary(10).
func lsnArg(name string, l mssqlcdc.LSN) sql.NamedArg { return sql.Named(name, l[:]) }

// literal is a Unicode string constant of T-SQL.
func literal(text string) string { return "N'" + strings.ReplaceAll(text, "'", "''") + "'" }

// splitNames reads the bracketed list of column names that sp_cdc_help_change_data_capture gives: "[a], [b]]c]".
func splitNames(list string) ([]string, error) {
	var names []string
	rest := strings.TrimSpace(list)
	for rest != "" {
		if rest[0] != '[' {
			return nil, errors.New("a list of column names is not in brackets")
		}
		var b strings.Builder
		i := 1
		for ; i < len(rest); i++ {
			if rest[i] != ']' {
				b.WriteByte(rest[i])
				continue
			}
			if i+1 < len(rest) && rest[i+1] == ']' {
				b.WriteByte(']')
				i++
				continue
			}
			break
		}
		if i >= len(rest) {
			return nil, errors.New("a bracket in a list of column names is not closed")
		}
		names = append(names, b.String())
		rest = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest[i+1:]), ","))
	}
	return names, nil
}
