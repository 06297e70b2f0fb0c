package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/cloud"
)

// Exit codes of delta beside 0 and 1, which is that it failed.
const (
	exitUsage   = 2 // wrong arguments
	exitNoTable = 3 // there is no table
)

// Flags that several of the commands have.
const (
	flagJSON   = "json"
	flagDryRun = "dry-run"
	flagRetain = "retain"
)

// deltaCommand is the group of commands about one Delta table, whoever writes it.
func deltaCommand(stdout io.Writer) *cli.Command {
	asJSON := &cli.BoolFlag{Name: flagJSON, Usage: "print JSON"}
	dryRun := &cli.BoolFlag{Name: flagDryRun, Usage: "only tell what would be done"}
	group := &cli.Command{
		Name:  "delta",
		Usage: "Look at a Delta table and keep it in shape",
		Description: "PATH is the folder or the URI of a table, of this program or of any other. Tables that this program writes to are compacted and their logs cleaned\n" +
			"   by it; vacuum is up to you. Each command can run beside writers of the table, and be stopped at any time.\n\n" +
			"   Exit code 0: done, or nothing to do. 1: it failed, see stderr. 2: wrong arguments. 3: there is no table.",
		Subcommands: []*cli.Command{
			inspectCommand(stdout, asJSON),
			historyCommand(stdout, asJSON),
			checkpointCommand(stdout, asJSON),
			optimizeCommand(stdout, asJSON, dryRun),
			vacuumCommand(stdout, asJSON, dryRun),
			cleanupCommand(stdout, asJSON, dryRun),
		},
	}
	for _, c := range group.Subcommands {
		c.ArgsUsage = "PATH"
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return &exitError{code: exitUsage, err: err} }
	}
	group.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return &exitError{code: exitUsage, err: fmt.Errorf("delta has no command %q: see %s delta --help", c.Args().First(), programName)}
		}
		return cli.ShowSubcommandHelp(c)
	}
	return group
}

// onTable is the action of a command about the table that its argument names.
func onTable(do func(ctx context.Context, c *cli.Context, t *delta.Table) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		path, err := tablePath(c)
		if err != nil {
			return &exitError{code: exitUsage, err: err}
		}
		ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = withTable(ctx, path, func(t *delta.Table) error { return do(ctx, c, t) })
		var exit *exitError
		if err == nil || errors.As(err, &exit) {
			return err
		}
		return &exitError{code: exitFailure, err: err}
	}
}

// tablePath is the one argument. Flags may stand behind it, too.
func tablePath(c *cli.Context) (string, error) {
	rest := c.Args().Slice()
	var path string
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		if !strings.HasPrefix(arg, "-") {
			if path != "" {
				return "", fmt.Errorf("one table at a time: %s and %s", path, arg)
			}
			path = arg
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		flag := flagOf(c.Command, name)
		if _, isBool := flag.(*cli.BoolFlag); isBool && !hasValue {
			value, hasValue = "true", true
		}
		if flag != nil && !hasValue && len(rest) > 0 {
			value, hasValue = rest[0], true
			rest = rest[1:]
		}
		if flag == nil || !hasValue {
			return "", fmt.Errorf("flag %s is unknown or lacks its value: see %s delta %s --help", arg, programName, c.Command.Name)
		}
		if err := c.Set(name, value); err != nil {
			return "", fmt.Errorf("flag %s: %w", arg, err)
		}
	}
	if path == "" {
		return "", fmt.Errorf("which table? %s delta %s PATH", programName, c.Command.Name)
	}
	return path, nil
}

func flagOf(c *cli.Command, name string) cli.Flag {
	for _, flag := range c.Flags {
		for _, known := range flag.Names() {
			if known == name {
				return flag
			}
		}
	}
	return nil
}

// withTable opens a table for the time of one call.
func withTable(ctx context.Context, path string, do func(*delta.Table) error) error {
	st, err := cloud.NewRegistry(cloud.FromEnvironment(os.Getenv)).Open(ctx, path)
	if err != nil {
		return err
	}
	table, err := delta.Open(ctx, st, delta.Options{Engine: programName, CheckpointInterval: -1})
	if errors.Is(err, delta.ErrNotTable) {
		return &exitError{code: exitNoTable, err: fmt.Errorf("%s holds no Delta table: %w", path, err)}
	}
	if err != nil {
		return explain(ctx, st, err)
	}
	if err := do(table); err != nil {
		return errors.Join(explain(ctx, st, err), table.Close(ctx))
	}
	return table.Close(ctx)
}

// explain looks for the file and the line where a log is damaged, if that may be
// why something failed.
func explain(ctx context.Context, st store.Store, err error) error {
	var feature *delta.FeatureError
	var exit *exitError
	var conflict *delta.ConflictError
	if ctx.Err() != nil || errors.As(err, &feature) || errors.As(err, &exit) || errors.As(err, &conflict) {
		return err
	}
	var damaged *maintain.CorruptLogError
	if errors.As(maintain.FindCorruption(ctx, st), &damaged) {
		return damaged
	}
	return err
}

// printJSON prints a value as one line.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}
