package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/cloud"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/facts"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

func seedCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "seed",
		Usage: "Begin a table with a copy that exists, or go on with the tables of mssql-cdc-pyspark",
		Description: "Writes a copy of a source table, Delta or Parquet, into bronze as its snapshot, and the resume position behind it, so that the pipeline begins with the changes after the copy.\n" +
			"   Stop the pipeline of the table before. A copy that was finished after --time is sound, one that was begun before it is not: changes between would be lost.\n\n" +
			"   MSSQL_DSN='sqlserver://…' " + programName + " seed --table dbo.orders --copy ./export/orders --time 2026-11-30T12:00:00Z \\\n" +
			"      --delta ./lake/orders --app-id orders --facts ./lake/_facts --position ./lake/_position\n\n" +
			"   With --adopt there is no copy: bronze and facts are those of mssql-cdc-pyspark, and the resume position is written where they end. Paths, app_id and\n" +
			"   facts are those of the pipeline to come.\n\n" +
			"   Exit code 0: done, or done before. 1: it would not be sound, or failed; stderr says what to do.",
		Flags: seedFlags(),
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			said, err := seedTable(ctx, c, stderr)
			if err != nil {
				return &exitError{code: exitFailure, err: fmt.Errorf("seeding %s: %w", c.String("table"), err)}
			}
			if _, err := fmt.Fprintln(stdout, said); err != nil {
				return &exitError{code: exitFailure, err: fmt.Errorf("writing what was done: %w", err)}
			}
			return nil
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return &exitError{code: exitFailure, err: err} },
	}
}

func seedFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "connection-string", Usage: "how to reach the database", EnvVars: []string{"MSSQL_DSN"}, Required: true},
		&cli.StringFlag{Name: "time-zone", Usage: "as source_time_zone of the input", Value: "auto"},
		&cli.StringFlag{Name: "table", Usage: "table of the source: schema.name", Required: true},
		&cli.StringFlag{Name: "capture-instance", Usage: "instance to go on in; by default the newest that has every change after the copy"},
		&cli.StringFlag{Name: "copy", Usage: "path or URI of a Delta table, or a Parquet file or a folder of them on this machine"},
		&cli.StringFlag{Name: "lsn", Usage: "commit up to which the copy has every change"},
		&cli.StringFlag{Name: "time", Usage: "the same as a time: 2026-11-30T12:00:00Z"},
		&cli.BoolFlag{Name: "adopt", Usage: "go on with the tables of mssql-cdc-pyspark"},
		&cli.StringFlag{Name: "delta", Usage: "path or URI of bronze, as path of the output", Required: true},
		&cli.StringFlag{Name: "app-id", Usage: "as app_id of the output", Required: true},
		&cli.StringFlag{Name: "facts", Usage: "path or URI of the facts table, as facts_path of the output"},
		&cli.StringFlag{Name: "position", Usage: "folder of the atomic_file cache of the input", Required: true},
		&cli.StringFlag{Name: "checkpoint-key", Usage: "as checkpoint_cache_key of the input", Value: input.Name},
		&cli.BoolFlag{Name: "allow-missing-columns", Usage: "captured columns that the copy lacks are NULL in its rows"},
		&cli.BoolFlag{Name: "reseed", Usage: "put a newer copy over a table that was begun; what was committed between is lost, and recorded as lost"},
		&cli.StringSliceFlag{Name: "partition-by", Usage: "as partition_by of the output, for a table that this makes"},
		&cli.StringSliceFlag{Name: "table-property", Usage: "key=value, as table_properties of the output, for a table that this makes"},
		&cli.StringSliceFlag{Name: "exclude", Usage: "captured column to leave out, as exclude_columns of the input"},
		&cli.StringSliceFlag{Name: "column-type", Usage: "column=type, as column_types of the input"},
		&cli.StringSliceFlag{Name: "snapshot-key", Usage: "as snapshot_keys of the input: for a snapshot that --adopt has to take again"},
	}
}

// seeding is one run of the command.
type seeding struct {
	table  mssqlcdc.TableID
	client *sqlserver.Client
	store  *checkpoint.Store
	lake   *opened
	bronze *bronze.Table
	facts  *facts.Writer // nil without --facts
	flags  *cli.Context
	stderr io.Writer
}

// seedTable does what the flags say, and tells what was done.
func seedTable(ctx context.Context, c *cli.Context, stderr io.Writer) (said string, err error) {
	s := &seeding{flags: c, stderr: stderr, lake: &opened{registry: cloud.NewRegistry(cloud.FromEnvironment(os.Getenv))}}
	if s.table, err = mssqlcdc.ParseTableID(c.String("table")); err != nil {
		return "", fmt.Errorf("--table: %w", err)
	}
	if err := checkSeedFlags(c); err != nil {
		return "", err
	}
	cache, err := checkpoint.NewAtomicFile(c.String("position"))
	if err != nil {
		return "", fmt.Errorf("--position: %w", err)
	}
	s.store = checkpoint.NewStore(func(_ context.Context, use func(checkpoint.Cache)) error { use(cache); return nil }, c.String("checkpoint-key"))
	s.client, err = sqlserver.Open(ctx, sqlserver.Config{ConnectionString: c.String("connection-string"), TimeZone: c.String("time-zone")})
	if err != nil {
		return "", fmt.Errorf("connecting to SQL Server: %w", err)
	}
	defer func() { err = errors.Join(err, s.client.Close()) }()
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if c.Bool("adopt") {
		return s.adopt(ctx)
	}
	return s.seed(ctx)
}

func checkSeedFlags(c *cli.Context) error {
	given := func(names ...string) (n int) {
		for _, name := range names {
			if c.IsSet(name) {
				n++
			}
		}
		return n
	}
	switch {
	case c.Bool("adopt") && given("copy", "lsn", "time", "reseed", "allow-missing-columns") > 0:
		return errors.New("--adopt goes on with a table as it is: it takes no --copy, --lsn, --time, --reseed or --allow-missing-columns")
	case c.Bool("adopt") && !c.IsSet("facts"):
		return errors.New("--adopt needs --facts: they say how far bronze is")
	case !c.Bool("adopt") && !c.IsSet("copy"):
		return errors.New("set --copy, or --adopt for the tables of mssql-cdc-pyspark")
	case !c.Bool("adopt") && given("lsn", "time") != 1:
		return errors.New("set one of --lsn and --time: up to where the copy has every change")
	}
	return nil
}

func (s *seeding) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var all []error
	if s.bronze != nil {
		all = append(all, s.bronze.Close(ctx))
	}
	if s.facts != nil {
		all = append(all, s.facts.Close(ctx))
	}
	return errors.Join(append(all, s.lake.close(ctx))...)
}

// openLake opens bronze and the facts.
func (s *seeding) openLake(ctx context.Context, adopt bronze.Adoption) error {
	path := s.flags.String("delta")
	if uri := s.flags.String("facts"); uri != "" {
		st, err := s.lake.registry.Open(ctx, uri)
		if err != nil {
			return fmt.Errorf("--facts: %w", err)
		}
		if s.facts, err = facts.Open(ctx, st, facts.Config{Table: target.Spec{Name: uri, Delta: delta.Options{Engine: programName}}}); err != nil {
			return fmt.Errorf("--facts: %w", err)
		}
		adopt.Find = func(ctx context.Context) (mssqlcdc.LSN, error) {
			return s.facts.LastEnd(ctx, path, s.flags.String("app-id"))
		}
	}
	properties, err := pairs("table-property", s.flags.StringSlice("table-property"))
	if err != nil {
		return err
	}
	st, err := s.lake.registry.Open(ctx, path)
	if err != nil {
		return fmt.Errorf("--delta: %w", err)
	}
	s.bronze, err = bronze.Open(ctx, st, bronze.Config{
		AppID: s.flags.String("app-id"), Adopt: adopt,
		Table: target.Spec{Name: path, PartitionBy: s.flags.StringSlice("partition-by"), Properties: properties, Delta: delta.Options{Engine: programName}},
	})
	if err != nil {
		return fmt.Errorf("--delta: %w", err)
	}
	return nil
}

// record writes facts, like the output after a commit.
func (s *seeding) record(ctx context.Context, window *mssqlcdc.Fact, events []mssqlcdc.Fact) error {
	if s.facts == nil {
		return nil
	}
	key := s.bronze.FactsKey()
	if _, err := s.facts.AddEvents(ctx, key, events); err != nil {
		return err
	}
	if window != nil {
		s.facts.AddWindow(key, *window, false)
	}
	_, err := s.facts.Flush(ctx)
	return err
}

// layout are the captured columns of an instance as the pipeline reads them.
func (s *seeding) layout(ctx context.Context, instance mssqlcdc.CaptureInstance) (sqlserver.Layout, error) {
	types, err := pairs("column-type", s.flags.StringSlice("column-type"))
	if err != nil {
		return sqlserver.Layout{}, err
	}
	return s.client.Columns(ctx, instance, sqlserver.ColumnOptions{Exclude: s.flags.StringSlice("exclude"), Types: types})
}

// stateAt is a resume position behind an LSN.
func stateAt(instance mssqlcdc.CaptureInstance, lsn, completeFrom mssqlcdc.LSN, completeFromTime time.Time) checkpoint.State {
	return checkpoint.State{
		Version: checkpoint.StateVersion, LSN: lsn,
		Instance: instance.Name, InstanceCreated: instance.CreateDate, InstanceStart: instance.StartLSN,
		CompleteFrom: completeFrom, CompleteFromTime: completeFromTime,
	}
}

func (s *seeding) warn(format string, args ...any) {
	fmt.Fprintf(s.stderr, programName+": "+format+"\n", args...)
}
