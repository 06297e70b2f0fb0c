-- Is capture well? Run as db_owner. Reads only.

-- CDC for the database, and whether log truncation waits for capture (log_reuse_wait_desc = REPLICATION).
SELECT name, is_cdc_enabled, snapshot_isolation_state, log_reuse_wait_desc FROM sys.databases WHERE database_id = DB_ID();

-- How far capture is. The time should be less than 5 minutes old, also on a quiet database; if not, the capture job
-- stands still: start SQL Server Agent, or EXEC sys.sp_cdc_start_job.
SELECT sys.fn_cdc_get_max_lsn() AS max_lsn, sys.fn_cdc_map_lsn_to_time(sys.fn_cdc_get_max_lsn()) AS commit_time, GETDATE() AS server_time;

-- The capture instances with the oldest change that each still holds.
SELECT capture_instance, OBJECT_SCHEMA_NAME(source_object_id) AS source_schema, OBJECT_NAME(source_object_id) AS source_table,
       start_lsn, sys.fn_cdc_map_lsn_to_time(start_lsn) AS oldest_change, create_date, role_name
FROM cdc.change_tables ORDER BY source_schema, source_table, create_date;

-- Capture and clean-up jobs; retention in minutes.
EXEC sys.sp_cdc_help_jobs;

-- The last log scans and their errors.
SELECT TOP (10) session_id, start_time, end_time, duration, scan_phase, error_count, tran_count, latency, empty_scan_count
FROM sys.dm_cdc_log_scan_sessions ORDER BY session_id DESC;
SELECT TOP (10) entry_time, error_number, error_message FROM sys.dm_cdc_errors ORDER BY entry_time DESC;

-- What the pipeline's login may read; run it as that login, or with EXECUTE AS USER = N'cdc_reader'.
SELECT capture_instance, HAS_PERMS_BY_NAME(N'cdc.' + QUOTENAME(capture_instance + N'_CT'), N'OBJECT', N'SELECT') AS can_read_changes
FROM cdc.change_tables;
