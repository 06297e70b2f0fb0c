package sqlserversim

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// needServerState asks for VIEW SERVER STATE (in 2022 and later VIEW SERVER PERFORMANCE STATE): errors 300 and 297.
func needServerState(s *session, _ *database) error {
	permission := "VIEW SERVER STATE"
	if s.srv.profile.year >= 2022 {
		permission = "VIEW SERVER PERFORMANCE STATE"
	}
	if s.srv.security.hasServerPermission(s.login, permission) {
		return nil
	}
	return message(300, permission)
}

// needDatabaseState asks for VIEW DATABASE STATE (in 2022 and later VIEW DATABASE PERFORMANCE STATE): error 262. Who may see the
// server's state may see the database's.
func needDatabaseState(s *session, db *database) error {
	permission := "VIEW DATABASE STATE"
	if s.srv.profile.year >= 2022 {
		permission = "VIEW DATABASE PERFORMANCE STATE"
	}
	r, ok := s.rightsIn(db)
	if ok && r.database(permission) || needServerState(s, db) == nil {
		return nil
	}
	return message(262, permission, db.name)
}

func databaseViews() []*view {
	return []*view{
		newView("sys", "databases", columnsDatabases, rowsDatabases),
		newView("sys", "database_recovery_status", columnsRecoveryStatus, rowsRecoveryStatus),
		newView("sys", "configurations", columnsConfigurations, rowsConfigurations),
		newView("sys", "dm_server_services", columnsServerServices, rowsServices).needing(needServerState),
		newView("sys", "dm_os_sys_info", `cpu_ticks bigint, ms_ticks bigint, cpu_count int, hyperthread_ratio int,
			physical_memory_kb bigint, sqlserver_start_time datetime`, rowsSystemInfo).needing(needServerState),
		newView("sys", "dm_os_host_info", `host_platform nvarchar(256), host_distribution nvarchar(256), host_release nvarchar(256),
			host_service_pack_level nvarchar(256), host_sku int?, os_language_version int, host_architecture nvarchar(256)`,
			func(c *viewCall) error {
				return c.add(fields{"host_platform": "Linux", "host_distribution": "Simulator", "host_architecture": "X64"})
			}).needing(needServerState),
		newView("sys", "filegroups", `name sysname, data_space_id int, type char(2), type_desc nvarchar(60)?, is_default bit?,
			is_system bit?, filegroup_guid uniqueidentifier?, log_filegroup_id int?, is_read_only bit?`, func(c *viewCall) error {
			return c.add(fields{"name": "PRIMARY", "data_space_id": 1, "type": "FG", "type_desc": "ROWS_FILEGROUP", "is_default": true,
				"is_system": false, "is_read_only": false})
		}),
		newView("sys", "availability_groups", "group_id uniqueidentifier, name sysname?", nothing),
		newView("sys", "dm_hadr_database_replica_states", `database_id int, group_id uniqueidentifier, replica_id uniqueidentifier,
			is_local bit?, is_primary_replica bit?, synchronization_state tinyint?`, nothing),
	}
}

func rowsDatabases(c *viewCall) error {
	s := c.session
	for _, db := range s.srv.databases() {
		if err := c.add(databaseRow(s, db)); err != nil {
			return err
		}
	}
	return nil
}

func databaseRow(s *session, db *database) fields {
	set := db.eng.Settings()
	snapshot, snapshotText := 0, "OFF"
	if set.AllowSnapshot || db.name == "master" || db.name == "msdb" {
		snapshot, snapshotText = 1, "ON"
	}
	reuse, reuseText := 0, "NOTHING"
	if db.eng.Backlog() > 0 {
		reuse, reuseText = 6, "REPLICATION"
	}
	recovery, recoveryText := 1, "FULL"
	if db.name == "tempdb" || db.name == "master" || db.name == "msdb" {
		recovery, recoveryText = 3, "SIMPLE"
	}
	return fields{
		"name": db.name, "database_id": db.id, "owner_sid": []byte{1}, "create_date": db.created,
		"compatibility_level": s.srv.profile.compatibility, "collation_name": db.collationName(), "user_access": 0,
		"user_access_desc": "MULTI_USER", "is_read_only": set.ReadOnly, "is_auto_shrink_on": false, "state": 0,
		"state_desc": "ONLINE", "is_in_standby": false, "is_cleanly_shutdown": false, "is_supplemental_logging_enabled": false,
		"snapshot_isolation_state": snapshot, "snapshot_isolation_state_desc": snapshotText,
		"is_read_committed_snapshot_on": set.ReadCommittedSnapshot, "recovery_model": recovery, "recovery_model_desc": recoveryText,
		"page_verify_option": 2, "page_verify_option_desc": "CHECKSUM", "is_auto_create_stats_on": true,
		"is_auto_update_stats_on": true, "is_ansi_nulls_on": false, "is_quoted_identifier_on": false,
		"is_fulltext_enabled": false, "is_trustworthy_on": false, "is_parameterization_forced": false, "is_query_store_on": false,
		"log_reuse_wait": reuse, "log_reuse_wait_desc": reuseText, "is_cdc_enabled": db.cdc().Enabled(), "is_encrypted": false,
		"is_honor_broker_priority_on": false, "containment": 0, "containment_desc": "NONE", "target_recovery_time_in_seconds": 60,
		"delayed_durability": 0, "delayed_durability_desc": "DISABLED",
	}
}

// guidOf makes a stable uniqueidentifier from names.
func guidOf(parts ...string) sqltype.Value {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return sqltype.UniqueIdentifier([16]byte(h.Sum(nil)[:16]))
}

func rowsRecoveryStatus(c *viewCall) error {
	for _, db := range c.session.srv.databases() {
		family := guidOf("family", db.name, db.created.Format(time.RFC3339Nano))
		if err := c.add(fields{
			"database_id": db.id, "database_guid": guidOf("database", db.name, db.created.Format(time.RFC3339Nano)), "family_guid": family,
			"recovery_fork_guid": guidOf("fork", db.name, db.created.Format(time.RFC3339Nano)),
		}); err != nil {
			return err
		}
	}
	return nil
}

func rowsConfigurations(c *viewCall) error {
	for _, o := range []struct {
		id       int
		name     string
		max, now int32
	}{
		{103, "user connections", 32767, 0}, {1517, "priority boost", 1, 0}, {1537, "max text repl size (B)", 2147483647, 65536},
		{1539, "max degree of parallelism", 32767, 0}, {1544, "max server memory (MB)", 2147483647, 2147483647},
		{1562, "clr enabled", 1, 0}, {16384, "Agent XPs", 1, 1},
	} {
		if err := c.add(fields{
			"configuration_id": o.id, "name": o.name, "value": sqltype.Int(o.now), "minimum": sqltype.Int(0), "maximum": sqltype.Int(o.max),
			"value_in_use": sqltype.Int(o.now), "description": o.name, "is_dynamic": true,
		}); err != nil {
			return err
		}
	}
	return nil
}

// rowsServices lists the server and its Agent; the Agent counts as running while a capture job does, or could.
func rowsServices(c *viewCall) error {
	started := c.session.srv.started
	add := func(name string, running bool) error {
		status, text := 1, "Stopped"
		var since any
		if running {
			status, text, since = 4, "Running", started
		}
		return c.add(fields{
			"servicename": name, "startup_type": 2, "startup_type_desc": "Automatic", "status": status, "status_desc": text,
			"process_id": 1, "last_startup_time": since, "service_account": "mssql", "filename": "sqlservr", "is_clustered": "N",
			"instant_file_initialization_enabled": "N",
		})
	}
	if err := add("SQL Server (MSSQLSERVER)", true); err != nil {
		return err
	}
	agent := slices.ContainsFunc(c.session.srv.databases(), func(db *database) bool { return db.eng.CaptureRunning() })
	return add("SQL Server Agent (MSSQLSERVER)", agent || c.session.srv.cfg.captureInterval > 0)
}

func rowsSystemInfo(c *viewCall) error {
	now := c.session.srv.eng.Now()
	return c.add(fields{
		"ms_ticks": now.Sub(c.session.srv.started).Milliseconds(), "cpu_ticks": now.UnixNano(), "cpu_count": 2, "hyperthread_ratio": 1,
		"physical_memory_kb": 8 << 20, "sqlserver_start_time": c.session.srv.started,
	})
}

// isolationNumber is transaction_isolation_level of sys.dm_exec_sessions.
func isolationNumber(l engine.Isolation) int {
	switch l {
	case engine.ReadUncommitted:
		return 1
	case engine.RepeatableRead:
		return 3
	case engine.Serializable:
		return 4
	case engine.Snapshot:
		return 5
	}
	return 2
}
