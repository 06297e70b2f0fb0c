package sqlserversim

// cdcMessage gives the severity and text of a message of Change Data Capture, 22801 to 22999, as SQL Server 2025 lists them
// (Microsoft, "Database engine events and errors"). Older versions word a few of them otherwise. Placeholders are %v.
//
// The list is split in three to keep functions readable.
func cdcMessage(number int32) (class uint8, text string, ok bool) {
	switch {
	case number < 22900:
		return cdcMessage228(number)
	case number < 22950:
		return cdcMessage229(number)
	}
	return cdcMessage2295(number)
}

// cdcMessage228 holds 22801 to 22899.
func cdcMessage228(number int32) (class uint8, text string, ok bool) {
	switch number {
	case 22801:
		return 16, "Starting the Change Data Capture Collection Agent job. To report on the progress of the operation, query the sys.dm_cdc_log_scan_sessions dynamic management view.", true
	case 22802:
		return 16, "Starting the Change Data Capture Cleanup Agent job using low watermark %v.", true
	case 22803:
		return 16, "Change Data Capture has scanned the log from LSN{%v} to LSN{%v}, %v transactions with %v commands have been extracted. To report on the progress of the operation, query the sys.dm_cdc_log_scan_sessions dynamic management view.", true
	case 22804:
		return 16, "Change Data Capture cannot proceed with the job-related action because transactional replication is enabled on database %v but Distributor information cannot be retrieved to determine the state of the logreader agent. Make the Distributor database available, or disable distribution.", true
	case 22805:
		return 10, "For more information, query the sys.dm_cdc_errors dynamic management view.", true
	case 22830:
		return 16, "Could not update the metadata that indicates database %v is enabled for Change Data Capture. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22831:
		return 16, "Could not update the metadata that indicates database %v is not enabled for Change Data Capture. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22832:
		return 16, "Could not update the metadata that indicates table %v is enabled for Change Data Capture. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22833:
		return 16, "Could not update the metadata that indicates table %v is not enabled for Change Data Capture. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22834:
		return 16, "Could not modify the verbose logging status for table %v. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22835:
		return 16, "Could not update the metadata for database %v to indicate that a Change Data Capture job has been dropped. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22836:
		return 16, "Could not update the metadata for database %v to indicate that a Change Data Capture job has been added. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22837:
		return 16, "Could not delete table entries or drop objects associated with capture instance '%v'. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22838:
		return 16, "All columns of a CDC unique index must be defined as NOT NULL. Index '%v' selected as the CDC unique index for source table '%v.%v' does not meet this requirement. Define all columns of the selected index as NOT NULL or select another unique index as the CDC index and resubmit the request.", true
	case 22840:
		return 16, "The application lock request '%v' needed to modify Change Data Capture metadata was not granted. The value returned from the request was %v: -1 = timeout; -2 = canceled; -3 = deadlock victim; -999 validation or other call error. Examine the error cause and resubmit the request.", true
	case 22841:
		return 16, "Could not upgrade the metadata for database '%v' that is enabled for Change Data Capture. The failure occurred when executing the action '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22842:
		return 16, "ALTER TABLE SWITCH statement failed because the partitioned destination table is enabled for Change Data Capture and does not have @allow_partition_switch set to 1.", true
	case 22843:
		return 16, "ALTER TABLE SWITCH statement failed because the partitioned source table is enabled for Change Data Capture and does not have @allow_partition_switch set to 1.", true
	case 22844:
		return 16, "The '%v' option must be either 1 or 0.", true
	case 22845:
		return 16, "Cannot enable change data capture in this edition of SQL Server.", true
	case 22850:
		return 16, "The threshold value specified for the Change Data Capture cleanup process must be greater than 0. When creating or modifying the cleanup job, specify a positive threshold value. If this error is encountered when executing the sys.sp_cdc_cleanup_change_table stored procedure, reset the threshold value associated with the job to a non-negative value by using the sp_cdc_change_job stored procedure.", true
	case 22851:
		return 16, "Could not update cdc.change_tables to indicate a change in the low water mark for database %v.", true
	case 22852:
		return 10, "Could not delete change table entries made obsolete by a change in one or more low water marks for capture instances of database %v. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22853:
		return 10, "Could not delete obsolete entries in the cdc.lsn_time_mapping table for database %v. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22854:
		return 16, "Can not enable Change Data Capture on table '%v' or add ColumnSet column to it because CDC does not support ColumnSet.", true
	case 22855:
		return 10, "Warning: The @allow_partition_switch parameter is set to 1. Change data capture will not track changes introduced in the table resulting from a partition switch which will cause data inconsistency when changes are consumed. Refer to books online for more information about partition switching behavior when using Change Data Capture.", true
	case 22856:
		return 10, "Warning: The @allow_partition_switch parameter is set to 0. ALTER TABLE ... SWITCH PARTITION statement will be disallowed on this partitioned table. Refer to books online for more information about partition switching behavior when using Change Data Capture.", true
	case 22857:
		return 10, "Warning: The @allow_partition_switch parameter must be 1 for tables that are not partitioned. The explicit setting of the parameter to 0 was ignored. Refer to books online for more information about partition switching behavior when using Change Data Capture.", true
	case 22858:
		return 16, "Unable to add entries to the Change Data Capture LSN time mapping table to reflect dml changes applied to the tracked tables. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22859:
		return 16, "Log Scan process failed in processing log records. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22860:
		return 16, "Log scan process failed in processing a ddl log record. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22861:
		return 10, "Unable to upgrade database '%v'. Error '%v' was raised: '%v'. Use the reported error to determine the cause of the failure and then execute sys.sp_cdc_vupgrade in the database context to rerun upgrade.", true
	case 22862:
		return 16, "The database snapshot '%v' does not exist. Correct the parameter value and resubmit the request.", true
	case 22863:
		return 16, "Failed to insert rows into Change Data Capture change tables. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22864:
		return 16, "The call to sp_MScdc_capture_job by the Capture Job for database '%v' failed. Look at previous errors for the cause of the failure.", true
	case 22865:
		return 16, "The number of columns in the index '%v', used as the unique row identifier to support net changes for table '%v'.'%v', exceeds the limit of 14 columns. Set the parameter @supports_net_changes to 0 or use the @index_name parameter to identify a unique index with fewer than 15 columns as the unique row identifier and resubmit the request.", true
	case 22871:
		return 16, "Change Data Capture is not supported on Free, Basic or Standard tier Single Database (S0,S1,S2) and Database in Elastic pool with max eDTUs < 100 or max vCore < 1. Please upgrade to a higher Service Objective.", true
	case 22872:
		return 16, "The elastic pool cannot lower its service tier with database max eDTUs < 100 or max vCore < 1 since one or more of its database(s) use Change Data Capture (CDC).", true
	case 22873:
		return 16, "The database cannot lower its service tier to Standard(S0,S1,S2), Basic or Free, or move to elastic pool with database max eDTUs < 100 or max vCore < 1 since it has Change Data Capture (CDC) enabled.", true
	case 22874:
		return 16, "Cannot set @enable_extended_ddl_handling parameter to 1 as this feature is not enabled.", true
	case 22875:
		return 16, "Capture instance name '%v' exceeds the length limit of 78 characters when @enable_extended_ddl_handling is enabled. Specify a name that satisfies the length constraint.", true
	case 22876:
		return 16, "One capture instance already exist with DDL handling enabled for source table '%v.%v'. A table can have only one capture instance with DDL handling enabled. If the current tracking options are not appropriate, disable change tracking for the obsolete instance by using sys.sp_cdc_disable_table and retry the operation.", true
	case 22877:
		return 16, "All columns are not captured for source table '%v.%v' when using DDL handling feature. DDL handling feature is only supported when all columns are captured in CT table. If user wants to use DDL handling feature then enable CDC on a table without the parameter @captured_column_list or pass NULL for this parameter, this is will by default capture all columns.", true
	case 22887:
		return 16, "Could not enable Change Data Capture for database '%v'. Change Data Capture cannot be enabled on a DB with Change Feed enabled.", true
	case 22888:
		return 16, "Could not alter captured column of a CDC tracked table with character/binary/unicode as target data type with ansi warnings turned off.", true
	case 22890:
		return 16, "Could not remove cdc user from db_owner role or alter cdc user on cdc enabled db.", true
	case 22891:
		return 16, "Could not enable '%v' for database '%v'. '%v' cannot be enabled on a DB with delayed durability set.", true
	case 22892:
		return 16, "Could not enable delayed durability on DB. Delayed durability cannot be enabled on a DB while '%v' is enabled.", true
	case 22893:
		return 10, "Change data capture scan failed on processing transaction log", true
	case 22894:
		return 10, "sp_cdc_disable_db_internal caught an exception in try block when executing command : '%v'. The error returned was %v: '%v'", true
	case 22895:
		return 16, "Could not drop cdc user. CDC user is required for proper working of CDC.", true
	case 22896:
		return 10, "sp_cdc_disable_db caught an exception in try block when executing command : '%v'. The error returned was %v: '%v'", true
	case 22897:
		return 16, "Enabling Change Data Capture for an external table '%v' is not allowed.", true
	}
	return 0, "", false
}

// cdcMessage229 holds 22900 to 22949.
func cdcMessage229(number int32) (class uint8, text string, ok bool) {
	switch number {
	case 22901:
		return 16, "The database '%v' is not enabled for Change Data Capture. Ensure that the correct database context is set and retry the operation. To report on the databases enabled for Change Data Capture, query the is_cdc_enabled column in the sys.databases catalog view.", true
	case 22902:
		return 16, "Caller is not authorized to initiate the requested action. %v privileges are required.", true
	case 22903:
		return 16, "Another connection with session ID %v is already running 'sp_replcmds' for Change Data Capture in the current database.", true
	case 22904:
		return 16, "Caller is not authorized to initiate the requested action. DBO privileges are required.", true
	case 22905:
		return 10, "Database '%v' is already enabled for Change Data Capture. Ensure that the correct database context is set, and retry the operation. To report on the databases enabled for Change Data Capture, query the is_cdc_enabled column in the sys.databases catalog view.", true
	case 22906:
		return 16, "The database '%v' cannot be enabled for Change Data Capture because a database user named 'cdc' or a schema named 'cdc' already exists in the current database. These objects are required exclusively by Change Data Capture. Drop or rename the user or schema and retry the operation.", true
	case 22907:
		return 16, "Parameter @role_name cannot be empty. Specify a value for @role_name and retry the operation. Supply null as the value if no role is to be used to gate access to captured change data.", true
	case 22908:
		return 16, "Could not create the Change Data Capture objects in database '%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22909:
		return 16, "Failed to cleanup the cdc.lsn_time_mapping table in database '%v' when the last database table enabled for Change Data Capture was disabled. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22910:
		return 16, "The cleanup request for database '%v' failed. The database is not enabled for Change Data Capture.", true
	case 22911:
		return 16, "The capture job cannot be used by Change Data Capture to extract changes from the log when transactional replication is also enabled on the same database. When Change Data Capture and transactional replication are both enabled on a database, use the logreader agent to extract the log changes.", true
	case 22912:
		return 16, "sp_repldone failed", true
	case 22913:
		return 16, "Could not drop the Change Data Capture objects in database '%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22914:
		return 16, "Only members of the sysadmin or db_owner or db_ddladmin roles can perform this operation when Change Data Capture is enabled for a database.", true
	case 22915:
		return 16, "sp_replflush failed", true
	case 22916:
		return 16, "Could not grant SELECT permission for the change enumeration functions for capture instance '%v' and source table '%v.%v' for the specified role. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22917:
		return 16, "sp_replhelp failed", true
	case 22918:
		return 16, "One or more columns in the list of included columns was not a captured column of the change table %v.", true
	case 22919:
		return 16, "One or more columns in the list of columns needing update flags was not a captured column of the change table %v.", true
	case 22920:
		return 16, "The named capture instance %v does not exist for database %v.", true
	case 22921:
		return 16, "Unable to generate scripts for all capture instances that the caller is authorized to access. To generate all such scripts, the parameters @column_list and @update_flag_list must both be null or empty.'", true
	case 22923:
		return 16, "Could not compute the new low endpoint for database '%v' from retention %v. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22924:
		return 16, "Could not clean up change tables for database '%v'. A failure occurred when attempting to clean up the database change tables based upon the current retention time. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22925:
		return 16, "The number of columns captured by capture instance '%v' exceeds the maximum allowed number: %v. Use the @captured_columns_list parameter to specify a subset of the columns less than or equal to the maximum allowed and resubmit the request.", true
	case 22926:
		return 16, "Could not create a capture instance because the capture instance name '%v' already exists in the current database. Specify an explicit unique name for the parameter @capture_instance.", true
	case 22927:
		return 16, "Capture instance name '%v' exceeds the length limit of 100 characters. Specify a name that satisfies the length constraint.", true
	case 22928:
		return 16, "Index name '%v' is not an index for table '%v.%v'. Specify a valid index name for the table.", true
	case 22929:
		return 16, "Index '%v' must be either a primary key or a unique index for table '%v.%v'. Specify an index that meets at least one of these requirements.", true
	case 22930:
		return 16, "Could not locate '%v' as a column of source table '%v.%v'. Specify a valid column name.", true
	case 22931:
		return 16, "Source table '%v.%v' does not exist in the current database. Ensure that the correct database context is set. Specify a valid schema and table name for the database.", true
	case 22932:
		return 16, "Capture instance name '%v' is invalid. Specify a valid name. See the topic 'Identifiers' in SQL Server Books Online for object name rules.", true
	case 22933:
		return 16, "Could not drop change table objects for capture instance '%v'. The failure occurred when executing the command '%v'. The error returned was %v: '%v'. Use the action and error to determine the cause of the failure and resubmit the request.", true
	case 22938:
		return 16, "Role name '%v' is invalid. Specify a valid name. See the topic 'Identifiers' in SQL Server Books Online for object name rules.", true
	case 22939:
		return 16, "The parameter @supports_net_changes is set to 1, but the source table does not have a primary key defined and no alternate unique index has been specified.", true
	case 22940:
		return 16, "Could not remove DDL history entries in the Change Data Capture metadata for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22941:
		return 16, "Could not retrieve column information for index '%v' of source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22942:
		return 16, "Columns specified in the captured column list could not be mapped to columns in source table '%v.%v'. Verify that the columns specified in the parameter @captured_column_list are delimited properly and match columns in the source table.", true
	case 22943:
		return 16, "Columns used to uniquely identify a row for net change tracking must be included in the list of captured columns. Add either the primary key columns of the source table, or the columns defined for the index specified in the parameter @index_name to the list of captured columns and retry the operation.", true
	case 22944:
		return 16, "Could not create the specified database role '%v' for gating access to change table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22945:
		return 16, "Could not add column information to the cdc.index_columns system table for the specified index for source table '%v.%v. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22946:
		return 16, "Could not add column information to the cdc.captured_columns system table for source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22947:
		return 16, "Could not create the change table for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22948:
		return 16, "Could not create the change enumeration functions for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22949:
		return 16, "Could not update the Change Data Capture metadata for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	}
	return 0, "", false
}

// cdcMessage2295 holds 22950 to 22999.
func cdcMessage2295(number int32) (class uint8, text string, ok bool) {
	switch number {
	case 22950:
		return 16, "Could not remove index column entries in the Change Data Capture metadata for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22951:
		return 16, "Could not remove captured column entries in the Change Data Capture metadata for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22952:
		return 16, "Could not drop Change Data Capture objects created for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22953:
		return 16, "Could not remove Change Data Capture metadata for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22954:
		return 16, "Could not cleanup change tables for capture instance '%v' using low end point %v. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22955:
		return 16, "Could not obtain the maximum LSN for the database from function 'sys.fn_cdc_get_max_lsn'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22956:
		return 16, "Could not obtain the minimum LSN of the change table associated with capture instance '%v' from function 'sys.fn_cdc_get_min_lsn'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22957:
		return 16, "LSN %v, specified as the new low end point for the change table associated with capture instance '%v', is not within the Change Data Capture timeline [%v, %v].", true
	case 22958:
		return 16, "Could not create the function to query for all changes for capture instance '%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22959:
		return 16, "Could not create the function to query for net changes for capture instance '%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22960:
		return 16, "Change data capture instance '%v' has not been enabled for the source table '%v.%v'. Use sys.sp_cdc_help_change_data_capture to verify the capture instance name and retry the operation.", true
	case 22961:
		return 16, "Could not create a nonclustered index to support net change tracking for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22962:
		return 16, "Two capture instances already exist for source table '%v.%v'. A table can have at most two capture instances. If the current tracking options are not appropriate, disable change tracking for the obsolete instance by using sys.sp_cdc_disable_table and retry the operation.", true
	case 22963:
		return 16, "Parameter '%v' cannot be null or empty. Specify a value for the named parameter and retry the operation.", true
	case 22964:
		return 16, "LSN %v, specified as the new low end point for change table cleanup must represent the start_lsn value of a current entry in the cdc.lsn_time_mapping table. Choose an LSN value that satisfies this requirement.", true
	case 22965:
		return 16, "A quoted column in the column list is not properly terminated. Verify that columns are correctly delimited and retry the operation. For more information, see 'Delimited Identifiers' in Books Online.", true
	case 22966:
		return 16, "Could not create table dbo.systranschemas in database '%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22967:
		return 16, "Could not create a clustered index for table dbo.systranschemas in database '%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22968:
		return 16, "Could not create DDL trigger '%v' when enabling Change Data Capture for database '%v'. Additional messages in the SQL Server error log and operating system error log may provide more detail.", true
	case 22969:
		return 10, "Update mask evaluation will be disabled in net_changes_function because the CLR configuration option is disabled.", true
	case 22970:
		return 16, "The value for parameter @maxscans specified for the Change Data Capture job must be greater than 0.", true
	case 22971:
		return 16, "Could not allocate memory for the log reader history cache. Verify that SQL Server has sufficient memory for all operations. Check the physical and virtual settings on the server and examine memory usage to see if another application is excessively consuming memory.", true
	case 22972:
		return 16, "When calling stored procedure [sys].sp_cdc_help_change_data capture, if either @source_schema or @source_name is non-null and non-empty, the other parameter must also be non-null and non-empty.", true
	case 22973:
		return 16, "The specified filegroup '%v' is not a valid filegroup for database '%v'. Specify a valid existing filegroup or create the named filegroup, and retry the operation.", true
	case 22974:
		return 16, "Tables contained in the cdc schema cannot be enabled for Change Data Capture.", true
	case 22975:
		return 16, "Source table '%v' contains one of the following reserved column names: __$start_lsn, __$end_lsn, __$seqval, __$operation, and __$update_mask. To enable Change Data Capture for this table, specify a captured column list and ensure that these columns are excluded from the list.", true
	case 22976:
		return 16, "Could not alter column '%v' of change table '%v' in response to a data type change in the corresponding column of the source table '%v'. The Change Data Capture meta data for source table '%v' no longer accurately reflects the source table. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22977:
		return 16, "Unable to update DDL history information to reflect columns changes applied to the tracked table associated with change table '%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22978:
		return 16, "Could not update the cdc.captured_columns entry for column '%v' of change table '%v' to reflect a data type change in the corresponding column of the source table '%v'. Change Data Capture column meta data for table '%v' no longer accurately reflects the source table. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22979:
		return 16, "The unique index '%v' on table '%v' is used by Change Data Capture. The constraint using this index cannot be dropped or disabled.", true
	case 22980:
		return 16, "The unique index '%v' on table '%v.%v' is disabled and cannot be used as a unique index by Change Data Capture. Enable the index.", true
	case 22981:
		return 16, "Object does not exist or access is denied.", true
	case 22982:
		return 16, "Could not create internal stored procedures used to populate the change table for capture instance '%v' and source table '%v.%v'. Refer to previous errors in the current session to identify the cause and correct any associated problems.", true
	case 22983:
		return 16, "The unique index '%v' on source table '%v' is used by Change Data Capture. To alter or drop the index, you must first disable Change Data Capture on the table.", true
	case 22984:
		return 16, "An error occurred while waiting on the log reader history cache event. This error is reported by the internal task scheduling and might be transient. Retry the operation.", true
	case 22985:
		return 16, "Change data capture has not been enabled for source table '%v.%v'. Specify the name of a table enabled for Change Data Capture. To report on the tables enabled for Change Data Capture, query the is_tracked_by_cdc column in the sys.tables catalog view.", true
	case 22986:
		return 16, "Could not allocate memory for Change Data Capture population. Verify that SQL Server has sufficient memory for all operations. Check the physical and virtual memory settings on the server and examine memory usage to see if another application is consuming excessive memory.", true
	case 22987:
		return 16, "Change Data Capture population failed writing blob data for one or more large object columns. Verify that SQL Server has sufficient memory for all operations. Check the physical and virtual memory settings on the server and examine memory usage to see if another application is consuming excessive memory.", true
	case 22988:
		return 16, "This instance of SQL Server is the %v. Change data capture is only available in the Enterprise, Enterprise Developer, Enterprise Evaluation, Standard, and Standard Developer editions.", true
	case 22989:
		return 16, "Could not enable Change Data Capture for database '%v'. Change data capture is not supported on system databases, or on a distribution database.", true
	case 22990:
		return 16, "The value specified for the parameter @pollinginterval must be greater than or equal to 0 and less than 24 hours(Max: 86399 seconds). Specify a polling interval (in seconds) that is less than 24 hours (86,400 seconds).", true
	case 22991:
		return 16, "The value specified for the parameter @maxtrans must be greater than 0.", true
	case 22992:
		return 16, "The specified @job_type, %v, is not supported. The value specified for the parameter @job_type must be N'capture' to indicate a capture job, or N'cleanup' to indicate a cleanup job.", true
	case 22993:
		return 16, "The Change Data Capture job table containing job information for database '%v' cannot be found in the msdb system database. Run the stored procedure 'sys.sp_cdc_add_job' to create the appropriate CDC capture or cleanup job. The stored procedure will create the required job table.", true
	case 22994:
		return 16, "The retention value specified for the Change Data Capture cleanup process must be greater than 0 and less than or equal to 52594800. When creating or modifying the cleanup job, specify a retention value (in minutes) that is within that range. If this error is encountered when executing the sys.sp_cdc_cleanup_change_table stored procedure, reset the retention value associated with the job to a non-negative value less than 52594800 by using the sp_cdc_change_job stored procedure.", true
	case 22995:
		return 16, "A value for the parameter @retention cannot be specified when the job type is 'capture'. Specify NULL for the parameter, or omit the parameter from the statement.", true
	case 22996:
		return 16, "When adding or modifying the CDC cleanup job, @pollinginterval, @maxtrans, @maxscans, and @continuous may not be assigned non-null values.", true
	case 22997:
		return 16, "The Change Data Capture '%v' job does not exist in the system table 'msdb.dbo.cdc_jobs'. Use the stored procedure 'sys.sp_cdc_add_job' to add the Change Data Capture job.", true
	case 22998:
		return 16, "The value specified for the parameter @continuous must be 0 or 1.", true
	case 22999:
		return 16, "The value specified for the parameter @pollinginterval must be null or 0 when the stored procedure 'sys.sp_cdc_scan' is not being run in continuous mode.", true
	}
	return 0, "", false
}
