package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

const flagLimit = "limit"

func historyCommand(stdout io.Writer, asJSON cli.Flag) *cli.Command {
	return &cli.Command{
		Name:  "history",
		Usage: "List the newest commits of a table, oldest first",
		Description: "With --json, every commit is a line with all that it says of itself.\n\n" +
			"   " + programName + " delta history ./lake/orders --limit 20",
		Flags: []cli.Flag{asJSON, &cli.Int64Flag{Name: flagLimit, Usage: "how many commits; 0 is all", Value: 50}},
		Action: onTable(func(ctx context.Context, c *cli.Context, t *delta.Table) error {
			from := int64(0)
			if limit := c.Int64(flagLimit); limit > 0 {
				from = t.Snapshot().Version() - limit + 1
			}
			if c.Bool(flagJSON) {
				return printHistoryJSON(ctx, stdout, t, from)
			}
			return printHistory(ctx, stdout, t, from)
		}),
	}
}

func printHistory(ctx context.Context, w io.Writer, t *delta.Table, from int64) error {
	p := newPage(w)
	p.row("VERSION", "TIME", "OPERATION", "ADDED", "REMOVED", "ROWS", "ENGINE", "DETAILS")
	for commit, err := range t.Commits(ctx, from) {
		if err != nil {
			return err
		}
		info := commit.Info
		at := ""
		if info.Timestamp > 0 {
			at = humanTime(time.UnixMilli(info.Timestamp))
		}
		p.row(fmt.Sprint(commit.Version), at, info.Operation, fmt.Sprint(commit.Adds), fmt.Sprint(commit.Removes),
			rowsOf(info), info.EngineInfo, details(info))
	}
	return p.end()
}

// rowsOf is how many rows a commit says it wrote.
func rowsOf(info action.CommitInfo) string {
	for _, name := range []string{"numOutputRows", "num_added_rows", "numTargetRowsInserted"} {
		if n, ok := info.OperationMetrics[name]; ok {
			return n
		}
	}
	return ""
}

// details are the parameters of a commit that tell it from its neighbours.
func details(info action.CommitInfo) string {
	var parts []string
	for _, name := range []string{"queryId", "epochId", "mode", "auto", "status", "properties", "predicate"} {
		if v := info.OperationParameters[name]; v != "" && v != "[]" && v != "{}" {
			parts = append(parts, name+"="+v)
		}
	}
	return strings.Join(parts, " ")
}

// commitLine is a commit as a line of JSON.
type commitLine struct {
	Version int64             `json:"version"`
	Adds    int               `json:"filesAdded"`
	Removes int               `json:"filesRemoved"`
	Txns    []action.Txn      `json:"txn,omitempty"`
	Info    action.CommitInfo `json:"commitInfo"`
}

func printHistoryJSON(ctx context.Context, w io.Writer, t *delta.Table, from int64) error {
	for commit, err := range t.Commits(ctx, from) {
		if err != nil {
			return err
		}
		line := commitLine{Version: commit.Version, Adds: commit.Adds, Removes: commit.Removes, Txns: commit.Txns, Info: commit.Info}
		if err := printJSON(w, line); err != nil {
			return err
		}
	}
	return nil
}
