package checkpoint

import (
	"encoding/json"
	"fmt"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// StateVersion is the version of State that this code writes and the highest it
// reads. Ledger: 1 is the first. Fields are only added; an older release that
// met a higher version would drop what it does not know, so it refuses.
const StateVersion = 1

// State is the resume position of one table.
type State struct {
	Version    int          `json:"version"`
	Generation int          `json:"generation"`
	LSN        mssqlcdc.LSN `json:"lsn"`       // everything up to it is acknowledged; moves on idle advances too
	CommitTime time.Time    `json:"commit_ts"` // commit time of LSN, UTC; zero if unknown
	DataLSN    mssqlcdc.LSN `json:"data_lsn"`  // end of the last acknowledged window that had rows; zero if none had

	Instance        string       `json:"capture_instance"`
	InstanceCreated time.Time    `json:"instance_created"` // create date by the server's clock, to tell a re-created instance
	InstanceStart   mssqlcdc.LSN `json:"instance_start"`

	CompleteFrom     mssqlcdc.LSN `json:"complete_from"`      // no commit at or below it is promised; zero: all that CDC recorded
	CompleteFromTime time.Time    `json:"complete_from_time"` // its commit time, UTC

	Snapshot    *Snapshot `json:"snapshot,omitempty"`     // nil: the table was not read whole
	SnapshotDue bool      `json:"snapshot_due,omitempty"` // a newer capture instance was gone on in, and the table is to be read whole with it
}

// Validate checks what the input relies on.
func (s State) Validate() error {
	switch {
	case s.Version < 1 || s.Version > StateVersion:
		return fmt.Errorf("resume position of version %d, this release knows up to %d: run the newer release, or start with another checkpoint_cache_key", s.Version, StateVersion)
	case s.LSN.IsZero():
		return fmt.Errorf("resume position without an LSN")
	case s.LSN.Less(s.DataLSN):
		return fmt.Errorf("resume position %s lies before its data position %s", s.LSN, s.DataLSN)
	case s.Instance == "":
		return fmt.Errorf("resume position without a capture instance")
	}
	if s.Snapshot != nil {
		return s.Snapshot.validate()
	}
	return nil
}

// Time is the commit time of LSN as far as it is known: that of the start before
// anything was acknowledged.
func (s State) Time() time.Time {
	if s.CommitTime.IsZero() {
		return s.CompleteFromTime
	}
	return s.CommitTime
}

func (s State) marshal() ([]byte, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding a resume position: %w", err)
	}
	return raw, nil
}
