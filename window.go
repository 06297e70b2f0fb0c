package mssqlcdc

import (
	"fmt"
	"time"
)

// Window is an interval of commit LSNs of one table, cut on a commit boundary:
// Start is excluded, End is included. End never exceeds the max_lsn that was
// seen before the read, so no row can appear in it later.
type Window struct {
	Start   LSN       `json:"start"`    // the resume position that the window continues
	End     LSN       `json:"end"`      // on a part before the last an upper bound, on the last part exact
	EndTime time.Time `json:"end_time"` // commit time of End in UTC; zero if the source no longer knows it
}

// From is the first LSN inside the window.
func (w Window) From() LSN { return w.Start.Next() }

// Contains tells whether a commit LSN lies in the window.
func (w Window) Contains(l LSN) bool { return w.Start.Less(l) && !w.End.Less(l) }

// IsEmpty tells whether no LSN lies in the window.
func (w Window) IsEmpty() bool { return !w.Start.Less(w.End) }

// Validate checks that the window is an interval.
func (w Window) Validate() error {
	if w.End.Less(w.Start) {
		return fmt.Errorf("window (%s, %s] ends before it starts", w.Start, w.End)
	}
	return nil
}

// String is for messages: the interval with its open and its closed end.
func (w Window) String() string { return fmt.Sprintf("(%s, %s]", w.Start, w.End) }

// WindowMetrics is what reading a window cost and what the source looked like.
// The input measures it, the last part carries it, the output writes it into the
// facts.
type WindowMetrics struct {
	StartedAt      time.Time `json:"started_at"`                // when the read began, by the reader's clock
	RTT            float64   `json:"rtt_ms"`                    // one trivial round trip, milliseconds
	ReadSeconds    float64   `json:"read_seconds"`              // summed over parallel ranges
	ReadBytes      int64     `json:"read_bytes"`                // Arrow bytes of the rows
	NetworkWait    *int64    `json:"network_wait_ms,omitempty"` // increase of ASYNC_NETWORK_IO; nil if the server does not tell
	MinLSN         LSN       `json:"min_lsn"`                   // the instance's low watermark after the read
	MinLSNTime     time.Time `json:"min_lsn_time"`              // its commit time in UTC; zero if unknown
	SourceMaxLSN   LSN       `json:"source_max_lsn"`            // max_lsn as last seen
	SourceMaxTime  time.Time `json:"source_max_time"`           // its commit time in UTC
	SourceSeenTime time.Time `json:"source_seen_time"`          // the reader's clock when it saw SourceMaxLSN
	Commits        int64     `json:"commits"`                   // commits with rows of this table
}
