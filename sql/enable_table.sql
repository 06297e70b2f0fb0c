-- Makes a capture instance for a table. Run as db_owner.
-- @supports_net_changes = 0: the pipeline does not use net changes, and the index for them costs every captured row.
-- @role_name: members of this role may use the query functions. NULL leaves the check to the SELECT permission.

IF NOT EXISTS (SELECT 1 FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
               WHERE s.name = N'<dbo>' AND t.name = N'<orders>' AND t.is_tracked_by_cdc = 1)
    EXEC sys.sp_cdc_enable_table
        @source_schema = N'<dbo>',
        @source_name = N'<orders>',
        @role_name = NULL,
        @supports_net_changes = 0;
