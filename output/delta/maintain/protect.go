package maintain

import (
	"errors"
	"fmt"
	"hash/maphash"
	"path"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

// protection is the set of files that must stay. It holds hashes: two paths with
// one hash keep a file that could go, and do no other harm.
type protection struct {
	t     *delta.Table
	seed  maphash.Seed
	paths map[uint64]struct{}
	// names are those of files that the log names by an absolute path which does not
	// begin with the root as we know it: they may lie in it all the same.
	names map[uint64]struct{}
}

func newProtection(t *delta.Table) *protection {
	return &protection{t: t, seed: maphash.MakeSeed(), paths: map[uint64]struct{}{}, names: map[uint64]struct{}{}}
}

func (p *protection) add(set map[uint64]struct{}, text string) {
	set[maphash.String(p.seed, text)] = struct{}{}
}

func (p *protection) has(set map[uint64]struct{}, text string) bool {
	_, ok := set[maphash.String(p.seed, text)]
	return ok
}

// file notes a data file and its deletion vector, as the log names them.
func (p *protection) file(logPath string, dv *action.DeletionVector) error {
	p.path(logPath)
	if dv == nil {
		return nil
	}
	vector, err := dv.Path()
	if err != nil {
		return fmt.Errorf("file %s: %w", logPath, err)
	}
	if vector != "" {
		p.path(vector)
	}
	return nil
}

func (p *protection) path(logPath string) {
	plain, err := p.t.StorePath(logPath)
	if err != nil {
		p.add(p.names, path.Base(action.CanonicalPath(logPath)))
		return
	}
	p.add(p.paths, path.Clean(plain))
	// Some writers have not encoded what they wrote into the log.
	p.add(p.paths, path.Clean(logPath))
}

// commit notes what a commit names.
func (p *protection) commit(c action.Commit) error {
	var errs []error
	for _, a := range c.Adds {
		errs = append(errs, p.file(a.Path, a.DeletionVector))
	}
	for _, r := range c.Removes {
		errs = append(errs, p.file(r.Path, r.DeletionVector))
	}
	for _, f := range c.CDCs {
		p.path(f.Path)
	}
	return errors.Join(errs...)
}

// needs reports whether a file of the store must stay.
func (p *protection) needs(storePath string) bool {
	return p.has(p.paths, storePath) || len(p.names) > 0 && p.has(p.names, path.Base(storePath))
}
