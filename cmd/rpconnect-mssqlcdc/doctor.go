package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

func doctorCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "Examine a source: rights, capture, retention, columns, time zone",
		Description: "Asks a database everything that a pipeline over it depends on, and prints what to run where something is missing. It writes nothing and needs no more rights than the pipeline.\n\n" +
			"   MSSQL_DSN='sqlserver://…' " + programName + " doctor --tables 'dbo.*'\n\n" +
			"   Exit code 0: a pipeline would run. 1: it would fail. 2: the database could not be examined.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "connection-string", Usage: "how to reach the database", EnvVars: []string{"MSSQL_DSN"}, Required: true},
			&cli.StringSliceFlag{Name: "tables", Usage: "as tables of the input: schema.name, * and ? as wildcards, ! to leave out; all by default"},
			&cli.StringFlag{Name: "time-zone", Usage: "as source_time_zone of the input", Value: "auto"},
			&cli.BoolFlag{Name: "json", Usage: "print one line of JSON per finding"},
		},
		Action: func(c *cli.Context) error {
			findings, err := examine(c.Context, sqlserver.Config{ConnectionString: c.String("connection-string"), TimeZone: c.String("time-zone")}, c.StringSlice("tables"))
			if printErr := printFindings(stdout, findings, c.Bool("json")); printErr != nil {
				return &exitError{code: exitUnknown, err: errors.Join(err, printErr)}
			}
			if err != nil {
				return &exitError{code: exitUnknown, err: err}
			}
			for _, f := range findings {
				if f.Level == sqlserver.LevelError {
					return &exitError{code: exitFailure}
				}
			}
			return nil
		},
	}
}

// examine opens the database and looks at the tables that the patterns name.
func examine(ctx context.Context, config sqlserver.Config, patterns []string) (findings []sqlserver.Finding, err error) {
	client, err := sqlserver.Open(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to SQL Server: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	all, err := client.Instances(ctx)
	if errors.Is(err, sqlserver.ErrCDCDisabled) || errors.Is(err, sqlserver.ErrNoInstances) {
		return []sqlserver.Finding{{Level: sqlserver.LevelError, Check: "capture instances", Object: client.Server().Database, Text: err.Error(), Fix: "sql/enable_database.sql, sql/enable_table.sql, sql/grant_reader.sql"}}, nil
	}
	if err != nil {
		return nil, err
	}
	chosen, err := chooseInstances(all, patterns)
	if err != nil {
		return nil, err
	}
	return client.Examine(ctx, chosen)
}

func chooseInstances(all []mssqlcdc.CaptureInstance, patterns []string) ([]mssqlcdc.CaptureInstance, error) {
	if len(patterns) == 0 {
		return all, nil
	}
	var tables []mssqlcdc.TableID
	for _, instance := range all {
		tables = append(tables, instance.Table)
	}
	chosen, err := input.ChooseTables(patterns, tables)
	if err != nil {
		return nil, fmt.Errorf("--tables: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(all), func(i mssqlcdc.CaptureInstance) bool { return !slices.Contains(chosen, i.Table) }), nil
}

func printFindings(w io.Writer, findings []sqlserver.Finding, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		for _, f := range findings {
			if err := encoder.Encode(f); err != nil {
				return fmt.Errorf("writing the findings: %w", err)
			}
		}
		return nil
	}
	object := ""
	for _, f := range findings {
		if f.Object != object {
			object = f.Object
			if _, err := fmt.Fprintf(w, "%s\n", object); err != nil {
				return fmt.Errorf("writing the findings: %w", err)
			}
		}
		text := fmt.Sprintf("  %-8s %-15s %s\n", f.Level, f.Check, f.Text)
		if f.Fix != "" {
			text += fmt.Sprintf("  %-8s %-15s -> %s\n", "", "", f.Fix)
		}
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("writing the findings: %w", err)
		}
	}
	return nil
}
