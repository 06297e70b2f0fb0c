package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/pqfile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// readState reads everything of a checkpoint but its file actions, which it only
// counts.
func readState(ctx context.Context, st store.Store, c Checkpoint) (State, error) {
	state := State{Version: c.Version, MetadataVersion: c.Version}
	var sidecars []action.Sidecar
	for _, info := range c.Files {
		side, err := readStateFile(ctx, st, info.Path, &state)
		if err != nil {
			return State{}, err
		}
		sidecars = append(sidecars, side...)
	}
	for _, side := range sidecars {
		if _, err := readStateFile(ctx, st, SidecarPath(side), &state); err != nil {
			return State{}, err
		}
	}
	return state, nil
}

// readStateFile adds one file of a checkpoint to the state.
func readStateFile(ctx context.Context, st store.Store, path string, state *State) ([]action.Sidecar, error) {
	if strings.HasSuffix(path, ".json") {
		c, err := readJSONCheckpoint(ctx, st, path)
		if err != nil {
			return nil, err
		}
		state.takeCheckpoint(c.Commit)
		return c.Sidecars, nil
	}
	p, err := openParquet(ctx, st, path)
	if err != nil {
		return nil, err
	}
	sidecars, err := p.readState(ctx, state)
	return sidecars, errors.Join(err, p.close())
}

func (p *parquetFile) readState(ctx context.Context, state *State) ([]action.Sidecar, error) {
	var sidecars []action.Sidecar
	for rec, err := range p.rows(ctx, "protocol", "metaData", "txn", "domainMetadata", "sidecar") {
		if err == nil {
			err = pqfile.Guard(func() error { takeRecord(rec, state, &sidecars); return nil })
		}
		if err != nil {
			return nil, p.wrap(err)
		}
	}
	adds, err := p.count(ctx, "add", "path")
	if err != nil {
		return nil, p.wrap(err)
	}
	removes, err := p.count(ctx, "remove", "path")
	if err != nil {
		return nil, p.wrap(err)
	}
	state.NumFiles += adds
	state.Tombstones += removes
	return sidecars, nil
}

// takeRecord adds the actions of a record to the state.
func takeRecord(rec arrow.RecordBatch, state *State, sidecars *[]action.Sidecar) {
	protocol, metadata, txn := groupOf(rec, "protocol"), groupOf(rec, "metaData"), groupOf(rec, "txn")
	domain, sidecar := groupOf(rec, "domainMetadata"), groupOf(rec, "sidecar")
	for i := range int(rec.NumRows()) {
		switch {
		case protocol.has(i):
			state.Protocol = protocol.protocol(i)
		case metadata.has(i):
			state.Metadata = metadata.metadata(i)
		case txn.has(i):
			t := txn.txn(i)
			state.Txns = state.Txns.With(t.AppID, t)
		case domain.has(i):
			if d := domain.domain(i); !d.Removed {
				state.Domains = state.Domains.With(d.Domain, d)
			}
		case sidecar.has(i):
			*sidecars = append(*sidecars, sidecar.sidecar(i))
		}
	}
}

// takeCheckpoint adds the actions of a JSON checkpoint. There, removes are
// tombstones: they do not take away one of its adds.
func (s *State) takeCheckpoint(c action.Commit) {
	sum := c.Summary()
	sum.Adds, sum.Removes = 0, 0
	*s = s.Apply(s.Version, sum)
	s.NumFiles += int64(len(c.Adds))
	s.Tombstones += int64(len(c.Removes))
}

func readJSONCheckpoint(ctx context.Context, st store.Store, path string) (action.Checkpoint, error) {
	data, err := st.Get(ctx, path)
	if err != nil {
		return action.Checkpoint{}, fmt.Errorf("reading checkpoint %s: %w", path, err)
	}
	c, err := action.DecodeCheckpoint(data)
	if err != nil {
		return action.Checkpoint{}, fmt.Errorf("reading checkpoint %s: %w", path, err)
	}
	return c, nil
}

// Sidecars lists the sidecars that a checkpoint file names: none if it is a classic one.
func Sidecars(ctx context.Context, st store.Store, path string) ([]action.Sidecar, error) {
	if strings.HasSuffix(path, ".json") {
		c, err := readJSONCheckpoint(ctx, st, path)
		return c.Sidecars, err
	}
	p, err := openParquet(ctx, st, path)
	if err != nil {
		return nil, err
	}
	var sidecars []action.Sidecar
	for rec, recErr := range p.rows(ctx, "sidecar") {
		if err = recErr; err == nil {
			err = pqfile.Guard(func() error {
				side := groupOf(rec, "sidecar")
				for i := range int(rec.NumRows()) {
					if side.has(i) {
						sidecars = append(sidecars, side.sidecar(i))
					}
				}
				return nil
			})
		}
		if err != nil {
			err = p.wrap(err)
			break
		}
	}
	return sidecars, errors.Join(err, p.close())
}

// SidecarPath is where a sidecar lies: a file name below the sidecar folder, or
// a path relative to the log's folder or to the table's root as some write it.
func SidecarPath(s action.Sidecar) string {
	plain, err := action.DecodePath(s.Path)
	if err != nil {
		plain = s.Path
	}
	if i := strings.LastIndexByte(plain, '/'); i >= 0 {
		plain = plain[i+1:]
	}
	return SidecarDir + plain
}

// FileAction is an add or a remove; exactly one is set.
type FileAction struct {
	Add    *action.Add
	Remove *action.Remove
}

// Key identifies the logical file.
func (f FileAction) Key() action.Key {
	if f.Add != nil {
		return f.Add.Key()
	}
	return f.Remove.Key()
}

// checkpointFiles streams the file actions of a checkpoint.
func checkpointFiles(ctx context.Context, st store.Store, c Checkpoint) iter.Seq2[FileAction, error] {
	return func(yield func(FileAction, error) bool) {
		var sidecars []action.Sidecar
		for _, info := range c.Files {
			if !streamFile(ctx, st, info.Path, &sidecars, yield) {
				return
			}
		}
		for _, side := range sidecars {
			if !streamFile(ctx, st, SidecarPath(side), nil, yield) {
				return
			}
		}
	}
}

// streamFile yields the file actions of one file of a checkpoint and notes its
// sidecars; false ends the sequence.
func streamFile(ctx context.Context, st store.Store, path string, sidecars *[]action.Sidecar, yield func(FileAction, error) bool) (more bool) {
	if strings.HasSuffix(path, ".json") {
		c, err := readJSONCheckpoint(ctx, st, path)
		if err != nil {
			yield(FileAction{}, err)
			return false
		}
		*sidecars = append(*sidecars, c.Sidecars...)
		for _, r := range c.Removes {
			if !yield(FileAction{Remove: &r}, nil) {
				return false
			}
		}
		for _, a := range c.Adds {
			if !yield(FileAction{Add: &a}, nil) {
				return false
			}
		}
		return true
	}
	p, err := openParquet(ctx, st, path)
	if err != nil {
		yield(FileAction{}, err)
		return false
	}
	more = p.stream(ctx, sidecars, yield)
	if err := p.close(); err != nil && more {
		yield(FileAction{}, fmt.Errorf("closing checkpoint %s: %w", path, err))
		return false
	}
	return more
}

func (p *parquetFile) stream(ctx context.Context, sidecars *[]action.Sidecar, yield func(FileAction, error) bool) bool {
	var actions []FileAction
	for rec, err := range p.records(ctx, p.fileLeaves(), p.groupsWith("add", "remove", "sidecar")) {
		if err == nil {
			err = pqfile.Guard(func() error { actions = fileActions(actions[:0], rec, sidecars); return nil })
		}
		if err != nil {
			yield(FileAction{}, p.wrap(err))
			return false
		}
		for _, f := range actions {
			if !yield(f, nil) {
				return false
			}
		}
	}
	return true
}

// fileActions appends the file actions of a record, and the sidecars to theirs.
func fileActions(out []FileAction, rec arrow.RecordBatch, sidecars *[]action.Sidecar) []FileAction {
	add, remove, sidecar := groupOf(rec, "add"), groupOf(rec, "remove"), groupOf(rec, "sidecar")
	for i := range int(rec.NumRows()) {
		switch {
		case add.has(i):
			out = append(out, FileAction{Add: new(add.add(i))})
		case remove.has(i):
			out = append(out, FileAction{Remove: new(remove.remove(i))})
		case sidecar.has(i) && sidecars != nil:
			*sidecars = append(*sidecars, sidecar.sidecar(i))
		}
	}
	return out
}
