package silver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// sourceVerdict is that of bronze, the zero Verdict if there is none.
func (a *Applier) sourceVerdict(ctx context.Context) (control.Verdict, error) {
	return a.verdictOf(ctx, a.cfg.BronzeRow)
}

func (a *Applier) verdictOf(ctx context.Context, row string) (control.Verdict, error) {
	if a.cfg.Control == nil {
		return control.Verdict{}, nil
	}
	v, err := a.cfg.Control.Get(ctx, row)
	if err != nil && !errors.Is(err, control.ErrUnknownTarget) {
		return v, err
	}
	return v, nil
}

// checkVerdict looks at the table's own row before anything changes. A row that knows more
// than the table has was written for one that is gone: it begins anew, so that nobody takes
// the table for complete while it is being built.
func (c *call) checkVerdict(ctx context.Context, before progress) error {
	if c.cfg.Control == nil {
		return nil
	}
	own, err := c.verdictOf(ctx, c.cfg.Row)
	if err != nil {
		return err
	}
	if own.Path != "" && own.Path != c.cfg.TargetName {
		return &ConfigError{Target: c.cfg.TargetName, Reason: (&control.SharedRowError{Target: c.cfg.Row, Path: c.cfg.TargetName, Other: own.Path}).Error()}
	}
	ahead := before.applied.Less(own.AppliedLSN) || before.snapshot.Less(own.SnapshotLSN) || !before.any && !own.FinalizedUntil.IsZero()
	if !ahead {
		return nil
	}
	_, _, err = c.cfg.Control.Follow(ctx, control.Followed{
		Target: c.cfg.Row, Path: c.cfg.TargetName, Source: control.Verdict{Gaps: c.source.Gaps}, SnapshotWave: -1,
		HeldBy: "the table is being built anew", Anew: true,
	})
	return err
}

// moveVerdict moves the table's verdict to that of bronze.
func (c *call) moveVerdict(ctx context.Context) error {
	if c.cfg.Control == nil {
		return nil
	}
	after := c.plan.after
	f := control.Followed{
		Target: c.cfg.Row, Path: c.cfg.TargetName, Source: c.source,
		AppliedLSN: after.applied, SnapshotLSN: after.snapshot, OpenSnapshot: after.open, SnapshotWave: after.wave,
	}
	if at := c.plan.snapshotTime; at != 0 {
		f.SnapshotTime = time.UnixMicro(at).UTC()
	}
	if !after.open.IsZero() {
		f.HeldBy = fmt.Sprintf("snapshot %s is not complete", after.open)
	}
	var err error
	if c.result.Verdict, _, err = c.cfg.Control.Follow(ctx, f); err != nil {
		var shared *control.SharedRowError
		if errors.As(err, &shared) {
			return &ConfigError{Target: c.cfg.TargetName, Reason: shared.Error()}
		}
		return err
	}
	return nil
}
