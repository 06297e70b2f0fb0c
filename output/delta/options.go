package delta

import (
	"time"

	"github.com/google/uuid"
)

// Options configures a Table. The zero value is ready to use.
type Options struct {
	// Now is the clock for timestamps in the log; default time.Now.
	Now func() time.Time

	// NewID makes the GUIDs of tables, attempts and files; default random UUIDs.
	// Two attempts must never have the same.
	NewID func() string

	// Engine is written as commitInfo.engineInfo: the program and its version.
	// Default "delta-go".
	Engine string

	// CommitTimeout bounds one Commit, lost races and repeated attempts
	// included; default 2 minutes.
	CommitTimeout time.Duration

	// CheckpointInterval is how many commits lie between two checkpoints in
	// tables without the property delta.checkpointInterval; default 100. A
	// negative value turns checkpoints after commits off for all tables.
	CheckpointInterval int

	// OnCheckpoint is told how each checkpoint after a commit, or at closing, went.
	// It is called from the goroutine that wrote it, one call at a time, and must
	// not call the Table's Close. A failed checkpoint never fails a commit, so this
	// is the only place where its error shows.
	OnCheckpoint func(CheckpointResult)

	// Upkeep makes what keeps the table in shape in the background, after commits
	// of this Table: compaction and log clean-up. It is called once, before the
	// Table is ready to use. nil is none.
	Upkeep func(*Table) Upkeep
}

// CheckpointResult is the outcome of one checkpoint.
type CheckpointResult struct {
	Version int64
	// Actions is how many the checkpoint holds.
	Actions int64
	Took    time.Duration
	Err     error
}

const (
	defaultEngine             = "delta-go"
	defaultCommitTimeout      = 2 * time.Minute
	defaultCheckpointInterval = 100
)

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Engine == "" {
		o.Engine = defaultEngine
	}
	if o.CommitTimeout <= 0 {
		o.CommitTimeout = defaultCommitTimeout
	}
	if o.CheckpointInterval == 0 {
		o.CheckpointInterval = defaultCheckpointInterval
	}
	return o
}
