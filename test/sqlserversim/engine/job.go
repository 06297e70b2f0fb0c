package engine

import (
	"context"
	"time"
)

// jobState holds the database's jobs; guarded by db.mu.
type jobState struct {
	created bool // by the first enabled table
	capture CaptureJob
	cleanup CleanupJob
	stop    context.CancelFunc // nil: not running
	done    chan struct{}
}

func (j *jobState) init(opts Options) {
	j.capture, j.cleanup = DefaultCaptureJob(), DefaultCleanupJob()
	set := opts.CaptureJob
	if set.MaxTrans > 0 {
		j.capture.MaxTrans = set.MaxTrans
	}
	if set.MaxScans > 0 {
		j.capture.MaxScans = set.MaxScans
	}
	if set.PollingInterval > 0 {
		j.capture.PollingInterval = set.PollingInterval
	}
	if opts.CleanupJob.Retention > 0 {
		j.cleanup.Retention = opts.CleanupJob.Retention
	}
	if opts.CleanupJob.Threshold > 0 {
		j.cleanup.Threshold = opts.CleanupJob.Threshold
	}
}

// JobsCreated tells whether the capture and the clean-up job exist: since the first table was enabled, until CDC is disabled
// or a restore loses them.
func (db *Database) JobsCreated() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.jobs.created
}

// SetJobsCreated is sys.sp_cdc_add_job and sys.sp_cdc_drop_job for both jobs. Dropping does not stop a running job.
func (db *Database) SetJobsCreated(created bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.jobs.created = created
}

// CaptureJob gives the settings of the capture job.
func (db *Database) CaptureJob() CaptureJob {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.jobs.capture
}

// SetCaptureJob is sys.sp_cdc_change_job for the capture job. A running job takes the settings with its next cycle (SQL Server
// wants a restart).
func (db *Database) SetCaptureJob(j CaptureJob) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.jobs.capture = j
}

// CleanupJob gives the settings of the clean-up job.
func (db *Database) CleanupJob() CleanupJob {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.jobs.cleanup
}

// SetCleanupJob is sys.sp_cdc_change_job for the clean-up job.
func (db *Database) SetCleanupJob(j CleanupJob) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.jobs.cleanup = j
}

// StartCapture starts the capture job: a cycle of Scan, then the polling interval, and again. A failed cycle is listed in
// CaptureErrors and tried again. It returns false when the job runs already or the database is closed.
func (db *Database) StartCapture() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.jobs.stop != nil || db.closed {
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	db.jobs.stop, db.jobs.done = cancel, done
	go func() {
		defer close(done)
		db.runCapture(ctx)
	}()
	return true
}

// StopCapture stops the capture job and waits for the scan that is going on, which is finished or given up as a whole. It
// returns false when the job was not running. A hook that runs inside the job must not call it.
func (db *Database) StopCapture() bool {
	db.mu.Lock()
	stop, done := db.jobs.stop, db.jobs.done
	db.jobs.stop = nil
	db.mu.Unlock()
	if stop != nil {
		stop()
	}
	if done != nil {
		<-done // also for who comes second
	}
	return stop != nil
}

// CaptureRunning tells whether the capture job runs.
func (db *Database) CaptureRunning() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.jobs.stop != nil
}

func (db *Database) runCapture(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		// An error is in CaptureErrors, or it is 22901 or 22903, or the job is being stopped: the job goes on in each case.
		_, _ = db.Scan(ctx, ScanLimits{})
		timer.Reset(db.CaptureJob().PollingInterval)
	}
}
