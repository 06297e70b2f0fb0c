package bronze

import (
	"context"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// AdoptMode says what to do with a table that has rows and no position of ours.
type AdoptMode int

// The modes.
const (
	AdoptRefuse AdoptMode = iota // a ForeignRowsError
	AdoptAt                      // the table holds everything up to Adoption.LSN
	AdoptFound                   // Adoption.Find knows up to where
)

// Adoption is the wish to take over a table that somebody else filled.
type Adoption struct {
	Mode AdoptMode
	LSN  mssqlcdc.LSN
	// Find gives the position for AdoptFound; zero if it does not know it.
	Find func(ctx context.Context) (mssqlcdc.LSN, error)
}

// Config is what a [Table] is opened with.
type Config struct {
	// AppID names the writer, for the life of the table.
	AppID string
	// Table is the Delta table. Of its PartitionBy, ByCommitDate stands for the
	// column ColCommitDate.
	Table target.Spec
	// Adopt is the wish to take over a table with rows of another writer.
	Adopt Adoption
	// QueuedParts is how many parts wait for the encoder beside the one that it
	// has; 0 is 2.
	QueuedParts int
	// StaleAfter is the age from which staged files are looked for before they
	// are committed, since somebody's vacuum may have taken them; 0 is an hour.
	StaleAfter time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// OnOrphans is told about staged files that could not be deleted. They do no
	// harm and go with the next vacuum. May be nil.
	OnOrphans func(error)
}

func (c Config) withDefaults() Config {
	if c.QueuedParts <= 0 {
		c.QueuedParts = 2
	}
	if c.StaleAfter <= 0 {
		c.StaleAfter = time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnOrphans == nil {
		c.OnOrphans = func(error) {}
	}
	partitionBy := make([]string, len(c.Table.PartitionBy))
	for i, name := range c.Table.PartitionBy {
		if name == ByCommitDate {
			name = ColCommitDate
		}
		partitionBy[i] = name
	}
	c.Table.PartitionBy = partitionBy
	return c
}

// Result is what [Table.Write] did with a part.
type Result struct {
	// Mark is what to mark the batch with.
	Mark mssqlcdc.Mark
	// Window is the facts row of the window, nil on a part before the last.
	Window *mssqlcdc.Fact
	// Events are the facts rows of the window's events, on the last part.
	Events []mssqlcdc.Fact
	// Idle says that the window had no rows and nothing was committed.
	Idle bool
	// Version is the table's version that the window became, -1 if it was not
	// committed.
	Version int64
	// What was committed, and the rows that were left out because the table had
	// them.
	Rows, Files, Bytes, Trimmed int64
	// Columns were added to the table with the commit.
	Columns []string
	// Types are the columns whose types changed with the commit.
	Types []target.TypeChange
	// Took is the time of the commit itself, without encoding.
	Took time.Duration
}
