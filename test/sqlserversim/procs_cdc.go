package sqlserversim

import (
	"context"
	"errors"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// cdcProcedures are the procedures of CDC but for the jobs. Parameters and their order are those of the documentation pages.
func cdcProcedures() []*procedure {
	return []*procedure{
		newProcedure("sp_cdc_enable_db", "", spEnableDB),
		newProcedure("sp_cdc_disable_db", "", spDisableDB),
		newProcedure("sp_cdc_enable_table", `@source_schema sysname, @source_name sysname, @capture_instance sysname = NULL,
			@supports_net_changes bit = NULL, @role_name sysname, @index_name sysname = NULL,
			@captured_column_list nvarchar(max) = NULL, @filegroup_name sysname = NULL, @allow_partition_switch bit = 1,
			@enable_extended_ddl_handling bit = 0`, spEnableTable),
		newProcedure("sp_cdc_disable_table", "@source_schema sysname, @source_name sysname, @capture_instance sysname", spDisableTable),
		newProcedure("sp_cdc_help_change_data_capture", "@source_schema sysname = NULL, @source_name sysname = NULL", spHelpCDC),
		newProcedure("sp_cdc_get_captured_columns", "@capture_instance sysname", spCapturedColumns),
		newProcedure("sp_cdc_get_ddl_history", "@capture_instance sysname", spDDLHistory),
		newProcedure("sp_cdc_cleanup_change_table", `@capture_instance sysname, @low_water_mark binary(10), @threshold bigint = 5000,
			@fCleanupFailed bit = 0 output`, spCleanup),
		newProcedure("sp_cdc_scan", `@maxtrans int = 500, @maxscans int = 10, @continuous tinyint = 0, @pollinginterval bigint = 0,
			@is_from_job int = 0`, spScan),
	}
}

func spEnableDB(c *procCall) error {
	if !c.session.sysadmin {
		return c.fail(22902, "sysadmin")
	}
	if c.db.system {
		return c.fail(22989, c.db.name)
	}
	if _, taken := c.session.srv.security.principal(c.db.name, "cdc"); taken && !c.db.cdc().Enabled() {
		return c.fail(22906, c.db.name)
	}
	if err := c.db.eng.EnableCDC(); err != nil {
		if numberOf(err) == engine.ErrAlreadyEnabled { // a warning, class 10
			return c.info(sqlerr.Of(clientError(err, c.session.spid)))
		}
		return err
	}
	c.session.srv.security.addPrincipal(c.db.name, principal{name: "cdc", defaultSchema: "cdc"})
	c.session.srv.security.setMember(c.db.name, "db_owner", "cdc", true)
	return nil
}

func spDisableDB(c *procCall) error {
	if !c.session.sysadmin {
		return c.fail(22902, "sysadmin")
	}
	if err := c.db.eng.DisableCDC(); err != nil {
		return err
	}
	c.session.srv.security.dropPrincipal(c.db.name, "cdc")
	return nil
}

func spEnableTable(c *procCall) error {
	if err := c.needCDC(); err != nil {
		return err
	}
	if err := c.needOwner(); err != nil {
		return err
	}
	role := c.arg("@role_name")
	if !role.IsNull() && c.text("@role_name") == "" {
		return c.fail(22907)
	}
	spec := engine.EnableTableSpec{
		Schema: c.text("@source_schema"), Table: c.text("@source_name"), Role: c.text("@role_name"),
		CaptureInstance: c.text("@capture_instance"), Index: c.text("@index_name"), Filegroup: c.text("@filegroup_name"),
		NetChanges: c.flag("@supports_net_changes"), PartitionSwitch: c.flag("@allow_partition_switch"),
	}
	if list := c.arg("@captured_column_list"); !list.IsNull() {
		columns, ok := columnList(list.Str())
		if !ok {
			return c.fail(22965)
		}
		spec.Columns = columns
	}
	var res engine.EnableResult
	err := c.session.inTx(c.ctx, c.db, func(tx *engine.Tx) (err error) {
		res, err = tx.EnableTable(c.ctx, spec)
		return err
	})
	if err != nil {
		return err
	}
	c.session.forgetInstance(c.db, res.Instance) // of an instance of that name whose enable was rolled back
	if spec.Role != "" {
		c.session.srv.security.addPrincipal(c.db.name, principal{name: spec.Role, role: true})
	}
	c.grantFunctions(res.Instance)
	return c.enableMessages(res, spec)
}

// grantFunctions lets the gating role, or everybody, call the instance's functions.
func (c *procCall) grantFunctions(i *engine.Instance) {
	grantee := "public"
	if i.RoleName != "" {
		grantee = fold(i.RoleName)
	}
	for _, f := range []string{allChangesPrefix, netChangesPrefix} {
		c.session.srv.security.setGrant(c.db.name, grant{
			grantee: grantee, class: classObject, major: derivedID("cdc", f+i.Name), permission: "SELECT", state: 'G',
		})
	}
}

// enableMessages says what a server prints: the two job lines with the database's first table, or that the Agent is down, and the
// CLR warning when net changes were asked for.
func (c *procCall) enableMessages(res engine.EnableResult, spec engine.EnableTableSpec) error {
	if spec.NetChanges != nil && *spec.NetChanges {
		if err := c.info(message(22969)); err != nil {
			return err
		}
	}
	if !res.JobsCreated {
		return nil
	}
	for _, kind := range []string{"capture", "cleanup"} {
		text := "Job 'cdc." + c.db.name + "_" + kind + "' started successfully."
		number := int32(14243)
		if !res.JobStarted {
			text, number = "SQLServerAgent is not currently running so it cannot be notified of this action.", 22022
		}
		if err := c.info(&sqlerr.Error{Number: number, Class: 0, State: 1, Message: text}); err != nil {
			return err
		}
	}
	return nil
}

// flag is an optional bit.
func (c *procCall) flag(name string) *bool {
	v := c.arg(name)
	if v.IsNull() {
		return nil
	}
	b := v.Bool()
	return &b
}

// columnList reads a comma-separated list of names, bare, in brackets or in double quotes; false when a quote is not closed.
func columnList(text string) ([]string, bool) {
	var out []string
	for rest := strings.TrimSpace(text); rest != ""; {
		var name string
		if rest[0] == '[' || rest[0] == '"' {
			part, after, ok := namePart(rest)
			if !ok {
				return nil, false
			}
			name, rest = part, strings.TrimSpace(after)
			rest = strings.TrimPrefix(rest, ",")
		} else {
			name, rest, _ = strings.Cut(rest, ",")
		}
		out = append(out, strings.TrimSpace(name))
		rest = strings.TrimSpace(rest)
	}
	return out, true
}

func spDisableTable(c *procCall) error {
	if err := c.needCDC(); err != nil {
		return err
	}
	if err := c.needOwner(); err != nil {
		return err
	}
	for _, p := range []string{"@source_schema", "@source_name", "@capture_instance"} {
		if c.text(p) == "" {
			return c.fail(22963, p)
		}
	}
	var gone []*engine.Instance
	err := c.session.inTx(c.ctx, c.db, func(tx *engine.Tx) (err error) {
		gone, err = tx.DisableTable(c.ctx, c.text("@source_schema"), c.text("@source_name"), c.text("@capture_instance"))
		return err
	})
	if err != nil {
		return err
	}
	c.session.atCommit(func() { c.session.forgetInstances(c.db, gone) })
	return nil
}

// forgetInstances drops the permissions on instances that are no more.
func (s *session) forgetInstances(db *database, gone []*engine.Instance) {
	for _, i := range gone {
		if _, again := db.cdc().Instance(i.Name); !again { // not enabled again by the same transaction
			s.forgetInstance(db, i)
		}
	}
}

// forgetInstance drops the permissions on an instance's objects.
func (s *session) forgetInstance(db *database, i *engine.Instance) {
	s.srv.security.dropGrants(db.name, i.ObjectID)
	s.srv.security.dropGrants(db.name, derivedID("cdc", allChangesPrefix+i.Name))
	s.srv.security.dropGrants(db.name, derivedID("cdc", netChangesPrefix+i.Name))
}

const columnsHelpCDC = `source_schema sysname?, source_table sysname?, capture_instance sysname, object_id int?,
	source_object_id int?, start_lsn binary(10)?, end_lsn binary(10)?, supports_net_changes bit?, has_drop_pending bit?,
	role_name sysname?, index_name sysname?, filegroup_name sysname?, create_date datetime?, index_column_list nvarchar(max)?,
	captured_column_list nvarchar(max)?`

// spHelpCDC lists the instances whose captured columns the caller may select, all of them or those of one table.
func spHelpCDC(c *procCall) error {
	if err := c.needCDC(); err != nil {
		return err
	}
	schema, table := c.text("@source_schema"), c.text("@source_name")
	if (schema == "") != (table == "") {
		return c.fail(22972)
	}
	list := c.session.view(c.db).Instances()
	if table != "" {
		def := c.db.tableDef(schema, table)
		if def == nil {
			return c.fail(22931, schema, table)
		}
		if list = c.session.view(c.db).InstancesOf(def.ObjectID); len(list) == 0 {
			return c.fail(22985, schema, table)
		}
		if !c.session.mayReadSource(c.db, list[0]) && !c.session.mayReadSource(c.db, list[len(list)-1]) {
			return c.fail(22981)
		}
	}
	return c.rowset(columnsHelpCDC, func(v *viewCall) error {
		var indexList any // an instance without an index shows the row before it in the list of all tables [M25]
		for _, i := range list {
			if !c.session.mayReadSource(c.db, i) {
				continue
			}
			if len(i.IndexColumns) > 0 || table != "" {
				indexList = optionalText(indexColumnList(i))
			}
			if err := v.add(helpRow(i, indexList)); err != nil {
				return err
			}
		}
		return nil
	})
}

func indexColumnList(i *engine.Instance) string {
	var names []string
	for _, col := range i.IndexColumns {
		names = append(names, col.Name)
	}
	return quoteNames(names)
}

func helpRow(i *engine.Instance, indexList any) fields {
	var captured []string
	for _, col := range i.Columns {
		captured = append(captured, col.Name)
	}
	return fields{
		"source_schema": i.SourceSchema, "source_table": i.SourceTable, "capture_instance": i.Name, "object_id": i.ObjectID,
		"source_object_id": i.SourceObjectID, "start_lsn": i.StartLSN[:], "supports_net_changes": i.SupportsNetChanges,
		"role_name": optionalText(i.RoleName), "index_name": optionalText(i.IndexName), "filegroup_name": optionalText(i.Filegroup),
		"create_date": i.CreateDate, "index_column_list": indexList, "captured_column_list": quoteNames(captured),
	}
}

// instance finds the instance of @capture_instance for a reader: 22981 when there is none or it must not be seen.
func (c *procCall) instance() (*engine.Instance, error) {
	if err := c.needCDC(); err != nil {
		return nil, err
	}
	if c.text("@capture_instance") == "" {
		return nil, c.fail(22963, "@capture_instance")
	}
	i, ok := c.session.view(c.db).Instance(c.text("@capture_instance"))
	if !ok || !c.session.mayReadSource(c.db, i) {
		return nil, c.fail(22981)
	}
	return i, nil
}

func spCapturedColumns(c *procCall) error {
	i, err := c.instance()
	if err != nil {
		return err
	}
	return c.rowset(`source_schema sysname?, source_table sysname?, capture_instance sysname, column_name sysname, column_id int?,
		column_ordinal int, data_type sysname?, character_maximum_length int?, numeric_precision tinyint?,
		numeric_precision_radix smallint?, numeric_scale int?, datetime_precision smallint?`, func(v *viewCall) error {
		for _, col := range i.Columns {
			iso := isoTypeOf(col.Type, col.SourceKind)
			if err := v.add(fields{
				"source_schema": i.SourceSchema, "source_table": i.SourceTable, "capture_instance": i.Name, "column_name": col.Name,
				"column_id": col.ColumnID, "column_ordinal": col.Ordinal, "data_type": iso.name, "character_maximum_length": iso.charLength,
				"numeric_precision": iso.precision, "numeric_precision_radix": iso.radix, "numeric_scale": iso.scale,
				"datetime_precision": iso.datetime,
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func spDDLHistory(c *procCall) error {
	i, err := c.instance()
	if err != nil {
		return err
	}
	return c.rowset(`source_schema sysname?, source_table sysname?, capture_instance sysname, required_column_update bit?,
		ddl_command nvarchar(max)?, ddl_lsn binary(10), ddl_time datetime?`, func(v *viewCall) error {
		for _, d := range c.session.view(c.db).DDLHistory() {
			if d.ObjectID != i.ObjectID {
				continue
			}
			if err := v.add(fields{
				"source_schema": i.SourceSchema, "source_table": i.SourceTable, "capture_instance": i.Name,
				"required_column_update": d.RequiredColumnUpdate, "ddl_command": d.Command, "ddl_lsn": d.LSN[:], "ddl_time": d.Time,
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

func spCleanup(c *procCall) error {
	if !c.db.cdc().Enabled() {
		return c.fail(22910, c.db.name)
	}
	if err := c.needOwner(); err != nil {
		return err
	}
	if c.text("@capture_instance") == "" {
		return c.fail(22963, "@capture_instance")
	}
	var mark *engine.LSN
	if v := c.arg("@low_water_mark"); !v.IsNull() {
		l := lsnArgument(v)
		mark = &l
	}
	threshold := c.integer("@threshold", 5000)
	if threshold == 0 {
		threshold = -1 // 22850: it must be greater than 0
	}
	_, err := c.db.eng.CleanupChangeTable(c.ctx, c.text("@capture_instance"), mark, threshold)
	c.set("@fCleanupFailed", sqltype.Bit(err != nil))
	return err
}

// spScan is one cycle of the capture process, or with @continuous = 1 one after the other until the client cancels.
func spScan(c *procCall) error {
	if err := c.needCDC(); err != nil {
		return err
	}
	if err := c.needOwner(); err != nil {
		return err
	}
	limits := engine.ScanLimits{
		MaxTrans: int(c.integer("@maxtrans", 500)), MaxScans: int(c.integer("@maxscans", 10)), SessionID: c.session.spid,
	}
	switch {
	case limits.MaxTrans <= 0:
		return c.fail(22991)
	case limits.MaxScans <= 0:
		return c.fail(22970)
	case c.integer("@continuous", 0) > 1:
		return c.fail(22998)
	case c.integer("@continuous", 0) == 0 && c.integer("@pollinginterval", 0) != 0:
		return c.fail(22999)
	}
	for {
		_, err := c.db.eng.Scan(c.ctx, limits)
		if err != nil || c.integer("@continuous", 0) == 0 {
			return err
		}
		if err := wait(c.ctx, secondsOf(c.integer("@pollinginterval", 0))); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
}
