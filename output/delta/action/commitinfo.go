package action

import "encoding/json"

// CommitInfo is the provenance of a commit. Delta leaves its content open; the
// kinds of the known fields are fixed by what other engines parse: a value of
// the wrong kind breaks their history of the whole table.
type CommitInfo struct {
	// Timestamp is when the commit was made, in milliseconds since the epoch.
	Timestamp int64 `json:"timestamp"`
	// InCommitTimestamp is set in tables with the feature inCommitTimestamp.
	InCommitTimestamp *int64 `json:"inCommitTimestamp,omitempty"`
	// Operation is what was done, for example "WRITE" or "STREAMING UPDATE".
	Operation string `json:"operation"`
	// OperationParameters are JSON values as text: a list is the string
	// `["a"]`. On reading, values of other kinds are turned into their JSON text.
	OperationParameters map[string]string `json:"operationParameters,omitempty"`
	// ReadVersion is the version the commit was computed from; nil for none.
	ReadVersion    *int64 `json:"readVersion,omitempty"`
	IsolationLevel string `json:"isolationLevel,omitempty"`
	IsBlindAppend  *bool  `json:"isBlindAppend,omitempty"`
	// OperationMetrics are numbers as text.
	OperationMetrics map[string]string `json:"operationMetrics,omitempty"`
	// UserMetadata is any one string; JSON inside it is fine.
	UserMetadata string            `json:"userMetadata,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
	// EngineInfo names the writer and its version.
	EngineInfo string `json:"engineInfo,omitempty"`
	// TxnID identifies the attempt to commit: two commits with the same TxnID
	// are one. Ours is always a UUID; delta-rs writes none.
	TxnID string `json:"txnId,omitempty"`
}

// commitInfoJSON is CommitInfo as others may have written it: fields that some
// writers give another kind are kept raw.
type commitInfoJSON struct {
	Timestamp           json.RawMessage            `json:"timestamp"`
	InCommitTimestamp   *int64                     `json:"inCommitTimestamp"`
	Operation           looseString                `json:"operation"`
	OperationParameters map[string]json.RawMessage `json:"operationParameters"`
	ReadVersion         json.RawMessage            `json:"readVersion"`
	IsolationLevel      looseString                `json:"isolationLevel"`
	IsBlindAppend       json.RawMessage            `json:"isBlindAppend"`
	OperationMetrics    map[string]json.RawMessage `json:"operationMetrics"`
	UserMetadata        looseString                `json:"userMetadata"`
	Tags                map[string]json.RawMessage `json:"tags"`
	EngineInfo          looseString                `json:"engineInfo"`
	TxnID               looseString                `json:"txnId"`
}

// UnmarshalJSON accepts what any writer may have put into the open-ended
// fields: provenance of a kind we do not expect must never make a table
// unreadable. inCommitTimestamp, which the protocol defines, is strict.
func (c *CommitInfo) UnmarshalJSON(data []byte) error {
	var in commitInfoJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*c = CommitInfo{
		Timestamp:           looseInt(in.Timestamp),
		InCommitTimestamp:   in.InCommitTimestamp,
		Operation:           string(in.Operation),
		OperationParameters: looseMap(in.OperationParameters),
		IsolationLevel:      string(in.IsolationLevel),
		OperationMetrics:    looseMap(in.OperationMetrics),
		UserMetadata:        string(in.UserMetadata),
		Tags:                looseMap(in.Tags),
		EngineInfo:          string(in.EngineInfo),
		TxnID:               string(in.TxnID),
	}
	var n int64
	if json.Unmarshal(in.ReadVersion, &n) == nil && string(in.ReadVersion) != "null" {
		c.ReadVersion = &n
	}
	var b bool
	if json.Unmarshal(in.IsBlindAppend, &b) == nil && string(in.IsBlindAppend) != "null" {
		c.IsBlindAppend = &b
	}
	return nil
}

// looseString is a string, or the JSON text of whatever stands there instead.
type looseString string

func (s *looseString) UnmarshalJSON(data []byte) error {
	*s = looseString(looseText(data))
	return nil
}

// looseText returns the string in raw, or raw itself if it is no string, or ""
// for null.
func looseText(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func looseMap(in map[string]json.RawMessage) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, raw := range in {
		out[k] = looseText(raw)
	}
	return out
}

// looseInt returns the number in raw, or 0 if it is none.
func looseInt(raw json.RawMessage) int64 {
	var n int64
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	return n
}
