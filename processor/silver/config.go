package silver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// Mode is what the table holds.
type Mode string

// The modes.
const (
	// Current holds the latest image of each key: the source table as it is.
	Current Mode = "current"
	// History holds every image, each with the time it was valid (SCD type 2).
	History Mode = "history"
)

// Deletes says what becomes of the row of a deleted key, in mode current.
type Deletes string

// The ways.
const (
	Hard Deletes = "hard" // the row goes
	Soft Deletes = "soft" // it stays, with ColDeleted
)

// Columns of silver tables beside the captured ones and the names of the bronze table.
const (
	ColDeleted   = "_deleted"    // current, soft deletes: the key was deleted
	ColValidFrom = "_valid_from" // history: commit time of the change that made the image, UTC
	ColValidTo   = "_valid_to"   // history: commit time of the change that ended it, NULL while it is current
	ColIsCurrent = "_is_current" // history: nothing has ended it
	ColEndLSN    = "_end_lsn"    // history: commit LSN of the change that ended it
)

// Properties of silver tables.
const (
	PropMode     = "rpconnect.silver_mode"     // Mode, and for soft deletes "current, soft"
	PropBronzeID = "rpconnect.bronze_table_id" // metaData.id of the bronze table that it is built from
)

// Config is what an [Applier] is made with.
type Config struct {
	// Bronze is where the table of changes is, Target where the table to build is. The names
	// are those of messages, and TargetName also that of the control table's row.
	Bronze, Target         store.Store
	BronzeName, TargetName string
	// Keys are the key columns by their names in bronze; nil are those of the source's
	// unique index, which bronze knows.
	Keys []string
	// Mode is Current if empty, Deletes is Hard if empty.
	Mode    Mode
	Deletes Deletes
	// Strategy is that of merges; see merge.Options.
	Strategy merge.Strategy
	// Exclude are captured columns to leave out, Rename gives others another name; both by
	// their names in bronze, ignoring case.
	Exclude []string
	Rename  map[string]string
	// Comment and Properties are those of the table when it is made.
	Comment    string
	Properties map[string]string

	// Control is the table of verdicts, nil for none: Row is the name of this table's row,
	// BronzeRow that of bronze.
	Control        *control.Table
	Row, BronzeRow string
	// Facts is where the facts table is, nil for none. It is asked which snapshots are
	// complete where bronze does not say it, as in tables of mssql-cdc-pyspark.
	Facts store.Store

	// SliceRows is how many rows of bronze one slice has about, and so what is in memory at
	// a time; 0 is 150,000. SliceBytes bounds it by size; 0 is 32 MiB.
	SliceRows, SliceBytes int64
	// TempDir is where batches larger than a slice are spilled to; "" is the system's.
	TempDir string

	// Delta are the options of the opened tables, Upkeep keeps the target in shape, Writer
	// are the choices for its files.
	Delta  delta.Options
	Upkeep maintain.Auto
	Writer data.WriterOptions
	// Parallel is that of merges; see merge.Options.
	Parallel int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() (Config, error) {
	if c.Mode == "" {
		c.Mode = Current
	}
	if c.Deletes == "" {
		c.Deletes = Hard
	}
	if c.SliceRows <= 0 {
		c.SliceRows = 150_000
	}
	if c.SliceBytes <= 0 {
		c.SliceBytes = 32 << 20
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	switch {
	case c.Mode != Current && c.Mode != History:
		return c, fmt.Errorf("mode is %q, want %s or %s", c.Mode, Current, History)
	case c.Deletes != Hard && c.Deletes != Soft:
		return c, fmt.Errorf("deletes is %q, want %s or %s", c.Deletes, Hard, Soft)
	case c.Mode == History && c.Deletes == Soft:
		return c, errors.New("deletes: soft has no meaning with mode: history, which keeps deleted rows with the time they ended")
	case c.Strategy != "" && c.Strategy != merge.CopyOnWrite && c.Strategy != merge.DeletionVectors:
		return c, fmt.Errorf("merge_strategy is %q, want %s or %s", c.Strategy, merge.CopyOnWrite, merge.DeletionVectors)
	case c.Bronze == nil || c.Target == nil:
		return c, errors.New("bronze and target are needed")
	case c.Bronze == c.Target || c.BronzeName == c.TargetName:
		return c, fmt.Errorf("bronze and target are the same table, %s", c.TargetName)
	case c.Control != nil && (c.Row == "" || c.Row == c.BronzeRow):
		return c, fmt.Errorf("the row of the table in the control table is named %q, like that of bronze: give the field table another name", c.Row)
	}
	return c, nil
}

// kind is the value of PropMode.
func (c Config) kind() string {
	if c.Deletes == Soft {
		return string(c.Mode) + ", " + string(Soft)
	}
	return string(c.Mode)
}

// own are the columns that a table has beside the captured ones.
func (c Config) own() []schema.Field {
	field := func(name string, t schema.Type, comment string) schema.Field {
		return schema.Field{Name: name, Type: t, Nullable: true}.WithComment(comment)
	}
	start := field(mssqlcdc.ColStartLSN, schema.String, "Commit LSN of the change that made the image; of the read for rows of a snapshot")
	if c.Mode == History {
		return []schema.Field{
			field(mssqlcdc.ColStartLSN, schema.String, "Commit LSN of the change that made the image; that of the snapshot for images from one"),
			field(mssqlcdc.ColSeqVal, schema.String, "LSN of the change within its transaction; NULL for images from a snapshot"),
			field(mssqlcdc.ColOperation, schema.Integer, "What made the image: 0 a snapshot, 2 an insert, 4 an update"),
			field(ColValidFrom, schema.TimestampNTZ, "Commit time of _start_lsn in UTC; NULL: it is not known any more"),
			field(ColValidTo, schema.TimestampNTZ, "Commit time of _end_lsn in UTC, not included; NULL for the current image"),
			field(ColIsCurrent, schema.Boolean, "Whether the image is that of now"),
			field(ColEndLSN, schema.String, "Commit LSN of the change that ended the image; NULL for the current one"),
		}
	}
	fields := []schema.Field{start, field(mssqlcdc.ColCommitTime, schema.TimestampNTZ, "Commit time of _start_lsn in UTC")}
	if c.Deletes == Soft {
		fields = append(fields, field(ColDeleted, schema.Boolean, "Whether the key was deleted from the source; the other columns are those of the deleted row"))
	}
	return fields
}

// renamed is the name that a captured column has in the table, false if it is left out.
func (c Config) renamed(name string) (string, bool) {
	if slices.ContainsFunc(c.Exclude, func(e string) bool { return strings.EqualFold(e, name) }) {
		return "", false
	}
	for from, to := range c.Rename {
		if strings.EqualFold(from, name) {
			return to, true
		}
	}
	return name, true
}
