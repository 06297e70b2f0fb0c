package sqlserversim

import (
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
)

// secondsOf is an interval in seconds; zero still lets other work in.
func secondsOf(n int64) time.Duration { return max(time.Duration(n)*time.Second, 100*time.Millisecond) }

const jobParameters = `@job_type nvarchar(20), @maxtrans int = NULL, @maxscans int = NULL, @continuous bit = NULL,
	@pollinginterval bigint = NULL, @retention bigint = NULL, @threshold bigint = NULL`

// cdcJobProcedures are the procedures over the capture and the clean-up job.
func cdcJobProcedures() []*procedure {
	return []*procedure{
		newProcedure("sp_cdc_help_jobs", "", spHelpJobs),
		newProcedure("sp_cdc_add_job", strings.Replace(jobParameters, "@maxtrans", "@start_job bit = 1, @maxtrans", 1), spAddJob),
		newProcedure("sp_cdc_change_job", strings.Replace(jobParameters, "nvarchar(20)", "nvarchar(20) = 'capture'", 1), spChangeJob),
		newProcedure("sp_cdc_drop_job", "@job_type nvarchar(20)", spDropJob),
		newProcedure("sp_cdc_start_job", "@job_type nvarchar(20) = 'capture'", spStartJob),
		newProcedure("sp_cdc_stop_job", "@job_type nvarchar(20) = 'capture'", spStopJob),
	}
}

// agentProcedures are those of msdb that act on the same jobs.
func agentProcedures() []*procedure {
	job := "@job_name sysname = NULL, @job_id uniqueidentifier = NULL"
	list := []*procedure{
		newProcedure("sp_start_job", job, func(c *procCall) error { return c.agentJob(true) }),
		newProcedure("sp_stop_job", job, func(c *procCall) error { return c.agentJob(false) }),
	}
	for _, p := range list {
		p.only = "msdb"
	}
	return list
}

// agentJob starts or stops the job cdc.<database>_capture or _cleanup.
func (c *procCall) agentJob(start bool) error {
	name := c.text("@job_name")
	for _, db := range c.session.srv.databases() {
		for _, kind := range []string{"capture", "cleanup"} {
			if !strings.EqualFold(name, "cdc."+db.name+"_"+kind) || !db.eng.JobsCreated() {
				continue
			}
			on := *c
			on.db = db
			if start {
				return on.startJob(kind)
			}
			return on.stopJob(kind)
		}
	}
	return &sqlerr.Error{Number: 14262, Class: 16, State: 1, Message: "The specified @job_name ('" + name + "') does not exist."}
}

// jobType reads @job_type: 22992 for anything but the two.
func (c *procCall) jobType() (string, error) {
	kind := strings.ToLower(c.text("@job_type"))
	if kind != "capture" && kind != "cleanup" {
		return "", c.fail(22992, c.text("@job_type"))
	}
	return kind, nil
}

// jobCall checks what all job procedures ask for: CDC, db_owner, a known type, and where must is set an existing job.
func (c *procCall) jobCall(must bool) (string, error) {
	if err := c.needCDC(); err != nil {
		return "", err
	}
	if err := c.needOwner(); err != nil {
		return "", err
	}
	kind, err := c.jobType()
	if err != nil {
		return "", err
	}
	if must && !c.db.eng.JobsCreated() {
		return "", c.fail(22997, kind)
	}
	return kind, nil
}

func spHelpJobs(c *procCall) error {
	if err := c.needCDC(); err != nil {
		return err
	}
	if err := c.needOwner(); err != nil {
		return err
	}
	return c.rowset(`job_id uniqueidentifier, job_type nvarchar(20), maxtrans int?, maxscans int?, continuous bit?,
		pollinginterval bigint?, retention bigint?, threshold bigint?`, func(v *viewCall) error {
		if !c.db.eng.JobsCreated() {
			return nil
		}
		capture, cleanup := c.db.eng.CaptureJob(), c.db.eng.CleanupJob()
		if err := v.add(fields{
			"job_id": jobID(c.db, "capture"), "job_type": "capture", "maxtrans": capture.MaxTrans, "maxscans": capture.MaxScans,
			"continuous": capture.Continuous, "pollinginterval": seconds(capture.PollingInterval), "retention": 0, "threshold": 0,
		}); err != nil {
			return err
		}
		return v.add(fields{
			"job_id": jobID(c.db, "cleanup"), "job_type": "cleanup", "maxtrans": 0, "maxscans": 0, "continuous": false,
			"pollinginterval": 0, "retention": int64(cleanup.Retention / time.Minute), "threshold": cleanup.Threshold,
		})
	})
}

func spAddJob(c *procCall) error {
	kind, err := c.jobCall(false)
	if err != nil {
		return err
	}
	c.db.eng.SetJobsCreated(true)
	if err := c.changeJob(kind); err != nil {
		return err
	}
	if kind == "capture" && c.integer("@start_job", 1) != 0 {
		return c.startJob(kind)
	}
	return nil
}

func spChangeJob(c *procCall) error {
	kind, err := c.jobCall(true)
	if err != nil {
		return err
	}
	return c.changeJob(kind)
}

// changeJob sets what was given; values of the other kind of job are refused.
func (c *procCall) changeJob(kind string) error {
	if kind == "capture" {
		return c.changeCapture()
	}
	for _, p := range []string{"@maxtrans", "@maxscans", "@continuous", "@pollinginterval"} {
		if !c.arg(p).IsNull() {
			return c.fail(22996)
		}
	}
	job := c.db.eng.CleanupJob()
	minutes := c.integer("@retention", int64(job.Retention/time.Minute))
	if minutes <= 0 || minutes > 52594800 {
		return c.fail(22994)
	}
	if job.Threshold = c.integer("@threshold", job.Threshold); job.Threshold <= 0 {
		return c.fail(22850)
	}
	job.Retention = time.Duration(minutes) * time.Minute
	c.db.eng.SetCleanupJob(job)
	return nil
}

func (c *procCall) changeCapture() error {
	if !c.arg("@retention").IsNull() {
		return c.fail(22995)
	}
	job := c.db.eng.CaptureJob()
	if job.MaxTrans = int(c.integer("@maxtrans", int64(job.MaxTrans))); job.MaxTrans <= 0 {
		return c.fail(22991)
	}
	if job.MaxScans = int(c.integer("@maxscans", int64(job.MaxScans))); job.MaxScans <= 0 {
		return c.fail(22970)
	}
	if v := c.arg("@continuous"); !v.IsNull() {
		job.Continuous = v.Bool()
	}
	if v := c.arg("@pollinginterval"); !v.IsNull() {
		if n := v.Int64(); n < 0 || n > 86399 {
			return c.fail(22990)
		}
		job.PollingInterval = time.Duration(v.Int64()) * time.Second
	}
	c.db.eng.SetCaptureJob(job)
	return nil
}

func spDropJob(c *procCall) error {
	kind, err := c.jobCall(true)
	if err != nil {
		return err
	}
	if kind == "capture" {
		c.db.eng.StopCapture()
	}
	c.db.eng.SetJobsCreated(false)
	return nil
}

func spStartJob(c *procCall) error {
	kind, err := c.jobCall(true)
	if err != nil {
		return err
	}
	return c.startJob(kind)
}

// startJob starts the capture job, or runs the clean-up job once.
func (c *procCall) startJob(kind string) error {
	if kind == "cleanup" {
		_, err := c.db.eng.Cleanup(c.ctx)
		return err
	}
	if c.session.srv.cfg.captureInterval == 0 {
		return &sqlerr.Error{Number: 22022, Class: 16, State: 1,
			Message: "SQLServerAgent is not currently running so it cannot be notified of this action."}
	}
	c.db.eng.StartCapture()
	return c.info(&sqlerr.Error{Number: 14243, Class: 0, State: 1, Message: "Job 'cdc." + c.db.name + "_capture' started successfully."})
}

func spStopJob(c *procCall) error {
	kind, err := c.jobCall(true)
	if err != nil {
		return err
	}
	return c.stopJob(kind)
}

func (c *procCall) stopJob(kind string) error {
	if kind == "capture" {
		c.db.eng.StopCapture()
	}
	return c.info(&sqlerr.Error{Number: 14254, Class: 0, State: 1, Message: "Job 'cdc." + c.db.name + "_" + kind + "' stopped successfully."})
}
