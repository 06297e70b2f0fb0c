package engine

import (
	"context"
	"slices"
)

// CleanupResult is what a clean-up did.
type CleanupResult struct {
	LowWaterMark LSN   // zero when nothing was to be moved
	Rows         int64 // change rows deleted
	Mapping      int   // mapping entries deleted
}

// Cleanup is one run of the clean-up job: the low watermark is the smallest LSN whose tran_end_time is not older than the newest
// tran_end_time less the retention; start_lsn of all instances below it moves first, in one step; then change rows and mapping
// entries below go in chunks of the job's threshold [D]. 22910 when CDC is off.
func (db *Database) Cleanup(ctx context.Context) (CleanupResult, error) {
	job := db.CleanupJob()
	return db.cleanup(ctx, "", job.Threshold, func(v *View) (LSN, error) {
		m := v.mapping
		if m.n == 0 {
			return LSN{}, nil
		}
		newest := m.at(0).endTime
		for i := range m.n {
			newest = max(newest, m.at(i).endTime)
		}
		keep := newest - job.Retention.Milliseconds()*3/10
		for i := range m.n {
			if m.at(i).endTime >= keep {
				return m.at(i).start.lsn(), nil
			}
		}
		return LSN{}, nil
	})
}

// CleanupChangeTable is sys.sp_cdc_cleanup_change_table. A mark must be a start_lsn of the mapping (22964) between the
// instance's present one and max LSN (22957), and is lowered to the smallest LSN with the same time [D, M22]; nil deletes below the
// present start_lsn. threshold 0 means 5,000; a negative one is 22850. 22910 when CDC is off, 22920 for an unknown instance.
// Mapping entries below the lowest start_lsn of all instances go too [D].
func (db *Database) CleanupChangeTable(ctx context.Context, instance string, mark *LSN, threshold int64) (CleanupResult, error) {
	if threshold == 0 {
		threshold = DefaultCleanupJob().Threshold
	}
	if threshold < 0 {
		return CleanupResult{}, fail(ErrThreshold)
	}
	if !db.CDC().enabled {
		return CleanupResult{}, fail(ErrCleanupNotEnabled, db.name)
	}
	i, ok := db.CDC().Instance(instance)
	if !ok {
		return CleanupResult{}, fail(ErrInstanceUnknown, instance, db.name)
	}
	return db.cleanup(ctx, i.Name, threshold, func(v *View) (LSN, error) {
		i, ok := v.Instance(i.Name)
		if !ok {
			return LSN{}, fail(ErrInstanceUnknown, instance, db.name)
		}
		if mark == nil {
			return i.StartLSN, nil
		}
		at := v.mapping.Search(*mark)
		if at == v.mapping.n || v.mapping.at(at).start != mark.key() {
			return LSN{}, fail(ErrNotMappingEntry, *mark)
		}
		if top, _ := v.MaxLSN(); mark.Less(i.StartLSN) {
			return LSN{}, fail(ErrOutsideTimeline, *mark, i.Name, i.StartLSN, top)
		}
		same := v.mapping.at(at).endTime
		for n := range at {
			if v.mapping.at(n).endTime == same {
				at = n
				break
			}
		}
		return v.mapping.at(at).start.lsn(), nil
	})
}

// cleanup moves the watermark of one instance, or of all with only "", and deletes what is below.
func (db *Database) cleanup(ctx context.Context, only string, threshold int64, choose func(*View) (LSN, error)) (CleanupResult, error) {
	var res CleanupResult
	moved, err := db.moveWatermark(only, choose, &res)
	if err != nil {
		return res, err
	}
	hooks := db.hooks.Load()
	if hooks.Watermark != nil {
		hooks.Watermark(moved)
	}
	for _, i := range db.CDC().instances {
		if only != "" && i.Name != only {
			continue
		}
		if err := db.deleteChanges(ctx, i.Name, threshold, hooks, &res); err != nil {
			return res, err
		}
	}
	return res, db.deleteMapping(ctx, threshold, hooks, &res)
}

// moveWatermark raises start_lsn, in one step for all instances concerned, and names those that moved.
func (db *Database) moveWatermark(only string, choose func(*View) (LSN, error), res *CleanupResult) ([]string, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	view := db.CDC()
	if !view.enabled {
		return nil, fail(ErrCleanupNotEnabled, db.name)
	}
	low, err := choose(view)
	if err != nil {
		return nil, err
	}
	res.LowWaterMark = low
	var moved []string
	for _, i := range view.instances {
		if (only == "" || i.Name == only) && i.StartLSN.Less(low) {
			moved = append(moved, i.Name)
		}
	}
	if len(moved) > 0 {
		db.publish(func(v *View) {
			for _, name := range moved {
				v.replace(name, func(i *Instance) { i.StartLSN = low })
			}
		})
	}
	return moved, nil
}

// deleteChanges deletes an instance's rows below its start_lsn, a chunk at a time, oldest first.
func (db *Database) deleteChanges(ctx context.Context, name string, threshold int64, hooks *Hooks, res *CleanupResult) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		deleted := int64(0)
		db.mu.Lock()
		if i, ok := db.CDC().Instance(name); ok {
			target := i.changes.searchLSN(i.StartLSN)
			deleted = min(threshold, target-i.changes.base)
			if deleted > 0 {
				to := i.changes.base + deleted
				db.publish(func(v *View) { v.replace(i.Name, func(i *Instance) { i.changes = i.changes.trim(to) }) })
			}
		}
		db.mu.Unlock()
		if deleted <= 0 {
			return nil
		}
		res.Rows += deleted
		if hooks.CleanupChunk != nil {
			hooks.CleanupChunk(name+"_CT", deleted)
		}
	}
}

// deleteMapping deletes the mapping's entries below the lowest start_lsn.
func (db *Database) deleteMapping(ctx context.Context, threshold int64, hooks *Hooks, res *CleanupResult) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		db.mu.Lock()
		view := db.CDC()
		deleted := 0
		if len(view.instances) > 0 {
			lowest := slices.MinFunc(view.instances, func(a, b *Instance) int { return a.StartLSN.Compare(b.StartLSN) })
			// The newest entry stays in any case: it is max_lsn.
			deleted = int(min(threshold, int64(view.mapping.Search(lowest.StartLSN)), int64(view.mapping.n-1)))
		}
		if deleted > 0 {
			db.publish(func(v *View) { v.mapping = v.mapping.trim(deleted) })
		}
		db.mu.Unlock()
		if deleted <= 0 {
			return nil
		}
		res.Mapping += deleted
		if hooks.CleanupChunk != nil {
			hooks.CleanupChunk("lsn_time_mapping", int64(deleted))
		}
	}
}
