-- A commit every 10 seconds on a table of its own that CDC tracks, by an Agent job. Run as a member of sysadmin, in the database.
--
-- Why: on a quiet database capture adds an entry to the list of commits only about every 5 minutes, so the verdict of a
-- quiet table lags by up to 5 minutes. With the heartbeat it lags by about 20 seconds. Nothing reads the table.

IF OBJECT_ID(N'dbo.cdc_heartbeat') IS NULL
BEGIN
    CREATE TABLE dbo.cdc_heartbeat (id int NOT NULL PRIMARY KEY, beat_at datetime2(3) NOT NULL);
    INSERT INTO dbo.cdc_heartbeat (id, beat_at) VALUES (1, SYSUTCDATETIME());
    EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'cdc_heartbeat', @role_name = NULL, @supports_net_changes = 0;
END;

DECLARE @database sysname = DB_NAME();
DECLARE @job sysname = N'cdc_heartbeat ' + DB_NAME();

IF NOT EXISTS (SELECT 1 FROM msdb.dbo.sysjobs WHERE name = @job)
BEGIN
    EXEC msdb.dbo.sp_add_job @job_name = @job;
    EXEC msdb.dbo.sp_add_jobstep @job_name = @job, @step_name = N'beat', @subsystem = N'TSQL', @database_name = @database,
        @command = N'UPDATE dbo.cdc_heartbeat SET beat_at = SYSUTCDATETIME() WHERE id = 1;';
    EXEC msdb.dbo.sp_add_jobschedule @job_name = @job, @name = N'every 10 seconds', @freq_type = 4, @freq_interval = 1,
        @freq_subday_type = 2, @freq_subday_interval = 10;
    EXEC msdb.dbo.sp_add_jobserver @job_name = @job;
END;
