package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

const (
	flagTargetSize = "target-size"
	flagForce      = "force"
	flagList       = "list"
)

func checkpointCommand(stdout io.Writer, asJSON cli.Flag) *cli.Command {
	return &cli.Command{
		Name:        "checkpoint",
		Usage:       "Write a checkpoint of the newest version, so that the table opens fast",
		Description: programName + " delta checkpoint ./lake/orders",
		Flags:       []cli.Flag{asJSON},
		Action: onTable(func(ctx context.Context, c *cli.Context, t *delta.Table) error {
			done, err := t.WriteCheckpoint(ctx)
			if err != nil {
				return err
			}
			if c.Bool(flagJSON) {
				return printJSON(stdout, map[string]any{"version": done.Version, "actions": done.Actions, "seconds": done.Took.Seconds()})
			}
			if done.Actions == 0 {
				_, err = fmt.Fprintf(stdout, "There is a checkpoint of version %d.\n", done.Version)
				return err
			}
			_, err = fmt.Fprintf(stdout, "Wrote the checkpoint of version %d, %s, in %s.\n", done.Version, counted(done.Actions, "action"), humanSeconds(done.Took))
			return err
		}),
	}
}

func optimizeCommand(stdout io.Writer, asJSON, dryRun cli.Flag) *cli.Command {
	return &cli.Command{
		Name:  "optimize",
		Usage: "Pack small files into larger ones, and drop rows that deletion vectors delete",
		Description: "Rows do not change and keep their order. The old files stay until a vacuum.\n\n" +
			"   " + programName + " delta optimize ./lake/orders",
		Flags: []cli.Flag{asJSON, dryRun,
			&cli.StringFlag{Name: flagTargetSize, Usage: "size of the files to make, like 256mb; the default is the table's property delta.targetFileSize, or 128mb"},
		},
		Action: onTable(func(ctx context.Context, c *cli.Context, t *delta.Table) error {
			o := maintain.OptimizeOptions{DryRun: c.Bool(flagDryRun)}
			if text := c.String(flagTargetSize); text != "" {
				size, err := maintain.ParseBytes(text)
				if err != nil {
					return &exitError{code: exitUsage, err: fmt.Errorf("--%s: %w", flagTargetSize, err)}
				}
				o.TargetBytes = size
			}
			result, err := maintain.Optimize(ctx, t, o)
			if err != nil && result.Commits > 0 {
				err = fmt.Errorf("after %s were packed into %s: %w", counted(result.FilesRemoved, "file"), humanCount(result.FilesAdded), err)
			}
			if err != nil {
				return err
			}
			return printOptimize(stdout, c, o, result)
		}),
	}
}

func printOptimize(w io.Writer, c *cli.Context, o maintain.OptimizeOptions, r maintain.OptimizeResult) error {
	if c.Bool(flagJSON) {
		return printJSON(w, struct {
			DryRun bool `json:"dryRun"`
			maintain.OptimizeResult
			Seconds float64 `json:"seconds"`
		}{o.DryRun, r, r.Took.Seconds()})
	}
	if r.Bins == 0 {
		_, err := fmt.Fprintln(w, "Nothing to pack.")
		return err
	}
	if o.DryRun {
		_, err := fmt.Fprintf(w, "Would pack %s (%s) into about %s.\n", counted(r.FilesRemoved, "file"), humanBytes(r.BytesRemoved), humanCount(r.FilesAdded))
		return err
	}
	vectors := ""
	if r.VectorsRemoved > 0 {
		vectors = ", " + counted(r.VectorsRemoved, "deletion vector") + " gone"
	}
	_, err := fmt.Fprintf(w, "Packed %s (%s) into %s (%s)%s: version %d, %s.\n", counted(r.FilesRemoved, "file"), humanBytes(r.BytesRemoved),
		humanCount(r.FilesAdded), humanBytes(r.BytesAdded), vectors, r.Version, humanSeconds(r.Took))
	return err
}

func vacuumCommand(stdout io.Writer, asJSON, dryRun cli.Flag) *cli.Command {
	return &cli.Command{
		Name:  "vacuum",
		Usage: "Delete files that no version within the retention needs",
		Description: "Older versions cannot be read afterwards. Everything in the table's folder that the table does not know is deleted too, once it is older than the\n" +
			"   retention, but for names that begin with \"_\" or \".\" and folders with a table of their own.\n\n" +
			"   " + programName + " delta vacuum ./lake/orders --dry-run --list",
		Flags: []cli.Flag{asJSON, dryRun,
			&cli.StringFlag{Name: flagRetain, Usage: "how long removed files are kept, like 36h or 7d; the default is the table's property delta.deletedFileRetentionDuration, or 7d"},
			&cli.BoolFlag{Name: flagForce, Usage: "allow a shorter time than the table promises: running writers and readers may lose their files"},
			&cli.BoolFlag{Name: flagList, Usage: "print the files first"},
		},
		Action: onTable(func(ctx context.Context, c *cli.Context, t *delta.Table) error {
			retention, err := retentionFlag(c)
			if err != nil {
				return err
			}
			o := maintain.VacuumOptions{DryRun: c.Bool(flagDryRun), Force: c.Bool(flagForce), Retention: retention}
			var printing error
			if c.Bool(flagList) {
				o.Found = func(f store.Info) {
					if printing == nil {
						printing = printFound(stdout, c, f)
					}
				}
			}
			result, err := maintain.Vacuum(ctx, t, o)
			if err != nil {
				return err
			}
			if printing != nil {
				return printing
			}
			return printVacuum(stdout, c, o, result)
		}),
	}
}

// retentionFlag is nil without the flag.
func retentionFlag(c *cli.Context) (*time.Duration, error) {
	text := c.String(flagRetain)
	if text == "" {
		return nil, nil
	}
	d, err := parseRetention(text)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("--%s: %w", flagRetain, err)}
	}
	return &d, nil
}

func printFound(w io.Writer, c *cli.Context, f store.Info) error {
	if c.Bool(flagJSON) {
		return printJSON(w, map[string]any{"path": f.Path, "bytes": f.Size, "modified": f.ModTime.UTC()})
	}
	_, err := fmt.Fprintf(w, "%s  %s\n", f.Path, humanBytes(f.Size))
	return err
}

func printVacuum(w io.Writer, c *cli.Context, o maintain.VacuumOptions, r maintain.VacuumResult) error {
	if c.Bool(flagJSON) {
		return printJSON(w, struct {
			DryRun    bool   `json:"dryRun"`
			Retention string `json:"retention"`
			maintain.VacuumResult
			Seconds float64 `json:"seconds"`
		}{o.DryRun, maintain.FormatRetention(r.Retention), r, r.Took.Seconds()})
	}
	for _, folder := range r.Nested {
		if _, err := fmt.Fprintf(w, "Left alone: %s holds a table of its own.\n", folder); err != nil {
			return err
		}
	}
	verb, took := "Deleted", ", in "+humanSeconds(r.Took)
	if o.DryRun {
		verb, took = "Would delete", ""
	}
	_, err := fmt.Fprintf(w, "%s %s (%s) that no version of the last %s needs%s.\n", verb, counted(r.Files, "file"), humanBytes(r.Bytes),
		maintain.FormatRetention(r.Retention), took)
	return err
}

func cleanupCommand(stdout io.Writer, asJSON, dryRun cli.Flag) *cli.Command {
	return &cli.Command{
		Name:  "cleanup",
		Usage: "Delete old commits and checkpoints from the log",
		Description: "The oldest version that stays has a checkpoint; older ones, and their history, are gone. Do not clean the log of a table whose facts are still to be\n" +
			"   written: the pipeline does it by itself and waits for them.\n\n" +
			"   " + programName + " delta cleanup ./lake/orders --dry-run",
		Flags: []cli.Flag{asJSON, dryRun,
			&cli.StringFlag{Name: flagRetain, Usage: "how long commits are kept, like 30d; the default is the table's property delta.logRetentionDuration, or 30d"},
		},
		Action: onTable(func(ctx context.Context, c *cli.Context, t *delta.Table) error {
			retention, err := retentionFlag(c)
			if err != nil {
				return err
			}
			o := maintain.LogOptions{DryRun: c.Bool(flagDryRun), Retention: retention}
			result, err := maintain.CleanLog(ctx, t, o)
			if err != nil {
				return err
			}
			return printCleanup(stdout, c, o, result)
		}),
	}
}

func printCleanup(w io.Writer, c *cli.Context, o maintain.LogOptions, r maintain.LogResult) error {
	if c.Bool(flagJSON) {
		return printJSON(w, struct {
			DryRun bool `json:"dryRun"`
			maintain.LogResult
			Seconds float64 `json:"seconds"`
		}{o.DryRun, r, r.Took.Seconds()})
	}
	if r.Files == 0 {
		_, err := fmt.Fprintf(w, "Nothing to delete: %s. What is younger than %s stays.\n", r.Kept, humanTime(r.Cutoff))
		return err
	}
	verb, took := "Deleted", ", in "+humanSeconds(r.Took)
	if o.DryRun {
		verb, took = "Would delete", ""
	}
	if r.Oldest < 0 { // only what checkpoints left behind
		_, err := fmt.Fprintf(w, "%s %s (%s) that no checkpoint names%s.\n", verb, counted(r.Sidecars, "sidecar"), humanBytes(r.Bytes), took)
		return err
	}
	_, err := fmt.Fprintf(w, "%s %s and %s (%s in %s); the oldest version is %d then%s.\n", verb, counted(r.Commits, "commit"), counted(r.Checkpoints, "checkpoint"),
		humanBytes(r.Bytes), counted(r.Files, "file"), r.Oldest, took)
	return err
}
