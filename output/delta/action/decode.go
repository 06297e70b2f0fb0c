package action

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
)

// DecodeCommit reads a commit file. Unknown actions and unknown fields are
// ignored, as the protocol demands, and so are empty lines. It is an error if a
// line is not a whole JSON object, holds more than one action, or lacks what
// identifies its action, and if the commit has two actions of which there may
// be one: protocols, metadata, versions of one appId, adds or removes of one
// file.
func DecodeCommit(data []byte) (Commit, error) {
	var c Commit
	var seen unique
	if err := decodeLines(data, &seen, c.take); err != nil {
		return Commit{}, err
	}
	return c, nil
}

func decodeLines(data []byte, seen *unique, take func(*line)) error {
	for n, raw := range lines(data) {
		var l line
		var err error
		if !fastFile(raw, &l) {
			l = line{}
			err = json.Unmarshal(raw, &l)
		}
		if err == nil {
			err = l.check()
		}
		if err == nil {
			err = seen.line(&l)
		}
		if err != nil {
			return fmt.Errorf("decoding line %d: %w", n, err)
		}
		take(&l)
	}
	return nil
}

// Checkpoint is the content of a v2 checkpoint in JSON.
type Checkpoint struct {
	Commit
	// Sidecars name the files with its file actions.
	Sidecars []Sidecar
}

// DecodeCheckpoint reads a v2 checkpoint in JSON, by the rules of DecodeCommit.
func DecodeCheckpoint(data []byte) (Checkpoint, error) {
	var c Checkpoint
	var seen unique
	err := decodeLines(data, &seen, func(l *line) {
		if l.Sidecar != nil {
			c.Sidecars = append(c.Sidecars, *l.Sidecar)
		}
		c.take(l)
	})
	return c, err
}

// take adds the action of a line to the commit.
func (c *Commit) take(l *line) {
	switch {
	case l.CommitInfo != nil && c.Info == nil:
		c.Info = l.CommitInfo
	case l.Protocol != nil:
		c.Protocol = l.Protocol
	case l.Metadata != nil:
		c.Metadata = l.Metadata
	case l.Txn != nil:
		c.Txns = append(c.Txns, *l.Txn)
	case l.Domain != nil:
		c.Domains = append(c.Domains, *l.Domain)
	case l.Remove != nil:
		c.Removes = append(c.Removes, *l.Remove)
	case l.Add != nil:
		c.Adds = append(c.Adds, *l.Add)
	case l.CDC != nil:
		c.CDCs = append(c.CDCs, *l.CDC)
	}
}

// check reports what a line lacks or has too much of.
func (l *line) check() error {
	n := 0
	for _, present := range []bool{
		l.CommitInfo != nil, l.Protocol != nil, l.Metadata != nil, l.Txn != nil,
		l.Domain != nil, l.Remove != nil, l.Add != nil, l.CDC != nil,
		l.Sidecar != nil, l.CheckpointMetadata != nil,
	} {
		if present {
			n++
		}
	}
	switch {
	case n > 1:
		return fmt.Errorf("%d actions in one line", n)
	case l.Protocol != nil:
		return l.Protocol.check()
	case l.Txn != nil && l.Txn.AppID == "":
		return fmt.Errorf("txn without appId")
	case l.Domain != nil && l.Domain.Domain == "":
		return fmt.Errorf("domainMetadata without domain")
	case l.Remove != nil && l.Remove.Path == "":
		return fmt.Errorf("remove without path")
	case l.Add != nil && l.Add.Path == "":
		return fmt.Errorf("add without path")
	case l.CDC != nil && l.CDC.Path == "":
		return fmt.Errorf("cdc without path")
	}
	return nil
}

func (p *Protocol) check() error {
	if p.MinReaderVersion < 1 || p.MinWriterVersion < 1 {
		return fmt.Errorf("protocol with reader version %d and writer version %d", p.MinReaderVersion, p.MinWriterVersion)
	}
	return nil
}

// Summary is what a commit does to everything but the list of files.
type Summary struct {
	// InCommitTimestamp is nil in commits without one.
	InCommitTimestamp *int64
	// TxnID identifies the attempt; "" if the writer leaves it out.
	TxnID    string
	Protocol *Protocol
	Metadata *Metadata
	Txns     []Txn
	Domains  []DomainMetadata
	// Adds and Removes count the file actions.
	Adds, Removes int
}

// Summary returns the commit's own summary.
func (c Commit) Summary() Summary {
	s := Summary{
		Protocol: c.Protocol,
		Metadata: c.Metadata,
		Txns:     c.Txns,
		Domains:  c.Domains,
		Adds:     len(c.Adds),
		Removes:  len(c.Removes),
	}
	if c.Info != nil {
		s.InCommitTimestamp, s.TxnID = c.Info.InCommitTimestamp, c.Info.TxnID
	}
	return s
}

// summaryLine is a line of which the parts that a Summary does not need are
// checked to be JSON but not decoded.
type summaryLine struct {
	CommitInfo *struct {
		InCommitTimestamp *int64      `json:"inCommitTimestamp"`
		TxnID             looseString `json:"txnId"`
	} `json:"commitInfo"`
	Protocol *Protocol       `json:"protocol"`
	Metadata *Metadata       `json:"metaData"`
	Txn      *Txn            `json:"txn"`
	Domain   *DomainMetadata `json:"domainMetadata"`
	Remove   *fileRef        `json:"remove"`
	Add      *fileRef        `json:"add"`
}

// fileRef is the part of a file action that identifies the file.
type fileRef struct {
	Path           string          `json:"path"`
	DeletionVector *DeletionVector `json:"deletionVector"`
}

// full returns the line as far as it was decoded.
func (l *summaryLine) full() line {
	out := line{Protocol: l.Protocol, Metadata: l.Metadata, Txn: l.Txn, Domain: l.Domain}
	if l.CommitInfo != nil {
		out.CommitInfo = &CommitInfo{InCommitTimestamp: l.CommitInfo.InCommitTimestamp, TxnID: string(l.CommitInfo.TxnID)}
	}
	if l.Remove != nil {
		out.Remove = &Remove{Path: l.Remove.Path, DeletionVector: l.Remove.DeletionVector}
	}
	if l.Add != nil {
		out.Add = &Add{Path: l.Add.Path, DeletionVector: l.Add.DeletionVector}
	}
	return out
}

// DecodeFiles is DecodeCommit for the adds and removes only: nothing else is in the
// commit that it returns, and of other actions it is only checked that they are JSON.
func DecodeFiles(data []byte) (Commit, error) {
	var c Commit
	var seen unique
	for n, raw := range lines(data) {
		if fastOther(raw) {
			continue
		}
		var l line
		if !fastFile(raw, &l) {
			var in filesLine
			if err := json.Unmarshal(raw, &in); err != nil {
				return Commit{}, fmt.Errorf("decoding line %d: %w", n, err)
			}
			l = line{Add: in.Add, Remove: in.Remove}
		}
		if err := l.check(); err != nil {
			return Commit{}, fmt.Errorf("decoding line %d: %w", n, err)
		}
		if err := seen.line(&l); err != nil {
			return Commit{}, fmt.Errorf("decoding line %d: %w", n, err)
		}
		c.take(&l)
	}
	return c, nil
}

// filesLine is a line of which only file actions are decoded.
type filesLine struct {
	Remove *Remove `json:"remove"`
	Add    *Add    `json:"add"`
}

// DecodeSummary reads a commit file like DecodeCommit and accepts and rejects
// the same lines where they matter to a summary, at a fraction of the cost.
func DecodeSummary(data []byte) (Summary, error) {
	var s Summary
	var seen unique
	for n, raw := range lines(data) {
		var l line
		if !fastSummary(raw, &l) {
			var in summaryLine
			if err := json.Unmarshal(raw, &in); err != nil {
				return Summary{}, fmt.Errorf("decoding line %d: %w", n, err)
			}
			l = in.full()
		}
		if err := l.check(); err != nil {
			return Summary{}, fmt.Errorf("decoding line %d: %w", n, err)
		}
		if err := seen.line(&l); err != nil {
			return Summary{}, fmt.Errorf("decoding line %d: %w", n, err)
		}
		s.take(&l)
	}
	return s, nil
}

func (s *Summary) take(l *line) {
	switch {
	case l.CommitInfo != nil && s.InCommitTimestamp == nil && s.TxnID == "":
		s.InCommitTimestamp, s.TxnID = l.CommitInfo.InCommitTimestamp, l.CommitInfo.TxnID
	case l.Protocol != nil:
		s.Protocol = l.Protocol
	case l.Metadata != nil:
		s.Metadata = l.Metadata
	case l.Txn != nil:
		s.Txns = append(s.Txns, *l.Txn)
	case l.Domain != nil:
		s.Domains = append(s.Domains, *l.Domain)
	case l.Remove != nil:
		s.Removes++
	case l.Add != nil:
		s.Adds++
	}
}

// lines yields the lines of a file that are not empty, numbered from 1.
func lines(data []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		n := 0
		for raw := range bytes.SplitSeq(data, []byte{'\n'}) {
			n++
			if raw = bytes.TrimSpace(raw); len(raw) > 0 && !yield(n, raw) {
				return
			}
		}
	}
}

// unique finds actions of which a commit may have only one.
type unique struct {
	protocol, metadata bool
	txns, domains      map[string]bool
	adds, removes      map[Key]bool
}

func (u *unique) line(l *line) error {
	switch {
	case l.Protocol != nil:
		if u.protocol {
			return fmt.Errorf("second protocol in one commit")
		}
		u.protocol = true
	case l.Metadata != nil:
		if u.metadata {
			return fmt.Errorf("second metaData in one commit")
		}
		u.metadata = true
	case l.Txn != nil:
		return once(&u.txns, l.Txn.AppID, "txn of appId")
	case l.Domain != nil:
		return once(&u.domains, l.Domain.Domain, "domainMetadata of domain")
	case l.Remove != nil:
		return once(&u.removes, l.Remove.Key(), "remove of")
	case l.Add != nil:
		return once(&u.adds, l.Add.Key(), "add of")
	}
	return nil
}

// once notes that key occurred; it is an error the second time.
func once[K comparable](seen *map[K]bool, key K, what string) error {
	if (*seen)[key] {
		return fmt.Errorf("second %s %v in one commit", what, key)
	}
	if *seen == nil {
		*seen = map[K]bool{}
	}
	(*seen)[key] = true
	return nil
}
