-- What clients of SQL Server send, in our own words, a batch between two GO. Every batch must parse, print and parse
-- again. --params: parameters it needs. --parse-only: it is not executed over the fake host.
-- ---------------------------------------------------------------- Debezium
SELECT @@VERSION
GO
--params: @P0 nvarchar(4000)
SELECT name FROM sys.databases WHERE name = @P0
GO
--parse-only
EXEC [lab].sys.sp_cdc_help_change_data_capture
GO
SELECT COUNT(*) FROM [lab].cdc.change_tables
GO
set implicit_transactions on 
GO
set implicit_transactions off 
GO
use [lab]
GO
SELECT CAST(SERVERPROPERTY('EngineEdition') as INT)
GO
SELECT 1
GO
--parse-only
--params: @P0 nvarchar(4000), @P1 nvarchar(4000), @P2 nvarchar(4000), @P3 nvarchar(4000)
EXEC sp_tables @P0, @P1, @P2, @P3
GO
--parse-only
EXEC sp_tables N'%', NULL, N'lab', N'''TABLE'''
GO
--parse-only
--params: @P0 nvarchar(4000), @P1 nvarchar(4000), @P2 nvarchar(4000), @P3 nvarchar(4000), @P4 int, @P5 nvarchar(10)
DECLARE @cols TABLE (TABLE_QUALIFIER sysname NULL, TABLE_OWNER sysname NULL, TABLE_NAME sysname NULL, COLUMN_NAME sysname NULL, DATA_TYPE smallint, TYPE_NAME varchar(256), "PRECISION" int, LENGTH int, SCALE smallint NULL, RADIX smallint NULL, NULLABLE smallint, REMARKS varchar(254) NULL, COLUMN_DEF nvarchar(4000) NULL, SQL_DATA_TYPE smallint, SQL_DATETIME_SUB smallint NULL, CHAR_OCTET_LENGTH int NULL, ORDINAL_POSITION int, IS_NULLABLE varchar(254), SS_IS_SPARSE smallint, SS_IS_COLUMN_SET smallint, SS_IS_COMPUTED smallint, SS_IS_IDENTITY smallint, SS_UDT_CATALOG_NAME nvarchar(128) NULL, SS_UDT_SCHEMA_NAME nvarchar(128) NULL, SS_UDT_ASSEMBLY_TYPE_NAME nvarchar(max) NULL, SS_XML_SCHEMACOLLECTION_CATALOG_NAME nvarchar(128) NULL, SS_XML_SCHEMACOLLECTION_SCHEMA_NAME nvarchar(128) NULL, SS_XML_SCHEMACOLLECTION_NAME nvarchar(128) NULL, SS_DATA_TYPE tinyint);
INSERT INTO @cols EXEC sp_columns_100 @P0, @P1, @P2, @P3, @P4, @P5;
SELECT TABLE_QUALIFIER AS TABLE_CAT, TABLE_OWNER AS TABLE_SCHEM, TABLE_NAME, COLUMN_NAME, CAST(DATA_TYPE AS INT) AS DATA_TYPE, CASE WHEN DATA_TYPE IN (-10, -9) THEN LENGTH / 2 ELSE PRECISION END AS COLUMN_SIZE, CASE WHEN SS_IS_IDENTITY = 1 THEN 'YES' ELSE 'NO' END AS IS_AUTOINCREMENT FROM @cols ORDER BY TABLE_CAT, TABLE_SCHEM, TABLE_NAME, ORDINAL_POSITION
GO
--parse-only
--params: @P0 nvarchar(4000), @P1 nvarchar(4000), @P2 nvarchar(4000)
EXEC sp_pkeys @P0, @P1, @P2
GO
--parse-only
--params: @P0 nvarchar(4000), @P1 nvarchar(4000), @P2 nvarchar(4000)
DECLARE @ix TABLE (q sysname NULL, o sysname NULL, n sysname, non_unique smallint NULL, iq sysname NULL, i sysname NULL, t smallint, s smallint NULL, c sysname NULL, coll char(1) NULL, card int NULL, pages int NULL, f varchar(128) NULL);
INSERT INTO @ix EXEC sp_statistics @P0, @P1, @P2, @is_unique = 'Y';
SELECT q, o, n, i FROM @ix UNION ALL SELECT NULL, s.name, t.name, i.name FROM sys.indexes i INNER JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id INNER JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id INNER JOIN sys.tables t ON t.object_id = i.object_id INNER JOIN sys.schemas s ON s.schema_id = t.schema_id LEFT JOIN sys.dm_db_partition_stats p ON p.object_id = i.object_id AND p.index_id = i.index_id WHERE t.name = @P0
GO
--params: @P0 nvarchar(4000) = '2024-02-29'
SELECT PARSE(@P0 AS date)
GO
SELECT PARSE('2024-02-29 12:00:00.1234567' AS datetime2(7)), PARSE('12:00' AS time), PARSE('2024-02-29' AS smalldatetime)
GO
SELECT object_id, column_name FROM [lab].cdc.captured_columns ORDER BY object_id, column_id
GO
--params: @P0 varbinary(8000)
WITH ordered_change_tables AS (SELECT ROW_NUMBER() OVER (PARTITION BY ct.source_object_id, ct.start_lsn ORDER BY ct.create_date DESC) AS rn, ct.* FROM [lab].cdc.change_tables AS ct WITH (NOLOCK) WHERE ct.start_lsn <= @P0) SELECT OBJECT_SCHEMA_NAME(source_object_id, DB_ID('lab')), OBJECT_NAME(source_object_id, DB_ID('lab')), capture_instance, object_id, start_lsn FROM ordered_change_tables WHERE rn = 1
GO
--params: @P0 varbinary(8000), @P1 varbinary(8000)
SELECT * FROM [lab].cdc.change_tables WHERE start_lsn BETWEEN @P0 AND @P1
GO
SELECT [lab].sys.fn_cdc_get_max_lsn()
GO
--params: @P0 nvarchar(4000)
SELECT [lab].sys.fn_cdc_get_min_lsn(@P0)
GO
--params: @P0 varbinary(8000)
SELECT [lab].sys.fn_cdc_increment_lsn(@P0)
GO
--params: @P0 int = 500, @P1 varbinary(8000) = 0x00
SELECT MAX(start_lsn) FROM (SELECT TOP (@P0 + 1) start_lsn FROM [lab].cdc.lsn_time_mapping WHERE start_lsn >= @P1 AND tran_id <> 0x00 ORDER BY start_lsn) as next_lsns
GO
select min(start_lsn) from [lab].cdc.change_tables
GO
--params: @P0 varbinary(8000) = 0x0000002C000000100001, @P1 varbinary(8000) = 0x00000000000000000000, @P2 int = 0, @P3 varbinary(8000) = 0x0000002C000000100001, @P4 varbinary(8000) = 0x00000000000000000000, @P5 varbinary(8000) = 0x0000002C000000100001, @P6 varbinary(8000) = 0xFF
SELECT cdc_data.[__$start_lsn], cdc_data.[__$seqval], cdc_data.[__$operation], cdc_data.[__$update_mask], cdc_data.[id], cdc_data.[name], TODATETIMEOFFSET(ltm.tran_begin_time, DATEPART(TZOFFSET, SYSDATETIMEOFFSET())) FROM [lab].cdc.[dbo_orders_CT] AS cdc_data LEFT JOIN [lab].cdc.lsn_time_mapping AS ltm ON (cdc_data.[__$start_lsn] = ltm.start_lsn) WHERE ((cdc_data.[__$start_lsn] = @P0 AND cdc_data.[__$seqval] = @P1 AND cdc_data.[__$operation] > @P2) OR (cdc_data.[__$start_lsn] = @P3 AND cdc_data.[__$seqval] > @P4) OR (cdc_data.[__$start_lsn] > @P5)) AND cdc_data.[__$start_lsn] <= @P6 AND cdc_data.[__$operation] NOT IN (3) ORDER BY cdc_data.[__$start_lsn], cdc_data.[__$command_id], cdc_data.[__$seqval], cdc_data.[__$operation]
GO
--parse-only
--params: @P0 varbinary(8000), @P1 varbinary(8000)
SELECT TOP 100 *, TODATETIMEOFFSET([lab].sys.fn_cdc_map_lsn_to_time([__$start_lsn]), DATEPART(TZOFFSET, SYSDATETIMEOFFSET())) FROM [lab].cdc.[fn_cdc_get_all_changes_dbo_orders](@P0, @P1, N'all update old') ORDER BY [__$start_lsn] ASC, [__$seqval] ASC, [__$operation] ASC
GO
SET LOCK_TIMEOUT 10000
GO
SET LOCK_TIMEOUT -1
GO
set transaction isolation level  repeatable read 
GO
set transaction isolation level  read committed 
GO
IF @@TRANCOUNT > 0 COMMIT TRAN
GO
IF @@TRANCOUNT = 0 BEGIN BEGIN TRAN IF @@TRANCOUNT = 2 COMMIT TRAN END SAVE TRAN [dbz_schema_snapshot]
GO
IF @@TRANCOUNT > 0 ROLLBACK TRAN [dbz_schema_snapshot]
GO
IF @@TRANCOUNT > 0 ROLLBACK TRAN
GO
SELECT TOP(0) * FROM [lab].[dbo].[orders] WITH (TABLOCKX)
GO
SELECT [id], [name] FROM [lab].[dbo].[orders]
GO
SELECT SYSDATETIMEOFFSET()
GO
--parse-only
EXEC sys.sp_cdc_help_jobs
GO
SELECT CASE WHEN dss.[status]=4 THEN 1 ELSE 0 END AS isRunning FROM [lab].sys.dm_server_services dss WHERE dss.[servicename] LIKE N'SQL Server Agent (%'
GO
SELECT TOP 1 start_lsn FROM sys.dm_cdc_log_scan_sessions ORDER BY session_id DESC
GO
-- ---------------------------------------------------------------- Redpanda Connect
SELECT s.name, t.name FROM sys.tables t JOIN sys.schemas s ON t.schema_id = s.schema_id
GO
--params: @p1 nvarchar(128)
SELECT TOP 1 start_lsn FROM cdc.change_tables WHERE capture_instance = @p1
GO
SELECT sys.fn_cdc_get_max_lsn()
GO
--params: @p1 varbinary(10) = NULL, @p2 varbinary(10) = NULL, @p3 varbinary(10) = 0xFF, @p4 varbinary(10) = 0xFF
SELECT * FROM cdc.dbo_orders_CT WITH (NOLOCK) WHERE (@p1 IS NULL OR [__$start_lsn] > @p2) AND (@p3 IS NULL OR [__$start_lsn] <= @p4) ORDER BY [__$start_lsn], [__$command_id], [__$operation]
GO
--params: @p1 nvarchar(128), @p2 nvarchar(128)
SELECT c.name FROM sys.indexes i JOIN sys.index_columns ic ON i.object_id = ic.object_id AND i.index_id = ic.index_id JOIN sys.columns c ON ic.object_id = c.object_id AND ic.column_id = c.column_id JOIN sys.tables t ON i.object_id = t.object_id JOIN sys.schemas s ON t.schema_id = s.schema_id WHERE i.is_primary_key = 1 AND t.name = @p1 AND s.name = @p2 ORDER BY ic.key_ordinal
GO
--params: @p1 int = 0, @p2 int = 0, @p3 nvarchar(10) = ''
SELECT TOP (100) * FROM [dbo].[orders] WHERE (id > @p1) OR (id = @p2 AND name > @p3) ORDER BY id, name
GO
DECLARE @created BIT = 0; IF NOT EXISTS (SELECT 1 FROM sys.tables WHERE name = 'cp' AND schema_id = SCHEMA_ID('rpcn')) BEGIN CREATE TABLE [rpcn].[cp] ([cache_key] varchar(128) NOT NULL PRIMARY KEY, [cache_val] varbinary(10)) SET @created = 1 END; SELECT @created
GO
--parse-only
SELECT c.name, t.name, c.max_length FROM sys.columns c JOIN sys.types t ON c.user_type_id = t.user_type_id WHERE c.object_id = OBJECT_ID(N'[rpcn].[cp]')
GO
CREATE OR ALTER PROCEDURE [rpcn].[set_cp] @Key varchar(128), @Value varbinary(10) AS BEGIN SET NOCOUNT ON; IF EXISTS (SELECT 1 FROM [rpcn].[cp] WHERE [cache_key] = @Key) BEGIN UPDATE [rpcn].[cp] SET [cache_val] = @Value WHERE [cache_key] = @Key; END ELSE BEGIN INSERT INTO [rpcn].[cp] ([cache_key], [cache_val]) VALUES (@Key, @Value); END END
GO
--params: @p1 varchar(10) = 'k', @p2 varbinary(10) = 0x01
EXEC [rpcn].[set_cp] @Key = @p1, @Value = @p2
GO
--params: @p1 varchar(10) = 'k'
SELECT CONVERT(varbinary(10), cache_val), DATALENGTH(cache_val) FROM [rpcn].[cp] WHERE cache_key = @p1
GO
-- ---------------------------------------------------------------- mssql-cdc-pyspark
SELECT CASE WHEN CAST(SERVERPROPERTY('ProductMajorVersion') AS int) >= 16 OR CAST(SERVERPROPERTY('EngineEdition') AS int) IN (5, 8) THEN 1 ELSE 0 END
GO
SELECT CURRENT_TIMEZONE_ID()
GO
SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET())
GO
SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)
GO
--params: @P1 varchar(22) = '0x0000002C000000100001'
SELECT TOP (1) CONVERT(varchar(23), CAST(m.tran_end_time AS datetime2(3)), 126) FROM cdc.lsn_time_mapping m WHERE m.start_lsn = CONVERT(binary(10), @P1, 1) ORDER BY m.start_lsn DESC
GO
--params: @P1 varchar(22) = '0x0000002C000000100001'
SELECT CONVERT(varchar(22), MAX(start_lsn), 1) FROM (SELECT TOP (1000) start_lsn FROM cdc.lsn_time_mapping WHERE start_lsn > CONVERT(binary(10), @P1, 1) ORDER BY start_lsn) t
GO
--params: @P1 varchar(22) = '0x0000002C000000100001', @P2 varchar(22) = '0x0000002C000000300001'
SELECT CONVERT(varchar(22), c.[__$start_lsn], 1) AS _start_lsn, CONVERT(varchar(22), c.[__$seqval], 1) AS _seqval, c.[__$operation] AS _operation, c.[__$command_id] AS _command_id, CAST(m.tran_end_time AS datetime2(3)) AS _commit_ts, c.[id], c.[name] FROM cdc.[dbo_orders_CT] c JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.[__$start_lsn] WHERE c.[__$start_lsn] BETWEEN CONVERT(binary(10), @P1, 1) AND CONVERT(binary(10), @P2, 1) ORDER BY c.[__$start_lsn], c.[__$command_id], c.[__$seqval], c.[__$operation]
GO
--params: @P1 varchar(22) = '0x0000002C000000100001', @P2 varchar(22) = '0x0000002C000000300001'
SELECT CONVERT(varchar(22), MAX(__$start_lsn), 1) AS b, CONVERT(varchar(22), sys.fn_cdc_increment_lsn(MAX(__$start_lsn)), 1) AS n, COUNT_BIG(*) AS r FROM (SELECT __$start_lsn, NTILE(2) OVER (ORDER BY __$start_lsn) AS g FROM cdc.[dbo_orders_CT] WHERE __$start_lsn BETWEEN CONVERT(binary(10), @P1, 1) AND CONVERT(binary(10), @P2, 1)) x GROUP BY g ORDER BY b
GO
--parse-only
--params: @P1 varchar(128), @P2 varchar(128)
EXEC sys.sp_cdc_help_change_data_capture @source_schema = @P1, @source_name = @P2
GO
--parse-only
--params: @P1 varchar(128)
EXEC sys.sp_cdc_get_captured_columns @capture_instance = @P1; EXEC sys.sp_cdc_get_ddl_history @capture_instance = @P1
GO
--params: @P1 varchar(128) = 'dbo', @P2 varchar(128) = 'orders'
SELECT name, column_id, is_computed FROM sys.columns WHERE object_id = OBJECT_ID(QUOTENAME(@P1) + '.' + QUOTENAME(@P2))
GO
SELECT wait_time_ms FROM sys.dm_exec_session_wait_stats WHERE session_id = @@SPID AND wait_type = 'ASYNC_NETWORK_IO'
GO
--params: @P1 varchar(30) = '2024-02-29T12:00:00'
SELECT sys.fn_cdc_map_time_to_lsn(N'largest less than or equal', CONVERT(datetime2(0), @P1, 126))
GO
--params: @P1 varchar(30) = '2024-02-29T12:00:00', @P2 varchar(30) = '2024-02-29T13:00:00'
SELECT sys.fn_cdc_map_time_to_lsn(N'largest less than or equal', (SELECT MIN(v.t) FROM (VALUES (CAST(CONVERT(datetime2(0), @P1, 126) AT TIME ZONE 'UTC' AT TIME ZONE 'Central European Standard Time' AS datetime2(0))), (CAST(CONVERT(datetime2(0), @P2, 126) AT TIME ZONE 'UTC' AT TIME ZONE 'Central European Standard Time' AS datetime2(0)))) v(t)))
GO
--params: @P1 varchar(22) = '0x00', @P2 varchar(22) = '0xFF'
SELECT CASE WHEN DATEDIFF(second, MIN(tran_end_time), MAX(tran_end_time)) = DATEDIFF(second, CAST(MIN(tran_end_time) AT TIME ZONE 'Central European Standard Time' AT TIME ZONE 'UTC' AS datetime2(3)), CAST(MAX(tran_end_time) AT TIME ZONE 'Central European Standard Time' AT TIME ZONE 'UTC' AS datetime2(3))) THEN DATEPART(TZOFFSET, MIN(tran_end_time) AT TIME ZONE 'Central European Standard Time') END FROM cdc.lsn_time_mapping WHERE start_lsn BETWEEN CONVERT(binary(10), @P1, 1) AND CONVERT(binary(10), @P2, 1) HAVING COUNT(*) > 0
GO
--params: @P1 varchar(22) = '0x0000002C000000200001', @P2 varchar(30) = '2024-02-29T12:00:00'
SELECT c.id, CASE WHEN EXISTS (SELECT 1 FROM (SELECT * FROM (VALUES (CONVERT(binary(10), @P1, 1), CONVERT(datetime, @P2, 126)), (CONVERT(binary(10), @P1, 1), CONVERT(datetime, @P2, 126))) v(start_lsn, t)) x WHERE m.start_lsn >= x.start_lsn AND m.tran_end_time >= x.t) THEN DATEADD(minute, -DATEPART(TZOFFSET, m.tran_end_time AT TIME ZONE 'Central European Standard Time'), m.tran_end_time) ELSE m.tran_end_time END AS t FROM cdc.[dbo_orders_CT] c JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.[__$start_lsn] ORDER BY c.[__$start_lsn]
GO
SELECT x.start_lsn, x.prev FROM (SELECT 1 AS one) d CROSS APPLY (SELECT m.start_lsn, m.tran_end_time, LAG(m.tran_end_time) OVER (ORDER BY m.start_lsn) AS prev FROM cdc.lsn_time_mapping m WHERE m.start_lsn >= COALESCE((SELECT TOP (1) p.start_lsn FROM cdc.lsn_time_mapping p WHERE p.tran_end_time < '2024-02-29' ORDER BY p.tran_end_time DESC), 0x00000000000000000000)) x WHERE x.tran_end_time < x.prev
GO
--parse-only
SET LOCK_TIMEOUT 5000; SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT (SELECT MIN([id]) FROM [dbo].[orders]) AS lo, (SELECT MAX([id]) FROM [dbo].[orders]) AS hi
GO
--parse-only
--params: @P1 varchar(128)
EXEC sys.sp_spaceused @objname = @P1
GO
SELECT * FROM (SELECT TOP (11) [id], [name] FROM [dbo].[orders] WHERE ([id] > 0 AND [id] <= 10) ORDER BY [id]) p UNION ALL SELECT * FROM (SELECT TOP (11) [id], [name] FROM [dbo].[orders] WHERE ([id] < 0 OR [id] IS NULL) ORDER BY [id]) p UNION ALL SELECT [id], [name] FROM [dbo].[orders] WHERE 1 = 0 ORDER BY [id] OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY
GO
SELECT CASE WHEN [id] >= 0 THEN [id] / 10 ELSE ([id] + 1) / 10 - 1 END AS bucket, COUNT_BIG(*) AS n, SUM(CAST([id] AS decimal(38,0))) AS s FROM [dbo].[orders] GROUP BY CASE WHEN [id] >= 0 THEN [id] / 10 ELSE ([id] + 1) / 10 - 1 END ORDER BY bucket
GO
--params: @P1 varchar(20) = 'x'
SELECT CAST(@P1 COLLATE Latin1_General_BIN2 AS varchar(20)), CONVERT(varbinary(8), '0x0A0B', 1)
GO
SELECT k.[id], LAG(k.[id]) OVER (ORDER BY k.[id]) AS prev FROM (SELECT [id], NTILE(4) OVER (ORDER BY [id]) AS [__$tile] FROM [dbo].[orders]) k WHERE k.[__$tile] = 1
GO
--params: @P1 varchar(128) = 'dbo_orders'
SELECT CASE WHEN sys.fn_cdc_get_min_lsn(@P1) > 0x00000000000000000000 THEN HAS_PERMS_BY_NAME(@P1, 'OBJECT', 'SELECT') END
GO
 SET TRANSACTION ISOLATION LEVEL READ COMMITTED 
GO
-- ---------------------------------------------------------------- rivet, ingestr, sling, connectorx, dlt
SELECT CONVERT(varchar(36), family_guid), CONVERT(varchar(36), recovery_fork_guid) FROM sys.database_recovery_status WHERE database_id = DB_ID()
GO
--parse-only
DECLARE @from binary(10) = sys.fn_cdc_get_min_lsn('dbo_orders'), @min binary(10), @max binary(10) = 0x0000002C000000300001, @to binary(10); SELECT @min = start_lsn FROM cdc.change_tables WHERE capture_instance = 'dbo_orders'; IF @from < @min THROW 51000, 'retention gap', 1; SELECT @to = MAX(s) FROM (SELECT TOP (1000) __$start_lsn AS s FROM cdc.fn_cdc_get_all_changes_dbo_orders(@from, @max, N'all') ORDER BY __$start_lsn) q; IF @to IS NOT NULL SELECT * FROM cdc.fn_cdc_get_all_changes_dbo_orders(@from, @to, N'all update old') ORDER BY __$start_lsn, __$seqval, __$operation
GO
SELECT * FROM (SELECT * FROM dbo.orders) AS _rivet_q WHERE 1 = 0
GO
SELECT CAST(is_cdc_enabled AS bit) FROM sys.databases WHERE name = DB_NAME()
GO
SELECT CONVERT(varchar(20), sys.fn_cdc_get_max_lsn(), 2)
GO
SELECT CASE WHEN EXISTS (SELECT 1 FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id WHERE s.name = N'dbo' AND t.name = N'orders') THEN 1 ELSE 0 END
GO
SELECT CAST(t.object_id AS nvarchar(20)) + N':' + CONVERT(nvarchar(33), t.create_date, 126) FROM sys.tables t
GO
--params: @p1 nvarchar(10) = 'dbo', @p2 nvarchar(10) = 'orders'
SELECT TOP (1) ct.capture_instance, OBJECT_SCHEMA_NAME(ct.object_id) + N'.' + OBJECT_NAME(ct.object_id) FROM cdc.change_tables ct JOIN sys.tables t ON t.object_id = ct.source_object_id JOIN sys.schemas s ON s.schema_id = t.schema_id WHERE s.name = @p1 AND t.name = @p2 AND ct.end_lsn IS NULL ORDER BY ct.start_lsn DESC
GO
SELECT c.name, ty.name FROM sys.columns c JOIN sys.types ty ON ty.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID('cdc.dbo_orders_CT') AND c.name NOT LIKE '__$%' ORDER BY c.column_id
GO
--parse-only
--params: @p1 varchar(20)
DECLARE @from_lsn binary(10) = sys.fn_cdc_increment_lsn(CONVERT(binary(10), @p1, 2)); DECLARE @to_lsn binary(10) = sys.fn_cdc_get_max_lsn(); SELECT [id], [name], CONCAT(CONVERT(varchar(20), __$start_lsn, 2), ':', CONVERT(varchar(20), __$seqval, 2), ':', RIGHT('00' + CONVERT(varchar(2), __$operation), 2)) AS _pos, __$operation AS _op FROM [cdc].[fn_cdc_get_all_changes_dbo_orders](@from_lsn, @to_lsn, N'all update old') WHERE __$operation IN (1, 2, 3, 4) ORDER BY __$start_lsn, __$seqval, __$operation
GO
select @@version v
GO
select * from "dbo"."orders"
GO
SELECT min(CXTMPTAB_RANGE.id), max(CXTMPTAB_RANGE.id) FROM (SELECT id, name FROM dbo.orders) AS CXTMPTAB_RANGE
GO
SELECT schema_name()
GO
SELECT CAST('test max support' AS NVARCHAR(max))
GO
--parse-only
SELECT 1 FROM fn_listextendedproperty(default, default, default, default, default, default, default)
GO
-- ---------------------------------------------------------------- people at a query tool, administrators
SELECT @@SERVERNAME, DB_NAME(), @@SPID
GO
PRINT 'hello'; PRINT CONCAT('a', NULL, 1)
GO
CREATE SCHEMA sales AUTHORIZATION dbo
GO
CREATE DATABASE other COLLATE Latin1_General_100_CI_AS
GO
ALTER DATABASE lab SET ALLOW_SNAPSHOT_ISOLATION ON; ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE
GO
CREATE LOGIN reader WITH PASSWORD = 'x', CHECK_POLICY = OFF; CREATE USER reader FOR LOGIN reader; CREATE ROLE cdc_reader; ALTER ROLE cdc_reader ADD MEMBER reader
GO
GRANT SELECT ON dbo.orders TO cdc_reader; GRANT SELECT ON SCHEMA::cdc TO reader; GRANT VIEW SERVER STATE TO reader; DENY SELECT (name) ON dbo.orders TO reader; REVOKE SELECT ON OBJECT::dbo.orders FROM public; GRANT EXECUTE ON OBJECT::dbo.orders TO reader WITH GRANT OPTION
GO
CREATE TABLE sales.line (id int IDENTITY(1,1) NOT NULL CONSTRAINT PK_line PRIMARY KEY CLUSTERED, order_id int NOT NULL REFERENCES dbo.orders(id) ON DELETE CASCADE, qty int NOT NULL CONSTRAINT DF_qty DEFAULT (1) CHECK (qty > 0), price decimal(18,2) NULL, total AS (qty * price) PERSISTED, note nvarchar(max) COLLATE Latin1_General_100_BIN2 NULL, rv rowversion, at datetime2(3) NOT NULL DEFAULT SYSUTCDATETIME(), gid uniqueidentifier ROWGUIDCOL DEFAULT NEWID(), CONSTRAINT UQ_line UNIQUE NONCLUSTERED (order_id, id DESC)) ON [PRIMARY] WITH (DATA_COMPRESSION = PAGE)
GO
ALTER TABLE sales.line ADD extra varchar(10) NULL, more int NOT NULL CONSTRAINT DF_more DEFAULT 0 WITH VALUES
GO
ALTER TABLE sales.line DROP COLUMN extra
GO
ALTER TABLE sales.line ALTER COLUMN price decimal(20,4) NOT NULL
GO
ALTER TABLE sales.line ADD CONSTRAINT CK_line CHECK (price >= 0); ALTER TABLE sales.line WITH NOCHECK ADD CONSTRAINT FK_line FOREIGN KEY (order_id) REFERENCES dbo.orders (id); ALTER TABLE sales.line DROP CONSTRAINT CK_line; ALTER TABLE sales.line NOCHECK CONSTRAINT ALL; ALTER TABLE sales.line ADD DEFAULT 5 FOR qty
GO
CREATE UNIQUE NONCLUSTERED INDEX ix_line ON sales.line (order_id ASC, price DESC) INCLUDE (note) WHERE price IS NOT NULL WITH (ONLINE = ON)
GO
DROP INDEX ix_line ON sales.line; DROP TABLE IF EXISTS sales.line, sales.nothing; DROP PROCEDURE IF EXISTS dbo.nothing; DROP USER reader; DROP LOGIN reader; DROP ROLE cdc_reader
GO
INSERT INTO dbo.orders (id, name) VALUES (10, N'x'), (11, DEFAULT); UPDATE TOP (1) dbo.orders SET name = N'y' WHERE id >= 10; DELETE FROM dbo.orders WHERE id IN (10, 11)
GO
UPDATE o SET o.name = x.n FROM dbo.orders AS o INNER JOIN (VALUES (1, N'one'), (2, N'two')) AS x(i, n) ON x.i = o.id WHERE o.id < 100; DELETE o FROM dbo.orders o LEFT JOIN dbo.orders p ON p.id = o.id + 1000 WHERE p.id IS NOT NULL
GO
MERGE INTO dbo.orders WITH (HOLDLOCK) AS t USING (SELECT 3 AS id, N'c' AS name) AS s ON t.id = s.id WHEN MATCHED AND t.name <> s.name THEN UPDATE SET t.name = s.name WHEN NOT MATCHED BY TARGET THEN INSERT (id, name) VALUES (s.id, s.name) OUTPUT $action, inserted.id;
GO
BEGIN TRY BEGIN TRANSACTION; UPDATE dbo.orders SET name = name; COMMIT TRANSACTION; END TRY BEGIN CATCH IF XACT_STATE() <> 0 ROLLBACK TRANSACTION; THROW; END CATCH
GO
DECLARE @i int = 0, @s nvarchar(max) = N''; WHILE @i < 3 BEGIN SET @i += 1; IF @i = 2 CONTINUE; SET @s = @s + CAST(@i AS nvarchar(10)) + N','; END; SELECT @s
GO
DECLARE @sql nvarchar(max) = N'SELECT @n AS n', @rc int; EXEC @rc = sp_executesql @sql, N'@n int', @n = 5; EXEC(N'SELECT 1' + N' '); SELECT @rc
GO
WAITFOR DELAY '00:00:00.010'
GO
RAISERROR(N'%s has %d rows', 10, 1, N't', 5) WITH NOWAIT
GO
SET NOCOUNT ON; SET XACT_ABORT ON; SET ANSI_NULLS, QUOTED_IDENTIFIER ON; SET TEXTSIZE 2147483647; SET DATEFIRST 7; SET LANGUAGE us_english; SET STATISTICS IO, TIME OFF; SET ROWCOUNT 0; SET DEADLOCK_PRIORITY LOW; SET CONTEXT_INFO 0x01; SET IDENTITY_INSERT dbo.orders OFF; SET XACT_ABORT OFF; SET NOCOUNT OFF
GO
KILL 52; CHECKPOINT
GO
SELECT DISTINCT TOP (5) PERCENT a.name AS "quoted", b.id 'string alias', three = 3 FROM dbo.orders a FULL OUTER JOIN dbo.orders b ON a.id = b.id RIGHT JOIN dbo.orders c ON c.id = a.id CROSS JOIN (VALUES (1)) v(x), dbo.orders e WHERE NOT (a.id BETWEEN 5 AND 6) AND a.id >= ALL (SELECT 1) AND a.id = ANY (SELECT id FROM dbo.orders) OPTION (MAXDOP 1, RECOMPILE)
GO
SELECT id FROM dbo.orders WHERE id = 1 INTERSECT SELECT 1 EXCEPT (SELECT 2 UNION SELECT 3)
GO
SELECT name, COUNT(*) OVER (PARTITION BY name), SUM(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), FIRST_VALUE(id) OVER (ORDER BY id), RANK() OVER (ORDER BY name), STRING_AGG(name, ',') FROM dbo.orders GROUP BY name, id
GO
SELECT TRY_CAST('x' AS int), TRY_CONVERT(date, '2024-02-30'), TRY_PARSE('x' AS int), TRIM('x' FROM 'xax'), CHOOSE(2, 'a', 'b'), PARSENAME('a.b.c', 2), DATEADD(ms, -3, GETDATE()), EOMONTH('2024-02-01'), DATEFROMPARTS(2024, 2, 29), SWITCHOFFSET(SYSDATETIMEOFFSET(), '+05:30'), HASHBYTES('SHA2_256', 'x'), $5.50, 1e-3, .5, 0x, -2147483648
GO
/* a comment /* nested */ still */ SELECT [odd]]name] = 1, "also ""odd""" = 2 -- end
