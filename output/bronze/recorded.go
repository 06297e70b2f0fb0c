package bronze

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// Recorded is what the table knows of one of its commits.
type Recorded struct {
	BatchID int64
	Window  mssqlcdc.Fact
	Events  []mssqlcdc.Fact
}

// Recorded yields what the log recorded of the commits with batch ids above after,
// in their order. Commits that a clean-up has taken from the log are counted again
// from the rows if fromRows is true; their measurements and events are lost.
func (t *Table) Recorded(ctx context.Context, after int64, fromRows bool) iter.Seq2[Recorded, error] {
	return func(yield func(Recorded, error) bool) {
		if t.target.Table() == nil || after >= t.batchID {
			return
		}
		from, err := t.versionOf(ctx, after)
		if err != nil {
			yield(Recorded{}, err)
			return
		}
		next := after + 1
		for c, err := range t.target.Table().Commits(ctx, from) {
			if err != nil {
				yield(Recorded{}, err)
				return
			}
			id, ok := t.batchOf(c)
			if !ok || id < next {
				continue
			}
			if id > next && fromRows && !t.yieldCounted(ctx, next, id-1, yield) {
				return
			}
			next = id + 1
			r, ours := t.recorded(c, id)
			if ours && !yield(r, nil) {
				return
			}
		}
		if next <= t.batchID && fromRows {
			t.yieldCounted(ctx, next, t.batchID, yield)
		}
	}
}

// batchOf is the batch id of a commit of our application.
func (t *Table) batchOf(c delta.Commit) (int64, bool) {
	for _, txn := range c.Txns {
		if txn.AppID == t.cfg.AppID {
			return txn.Version, true
		}
	}
	return 0, false
}

// versionOf is a version of the table at or before that of the first commit above
// the batch id. Other commits lie between ours, so the way back is searched in
// growing steps.
func (t *Table) versionOf(ctx context.Context, after int64) (int64, error) {
	newest := t.target.Snapshot().Version()
	for step := t.batchID - after; ; step *= 4 {
		from := newest - step + 1
		if from <= 0 {
			return 0, nil
		}
		for c, err := range t.target.Table().Commits(ctx, from) {
			if err != nil {
				return 0, err
			}
			id, ok := t.batchOf(c)
			if ok && id <= after+1 {
				return from, nil
			}
			if ok {
				break
			}
		}
	}
}

// recorded reads the userMetadata of a commit. What mssql-cdc-pyspark wrote under
// the same application id is not ours to record.
func (t *Table) recorded(c delta.Commit, id int64) (Recorded, bool) {
	var facts commitFacts
	if json.Unmarshal([]byte(c.Info.UserMetadata), &facts) != nil || facts.Version < 1 {
		return Recorded{}, false
	}
	facts.BatchID = &id
	if facts.Event == mssqlcdc.EventWindow {
		return Recorded{BatchID: id, Window: facts.Fact, Events: facts.Events}, true
	}
	return Recorded{BatchID: id, Events: append([]mssqlcdc.Fact{facts.Fact}, facts.Events...)}, true
}

// yieldCounted yields the windows of batch ids first to last as their rows tell
// them.
func (t *Table) yieldCounted(ctx context.Context, first, last int64, yield func(Recorded, error) bool) (more bool) {
	counts := map[int64]*counted{}
	options := delta.ReadOptions{Columns: []string{
		mssqlcdc.ColBatchID, mssqlcdc.ColStartLSN, mssqlcdc.ColOperation, mssqlcdc.ColCommitTime, mssqlcdc.ColCaptureInstance,
	}}
	for record, err := range t.target.Table().Read(ctx, t.target.Snapshot(), options) {
		if err == nil {
			err = countRows(record, first, last, counts)
		}
		if err != nil {
			yield(Recorded{}, fmt.Errorf("counting the rows of batches %d to %d of table %s: %w", first, last, t.target.Name(), err))
			return false
		}
	}
	for _, id := range slices.Sorted(maps.Keys(counts)) {
		fact := counts[id].fact
		fact.Version, fact.AppID, fact.BatchID, fact.Target = mssqlcdc.FactVersion, t.cfg.AppID, &id, t.target.Name()
		fact.EndLSN, fact.EndCommitTime = fact.MaxLSN, fact.MaxCommitTime
		if !yield(Recorded{BatchID: id, Window: fact}, nil) {
			return false
		}
	}
	return true
}

// counted is what the rows of one batch add up to.
type counted struct {
	fact mssqlcdc.Fact
	last string // commit LSN of the last row
}

func countRows(record arrow.RecordBatch, first, last int64, counts map[int64]*counted) error {
	ids, ok0 := record.Column(0).(*array.Int32)
	lsns, ok1 := record.Column(1).(*array.String)
	operations, ok2 := record.Column(2).(*array.Int32)
	times, ok3 := record.Column(3).(*array.Timestamp)
	instances, ok4 := record.Column(4).(*array.String)
	if !ok0 || !ok1 || !ok2 || !ok3 || !ok4 {
		return fmt.Errorf("the metadata columns are of other types than ours: %s", record.Schema())
	}
	for i := range int(record.NumRows()) {
		if ids.IsNull(i) || int64(ids.Value(i)) < first || int64(ids.Value(i)) > last || lsns.IsNull(i) {
			continue
		}
		c := counts[int64(ids.Value(i))]
		if c == nil {
			c = &counted{}
			counts[int64(ids.Value(i))] = c
		}
		if err := c.add(lsns.Value(i), operations.Value(i)); err != nil {
			return err
		}
		if instances.IsValid(i) && c.fact.CaptureInstance != instances.Value(i) {
			c.fact.CaptureInstance = string([]byte(instances.Value(i)))
		}
		if times.IsValid(i) {
			c.addTime(times.Value(i).ToTime(arrow.Microsecond))
		}
	}
	return nil
}

func (c *counted) add(lsn string, operation int32) error {
	f := &c.fact
	f.Rows++
	switch mssqlcdc.Operation(operation) {
	case mssqlcdc.Delete:
		f.Deletes++
	case mssqlcdc.Insert:
		f.Inserts++
	case mssqlcdc.UpdateAfter:
		f.Updates++
	}
	if lsn == c.last {
		return nil
	}
	parsed, err := mssqlcdc.ParseLSN(lsn)
	if err != nil {
		return err
	}
	c.last = string([]byte(lsn))
	f.Commits++
	if f.MinLSN.IsZero() || parsed.Less(f.MinLSN) {
		f.MinLSN = parsed
	}
	if f.MaxLSN.Less(parsed) {
		f.MaxLSN = parsed
	}
	return nil
}

func (c *counted) addTime(at time.Time) {
	f := &c.fact
	if f.MinCommitTime == nil || at.Before(*f.MinCommitTime) {
		f.MinCommitTime = &at
	}
	if f.MaxCommitTime == nil || at.After(*f.MaxCommitTime) {
		f.MaxCommitTime = &at
	}
}
