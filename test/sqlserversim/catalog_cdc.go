package sqlserversim

import (
	"cmp"
	"slices"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// cdcTables are the metadata tables of schema cdc. They exist in databases with CDC only.
func cdcTables() []*view {
	return []*view{
		newView("cdc", "change_tables", columnsChangeTables, rowsChangeTables),
		newView("cdc", "captured_columns", columnsCapturedColumns, rowsCapturedColumns),
		newView("cdc", "index_columns", columnsCDCIndexColumns, rowsIndexColumns),
		newView("cdc", "ddl_history", columnsDDLHistory, rowsDDLHistory),
		newView("cdc", "lsn_time_mapping", columnsTimeMapping, nothing), // mappingTable reads it
	}
}

// captureViews are the management views over capture, and the job table of msdb.
func captureViews() []*view {
	return []*view{
		newView("sys", "dm_cdc_log_scan_sessions", columnsScanSessions, rowsScanSessions).needing(needDatabaseState),
		newView("sys", "dm_cdc_errors", columnsCDCErrors, rowsCaptureErrors).needing(needDatabaseState),
		newView("dbo", "cdc_jobs", columnsCDCJobs, rowsJobs).inDatabase("msdb"),
	}
}

// optionalText is NULL for an empty text.
func optionalText(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func rowsChangeTables(c *viewCall) error {
	for _, i := range c.session.view(c.db).Instances() {
		if err := c.add(fields{
			"object_id": i.ObjectID, "version": i.Version, "source_object_id": i.SourceObjectID, "capture_instance": i.Name,
			"start_lsn": i.StartLSN[:], "supports_net_changes": i.SupportsNetChanges, "role_name": optionalText(i.RoleName),
			"index_name": optionalText(i.IndexName), "filegroup_name": optionalText(i.Filegroup), "create_date": i.CreateDate,
			"partition_switch": i.PartitionSwitch,
		}); err != nil {
			return err
		}
	}
	return nil
}

func rowsCapturedColumns(c *viewCall) error {
	for _, i := range c.session.view(c.db).Instances() {
		for _, col := range i.Columns {
			if err := c.add(fields{
				"object_id": col.ObjectID, "column_name": col.Name, "column_id": col.ColumnID, "column_type": col.SourceKind.String(),
				"column_ordinal": col.Ordinal, "is_computed": col.IsComputed,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func rowsIndexColumns(c *viewCall) error {
	for _, i := range c.session.view(c.db).Instances() {
		for _, col := range i.IndexColumns {
			if err := c.add(fields{
				"object_id": col.ObjectID, "column_name": col.Name, "index_ordinal": col.Ordinal, "column_id": col.ColumnID,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func rowsDDLHistory(c *viewCall) error {
	for _, d := range c.session.view(c.db).DDLHistory() {
		if err := c.add(fields{
			"source_object_id": d.SourceObjectID, "object_id": d.ObjectID, "required_column_update": d.RequiredColumnUpdate,
			"ddl_command": d.Command, "ddl_lsn": d.LSN[:], "ddl_time": d.Time,
		}); err != nil {
			return err
		}
	}
	return nil
}

// scanLSN is an LSN in the form of the management views. An empty scan has the zero one, which a server pads with a NUL [S,
// Debezium's reader].
func scanLSN(l engine.LSN) string {
	if l.IsZero() {
		return "00000000:00000000:0000\x00"
	}
	return l.Colons()
}

// rowsScanSessions lists the scans; session 0 sums them up [D "sys.dm_cdc_log_scan_sessions"].
func rowsScanSessions(c *viewCall) error {
	list := c.db.eng.ScanSessions()
	if len(list) == 0 {
		return nil
	}
	sum := engine.ScanSession{StartTime: list[0].StartTime, EndTime: list[len(list)-1].EndTime, Phase: "Aggregate"}
	for _, s := range list {
		sum.Duration += s.Duration
		sum.ErrorCount += s.ErrorCount
		sum.TranCount += s.TranCount
		sum.LogRecordCount += s.LogRecordCount
		sum.SchemaChangeCount += s.SchemaChangeCount
		sum.CommandCount += s.CommandCount
		sum.EmptyScanCount += s.EmptyScanCount
		sum.FailedSessions += s.FailedSessions
	}
	newest := list[len(list)-1]
	sum.StartLSN, sum.EndLSN, sum.CurrentLSN = list[0].StartLSN, newest.EndLSN, newest.CurrentLSN
	sum.LastCommitLSN, sum.LastCommitTime = newest.LastCommitLSN, newest.LastCommitTime
	sum.LastCommitCDCLSN, sum.LastCommitCDCTime, sum.Latency = newest.LastCommitCDCLSN, newest.LastCommitCDCTime, newest.Latency
	slices.SortFunc(list, func(a, b engine.ScanSession) int { return cmp.Compare(a.SessionID, b.SessionID) })
	for _, s := range append([]engine.ScanSession{sum}, list...) {
		if err := c.add(scanSessionRow(s)); err != nil {
			return err
		}
	}
	return nil
}

func scanSessionRow(s engine.ScanSession) fields {
	return fields{
		"session_id": s.SessionID, "start_time": s.StartTime, "end_time": s.EndTime, "duration": int64(s.Duration / time.Second),
		"scan_phase": s.Phase, "error_count": s.ErrorCount, "start_lsn": scanLSN(s.StartLSN), "current_lsn": scanLSN(s.CurrentLSN),
		"end_lsn": scanLSN(s.EndLSN), "tran_count": s.TranCount, "last_commit_lsn": scanLSN(s.LastCommitLSN),
		"last_commit_time": s.LastCommitTime, "log_record_count": s.LogRecordCount, "schema_change_count": s.SchemaChangeCount,
		"command_count": s.CommandCount, "first_begin_cdc_lsn": scanLSN(s.FirstBeginCDCLSN),
		"last_commit_cdc_lsn": scanLSN(s.LastCommitCDCLSN), "last_commit_cdc_time": s.LastCommitCDCTime,
		"latency": int64(s.Latency / time.Second), "empty_scan_count": s.EmptyScanCount, "failed_sessions_count": s.FailedSessions,
	}
}

func rowsCaptureErrors(c *viewCall) error {
	for _, e := range c.db.eng.CaptureErrors() {
		text := clientText(e.Err, e.Message)
		if err := c.add(fields{
			"session_id": e.SessionID, "phase_number": 7, "entry_time": e.EntryTime, "error_number": int64(e.Number), "error_severity": 16,
			"error_state": 1, "error_message": text, "start_lsn": scanLSN(e.StartLSN), "begin_lsn": scanLSN(e.BeginLSN),
			"sequence_value": scanLSN(e.SequenceValue),
		}); err != nil {
			return err
		}
	}
	return nil
}

// jobID names a database's job.
func jobID(db *database, kind string) any { return guidOf("job", db.name, kind) }

func rowsJobs(c *viewCall) error {
	for _, db := range c.session.srv.databases() {
		if !db.eng.JobsCreated() {
			continue
		}
		capture, cleanup := db.eng.CaptureJob(), db.eng.CleanupJob()
		if err := c.add(fields{
			"database_id": db.id, "job_type": "capture", "job_id": jobID(db, "capture"), "maxtrans": capture.MaxTrans,
			"maxscans": capture.MaxScans, "continuous": capture.Continuous, "pollinginterval": seconds(capture.PollingInterval),
			"retention": 0, "threshold": 0,
		}); err != nil {
			return err
		}
		if err := c.add(fields{
			"database_id": db.id, "job_type": "cleanup", "job_id": jobID(db, "cleanup"), "maxtrans": 0, "maxscans": 0,
			"continuous": false, "pollinginterval": 0, "retention": int64(cleanup.Retention / time.Minute), "threshold": cleanup.Threshold,
		}); err != nil {
			return err
		}
	}
	return nil
}

// seconds rounds an interval up, so that a test's millisecond does not read as none.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
