package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/cloud"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// Exit codes of is-final beside 0.
const (
	exitNotYet   = 1
	exitUnknown  = 2 // could not tell
	exitOverGap  = 3
	timeExamples = "2026-11-30T13:00:00Z or 2026-11-30"
)

func isFinalCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "is-final",
		Usage: "Ask whether a table is complete up to a time",
		Description: "Exit code 0: complete. 1: not yet. 2: it could not be told, see stderr. 3: nothing more will come, but changes were lost on the way.\n\n" +
			"   " + programName + " is-final --control ./lake/_control --table dbo.orders --until 2026-11-30T13:00:00Z",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "control", Usage: "path or URI of the control table", Required: true},
			&cli.StringFlag{Name: "table", Usage: "target, as the finalize processor names it", Required: true},
			&cli.StringFlag{Name: "until", Usage: "end of the period, exclusive: " + timeExamples, Required: true},
			&cli.StringFlag{Name: "from", Usage: "begin of the period; without it only the end is asked about"},
			&cli.DurationFlag{Name: "wait", Usage: "how long to wait for the verdict"},
			&cli.BoolFlag{Name: "json", Usage: "print one line of JSON"},
		},
		Action: func(c *cli.Context) error {
			question, err := parseQuestion(c)
			if err != nil {
				return &exitError{code: exitUnknown, err: err}
			}
			answer, err := question.ask(c.Context)
			if err != nil {
				return &exitError{code: exitUnknown, err: err}
			}
			if err := answer.print(stdout, c.Bool("json")); err != nil {
				return &exitError{code: exitUnknown, err: err}
			}
			if code := answer.code(); code != exitOK {
				return &exitError{code: code}
			}
			return nil
		},
	}
}

// question is what is asked of the control table.
type question struct {
	control, table string
	from, until    time.Time
	wait           time.Duration
}

func parseQuestion(c *cli.Context) (question, error) {
	q := question{control: c.String("control"), table: c.String("table"), wait: c.Duration("wait")}
	var err error
	if q.until, err = parseTime(c.String("until")); err != nil {
		return question{}, fmt.Errorf("--until: %w", err)
	}
	if text := c.String("from"); text != "" {
		if q.from, err = parseTime(text); err != nil {
			return question{}, fmt.Errorf("--from: %w", err)
		}
		if !q.from.Before(q.until) {
			return question{}, fmt.Errorf("--from %s is not before --until %s", text, c.String("until"))
		}
	}
	return q, nil
}

// parseTime reads a time of RFC 3339, or a day, which begins at midnight UTC.
func parseTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: want %s", text, timeExamples)
}

// finality is the answer with the verdict that it rests on.
type finality struct {
	verdict control.Verdict
	answer  control.Answer
	table   string
	until   time.Time
	now     time.Time
}

// askEvery is the pause between two looks while waiting.
const askEvery = time.Second

func (q question) ask(ctx context.Context) (finality, error) {
	deadline := time.Now().Add(q.wait)
	for {
		answer, err := q.askOnce(ctx)
		if err == nil && answer.answer != control.NotYet || !time.Now().Before(deadline) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-time.After(askEvery):
		}
	}
}

func (q question) askOnce(ctx context.Context) (finality, error) {
	st, err := cloud.NewRegistry(cloud.FromEnvironment(os.Getenv)).Open(ctx, q.control)
	if err != nil {
		return finality{}, err
	}
	table, err := control.Open(ctx, st, control.Options{})
	if errors.Is(err, delta.ErrNotTable) {
		return finality{}, fmt.Errorf("%s holds no control table: check --control, or start the pipeline that writes it", q.control)
	}
	if err != nil {
		return finality{}, err
	}
	verdict, err := table.Get(ctx, q.table)
	if errors.Is(err, control.ErrUnknownTarget) {
		return finality{}, q.unknown(ctx, table)
	}
	if err := errors.Join(err, table.Close(ctx)); err != nil {
		return finality{}, err
	}
	return finality{verdict: verdict, answer: verdict.Answer(q.from, q.until), table: q.table, until: q.until, now: time.Now().UTC()}, nil
}

// unknown lists the targets that there are.
func (q question) unknown(ctx context.Context, table *control.Table) error {
	all, err := table.All(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, v := range all {
		names = append(names, v.Target)
	}
	return fmt.Errorf("the control table %s has no target %q, it has %q", q.control, q.table, names)
}

func (f finality) code() int {
	switch f.answer {
	case control.Final:
		return exitOK
	case control.FinalOverGap:
		return exitOverGap
	}
	return exitNotYet
}

func (f finality) print(w io.Writer, asJSON bool) error {
	if asJSON {
		line, err := json.Marshal(map[string]any{
			"table": f.table, "until": f.until.Format(time.RFC3339Nano), "final": f.answer != control.NotYet,
			"gap": f.answer == control.FinalOverGap, "finalized_until": text(f.verdict.FinalizedUntil),
			"complete_from": text(f.verdict.CompleteFrom), "end_lsn": f.verdict.EndLSN,
			"updated_at": text(f.verdict.UpdatedAt), "held_by": f.verdict.HeldBy,
			"age_seconds": seconds(f.now, f.verdict.FinalizedUntil), "seconds_since_update": seconds(f.now, f.verdict.UpdatedAt),
		})
		if err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		_, err = fmt.Fprintf(w, "%s\n", line)
		return err
	}
	_, err := fmt.Fprintln(w, f.sentence())
	return err
}

func text(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.Format(time.RFC3339Nano)
}

// seconds is how long ago a time is. A small time since the update beside a large
// age is a pipeline that catches up; both large, one that stands still.
func seconds(now, t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return now.Sub(t).Seconds()
}

func (f finality) sentence() string {
	until := f.until.Format(time.RFC3339)
	switch {
	case f.answer == control.Final:
		return fmt.Sprintf("final: %s is complete until %s (finalized_until %s)", f.table, until, f.verdict.FinalizedUntil.Format(time.RFC3339))
	case f.answer == control.FinalOverGap:
		return fmt.Sprintf("final over a gap: nothing more of %s will come before %s, but changes were lost: %v", f.table, until, f.verdict.Gaps)
	case f.verdict.HeldBy != "":
		return fmt.Sprintf("not yet: the verdict of %s stands still since %s: %s", f.table, f.verdict.UpdatedAt.Format(time.RFC3339), f.verdict.HeldBy)
	case f.verdict.FinalizedUntil.IsZero():
		return fmt.Sprintf("not yet: nothing of %s is final", f.table)
	case !f.verdict.FinalizedUntil.Before(f.until):
		return fmt.Sprintf("never: %s is complete from %s on only", f.table, f.verdict.CompleteFrom.Format(time.RFC3339))
	}
	return fmt.Sprintf("not yet: %s is final until %s, %s before %s; the verdict last moved %s ago", f.table,
		f.verdict.FinalizedUntil.Format(time.RFC3339), f.until.Sub(f.verdict.FinalizedUntil), until,
		f.now.Sub(f.verdict.UpdatedAt).Round(time.Second))
}
