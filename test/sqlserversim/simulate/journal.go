package simulate

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
)

// header is the first line of a state file: what decides everything but the times. Version 1.
type header struct {
	Version   int       `json:"version"`
	Seed      int64     `json:"seed"`
	Start     time.Time `json:"start"`
	Script    string    `json:"script,omitempty"`
	Workloads []string  `json:"workloads"`
	Rows      int       `json:"huge_rows"`
}

// entry is every further line: something that was done, and the time that the server's clock stood at.
type entry struct {
	At     time.Time `json:"at"`
	Do     action    `json:"do"`
	MaxLSN string    `json:"max_lsn,omitempty"` // after a capture
}

// action is what an entry did.
type action string

const (
	doPrepare action = "prepare" // the script and the workloads' tables
	doStep    action = "step"    // one step of every workload
	doCapture action = "capture"
)

// journal is an open state file; without a file it keeps nothing.
type journal struct{ file *os.File }

// readJournal reads a state file. Without one the header is nil. A last line that was cut off by a crash is left out, and ends at good bytes.
func readJournal(path string) (h *header, entries []entry, good int64, err error) {
	if path == "" {
		return nil, nil, 0, nil
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, 0, nil
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("opening the state file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the end, or a line without one
			return h, entries, good, nil
		}
		if h == nil {
			h = &header{}
			if err := json.Unmarshal(line, h); err != nil || h.Version != 1 {
				return nil, nil, 0, fmt.Errorf("reading the state file %s: it does not begin as one of version 1", path)
			}
		} else {
			var e entry
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, nil, 0, fmt.Errorf("reading the state file %s at byte %d: %w", path, good, err)
			}
			entries = append(entries, e)
		}
		good += int64(len(line))
	}
}

// openJournal opens the file for appending behind its good bytes, and begins it with a header when it is new.
func openJournal(path string, good int64, h header) (*journal, error) {
	if path == "" {
		return &journal{}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the state file: %w", err)
	}
	j := &journal{file}
	if err := file.Truncate(good); err != nil {
		return nil, errors.Join(fmt.Errorf("cutting the state file: %w", err), file.Close())
	}
	if _, err := file.Seek(good, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("finding the end of the state file: %w", err), file.Close())
	}
	if good == 0 {
		if err := j.write(h); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return j, nil
}

// write appends a line.
func (j *journal) write(v any) error {
	if j.file == nil {
		return nil
	}
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// take puts in what a configuration says.
func (h *header) take(c Config) {
	h.Seed, h.Script, h.Rows = cmp.Or(c.Seed, h.Seed), cmp.Or(c.Script, h.Script), cmp.Or(c.HugeRows, h.Rows)
	if c.Workloads != nil {
		h.Workloads = c.Workloads
	}
}

// differs says where a configuration asks for something else than the header has; empty when it does not.
func (h *header) differs(c Config) string {
	asked := *h
	asked.take(c)
	switch {
	case asked.Seed != h.Seed:
		return fmt.Sprintf("seed %d, the file has %d", c.Seed, h.Seed)
	case asked.Script != h.Script:
		return "another script"
	case !slices.Equal(asked.Workloads, h.Workloads):
		return fmt.Sprintf("workloads %v, the file has %v", c.Workloads, h.Workloads)
	case asked.Rows != h.Rows:
		return fmt.Sprintf("a huge transaction of %d rows, the file has %d", c.HugeRows, h.Rows)
	}
	return ""
}
