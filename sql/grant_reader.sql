-- A login for the pipeline: it can read the changes of the tables named here and nothing else. Run as db_owner (the login: as
-- securityadmin in master).
--
-- Two grants per table. SELECT on the captured columns lets the login see the capture instance at all (SELECT on single
-- columns is enough: GRANT SELECT (<id>, <status>) ON …). SELECT on the change table lets it read the rows. Reading the
-- change table instead of the query function is what gives the order of commands within a transaction.

-- CREATE LOGIN [cdc_reader] WITH PASSWORD = N'<password>';

IF USER_ID(N'cdc_reader') IS NULL
    CREATE USER [cdc_reader] FOR LOGIN [cdc_reader];

GRANT SELECT ON [<dbo>].[<orders>] TO [cdc_reader];
GRANT SELECT ON [cdc].[<dbo_orders>_CT] TO [cdc_reader];

-- If the capture instance was made with a role:
-- ALTER ROLE [<role>] ADD MEMBER [cdc_reader];
