-- Stops capturing a table. Run as db_owner. The change table and every change in it that was not read are gone at once.
-- Let the pipeline catch up first (facts table, ingestion_lag_seconds), then stop it or take the table out of its
-- configuration: a pipeline that still reads the table ends with an error that calls this a loss, which it is.

EXEC sys.sp_cdc_disable_table
    @source_schema = N'<dbo>',
    @source_name = N'<orders>',
    @capture_instance = N'<dbo_orders>';
