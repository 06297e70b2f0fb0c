package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/cloud"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

func statusCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "Show per table how far it is, how far behind, and whether it was compared with its source",
		Description: "One line per table of the control table. With the facts table it also shows lags and the hours until clean-up deletes what was not read, with the report table the last comparison.\n\n" +
			"   " + programName + " status --control ./lake/_control --facts ./lake/_facts --report ./lake/_reconcile\n\n" +
			"   Exit code 0: shown. 2: it could not be read. To ask whether a time is complete, use is-final.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "control", Usage: "path or URI of the control table", Required: true},
			&cli.StringFlag{Name: "facts", Usage: "path or URI of the facts table"},
			&cli.StringFlag{Name: "report", Usage: "path or URI of the report table of reconcile"},
			&cli.StringSliceFlag{Name: "table", Usage: "only this target, as the control table names it"},
			&cli.BoolFlag{Name: flagJSON, Usage: "print one line of JSON per table"},
		},
		Action: func(c *cli.Context) error {
			tables, err := statusOf(c.Context, c)
			if err == nil {
				err = printStatus(stdout, tables, c.Bool(flagJSON))
			}
			if err != nil {
				return &exitError{code: exitUnknown, err: err}
			}
			return nil
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return &exitError{code: exitUnknown, err: err} },
	}
}

// tableStatus is what is known of one table. Pointers are nil where something is not known.
type tableStatus struct {
	Table          string        `json:"table"`
	FinalizedUntil *time.Time    `json:"finalized_until"`
	AgeSeconds     *float64      `json:"age_seconds"`          // of the verdict
	IdleSeconds    *float64      `json:"seconds_since_update"` // since it moved
	CompleteFrom   *time.Time    `json:"complete_from"`
	Gaps           []control.Gap `json:"gaps,omitempty"`
	HeldBy         string        `json:"held_by,omitempty"`
	OpenSnapshot   string        `json:"open_snapshot,omitempty"`

	Facts     *lastFact `json:"facts,omitempty"`
	Reconcile *lastRun  `json:"reconcile,omitempty"`
}

// statusOf reads the tables that the flags name.
func statusOf(ctx context.Context, c *cli.Context) (_ []tableStatus, err error) {
	o := &opened{registry: cloud.NewRegistry(cloud.FromEnvironment(os.Getenv))}
	defer func() { err = errors.Join(err, o.close(ctx)) }()
	if err := o.openControl(ctx, c.String("control")); err != nil {
		return nil, err
	}
	verdicts, err := o.control.All(ctx)
	if err != nil {
		return nil, err
	}
	wanted := c.StringSlice("table")
	var tables []tableStatus
	var names []string
	now := time.Now().UTC()
	for _, v := range verdicts {
		names = append(names, v.Target)
		if len(wanted) == 0 || slices.Contains(wanted, v.Target) {
			tables = append(tables, verdictStatus(v, now))
		}
	}
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("the control table %s has no target %q, it has %q", c.String("control"), name, names)
		}
	}
	if path := c.String("facts"); path != "" {
		if err := o.addFacts(ctx, path, tables); err != nil {
			return nil, err
		}
	}
	if path := c.String("report"); path != "" {
		if err := o.addRuns(ctx, path, tables); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

func verdictStatus(v control.Verdict, now time.Time) tableStatus {
	s := tableStatus{Table: v.Target, Gaps: v.Gaps, HeldBy: v.HeldBy}
	if !v.FinalizedUntil.IsZero() {
		s.FinalizedUntil, s.AgeSeconds = new(v.FinalizedUntil), new(now.Sub(v.FinalizedUntil).Seconds())
	}
	if !v.UpdatedAt.IsZero() {
		s.IdleSeconds = new(now.Sub(v.UpdatedAt).Seconds())
	}
	if !v.CompleteFrom.IsZero() {
		s.CompleteFrom = new(v.CompleteFrom)
	}
	if !v.OpenSnapshot.IsZero() {
		s.OpenSnapshot = v.OpenSnapshot.String()
	} else if strings.Contains(v.HeldBy, "snapshot") {
		s.OpenSnapshot = v.HeldBy
	}
	return s
}

func printStatus(w io.Writer, tables []tableStatus, asJSON bool) error {
	if asJSON {
		for _, t := range tables {
			if err := printJSON(w, t); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TABLE\tFINAL UNTIL\tAGE\tMOVED\tLAG\tHEADROOM\tRECONCILE\tHELD BY")
	for _, t := range tables {
		fmt.Fprintln(table, strings.Join(t.cells(), "\t"))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// cells are the columns for people; - is not known.
func (t tableStatus) cells() []string {
	until, lag, headroom, run, held := "nothing", "-", "-", "-", t.HeldBy
	if t.FinalizedUntil != nil {
		until = t.FinalizedUntil.Format(time.RFC3339)
	}
	if f := t.Facts; f != nil {
		lag = fmt.Sprintf("capture %s, ingestion %s", ago(f.CaptureLag), ago(f.IngestionLag))
		if f.Headroom != nil {
			headroom = fmt.Sprintf("%.1f h", *f.Headroom)
		}
	}
	if r := t.Reconcile; r != nil {
		run = fmt.Sprintf("%s %s", strings.ToLower(string(r.Status)), r.At.Format(time.RFC3339))
		if r.Failures > 0 {
			run += fmt.Sprintf(" (%d listed)", r.Failures)
		}
	}
	if len(t.Gaps) > 0 {
		held = strings.TrimSpace(fmt.Sprintf("%s (%d gaps: changes were lost)", held, len(t.Gaps)))
	}
	if held == "" {
		held = "-"
	}
	return []string{t.Table, until, ago(t.AgeSeconds), ago(t.IdleSeconds), lag, headroom, run, held}
}

// ago is a number of seconds for people.
func ago(seconds *float64) string {
	if seconds == nil {
		return "-"
	}
	return (time.Duration(*seconds * float64(time.Second))).Round(time.Second).String()
}
