package reconcile

import (
	"math/big"
	"slices"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// Status is what a bucket, or the whole table, comes to.
type Status string

// The statuses.
const (
	Match    Status = "MATCH"     // nothing that was compared differs
	Mismatch Status = "MISMATCH"  // something is wrong
	Flying   Status = "IN_FLIGHT" // nothing is wrong, and some keys could not be told yet
)

// Bucket is a range of keys and what both sides have there.
type Bucket struct {
	From       sqlserver.Bound `json:"bucket_lo,omitempty"` // as the server writes the key; empty: from the first row
	To         sqlserver.Bound `json:"bucket_hi,omitempty"` // not included; empty: to the last
	Outside    bool            `json:"outside,omitempty"`   // no range: the keys that only the table has
	SourceRows int64           `json:"source_rows"`
	TargetRows int64           `json:"target_rows"`
	SourceSum  *big.Int        `json:"source_key_sum"` // of the first 64 bits of each key's digest
	TargetSum  *big.Int        `json:"target_key_sum"`
	InFlight   int64           `json:"in_flight,omitempty"`
	Wrong      int64           `json:"wrong,omitempty"`
	Hashed     bool            `json:"hashed"` // the rows were compared whole, not only their keys
	Status     Status          `json:"status"`
}

// Failure is a key that differs, or a chunk of a snapshot that is not as the facts say.
type Failure struct {
	Type      FailureType    `json:"failure_type"`
	Key       map[string]any `json:"key,omitempty"` // of columns; nil if it was not read again
	Bucket    *int64         `json:"bucket,omitempty"`
	TargetLSN mssqlcdc.LSN   `json:"target_start_lsn"` // commit that the table's row is of; zero if it has none
	Columns   []string       `json:"columns,omitempty"`
	Note      string         `json:"note,omitempty"`
	Chunk     *ChunkDetail   `json:"chunk,omitempty"`
}

// Result is what a comparison found. Key values are in Failure.Key and in the bounds of buckets, and nowhere else.
type Result struct {
	RunID      string    `json:"run_id"`
	RunAt      time.Time `json:"run_at"`
	TookMS     int64     `json:"took_ms"`
	Source     string    `json:"source"`
	Target     string    `json:"target"`
	Kind       string    `json:"kind"`
	Version    int64     `json:"target_version"`
	TargetLSN  string    `json:"target_lsn"` // the version holds every change up to it
	SourceLSN  string    `json:"source_lsn"` // changes up to it were looked at; empty if nothing differed
	Status     Status    `json:"status"`
	SourceRows int64     `json:"source_rows"`
	TargetRows int64     `json:"target_rows"`
	Hashed     int64     `json:"hashed_rows"` // rows of the source that were compared whole
	Seed       uint64    `json:"seed"`        // of the sample

	Counts      map[FailureType]int64 `json:"counts"`
	Settled     int64                 `json:"settled"` // keys that were in flight, and right once the table had passed them
	NotCompared []string              `json:"columns_not_compared,omitempty"`
	Notes       []string              `json:"notes,omitempty"`
	Buckets     []Bucket              `json:"buckets"`
	Failures    []Failure             `json:"failures,omitempty"`
	SpilledMB   float64               `json:"spilled_mb,omitempty"`
}

// Wrong is how many keys and chunks are wrong.
func (r *Result) Wrong() int64 {
	var n int64
	for kind, count := range r.Counts {
		if kind != InFlight {
			n += count
		}
	}
	return n
}

// WithoutKeys is the result without values of keys.
func (r *Result) WithoutKeys() *Result {
	hidden := *r
	hidden.Failures, hidden.Buckets = slices.Clone(r.Failures), slices.Clone(r.Buckets)
	for i := range hidden.Failures {
		hidden.Failures[i].Key = nil
	}
	for i := range hidden.Buckets {
		hidden.Buckets[i].From, hidden.Buckets[i].To = nil, nil
	}
	return &hidden
}

func (s keySum) big() *big.Int {
	high := new(big.Int).Lsh(new(big.Int).SetUint64(s.hi), 64)
	return high.Add(high, new(big.Int).SetUint64(s.lo))
}

func (t tally) bucket() Bucket {
	b := Bucket{
		SourceRows: t.sourceRows, TargetRows: t.targetRows, SourceSum: t.sourceSum.big(), TargetSum: t.targetSum.big(),
		InFlight: t.inFlight, Wrong: t.wrong,
	}
	b.Status = statusOf(t.wrong, t.inFlight)
	return b
}

func statusOf(wrong, inFlight int64) Status {
	switch {
	case wrong > 0:
		return Mismatch
	case inFlight > 0:
		return Flying
	}
	return Match
}
