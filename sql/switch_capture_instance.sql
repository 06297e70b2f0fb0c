-- After ALTER TABLE … ADD the old capture instance does not hold the new column, and no instance can be altered. A table can
-- have two instances. Run as db_owner. The name of the new instance must differ from the old.
--
-- 1. Make the second instance. It waits for open transactions that wrote the table.
EXEC sys.sp_cdc_enable_table
    @source_schema = N'<dbo>', @source_name = N'<orders>', @capture_instance = N'<dbo_orders_v2>',
    @role_name = NULL, @supports_net_changes = 0;

-- 2. Let the pipeline's login read it, at once: a pipeline that comes to the new instance's start without the right stops there.
GRANT SELECT ON [cdc].[<dbo_orders_v2>_CT] TO [cdc_reader];

-- 3. See both, with the LSN at which the new one starts. From there on both hold every change.
EXEC sys.sp_cdc_help_change_data_capture @source_schema = N'<dbo>', @source_name = N'<orders>';

-- 4. The pipeline goes on in the new instance by itself, from its start on (unless table_overrides: capture_instance names the
--    old one). Wait for the event capture_instance_switched in the facts table and one more row of that table with a later
--    end_lsn; only then drop the old instance. Its unread changes go with it:
-- EXEC sys.sp_cdc_disable_table @source_schema = N'<dbo>', @source_name = N'<orders>', @capture_instance = N'<dbo_orders>';
