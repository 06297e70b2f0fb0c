package sqlserversim

// The column lists of the catalogue views, in SQL Server's order, from their documentation pages ("sys.objects",
// "sys.databases" …). A ? marks a nullable column.
const (
	columnsObjects = `name sysname, object_id int, principal_id int?, schema_id int, parent_object_id int, type char(2)?,
		type_desc nvarchar(60)?, create_date datetime, modify_date datetime, is_ms_shipped bit, is_published bit,
		is_schema_published bit`

	columnsTables = columnsObjects + `, lob_data_space_id int, filestream_data_space_id int?, max_column_id_used int,
		lock_on_bulk_load bit, uses_ansi_nulls bit?, is_replicated bit?, has_replication_filter bit?, is_merge_published bit?,
		is_sync_tran_subscribed bit?, has_unchecked_assembly_data bit, text_in_row_limit int?, large_value_types_out_of_row bit?,
		is_tracked_by_cdc bit?, lock_escalation tinyint?, lock_escalation_desc nvarchar(60)?, is_filetable bit?,
		is_memory_optimized bit?, durability tinyint?, durability_desc nvarchar(60)?, temporal_type tinyint?,
		temporal_type_desc nvarchar(60)?, history_table_id int?, is_remote_data_archive_enabled bit?, is_external bit,
		history_retention_period int?, history_retention_period_unit int?, history_retention_period_unit_desc nvarchar(10)?,
		is_node bit?, is_edge bit?`

	columnsViews = columnsObjects + `, is_replicated bit?, has_replication_filter bit?, has_opaque_metadata bit,
		has_unchecked_assembly_data bit, with_check_option bit, is_date_correlation_view bit`

	columnsSynonyms = columnsObjects + `, base_object_name nvarchar(1035)?`

	columnsProcedures = columnsObjects + `, is_auto_executed bit, is_execution_replicated bit?, is_repl_serializable_only bit?,
		skips_repl_constraints bit?`

	columnsKeyConstraints = columnsObjects + `, unique_index_id int?, is_system_named bit, is_enforced bit`

	columnsForeignKeys = columnsObjects + `, referenced_object_id int?, key_index_id int?, is_disabled bit,
		is_not_for_replication bit, is_not_trusted bit, delete_referential_action tinyint?,
		delete_referential_action_desc nvarchar(60)?, update_referential_action tinyint?,
		update_referential_action_desc nvarchar(60)?, is_system_named bit`

	columnsForeignKeyColumns = `constraint_object_id int, constraint_column_id int, parent_object_id int, parent_column_id int,
		referenced_object_id int, referenced_column_id int`

	columnsDefaultConstraints = columnsObjects + `, parent_column_id int, definition nvarchar(max)?, is_system_named bit`

	columnsCheckConstraints = columnsObjects + `, is_disabled bit, is_not_for_replication bit, is_not_trusted bit,
		parent_column_id int, definition nvarchar(max)?, uses_database_collation bit?, is_system_named bit`

	columnsTriggers = `name sysname, object_id int, parent_class tinyint, parent_class_desc nvarchar(60)?, parent_id int,
		type char(2), type_desc nvarchar(60)?, create_date datetime, modify_date datetime, is_ms_shipped bit, is_disabled bit,
		is_not_for_replication bit, is_instead_of_trigger bit`

	columnsColumns = `object_id int, name sysname?, column_id int, system_type_id tinyint, user_type_id int,
		max_length smallint, precision tinyint, scale tinyint, collation_name sysname?, is_nullable bit?, is_ansi_padded bit,
		is_rowguidcol bit, is_identity bit, is_computed bit, is_filestream bit, is_replicated bit?, is_non_sql_subscribed bit?,
		is_merge_published bit?, is_dts_replicated bit?, is_xml_document bit, xml_collection_id int, default_object_id int,
		rule_object_id int, is_sparse bit?, is_column_set bit?, generated_always_type tinyint?,
		generated_always_type_desc nvarchar(60)?, encryption_type int?, encryption_type_desc nvarchar(64)?,
		encryption_algorithm_name sysname?, column_encryption_key_id int?, column_encryption_key_database_name sysname?,
		is_hidden bit, is_masked bit, graph_type int?, graph_type_desc nvarchar(60)?`

	columnsComputedColumns = `object_id int, name sysname?, column_id int, system_type_id tinyint, user_type_id int,
		max_length smallint, precision tinyint, scale tinyint, collation_name sysname?, is_nullable bit?,
		definition nvarchar(max)?, uses_database_collation bit, is_persisted bit`

	columnsIdentityColumns = `object_id int, name sysname?, column_id int, system_type_id tinyint, user_type_id int,
		max_length smallint, precision tinyint, scale tinyint, is_nullable bit?, is_identity bit, seed_value bigint?,
		increment_value bigint?, last_value bigint?`

	columnsTypes = `name sysname, system_type_id tinyint, user_type_id int, schema_id int, principal_id int?,
		max_length smallint, precision tinyint, scale tinyint, collation_name sysname?, is_nullable bit?, is_user_defined bit,
		is_assembly_type bit, default_object_id int, rule_object_id int, is_table_type bit`

	columnsIndexes = `object_id int, name sysname?, index_id int, type tinyint, type_desc nvarchar(60)?, is_unique bit?,
		data_space_id int?, ignore_dup_key bit?, is_primary_key bit?, is_unique_constraint bit?, fill_factor tinyint,
		is_padded bit?, is_disabled bit?, is_hypothetical bit?, is_ignored_in_optimization bit?, allow_row_locks bit?,
		allow_page_locks bit?, has_filter bit?, filter_definition nvarchar(max)?, compression_delay int?,
		suppress_dup_key_messages bit?, auto_created bit?`

	columnsIndexColumns = `object_id int, index_id int, index_column_id int, column_id int, key_ordinal tinyint,
		partition_ordinal tinyint, is_descending_key bit?, is_included_column bit?`

	columnsPartitions = `partition_id bigint, object_id int, index_id int, partition_number int, hobt_id bigint, rows bigint?,
		filestream_filegroup_id smallint, data_compression tinyint, data_compression_desc nvarchar(60)?`

	columnsPartitionStats = `partition_id bigint?, object_id int, index_id int, partition_number int,
		in_row_data_page_count bigint?, in_row_used_page_count bigint?, in_row_reserved_page_count bigint?,
		lob_used_page_count bigint?, lob_reserved_page_count bigint?, row_overflow_used_page_count bigint?,
		row_overflow_reserved_page_count bigint?, used_page_count bigint?, reserved_page_count bigint?, row_count bigint?`

	columnsExtendedProperties = `class tinyint, class_desc nvarchar(60)?, major_id int, minor_id int, name sysname,
		value sql_variant?`

	columnsModules = `object_id int, definition nvarchar(max)?, uses_ansi_nulls bit?, uses_quoted_identifier bit?,
		is_schema_bound bit?, uses_database_collation bit?, is_recompiled bit?, null_on_null_input bit?,
		execute_as_principal_id int?, uses_native_compilation bit?`

	columnsDatabases = `name sysname, database_id int, source_database_id int?, owner_sid varbinary(85)?, create_date datetime,
		compatibility_level tinyint, collation_name sysname?, user_access tinyint?, user_access_desc nvarchar(60)?,
		is_read_only bit?, is_auto_close_on bit, is_auto_shrink_on bit?, state tinyint?, state_desc nvarchar(60)?,
		is_in_standby bit?, is_cleanly_shutdown bit?, is_supplemental_logging_enabled bit?, snapshot_isolation_state tinyint?,
		snapshot_isolation_state_desc nvarchar(60)?, is_read_committed_snapshot_on bit?, recovery_model tinyint?,
		recovery_model_desc nvarchar(60)?, page_verify_option tinyint?, page_verify_option_desc nvarchar(60)?,
		is_auto_create_stats_on bit?, is_auto_update_stats_on bit?, is_ansi_nulls_on bit?, is_quoted_identifier_on bit?,
		is_recursive_triggers_on bit?, is_local_cursor_default bit?, is_fulltext_enabled bit?, is_trustworthy_on bit?,
		is_parameterization_forced bit?, is_master_key_encrypted_by_server bit, is_query_store_on bit?, is_published bit,
		is_subscribed bit, is_merge_published bit, is_distributor bit, is_sync_with_backup bit,
		service_broker_guid uniqueidentifier?, is_broker_enabled bit, log_reuse_wait tinyint?, log_reuse_wait_desc nvarchar(60)?,
		is_date_correlation_on bit, is_cdc_enabled bit, is_encrypted bit?, is_honor_broker_priority_on bit?,
		replica_id uniqueidentifier?, group_database_id uniqueidentifier?, default_language_name nvarchar(128)?,
		containment tinyint?, containment_desc nvarchar(60)?, target_recovery_time_in_seconds int?, delayed_durability int?,
		delayed_durability_desc nvarchar(60)?`

	columnsServerPrincipals = `name sysname, principal_id int, sid varbinary(85)?, type char(1), type_desc nvarchar(60)?,
		is_disabled bit?, create_date datetime, modify_date datetime, default_database_name sysname?,
		default_language_name sysname?, credential_id int?, owning_principal_id int?, is_fixed_role bit`

	columnsSQLLogins = `name sysname, principal_id int, sid varbinary(85)?, type char(1), type_desc nvarchar(60)?,
		is_disabled bit?, create_date datetime, modify_date datetime, default_database_name sysname?,
		default_language_name sysname?, credential_id int?, is_policy_checked bit?, is_expiration_checked bit?,
		password_hash varbinary(256)?`

	columnsDatabasePrincipals = `name sysname, principal_id int, type char(1), type_desc nvarchar(60)?,
		default_schema_name sysname?, create_date datetime, modify_date datetime, owning_principal_id int?,
		sid varbinary(85)?, is_fixed_role bit, authentication_type int, authentication_type_desc nvarchar(60)?,
		default_language_name sysname?, default_language_lcid int?, allow_encrypted_value_modifications bit`

	columnsDatabasePermissions = `class tinyint, class_desc nvarchar(60)?, major_id int, minor_id int,
		grantee_principal_id int, grantor_principal_id int, type char(4), permission_name nvarchar(128)?, state char(1),
		state_desc nvarchar(60)?`

	columnsSessions = `session_id smallint, login_time datetime, host_name nvarchar(128)?, program_name nvarchar(128)?,
		host_process_id int?, client_version int?, client_interface_name nvarchar(32)?, security_id varbinary(85),
		login_name nvarchar(128), nt_domain nvarchar(128)?, nt_user_name nvarchar(128)?, status nvarchar(30),
		context_info varbinary(128)?, cpu_time int, memory_usage int, total_scheduled_time int, total_elapsed_time int,
		endpoint_id int, last_request_start_time datetime, last_request_end_time datetime?, reads bigint, writes bigint,
		logical_reads bigint, is_user_process bit, text_size int, language nvarchar(128)?, date_format nvarchar(3)?,
		date_first smallint, quoted_identifier bit, arithabort bit, ansi_null_dflt_on bit, ansi_defaults bit,
		ansi_warnings bit, ansi_padding bit, ansi_nulls bit, concat_null_yields_null bit,
		transaction_isolation_level smallint, lock_timeout int, deadlock_priority int, row_count bigint, prev_error int,
		original_security_id varbinary(85), original_login_name nvarchar(128), last_successful_logon datetime?,
		last_unsuccessful_logon datetime?, unsuccessful_logons bigint?, group_id int, database_id smallint,
		authenticating_database_id int?, open_transaction_count int`

	columnsConnections = `session_id int?, most_recent_session_id int?, connect_time datetime, net_transport nvarchar(40),
		protocol_type nvarchar(40)?, protocol_version int?, endpoint_id int?, encrypt_option nvarchar(40),
		auth_scheme nvarchar(40), node_affinity smallint, num_reads int?, num_writes int?, last_read datetime?,
		last_write datetime?, net_packet_size int?, client_net_address varchar(48)?, client_tcp_port int?,
		local_net_address varchar(48)?, local_tcp_port int?, connection_id uniqueidentifier,
		parent_connection_id uniqueidentifier?, most_recent_sql_handle varbinary(64)?`

	columnsSessionWaits = `session_id smallint, wait_type nvarchar(60), waiting_tasks_count bigint, wait_time_ms bigint,
		max_wait_time_ms bigint, signal_wait_time_ms bigint`

	columnsServerServices = `servicename nvarchar(256), startup_type int?, startup_type_desc nvarchar(256), status int?,
		status_desc nvarchar(256), process_id int?, last_startup_time datetime2(7)?, service_account nvarchar(256),
		filename nvarchar(256), is_clustered nvarchar(1), cluster_nodename nvarchar(256)?,
		instant_file_initialization_enabled nvarchar(1)`

	columnsScanSessions = `session_id int, start_time datetime?, end_time datetime?, duration bigint?, scan_phase nvarchar(200)?,
		error_count int?, start_lsn nvarchar(23)?, current_lsn nvarchar(23)?, end_lsn nvarchar(23)?, tran_count bigint?,
		last_commit_lsn nvarchar(23)?, last_commit_time datetime?, log_record_count bigint?, schema_change_count int?,
		command_count bigint?, first_begin_cdc_lsn nvarchar(23)?, last_commit_cdc_lsn nvarchar(23)?,
		last_commit_cdc_time datetime?, latency int?, empty_scan_count int?, failed_sessions_count int?`

	columnsCDCErrors = `session_id int?, phase_number int?, entry_time datetime?, error_number int?, error_severity int?,
		error_state int?, error_message nvarchar(1024)?, start_lsn nvarchar(23)?, begin_lsn nvarchar(23)?,
		sequence_value nvarchar(23)?`

	columnsRecoveryStatus = `database_id int, database_guid uniqueidentifier?, family_guid uniqueidentifier?,
		last_log_backup_lsn decimal(25,0)?, recovery_fork_guid uniqueidentifier?, first_recovery_fork_guid uniqueidentifier?,
		fork_point_lsn decimal(25,0)?`

	columnsConfigurations = `configuration_id int, name nvarchar(35), value sql_variant?, minimum sql_variant?,
		maximum sql_variant?, value_in_use sql_variant?, description nvarchar(255), is_dynamic bit, is_advanced bit`

	columnsCDCJobs = `database_id int, job_type nvarchar(20), job_id uniqueidentifier?, maxtrans int?, maxscans int?,
		continuous bit?, pollinginterval bigint?, retention bigint?, threshold bigint?`

	columnsChangeTables = `object_id int, version int?, source_object_id int?, capture_instance sysname, start_lsn binary(10)?,
		end_lsn binary(10)?, supports_net_changes bit?, has_drop_pending bit?, role_name sysname?, index_name sysname?,
		filegroup_name sysname?, create_date datetime?, partition_switch bit`

	columnsCapturedColumns = `object_id int, column_name sysname, column_id int?, column_type sysname, column_ordinal int,
		is_computed bit?`

	columnsCDCIndexColumns = `object_id int, column_name sysname, index_ordinal tinyint, column_id int`

	columnsDDLHistory = `source_object_id int?, object_id int, required_column_update bit?, ddl_command nvarchar(max)?,
		ddl_lsn binary(10), ddl_time datetime?`

	columnsTimeMapping = `start_lsn binary(10), tran_begin_time datetime?, tran_end_time datetime?, tran_id varbinary(10)?,
		tran_begin_lsn binary(10)?`
)
