-- Enables Change Data Capture in the current database.
-- Run as a member of sysadmin (Azure SQL Database: db_owner), in the database itself.
-- On SQL Server the SQL Server Agent must run: it captures and cleans up.

IF (SELECT is_cdc_enabled FROM sys.databases WHERE database_id = DB_ID()) = 0
    EXEC sys.sp_cdc_enable_db;

-- How long changes are kept before clean-up deletes them, read or not. The default is 3 days (4320 minutes). A pipeline
-- that stands still for longer loses changes, and says so. Run this after the first table was enabled:
-- EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080;
