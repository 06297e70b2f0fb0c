package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// targets opens the Delta tables and finds out what the one that is compared is.
func (o *opened) targets(ctx context.Context, c *cli.Context, config *reconcile.Config) error {
	table, err := o.open(ctx, c.String("delta"))
	if err != nil {
		return err
	}
	config.Target.Table = table
	if path := c.String("facts"); path != "" {
		if config.Facts, err = o.open(ctx, path); err != nil {
			return err
		}
	}
	if path := c.String("control"); path != "" {
		if err := o.openControl(ctx, path); err != nil {
			return err
		}
	}
	s := table.Snapshot()
	if source, ok := s.Property(mssqlcdc.PropSourceTable); ok && !strings.EqualFold(source, config.Table.String()) {
		return fmt.Errorf("table %s holds changes of %s, not of %s: check --delta and --table", c.String("delta"), source, config.Table)
	}
	describeTarget(s, &config.Target)
	p := positions{given: c.String("lsn"), app: config.AppID, target: config.Target, control: o.control}
	if config.AppID == "" && config.Target.Kind == reconcile.Bronze {
		if p.app, err = onlyWriter(s); err != nil {
			return err
		}
		config.AppID = p.app
	}
	if p.given != "" {
		if p.lsn, err = mssqlcdc.ParseLSN(p.given); err != nil {
			return fmt.Errorf("--lsn: %w", err)
		}
	}
	config.Target.Position, config.Target.Open = p.position, p.open(table)
	return nil
}

func (o *opened) openControl(ctx context.Context, path string) error {
	st, err := o.registry.Open(ctx, path)
	if err != nil {
		return err
	}
	o.control, err = control.Open(ctx, st, control.Options{})
	if errors.Is(err, delta.ErrNotTable) {
		return fmt.Errorf("%s holds no control table: check --control, or start the pipeline that writes it", path)
	}
	return err
}

// describeTarget tells the kind of a table by its columns, unless it is given, and what marks the rows of a silver table that count.
func describeTarget(s *delta.Snapshot, t *reconcile.Target) {
	has := func(name string) bool { return s.Schema().Index(name) >= 0 }
	mode, derived := s.Property(silver.PropMode)
	if t.Kind == 0 {
		t.Kind = reconcile.Current
		if !derived && has(mssqlcdc.ColSeqVal) && has(mssqlcdc.ColOperation) {
			t.Kind = reconcile.Bronze
		}
	}
	if t.Kind != reconcile.Current || !derived {
		return
	}
	if mode == string(silver.History) {
		t.CurrentColumn = silver.ColIsCurrent
	}
	if t.DeletedColumn == "" && has(silver.ColDeleted) {
		t.DeletedColumn = silver.ColDeleted
	}
}

// onlyWriter is the application id of the one pipeline that writes a table.
func onlyWriter(s *delta.Snapshot) (string, error) {
	var found []string
	for txn := range s.AppVersions() {
		if app, ok := strings.CutSuffix(txn.AppID, mssqlcdc.TxnPositionHi); ok {
			found = append(found, app)
		}
	}
	switch len(found) {
	case 0:
		return "", nil // --lsn or the control table may tell
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several pipelines write the table: choose one with --app-id, of %q", found)
}

// positions tells how far a table is.
type positions struct {
	given   string
	lsn     mssqlcdc.LSN
	app     string
	target  reconcile.Target
	control *control.Table
}

// position is the highest of what is given, what the log says and what the control table says: each of them is written when all before it
// is in the table.
func (p positions) position(ctx context.Context, s *delta.Snapshot) (mssqlcdc.LSN, bool, error) {
	if p.given != "" {
		return p.lsn, true, nil
	}
	verdict, err := p.verdict(ctx)
	if err != nil {
		return mssqlcdc.LSN{}, false, err
	}
	known := []mssqlcdc.LSN{verdict.EndLSN}
	pairs := [][2]string{{p.app + mssqlcdc.TxnPositionHi, p.app + mssqlcdc.TxnPositionLo}}
	if p.target.Kind == reconcile.Current {
		known = []mssqlcdc.LSN{verdict.AppliedLSN, verdict.SnapshotLSN}
		pairs = [][2]string{{silver.TxnApplied + silver.TxnHi, silver.TxnApplied + silver.TxnLo}, {silver.TxnSnapshot + silver.TxnHi, silver.TxnSnapshot + silver.TxnLo}}
	}
	for _, pair := range pairs {
		lsn, _, err := lsnOfLog(s, pair[0], pair[1])
		if err != nil {
			return mssqlcdc.LSN{}, false, err
		}
		known = append(known, lsn)
	}
	highest := slices.MaxFunc(known, mssqlcdc.LSN.Compare)
	if highest.IsZero() {
		return highest, false, errors.New("neither its log nor a control table tells it: give --control, or --lsn")
	}
	return highest, true, nil
}

// lsnOfLog reads an LSN that two transactions hold.
func lsnOfLog(s *delta.Snapshot, hi, lo string) (mssqlcdc.LSN, bool, error) {
	upper, okHi := s.AppVersion(hi)
	lower, okLo := s.AppVersion(lo)
	if !okHi || !okLo {
		return mssqlcdc.LSN{}, false, nil
	}
	lsn, err := mssqlcdc.LSNFromParts(upper, lower)
	if err != nil {
		return lsn, false, fmt.Errorf("reading transactions %s and %s: %w", hi, lo, err)
	}
	return lsn, true, nil
}

// verdict is the table's row of the control table, or none.
func (p positions) verdict(ctx context.Context) (control.Verdict, error) {
	if p.control == nil {
		return control.Verdict{}, nil
	}
	verdict, err := p.control.Get(ctx, p.target.Name)
	if errors.Is(err, control.ErrUnknownTarget) {
		return verdict, fmt.Errorf("%w: name the table's row with --target", err)
	}
	return verdict, err
}

// open tells whether rows of a snapshot are still to come.
func (p positions) open(table *delta.Table) func(context.Context) (bool, string, error) {
	return func(ctx context.Context) (bool, string, error) {
		verdict, err := p.verdict(ctx)
		if err != nil {
			return false, "", err
		}
		if verdict.HeldBy != "" && strings.Contains(verdict.HeldBy, "snapshot") {
			return true, verdict.HeldBy, nil
		}
		if p.target.Kind == reconcile.Bronze {
			return false, "", nil
		}
		open, _, err := lsnOfLog(table.Snapshot(), silver.TxnOpen+silver.TxnHi, silver.TxnOpen+silver.TxnLo)
		return err == nil && !open.IsZero(), "snapshot " + open.String(), err
	}
}
