package maintain

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

const (
	// safeRetention is the least retention that is not asked about, for tables that
	// do not say one themselves.
	safeRetention = 7 * 24 * time.Hour

	defaultDeletes = 8   // requests at a time
	deleteBatch    = 200 // files in a request

	opVacuumStart = "VACUUM START"
	opVacuumEnd   = "VACUUM END"

	// vacuumApp is the application id under which a table remembers when it was last
	// vacuumed, in milliseconds since the epoch.
	vacuumApp = "delta-go#vacuum"

	// endTime bounds the record of a vacuum that was stopped.
	endTime = 5 * time.Second
)

// VacuumOptions are the choices of [Vacuum]. The zero value is a good one.
type VacuumOptions struct {
	// Retention is how long a file is kept after the last version that needs it.
	// nil is the table's property delta.deletedFileRetentionDuration, or 7 days
	// without it. A shorter one is refused: readers of old versions, and writers
	// whose files are not committed yet, lose their files.
	Retention *time.Duration
	// Force allows any Retention.
	Force bool
	// DryRun deletes nothing.
	DryRun bool
	// NoHistory leaves out the commits VACUUM START and VACUUM END, with which a
	// table's history tells of it.
	NoHistory bool
	// Concurrency is how many requests to delete run at a time; 0 is 8. Each is for
	// up to 200 files.
	Concurrency int
	// Found is called with each file before any is deleted. May be nil.
	Found func(store.Info)
}

// VacuumResult is what [Vacuum] did, or what it would do.
type VacuumResult struct {
	Retention time.Duration `json:"-"`
	// Files and Bytes are to be deleted, Deleted of them were.
	Files   int64 `json:"files"`
	Bytes   int64 `json:"bytes"`
	Deleted int64 `json:"deleted"`
	// Directories counts those that were looked into.
	Directories int64 `json:"directories"`
	// Nested are folders that hold a table of their own and were left alone.
	Nested []string      `json:"nested,omitempty"`
	Took   time.Duration `json:"-"`
}

// RetentionError reports a retention that is shorter than the table promises.
type RetentionError struct {
	Want, Least time.Duration
}

// Error says what to do.
func (e *RetentionError) Error() string {
	return fmt.Sprintf("a retention of %v is shorter than the %v that readers and running writers of the table rely on: "+
		"files that they need would be deleted. Force it if there are none", e.Want, e.Least)
}

// Vacuum deletes the files below the table's root that no version within the
// retention needs and that are older than that themselves: removed data files,
// files that were never committed, deletion vectors, change data. Files and folders
// whose names begin with "_" or "." are hidden and stay, as the protocol says, but
// for partition directories and _change_data; so do folders with a table of their
// own. Whatever else lies in the table's folder is deleted.
//
// Versions older than the retention cannot be read afterwards. Memory grows with
// the number of files, by about 30 bytes each, and with what is to be deleted.
func Vacuum(ctx context.Context, t *delta.Table, o VacuumOptions) (VacuumResult, error) {
	begun := time.Now()
	v := &vacuum{t: t, o: o}
	err := v.run(ctx)
	v.result.Took = time.Since(begun)
	if err != nil {
		return v.result, fmt.Errorf("vacuuming table %s: %w", t.Store().URL(), err)
	}
	return v.result, nil
}

// vacuum is one call of Vacuum.
type vacuum struct {
	t      *delta.Table
	o      VacuumOptions
	ages   ages
	result VacuumResult
}

func (v *vacuum) run(ctx context.Context) error {
	s, err := v.t.Refresh(ctx)
	if err != nil {
		return err
	}
	if err := v.t.CheckWritable(); err != nil {
		return err // also in a dry run: what an unknown feature needs is unknown
	}
	if v.ages, err = agesOf(s, v.o, v.t.Now()); err != nil {
		return err
	}
	v.result.Retention = v.ages.retention
	found, err := v.find(ctx, s)
	if err != nil {
		return err
	}
	for _, f := range found {
		v.result.Files++
		v.result.Bytes += f.Size
		if v.o.Found != nil {
			v.o.Found(f)
		}
	}
	if v.o.DryRun {
		return nil
	}
	if err := v.recordStart(ctx); err != nil {
		return err
	}
	err = v.delete(ctx, found)
	return errors.Join(err, v.recordEnd(ctx, err))
}

// ages are the retention and what follows from it.
type ages struct {
	retention, table time.Duration
	specified        bool
	// cutoff is the time before which files and tombstones are too old to matter.
	cutoff time.Time
}

func agesOf(s *delta.Snapshot, o VacuumOptions, now time.Time) (ages, error) {
	properties := s.Metadata().Configuration
	own, err := delta.FileRetention(properties)
	if err != nil {
		return ages{}, err
	}
	a := ages{retention: own, table: own}
	if o.Retention != nil {
		a.retention, a.specified = *o.Retention, true
	}
	if a.retention < 0 {
		return ages{}, fmt.Errorf("a retention of %v is negative", a.retention)
	}
	least := safeRetention
	if _, ok := properties[delta.PropDeletedFileRetention]; ok {
		least = own
	}
	if a.retention < least && !o.Force {
		return ages{}, &RetentionError{Want: a.retention, Least: least}
	}
	a.cutoff = now.Add(-a.retention)
	return a, nil
}

// find returns the files to delete.
func (v *vacuum) find(ctx context.Context, s *delta.Snapshot) ([]store.Info, error) {
	needed := newProtection(v.t)
	if err := v.protect(ctx, s, needed); err != nil {
		return nil, err
	}
	l := newListing(s.PartitionColumns(), v.ages.cutoff, needed)
	if err := l.read(ctx, v.t.Store()); err != nil {
		return nil, err
	}
	v.result.Directories, v.result.Nested = l.directories(), l.nested()
	found := l.found()
	// A commit that was made meanwhile may name a file that was written long ago.
	now, err := v.t.Refresh(ctx)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	late := newProtection(v.t)
	for e, err := range replay.Commits(ctx, v.t.Store(), s.Version()+1, now.Version()) {
		if err == nil {
			err = late.commit(e.Commit)
		}
		if err != nil {
			return nil, err
		}
	}
	kept := found[:0]
	for _, f := range found {
		if !late.needs(f.Path) {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

// protect notes the files that a version within the retention needs: the live ones
// and those removed since the cutoff.
func (v *vacuum) protect(ctx context.Context, s *delta.Snapshot, needed *protection) error {
	for f, err := range s.FileActions(ctx) {
		switch {
		case err != nil:
		case f.Add != nil:
			err = needed.file(f.Add.Path, f.Add.DeletionVector)
		case f.Remove.DeletionTimestamp >= v.ages.cutoff.UnixMilli():
			err = needed.file(f.Remove.Path, f.Remove.DeletionVector)
		}
		if err != nil {
			return err
		}
	}
	if v.ages.retention <= v.ages.table {
		return nil
	}
	// Checkpoints forget removed files after the table's own retention.
	return v.protectByCommits(ctx, s, needed)
}

// protectByCommits notes the files that the commits since the cutoff have removed.
func (v *vacuum) protectByCommits(ctx context.Context, s *delta.Snapshot, needed *protection) error {
	oldest, first := int64(-1), int64(-1)
	for f, err := range logFiles(ctx, v.t.Store()) {
		if err != nil {
			return err
		}
		if f.kind != commitFile {
			continue
		}
		if oldest < 0 {
			oldest = f.version
		}
		if !f.info.ModTime.Before(v.ages.cutoff) {
			first = f.version
			break
		}
	}
	if first < 0 {
		return nil // no commit is so young
	}
	if first == oldest && first > 0 {
		return fmt.Errorf("the table's log does not reach back %v, so what was removed in that time is not known: "+
			"without --retain removed files are kept for %v, which the table property %s can raise",
			v.ages.retention, v.ages.table, delta.PropDeletedFileRetention)
	}
	for e, err := range replay.Commits(ctx, v.t.Store(), first, s.Version()) {
		if err == nil {
			err = needed.commit(e.Commit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// delete deletes the files, several requests at a time.
func (v *vacuum) delete(ctx context.Context, files []store.Info) error {
	limit := v.o.Concurrency
	if limit <= 0 {
		limit = defaultDeletes
	}
	var deleted atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for from := 0; from < len(files) && ctx.Err() == nil; from += deleteBatch {
		batch := files[from:min(from+deleteBatch, len(files))]
		paths := make([]string, len(batch))
		for i, f := range batch {
			paths[i] = f.Path
		}
		group.Go(func() error {
			if err := v.t.Store().Delete(ctx, paths...); err != nil {
				return err
			}
			deleted.Add(int64(len(paths)))
			return nil
		})
	}
	err := group.Wait()
	v.result.Deleted = deleted.Load()
	if err == nil && v.result.Deleted < v.result.Files {
		err = context.Cause(ctx)
	}
	return err
}

func (v *vacuum) recordStart(ctx context.Context) error {
	if v.o.NoHistory {
		return nil
	}
	parameters := map[string]string{
		"retentionCheckEnabled":  strconv.FormatBool(!v.o.Force),
		"defaultRetentionMillis": strconv.FormatInt(v.ages.table.Milliseconds(), 10),
	}
	if v.ages.specified {
		parameters["specifiedRetentionMillis"] = strconv.FormatInt(v.ages.retention.Milliseconds(), 10)
	}
	_, err := v.t.Commit(ctx, delta.Change{
		Operation: opVacuumStart, OperationParameters: parameters, BlindAppend: true,
		Metrics: map[string]int64{"numFilesToDelete": v.result.Files, "sizeOfDataToDelete": v.result.Bytes},
	})
	return err
}

// recordEnd records how it ended, also where the context has ended.
func (v *vacuum) recordEnd(ctx context.Context, failed error) error {
	if v.o.NoHistory {
		return nil
	}
	c := delta.Change{Operation: opVacuumEnd, OperationParameters: map[string]string{"status": "COMPLETED"}, BlindAppend: true}
	if failed != nil {
		c.OperationParameters["status"] = "FAILED"
	} else {
		c.Metrics = map[string]int64{"numDeletedFiles": v.result.Deleted, "numVacuumedDirectories": v.result.Directories}
		c.Marks = []delta.Txn{{AppID: vacuumApp, Version: v.t.Now().UnixMilli()}}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	_, err := v.t.Commit(ctx, c)
	return err
}

// isHidden reports whether a path leads through a hidden file or folder ("Vacuum"
// in the Delta documentation). A partition directory is not hidden, whatever the
// column is called, and neither is the folder of change data.
func isHidden(path string, partitionColumns []string) bool {
	for rest, first := path, true; rest != ""; first = false {
		var name string
		var isDir bool
		name, rest, isDir = strings.Cut(rest, "/")
		if name == "" || name[0] != '_' && name[0] != '.' || isDir && first && name == changeDataDir {
			continue
		}
		column, _, ok := strings.Cut(name, "=")
		if !isDir || !ok || !isColumn(column, partitionColumns) {
			return true
		}
	}
	return false
}

const changeDataDir = "_change_data"

// isColumn reports whether a name of a directory, which is escaped as paths are,
// is that of a partition column.
func isColumn(name string, partitionColumns []string) bool {
	plain, err := action.DecodePath(name)
	for _, column := range partitionColumns {
		if name == column || err == nil && plain == column {
			return true
		}
	}
	return false
}
