package mssqlcdc

import (
	"fmt"
	"time"
)

// Chunk says that a record batch holds rows of a snapshot, not changes. A
// snapshot is named by its S, the LSN at which the stream of changes began when
// it was opened; it is read in chunks of the key's order beside that stream. The
// rows of a chunk carry the LSN that was recorded before they were read, so that a
// change after it outranks them and one before it does not.
type Chunk struct {
	Snapshot  LSN       `json:"snapshot"`
	Number    int64     `json:"chunk"` // 0, 1, 2 … in the order of the key
	Prev      int64     `json:"prev"`  // number of the last chunk before it that had rows, -1 for none
	Stamp     LSN       `json:"stamp"` // commit LSN of the rows: S or later
	StampTime time.Time `json:"stamp_time"`
	Final     bool      `json:"final"` // the snapshot is complete with this chunk
}

// Validate checks what a sink relies on.
func (c Chunk) Validate() error {
	switch {
	case c.Snapshot.IsZero():
		return fmt.Errorf("chunk %d of a snapshot without an LSN", c.Number)
	case c.Stamp.Less(c.Snapshot):
		return fmt.Errorf("chunk %d of snapshot %s was read at %s, before the snapshot began", c.Number, c.Snapshot, c.Stamp)
	case c.Number < 0 || c.Prev >= c.Number:
		return fmt.Errorf("chunk %d of snapshot %s follows chunk %d", c.Number, c.Snapshot, c.Prev)
	}
	return nil
}

// String is for messages.
func (c Chunk) String() string { return fmt.Sprintf("chunk %d of snapshot %s", c.Number, c.Snapshot) }
