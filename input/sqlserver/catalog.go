package sqlserver

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

const (
	helpStatement = `EXEC sys.sp_cdc_help_change_data_capture`

	ddlStatement = `EXEC sys.sp_cdc_get_ddl_history @capture_instance = @ci`

	// Metadata is visible to whoever may read the object, so an object that is not visible is one of two things.
	diagnoseStatement = `SELECT OBJECT_ID(@ct) AS change_table, HAS_PERMS_BY_NAME(@src, 'OBJECT', 'SELECT', NULL, NULL) AS may_read,
(SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()) AS enabled`
)

// changeTable is the quoted name of an instance's change table.
func changeTable(instance string) string { return "cdc." + mssqlcdc.QuoteName(instance+"_CT") }

// Instances lists the capture instances that the login can see, ordered by table, create date and start LSN. None at all
// is an error: ErrCDCDisabled or ErrNoInstances.
func (c *Client) Instances(ctx context.Context) ([]mssqlcdc.CaptureInstance, error) {
	instances, err := c.listInstances(ctx, helpStatement)
	if err != nil {
		return nil, err
	}
	if len(instances) > 0 {
		return instances, nil
	}
	enabled, err := c.cdcEnabled(ctx)
	if err != nil {
		return nil, err
	}
	if !enabled {
		return nil, fmt.Errorf("listing capture instances of database %s: %w (the database owner can run: EXEC sys.sp_cdc_enable_db)", c.server.Database, ErrCDCDisabled)
	}
	return nil, fmt.Errorf("listing capture instances of database %s: %w: either no table has one (EXEC sys.sp_cdc_enable_table), or the login lacks SELECT on the captured columns or membership in the gating role; the database owner can run: GRANT SELECT ON <schema>.<table> TO %s",
		c.server.Database, ErrNoInstances, mssqlcdc.QuoteName(c.login))
}

// listInstances runs a batch of the procedure that lists them.
func (c *Client) listInstances(ctx context.Context, batch string) ([]mssqlcdc.CaptureInstance, error) {
	var rows []record
	err := c.ask(ctx, "listing capture instances", func(ctx context.Context, conn *sql.Conn) (err error) {
		rows, err = queryAll(ctx, conn, batch)
		return err
	})
	if err != nil {
		if serverNumber(err, 2812) || serverNumber(err, 22901) || serverNumber(err, 208) {
			err = fmt.Errorf("%w: %w", ErrCDCDisabled, err)
		}
		return nil, err
	}
	instances := make([]mssqlcdc.CaptureInstance, 0, len(rows))
	for _, row := range rows {
		instance, err := instanceOf(row)
		if err != nil {
			return nil, fmt.Errorf("listing capture instances: %w", err)
		}
		instances = append(instances, instance)
	}
	slices.SortFunc(instances, func(a, b mssqlcdc.CaptureInstance) int {
		return cmp.Or(
			cmp.Compare(a.Table.Schema, b.Table.Schema),
			cmp.Compare(a.Table.Name, b.Table.Name),
			// Clean-up may have given both instances of a table one start LSN; then the date tells which is newer.
			a.CreateDate.Compare(b.CreateDate),
			a.StartLSN.Compare(b.StartLSN),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return instances, nil
}

func instanceOf(row record) (mssqlcdc.CaptureInstance, error) {
	instance := mssqlcdc.CaptureInstance{
		Name:  row.text("capture_instance"),
		Table: mssqlcdc.TableID{Schema: row.text("source_schema"), Name: row.text("source_table")},
	}
	var err error
	if instance.StartLSN, err = row.lsn("start_lsn"); err != nil {
		return instance, fmt.Errorf("capture instance %s: %w", instance.Name, err)
	}
	instance.CreateDate, _ = row.wall("create_date")
	// The list of the whole database repeats the index columns of the row before for an instance that has no index; the
	// name of the index does not lie.
	if row.text("index_name") == "" {
		return instance, nil
	}
	if instance.KeyColumns, err = splitNames(row.text("index_column_list")); err != nil {
		return instance, fmt.Errorf("capture instance %s: %w", instance.Name, err)
	}
	return instance, nil
}

func (c *Client) cdcEnabled(ctx context.Context) (bool, error) {
	var enabled bool
	err := c.ask(ctx, "asking whether CDC is enabled", func(ctx context.Context, conn *sql.Conn) error {
		row, err := one(ctx, conn, "SELECT (SELECT is_cdc_enabled FROM sys.databases WHERE name = DB_NAME()) AS enabled")
		n, _ := row.number("enabled")
		enabled = n == 1
		return err
	})
	return enabled, err
}

// FindInstance looks an instance up by name: exactly, or else ignoring case if only one matches, as the server does under
// the usual collations. The error lists similar names.
func FindInstance(instances []mssqlcdc.CaptureInstance, name string) (mssqlcdc.CaptureInstance, error) {
	var folded []mssqlcdc.CaptureInstance
	var similar []string
	for _, instance := range instances {
		if instance.Name == name {
			return instance, nil
		}
		if strings.EqualFold(instance.Name, name) {
			folded = append(folded, instance)
		}
		if strings.Contains(strings.ToLower(instance.Name), strings.ToLower(name)) || strings.EqualFold(instance.Table.Name, name) {
			similar = append(similar, instance.Name)
		}
	}
	switch {
	case len(folded) == 1:
		return folded[0], nil
	case len(folded) > 1:
		return mssqlcdc.CaptureInstance{}, fmt.Errorf("%w: %q matches %s and %s; write the name as the server has it", ErrUnknownInstance, name, folded[0].Name, folded[1].Name)
	case len(similar) > 0:
		return mssqlcdc.CaptureInstance{}, fmt.Errorf("%w: %q (similar: %s)", ErrUnknownInstance, name, strings.Join(similar, ", "))
	}
	return mssqlcdc.CaptureInstance{}, fmt.Errorf("%w: %q", ErrUnknownInstance, name)
}

// Diagnose explains a zero low watermark: ErrNotYetCaptured, a *PermissionError, ErrUnknownInstance, ErrCDCDisabled, or
// nil if the instance is well now. What cannot be told apart from outside is ErrUnknownInstance.
func (c *Client) Diagnose(ctx context.Context, instance mssqlcdc.CaptureInstance) error {
	instances, err := c.listInstances(ctx, helpStatement)
	if err != nil {
		return err
	}
	for _, listed := range instances {
		if !strings.EqualFold(listed.Name, instance.Name) {
			continue
		}
		low, err := c.MinLSN(ctx, listed.Name)
		if err != nil {
			return err
		}
		if low.IsZero() {
			return fmt.Errorf("capture instance %s: %w", listed.Name, ErrNotYetCaptured)
		}
		return nil
	}
	return c.diagnoseUnlisted(ctx, instance)
}

func (c *Client) diagnoseUnlisted(ctx context.Context, instance mssqlcdc.CaptureInstance) error {
	var row record
	err := c.ask(ctx, "looking for capture instance "+instance.Name, func(ctx context.Context, conn *sql.Conn) (err error) {
		row, err = one(ctx, conn, diagnoseStatement, sql.Named("ct", changeTable(instance.Name)), sql.Named("src", instance.Table.Quoted()))
		return err
	})
	if err != nil {
		return err
	}
	if enabled, _ := row.number("enabled"); enabled != 1 {
		return fmt.Errorf("database %s: %w", c.server.Database, ErrCDCDisabled)
	}
	_, visible := row.number("change_table")
	mayRead, _ := row.number("may_read")
	switch {
	case visible && mayRead == 1:
		return &PermissionError{
			Object: "the capture instance " + instance.Name + " (it has a gating role)",
			Grant:  "ALTER ROLE <gating role> ADD MEMBER " + mssqlcdc.QuoteName(c.login),
		}
	case visible:
		return c.denied(instance.Table.Quoted(), nil)
	case mayRead == 1:
		return fmt.Errorf("capture instance %s: %w", instance.Name, ErrUnknownInstance)
	}
	return fmt.Errorf("capture instance %s: %w; if it exists, the database owner can run: GRANT SELECT ON %s TO %s; GRANT SELECT ON %s TO %s",
		instance.Name, ErrUnknownInstance, instance.Table.Quoted(), mssqlcdc.QuoteName(c.login), changeTable(instance.Name), mssqlcdc.QuoteName(c.login))
}

// denied is the error with the grant for a quoted object.
func (c *Client) denied(object string, err error) error {
	return &PermissionError{Object: object, Grant: fmt.Sprintf("GRANT SELECT ON %s TO %s", object, mssqlcdc.QuoteName(c.login)), Err: err}
}

// CheckPermissions proves that the login may read the instance; otherwise a *PermissionError with the GRANT. It reads no
// rows.
func (c *Client) CheckPermissions(ctx context.Context, instance mssqlcdc.CaptureInstance) error {
	doing := "checking permissions on capture instance " + instance.Name
	err := c.ask(ctx, doing, func(ctx context.Context, conn *sql.Conn) error {
		_, err := query(ctx, conn, "SELECT TOP (0) [__$start_lsn] FROM "+changeTable(instance.Name))
		return err
	})
	if err != nil {
		return c.explain(ctx, instance, err)
	}
	// What the guard and the metadata need is SELECT on the captured source columns.
	low, err := c.MinLSN(ctx, instance.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if low.IsZero() {
		if err := c.Diagnose(ctx, instance); err != nil && !errors.Is(err, ErrNotYetCaptured) {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	return nil
}

// explain turns a server's error about an instance into one that says what to do.
func (c *Client) explain(ctx context.Context, instance mssqlcdc.CaptureInstance, err error) error {
	switch {
	case serverNumber(err, 229), serverNumber(err, 230):
		return c.denied(changeTable(instance.Name), err)
	case serverNumber(err, 22981):
		if diagnosis := c.Diagnose(ctx, instance); diagnosis != nil && Classify(diagnosis) != Transient {
			return diagnosis
		}
		return c.denied(instance.Table.Quoted(), err)
	case serverNumber(err, 208):
		if diagnosis := c.Diagnose(ctx, instance); diagnosis != nil {
			return diagnosis
		}
		return c.denied(changeTable(instance.Name), err)
	case serverNumber(err, 207):
		return &SchemaError{Instance: instance.Name, Reason: "the change table no longer has a column that was read", Cure: "read its columns anew", Err: err}
	}
	if Classify(err) == Schema {
		var known *SchemaError
		if !errors.As(err, &known) {
			return &SchemaError{Instance: instance.Name, Reason: "a value does not convert to the type that the columns option asks for, or that the column had when the layout was made", Cure: "check the columns option, or read the columns anew", Err: err}
		}
	}
	return err
}

// DDL lists the DDL of an instance in (after, upto], in LSN order. Everything up to max_lsn is visible.
func (c *Client) DDL(ctx context.Context, instance mssqlcdc.CaptureInstance, after, upto mssqlcdc.LSN) ([]DDL, error) {
	doing := "reading the DDL history of capture instance " + instance.Name
	var rows []record
	err := c.ask(ctx, doing, func(ctx context.Context, conn *sql.Conn) (err error) {
		rows, err = query(ctx, conn, ddlStatement, sql.Named("ci", instance.Name))
		return err
	})
	if err != nil {
		return nil, c.explain(ctx, instance, err)
	}
	var found []DDL
	for _, row := range rows {
		lsn, err := row.lsn("ddl_lsn")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		if !after.Less(lsn) || upto.Less(lsn) {
			continue
		}
		changed, _ := row.number("required_column_update")
		at, _ := row.wall("ddl_time")
		commit, _, err := c.CommitTime(ctx, lsn, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		found = append(found, DDL{
			Instance: instance.Name, LSN: lsn, Command: row.text("ddl_command"), TypeChanged: changed == 1,
			ServerTime: at, CommitTime: commit,
		})
	}
	slices.SortStableFunc(found, func(a, b DDL) int { return a.LSN.Compare(b.LSN) })
	return found, nil
}
