package input

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// table is one source table of the stream. Its fields belong to the stream's
// goroutine; the tracker is shared with acknowledgements.
type table struct {
	id      mssqlcdc.TableID
	layout  sqlserver.Layout
	tracker *tracker

	sent     mssqlcdc.LSN // end of the last window that was read whole
	sentData mssqlcdc.LSN // end of the last of those with rows
	checked  bool         // the resume position was compared with the mapping

	moved    bool      // has rows after sent, as far as is known
	reading  bool      // a window is being read
	retryAt  time.Time // no read before, after an error
	backoff  backoff
	failed   atomic.Int64   // errors in a row that trying again may cure
	narrow   int            // reads of windows that failed, less those that did not
	headroom *time.Duration // how far clean-up is behind what was read; nil if not known
	idleAt   time.Time      // when an idle window last went out
	looked   mssqlcdc.LSN   // no rows were found up to here
	isolated bool
	snapshot *snapshot // nil: none is open

	pinned bool                      // the capture instance is configured
	next   *mssqlcdc.CaptureInstance // a newer one, which the stream goes on in
	left   []sqlserver.Layout        // those that the stream went on from
	events []mssqlcdc.Fact           // for the next window
	loss   error                     // found when the table was opened, not gone on from yet

	saving sync.Mutex // held while the resume position is stored
}

func newTable(layout sqlserver.Layout, state checkpoint.State) *table {
	return &table{
		id: layout.Instance.Table, layout: layout, tracker: newTracker(state),
		sent: state.LSN, sentData: state.DataLSN,
		backoff: backoff{first: retryFirst, most: retryMost},
	}
}

const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 30 * time.Second
)

// rewind goes back to what was acknowledged.
func (t *table) rewind() {
	state := t.tracker.rewind()
	t.sent, t.sentData = state.LSN, state.DataLSN
	t.moved, t.reading = false, false
	t.rewindInstance(state.Instance)
	t.retryAt, t.idleAt, t.looked = time.Time{}, time.Time{}, mssqlcdc.LSN{}
	if t.snapshot != nil {
		t.snapshot.rewind(state.Snapshot)
	}
}

// recovered says that a read of the table went well.
func (t *table) recovered() {
	t.backoff.reset()
	t.failed.Store(0)
}

func (t *table) cursor() sqlserver.Cursor {
	return sqlserver.Cursor{Instance: t.layout.Instance, After: t.sent}
}

// ready tells whether a window of the table may start now.
func (t *table) ready(now time.Time) bool {
	return !t.waits(now) && !t.reading
}

// waits tells whether nothing of the table may start now.
func (t *table) waits(now time.Time) bool { return t.isolated || now.Before(t.retryAt) }

// keyed marks the configured key columns where the instance has no index.
func keyed(layout sqlserver.Layout, keys []string) (sqlserver.Layout, error) {
	if len(keys) == 0 {
		return layout, nil
	}
	columns := slices.Clone(layout.Columns)
	for _, key := range keys {
		i := slices.IndexFunc(columns, func(c mssqlcdc.Column) bool { return c.Name == key })
		if i < 0 {
			i = slices.IndexFunc(columns, func(c mssqlcdc.Column) bool { return strings.EqualFold(c.Name, key) })
		}
		if i < 0 {
			return sqlserver.Layout{}, &sqlserver.SchemaError{
				Instance: layout.Instance.Name, Column: key,
				Reason: "is named in " + overrideKeys + " but not captured", Cure: "name captured columns",
			}
		}
		columns[i].Key = true
	}
	layout.Columns = columns
	return layout, nil
}
