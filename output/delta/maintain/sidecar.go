package maintain

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// sidecarGrace is how long a sidecar stays whoever names it: its checkpoint may be being written ("Metadata Cleanup" in
// PROTOCOL.md: a day, from the last midnight on).
const sidecarGrace = 24 * time.Hour

// cleanSidecars deletes the sidecars of v2 checkpoints that no checkpoint from a version on names and that are older
// than the retention. Each of those checkpoints is read first; if one cannot be, no sidecar is deleted.
func (c *cleaner) cleanSidecars(ctx context.Context, from int64) error {
	old, err := c.oldSidecars(ctx)
	if err != nil || len(old) == 0 {
		return err
	}
	named, err := c.namedSidecars(ctx, from)
	if err != nil {
		return fmt.Errorf("no sidecar is deleted, since it is not known which of them are needed: %w", err)
	}
	var gone []logFile
	for _, info := range old {
		// The side file of Hadoop's goes with its sidecar.
		name := path.Base(info.Path)
		if of, ok := strings.CutSuffix(name, ".crc"); ok && strings.HasPrefix(of, ".") {
			name = of[1:]
		}
		if named[replay.SidecarDir+name] {
			continue
		}
		gone = append(gone, logFile{kind: sidecarFile, info: info})
		c.result.Files++
		c.result.Sidecars++
		c.result.Bytes += info.Size
	}
	if len(gone) == 0 || c.o.DryRun {
		return nil
	}
	return c.delete(ctx, gone)
}

// oldSidecars lists the sidecars that may go if nothing names them.
func (c *cleaner) oldSidecars(ctx context.Context) ([]store.Info, error) {
	limit := c.result.Cutoff
	if grace := c.t.Now().UTC().Add(-sidecarGrace).Truncate(24 * time.Hour); grace.Before(limit) {
		limit = grace
	}
	var old []store.Info
	for info, err := range c.t.Store().List(ctx, replay.SidecarDir, "") {
		if err != nil {
			return nil, err
		}
		if info.ModTime.Before(limit) {
			old = append(old, info)
		}
	}
	return old, nil
}

// namedSidecars are the paths of the sidecars that checkpoints from a version on name.
func (c *cleaner) namedSidecars(ctx context.Context, from int64) (map[string]bool, error) {
	named := map[string]bool{}
	for f, err := range logFiles(ctx, c.t.Store()) {
		if err != nil {
			return nil, err
		}
		// An empty file is what a crash of some writers leaves, and no checkpoint.
		if f.kind != checkpointFile || f.version < from || f.info.Size == 0 {
			continue
		}
		sidecars, err := replay.Sidecars(ctx, c.t.Store(), f.info.Path)
		if errors.Is(err, store.ErrNotFound) {
			continue // another clean-up was faster
		}
		if err != nil {
			return nil, err
		}
		for _, s := range sidecars {
			named[replay.SidecarPath(s)] = true
		}
	}
	return named, nil
}
