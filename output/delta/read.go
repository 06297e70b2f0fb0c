package delta

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/dv"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/prune"
)

// ReadOptions are the choices of Table.Read. The zero value reads everything.
type ReadOptions struct {
	// Columns to read, in this order; nil is all of the table.
	Columns []string
	// Prune leaves out files that certainly have no row for which all of the conditions
	// hold, by their partition values and statistics. The rows of the other files come all,
	// whether the conditions hold for them or not.
	Prune []prune.Condition
}

// Read yields the rows of a snapshot in batches of bounded size, file by file in
// the order of Snapshot.Files, without the rows that deletion vectors delete. A
// batch belongs to the sequence and is released when the loop asks for the next
// one: who keeps it retains it. On an error the sequence yields that once and
// ends.
func (t *Table) Read(ctx context.Context, s *Snapshot, o ReadOptions) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		for add, err := range s.PrunedFiles(ctx, o.Prune) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !t.readFile(ctx, s, add, o, yield) {
				return
			}
		}
	}
}

// ReadFile yields the rows of one live file of a snapshot, like Read.
func (t *Table) ReadFile(ctx context.Context, s *Snapshot, add action.Add, o ReadOptions) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		filter, err := s.filter(o.Prune)
		if err != nil {
			yield(nil, err)
			return
		}
		if filter.Keeps(add) {
			t.readFile(ctx, s, add, o, yield)
		}
	}
}

// PrunedFiles is Files without those that certainly have no row for which all of the
// conditions hold; see ReadOptions.Prune.
func (s *Snapshot) PrunedFiles(ctx context.Context, conditions []prune.Condition) iter.Seq2[action.Add, error] {
	return func(yield func(action.Add, error) bool) {
		filter, err := s.filter(conditions)
		if err != nil {
			yield(action.Add{}, err)
			return
		}
		for add, err := range s.Files(ctx) {
			if err != nil {
				yield(action.Add{}, err)
				return
			}
			if filter.Keeps(add) && !yield(add, nil) {
				return
			}
		}
	}
}

func (s *Snapshot) filter(conditions []prune.Condition) (*prune.Filter, error) {
	f, err := prune.New(s.schema, s.mapping, s.state.Metadata.PartitionColumns, conditions)
	if err != nil {
		return nil, fmt.Errorf("choosing files of version %d: %w", s.Version(), err)
	}
	return f, nil
}

func (t *Table) readFile(ctx context.Context, s *Snapshot, add action.Add, o ReadOptions, yield func(arrow.RecordBatch, error) bool) (more bool) {
	in, err := t.input(ctx, s, add)
	if err != nil {
		yield(nil, err)
		return false
	}
	for rec, err := range data.ReadFile(ctx, t.st, s.schema, in, o.Columns) {
		if !yield(rec, err) || err != nil {
			return false
		}
	}
	return true
}

// input is what to read of a live file. Its deletion vector is read here.
func (t *Table) input(ctx context.Context, s *Snapshot, add action.Add) (data.Input, error) {
	path, err := t.storePath(add.Path)
	if err != nil {
		return data.Input{}, err
	}
	in := data.Input{Path: path, Size: add.Size, PartitionValues: add.PartitionValues, Mapping: s.mapping}
	if add.DeletionVector == nil {
		return in, nil
	}
	if in.Deleted, err = t.deletedRows(ctx, *add.DeletionVector); err != nil {
		return data.Input{}, fmt.Errorf("reading data file %s: %w", path, err)
	}
	return in, nil
}

func (t *Table) deletedRows(ctx context.Context, d action.DeletionVector) (*dv.Rows, error) {
	path, err := d.Path()
	if err == nil && path != "" {
		path, err = t.storePath(path)
	}
	if err != nil {
		return nil, err
	}
	return dv.Read(ctx, t.st, d, path)
}

// storePath turns a path of the log into one of the store.
func (t *Table) storePath(path string) (string, error) {
	plain := action.CanonicalPath(path)
	if root := plainRoot(t.st); root != "" && strings.HasPrefix(plain, root+"/") {
		return plain[len(root)+1:], nil
	}
	if action.IsAbsolutePath(path) {
		return "", fmt.Errorf("file %s lies outside of table %s: such tables (shallow clones) cannot be read", path, t.st.URL())
	}
	if plain == "" {
		return "", errors.New("a file of the log has no path")
	}
	return plain, nil
}
