package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
)

func inspectCommand(stdout io.Writer, asJSON cli.Flag) *cli.Command {
	return &cli.Command{
		Name:        "inspect",
		Usage:       "Tell what a table consists of and what would do it good",
		Description: programName + " delta inspect ./lake/orders",
		Flags:       []cli.Flag{asJSON},
		Action: onTable(func(ctx context.Context, c *cli.Context, t *delta.Table) error {
			report, err := maintain.Inspect(ctx, t)
			if err != nil {
				return err
			}
			if c.Bool(flagJSON) {
				return printJSON(stdout, report)
			}
			return printReport(stdout, report)
		}),
	}
}

func printReport(w io.Writer, r maintain.Report) error {
	p := newPage(w)
	p.fact("table", r.Location)
	p.fact("name", r.Name)
	p.fact("comment", r.Description)
	p.fact("id", r.ID)
	p.fact("created", humanTime(r.Created))
	p.fact("version", versionText(r))
	p.fact("protocol", protocolText(r))
	p.fact("read only", r.ReadOnly)
	p.fact("partitioned by", strings.Join(r.PartitionBy, ", "))
	printSizes(p, r)
	for i, app := range r.Applications {
		label := ""
		if i == 0 {
			label = "positions"
		}
		p.row(label, fmt.Sprintf("%s = %d  %s", app.ID, app.Version, humanTime(app.Updated)))
	}
	for i, name := range slices.Sorted(maps.Keys(r.Properties)) {
		label := ""
		if i == 0 {
			label = "properties"
		}
		p.row(label, name+" = "+r.Properties[name])
	}
	if err := p.end(); err != nil {
		return err
	}
	p.row("")
	p.row("COLUMN", "TYPE", "NULL", "COMMENT")
	for _, column := range r.Columns {
		null := "yes"
		if !column.Nullable {
			null = "no"
		}
		p.row(column.Name, column.Type, null, column.Comment)
	}
	if len(r.Advice) > 0 {
		p.row("")
	}
	for _, sentence := range r.Advice {
		p.row("! " + sentence)
	}
	return p.end()
}

func versionText(r maintain.Report) string {
	text := fmt.Sprint(r.Version)
	if at := humanTime(r.Time); at != "" {
		text += " at " + at
	}
	if r.Operation != "" {
		text += " by " + r.Operation
	}
	if r.Engine != "" {
		text += " of " + r.Engine
	}
	return text
}

func protocolText(r maintain.Report) string {
	text := fmt.Sprintf("reader %d, writer %d", r.MinReaderVersion, r.MinWriterVersion)
	if len(r.WriterFeatures) > 0 {
		text += ": " + strings.Join(r.WriterFeatures, ", ")
	}
	return text
}

func printSizes(p page, r maintain.Report) {
	d, l := r.Data, r.Log
	text := fmt.Sprintf("%s in %s", humanBytes(d.Bytes), counted(d.Files, "file"))
	if len(r.PartitionBy) > 0 {
		text += " of " + counted(d.Partitions, "partition")
	}
	if d.Rows >= 0 {
		text += ", " + counted(d.Rows, "row")
	}
	p.fact("data", text)
	if d.Files > 0 {
		p.fact("file sizes", fmt.Sprintf("%s smallest, %s median, %s largest; %s below 16 MB",
			humanBytes(d.Smallest), humanBytes(d.Median), humanBytes(d.Largest), humanCount(d.Small)))
	}
	if d.Vectors > 0 {
		p.fact("deleted rows", fmt.Sprintf("%s by %s", humanCount(d.DeletedRows), counted(d.Vectors, "deletion vector")))
	}
	p.fact("removed files", fmt.Sprintf("%s, %s, kept for %s", humanCount(d.Removed), humanBytes(d.RemovedBytes), l.FileRetention))
	text = fmt.Sprintf("%s, %s, %s", counted(l.Commits, "commit"), counted(l.Checkpoints, "checkpoint"), humanBytes(l.Bytes))
	if l.OldestCommit >= 0 {
		text += fmt.Sprintf(", from version %d on, kept for %s", l.OldestCommit, l.LogRetention)
	}
	p.fact("log", text)
	if l.Checkpoint >= 0 {
		p.fact("checkpoint", fmt.Sprintf("of version %d, %s after it", l.Checkpoint, counted(l.Tail, "commit")))
	}
}
