package replay

import (
	"context"
	"iter"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// Files yields the live files and the tombstones of a segment, each logical file
// once: first those of the checkpoint, as a stream, then those of the commits
// after it in their order. Memory is bounded by the commits after the
// checkpoint. root is the table's place as a plain path, "" if it has none:
// files below it are the same whether the log names them absolutely or relative
// to it. On an error the sequence yields that once and ends.
func Files(ctx context.Context, st store.Store, seg Segment, root string) iter.Seq2[FileAction, error] {
	return func(yield func(FileAction, error) bool) {
		tail, err := readTail(ctx, st, seg, root)
		if err != nil {
			yield(FileAction{}, err)
			return
		}
		if seg.Checkpoint != nil {
			for f, err := range checkpointFiles(ctx, st, *seg.Checkpoint) {
				if err != nil {
					yield(FileAction{}, err)
					return
				}
				if !tail.has(f.Key()) && !yield(f, nil) {
					return
				}
			}
		}
		for _, f := range tail.actions {
			if (f.Add != nil || f.Remove != nil) && !yield(f, nil) {
				return
			}
		}
	}
}

// tail is the reconciled file actions of the commits after a checkpoint.
type tail struct {
	root    string
	actions []FileAction // emptied where a later one took the place
	index   map[action.Key]int
}

func readTail(ctx context.Context, st store.Store, seg Segment, root string) (*tail, error) {
	t := &tail{root: root, index: map[action.Key]int{}}
	for c, err := range fetch(ctx, st, seg.FirstCommit(), seg.Version, action.DecodeFiles) {
		if err != nil {
			return nil, err
		}
		// Within one commit the keys differ, so the order does not matter, except
		// for invalid commits that add and remove one file: they keep it.
		for i := range c.content.Removes {
			t.set(FileAction{Remove: &c.content.Removes[i]})
		}
		for i := range c.content.Adds {
			t.set(FileAction{Add: &c.content.Adds[i]})
		}
	}
	return t, nil
}

func (t *tail) set(f FileAction) {
	key := t.relative(f.Key())
	if at, ok := t.index[key]; ok {
		t.actions[at] = FileAction{}
	}
	t.index[key] = len(t.actions)
	t.actions = append(t.actions, f)
}

func (t *tail) has(key action.Key) bool {
	_, ok := t.index[t.relative(key)]
	return ok
}

// relative drops the table's own place from an absolute path.
func (t *tail) relative(key action.Key) action.Key {
	if t.root != "" && len(key.Path) > len(t.root) && key.Path[:len(t.root)] == t.root && key.Path[len(t.root)] == '/' {
		key.Path = key.Path[len(t.root)+1:]
	}
	return key
}
