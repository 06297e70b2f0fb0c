package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// instance looks at one capture instance: rights, columns, and how much of its past is left.
func (e *examination) instance(ctx context.Context, instance mssqlcdc.CaptureInstance) error {
	object := instance.Table.String() + " (" + instance.Name + ")"
	if err := e.client.CheckPermissions(ctx, instance); err != nil {
		if lost(err) {
			return err
		}
		fix := ""
		var denied *PermissionError
		if errors.As(err, &denied) {
			fix = denied.Grant
		}
		e.add(LevelError, "permissions", object, fix, "%v", err)
		return nil // everything else needs them
	}
	e.add(LevelOK, "permissions", object, "", "the changes can be read")
	if err := e.columns(ctx, instance, object); err != nil {
		return err
	}
	if err := e.headroom(ctx, instance, object); err != nil {
		return err
	}
	return e.key(ctx, instance, object)
}

func (e *examination) columns(ctx context.Context, instance mssqlcdc.CaptureInstance, object string) error {
	layout, err := e.client.Columns(ctx, instance, ColumnOptions{})
	if lost(err) {
		return err
	}
	if err != nil {
		e.add(LevelError, "columns", object, "table_overrides: convert the column (column_types) or leave it out (exclude_columns)", "%v", err)
		return nil
	}
	text := ""
	if names := leftOut(layout); names != "" {
		text = "; not captured because computed: " + names
	}
	e.add(LevelOK, "columns", object, "", "%d columns%s", len(layout.Columns), text)
	if !layout.HasCommandID {
		e.add(LevelWarning, "order", object, "a new capture instance has the column",
			"the change table has no __$command_id (older than KB 3030352): within a transaction an insert can come before the delete that it follows")
	}
	uncaptured, err := e.uncaptured(ctx, instance)
	if lost(err) {
		return err
	}
	if err == nil && len(uncaptured) > 0 {
		e.add(LevelInfo, "columns", object, "sql/switch_capture_instance.sql", "the table has columns that the instance does not capture: %s", strings.Join(uncaptured, ", "))
	}
	return nil
}

func leftOut(layout Layout) string {
	var names []string
	for _, c := range layout.LeftOut {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// uncaptured are columns of the table that the capture instance does not have, computed ones aside.
func (e *examination) uncaptured(ctx context.Context, instance mssqlcdc.CaptureInstance) ([]string, error) {
	captured, _, err := e.client.captured(ctx, instance)
	if err != nil {
		return nil, err
	}
	var rows []record
	err = e.client.ask(ctx, "reading the columns of "+instance.Table.String(), func(ctx context.Context, conn *sql.Conn) (err error) {
		rows, err = query(ctx, conn, columnsStatement, sql.Named("object", instance.Table.Quoted()))
		return err
	})
	if err != nil {
		return nil, err
	}
	known := map[int64]bool{}
	for _, c := range captured {
		known[c.id] = true
	}
	var names []string
	for _, row := range rows {
		id, _ := row.number("column_id")
		if computed, _ := row.number("is_computed"); !known[id] && computed != 1 {
			names = append(names, row.text("name"))
		}
	}
	return names, nil
}

// headroom is the age of the oldest change that is left: how long a pipeline may stand still.
func (e *examination) headroom(ctx context.Context, instance mssqlcdc.CaptureInstance, object string) error {
	low, err := e.client.MinLSN(ctx, instance.Name)
	if err == nil && low.IsZero() {
		err = e.client.Diagnose(ctx, instance)
		if errors.Is(err, ErrNotYetCaptured) || err == nil {
			e.add(LevelInfo, "headroom", object, "", "capture has not reached the instance yet")
			return nil
		}
	}
	var at time.Time
	known := false
	if err == nil {
		at, known, err = e.client.CommitTime(ctx, low, false)
	}
	switch {
	case lost(err):
		return err
	case err != nil:
		e.add(LevelError, "headroom", object, "", "%v", err)
	case !known:
		e.add(LevelInfo, "headroom", object, "", "changes from %s on are held; when that was is not known any more", low)
	default:
		e.add(LevelOK, "headroom", object, "", "changes since %s are held (%s)", at.Format(time.RFC3339), time.Since(at).Round(time.Minute))
	}
	return nil
}

// key says what a snapshot would be cut on.
func (e *examination) key(ctx context.Context, instance mssqlcdc.CaptureInstance, object string) error {
	if len(instance.KeyColumns) == 0 {
		e.add(LevelInfo, "key", object, "table_overrides: snapshot_keys", "there is no unique index: a snapshot would be one chunk, and rows have no key")
		return nil
	}
	e.add(LevelOK, "key", object, "", "%s", strings.Join(instance.KeyColumns, ", "))
	return nil
}
