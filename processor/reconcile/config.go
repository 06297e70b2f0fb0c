package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// Kind is what a Delta table holds of its source.
type Kind int

// The kinds.
const (
	Bronze  Kind = iota + 1 // every change, and the rows of snapshots
	Current                 // one row per key, as it is now
)

// ParseKind is the inverse of String.
func ParseKind(text string) (Kind, error) {
	for _, k := range []Kind{Bronze, Current} {
		if k.String() == text {
			return k, nil
		}
	}
	return 0, fmt.Errorf("unknown kind of table %q: want bronze or silver", text)
}

// String names the kind.
func (k Kind) String() string {
	switch k {
	case Bronze:
		return "bronze"
	case Current:
		return "silver"
	}
	return fmt.Sprintf("kind(%d)", int(k))
}

// Target is the Delta table that is compared.
type Target struct {
	Table *delta.Table
	Kind  Kind
	Name  string // for the report and for messages

	// Position says up to which commit a version of the table holds every change; false if it does not know. It may err downwards:
	// keys changed after it count as in flight. It is called before the version that is read is pinned, so it may look elsewhere, such as
	// into a control table.
	Position func(ctx context.Context, s *delta.Snapshot) (mssqlcdc.LSN, bool, error)

	// Open, if not nil, tells whether a snapshot of the table is still to come, and what says so. The log of a bronze table is asked in
	// any case.
	Open func(ctx context.Context) (open bool, reason string, err error)

	// Columns of a table of kind Current. DeletedColumn, if not empty, marks rows as deleted where it is true, or not NULL if it is no
	// boolean. CurrentColumn, if not empty, is a boolean that is true in the rows that count, in a table that keeps older ones. LSNColumn holds the commit LSN of the row, as text; the default is _start_lsn, and a table without it is compared all the
	// same.
	DeletedColumn, CurrentColumn, LSNColumn string

	// Rename gives the names of columns that the table has under another one than the source, ignoring case.
	Rename map[string]string
}

// Config says what to compare and how.
type Config struct {
	Client   *sqlserver.Client
	Table    mssqlcdc.TableID // of the source
	Instance string           // capture instance to read columns and keys from; empty: the newest of the table
	Target   Target

	// Facts, if not nil, is the facts table, against which the chunks of a bronze table's newest snapshot are checked. AppID is whose rows
	// count there; empty: everybody's.
	Facts *delta.Table
	AppID string

	Keys    []string                // columns that identify a row; empty: those of the unique index that CDC uses
	Columns sqlserver.ColumnOptions // as the pipeline that filled the table has them

	// BucketRows is how many rows of the source are read and counted together; default 100,000.
	BucketRows int64
	// Sample is the share of buckets whose rows are compared whole; of the others only the keys are, unless one of them differs. 1 is
	// everything, 0 keys only.
	Sample float64
	// Seed of the choice of buckets; the result names it.
	Seed uint64
	// Budget is how many rows a second are asked of the source at most; 0 is no limit.
	Budget int64
	// Connections is how many buckets are read at once; default 2.
	Connections int
	Isolation   sqlserver.SnapshotIsolation

	// Memory is how many bytes of digests are kept before they are spilled to a file in Dir; default 128 MiB.
	Memory int64
	Dir    string

	// Wait bounds the wait for capture to pass the time of the read, where keys differ; default 6 min. Settle bounds the wait
	// for the table to pass changes that were in flight; 0 does not wait. Poll is the pause between two looks; default 1 s.
	Wait, Settle, Poll time.Duration

	// MaxKeys is how many differing keys the result lists; all are counted. Default 100.
	MaxKeys int

	// Say is told what is being done, one line each, without values. May be nil.
	Say func(text string)
	// Now is the clock; nil is time.Now.
	Now func() time.Time

	// tamper changes what is read of the target, in tests.
	tamper func(arrow.RecordBatch) arrow.RecordBatch
}

// The defaults of [Config].
const (
	DefaultBucketRows  = 100_000
	DefaultConnections = 2
	DefaultMemory      = 128 << 20
	DefaultWait        = 6 * time.Minute
	DefaultPoll        = time.Second
	DefaultMaxKeys     = 100

	// A budget is kept by pauses between buckets: a statement that is held up holds locks. So a bucket is at most the rows of a few seconds.
	budgetSeconds = 2
	leastBucket   = 500
)

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Client == nil || c.Target.Table == nil:
		return c, errors.New("neither the source nor the table may be missing")
	case c.Target.Kind != Bronze && c.Target.Kind != Current:
		return c, fmt.Errorf("%s: want bronze or silver", c.Target.Kind)
	case c.Target.Position == nil:
		return c, ErrNoPosition
	case c.Sample < 0 || c.Sample > 1:
		return c, fmt.Errorf("a sample of %g: want 0 to 1", c.Sample)
	case c.BucketRows < 0 || c.Budget < 0 || c.MaxKeys < 0 || c.Connections < 0:
		return c, errors.New("bucket rows, budget, connections and the number of keys must not be negative")
	}
	setDefault(&c.BucketRows, DefaultBucketRows)
	setDefault(&c.Connections, DefaultConnections)
	setDefault(&c.Memory, DefaultMemory)
	setDefault(&c.Wait, DefaultWait)
	setDefault(&c.Poll, DefaultPoll)
	setDefault(&c.MaxKeys, DefaultMaxKeys)
	setDefault(&c.Target.LSNColumn, mssqlcdc.ColStartLSN)
	if c.Budget > 0 {
		c.BucketRows = min(c.BucketRows, max(leastBucket, budgetSeconds*c.Budget))
	}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
