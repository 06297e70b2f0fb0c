package maintain

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// CorruptLogError reports a commit that cannot be read.
type CorruptLogError struct {
	// Path is the file in the table's store.
	Path string
	// Line is counted from 1; 0 if the lines are right and do not go together.
	Line int
	Err  error
}

// Error names the file and the line.
func (e *CorruptLogError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("the table's log is damaged: %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("the table's log is damaged: %s, line %d: %v", e.Path, e.Line, e.Err)
}

// Unwrap returns what is wrong.
func (e *CorruptLogError) Unwrap() error { return e.Err }

// FindCorruption reads every commit of a log, to tell which one keeps the table
// from being read. It is a *CorruptLogError for the oldest such commit, another
// error if the log cannot be looked through, or nil.
func FindCorruption(ctx context.Context, st store.Store) error {
	for f, err := range logFiles(ctx, st) {
		if err != nil {
			return err
		}
		if f.kind != commitFile {
			continue
		}
		data, err := st.Get(ctx, f.info.Path)
		if err != nil {
			return err
		}
		if _, err := action.DecodeCommit(data); err != nil {
			return corruptLine(f.info.Path, data, err)
		}
	}
	return nil
}

// corruptLine finds the line of a commit that cannot be read by itself.
func corruptLine(path string, data []byte, whole error) error {
	n := 0
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		n++
		if _, err := action.DecodeCommit(line); err != nil {
			if cause := errors.Unwrap(err); cause != nil {
				err = cause // without the number of the line, which is another here
			}
			return &CorruptLogError{Path: path, Line: n, Err: err}
		}
	}
	return &CorruptLogError{Path: path, Err: whole}
}
