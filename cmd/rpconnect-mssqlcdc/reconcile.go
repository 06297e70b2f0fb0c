package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/cloud"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
)

func reconcileCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "reconcile",
		Usage: "Compare a Delta table with its source, row by row",
		Description: "Reads the source table and the Delta table, and tells which keys are missing, too much, doubled or different, and in which columns. What has only not arrived yet is told\n" +
			"   from what is wrong by the changes that CDC has after the table's position. It writes nothing but the report, and needs no more rights than the pipeline.\n\n" +
			"   MSSQL_DSN='sqlserver://…' " + programName + " reconcile --table dbo.orders --delta ./lake/orders\n\n" +
			"   Exit code 0: nothing is wrong. 1: something is. 2: it could not be told, see stderr.",
		Flags: append(reconcileSources(), reconcileChoices()...),
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			result, err := compareTables(ctx, c, stderr)
			if err != nil {
				return &exitError{code: exitUnknown, err: err}
			}
			if err := printResult(stdout, result, c.Bool(flagJSON)); err != nil {
				return &exitError{code: exitUnknown, err: err}
			}
			if result.Status == reconcile.Mismatch {
				return &exitError{code: exitFailure}
			}
			return nil
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return &exitError{code: exitUnknown, err: err} },
	}
}

// reconcileSources are the flags that say what is compared.
func reconcileSources() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "connection-string", Usage: "how to reach the database", EnvVars: []string{"MSSQL_DSN"}, Required: true},
		&cli.StringFlag{Name: "table", Usage: "table of the source: schema.name", Required: true},
		&cli.StringFlag{Name: "delta", Usage: "path or URI of the Delta table", Required: true},
		&cli.StringFlag{Name: "kind", Usage: "bronze (every change) or silver (one row per key); by default as its columns say"},
		&cli.StringFlag{Name: "app-id", Usage: "app_id of the pipeline that writes a bronze table, if several do"},
		&cli.StringFlag{Name: "lsn", Usage: "commit up to which the table holds every change, if it does not say so itself"},
		&cli.StringFlag{Name: "control", Usage: "path or URI of the control table: tells how far the table is on a quiet source"},
		&cli.StringFlag{Name: "target", Usage: "name of the table there and in the report; by default that of --table"},
		&cli.StringFlag{Name: "facts", Usage: "path or URI of the facts table: the chunks of the snapshot are checked against it"},
		&cli.StringFlag{Name: "report", Usage: "path or URI of a Delta table that the report is added to"},
		&cli.StringFlag{Name: "capture-instance", Usage: "instance to take columns and key from; the newest by default"},
		&cli.StringSliceFlag{Name: "key", Usage: "column that identifies a row, where there is no unique index"},
		&cli.StringSliceFlag{Name: "exclude", Usage: "column not to compare"},
		&cli.StringSliceFlag{Name: "column-type", Usage: "column=type, as column_types of the input"},
		&cli.StringSliceFlag{Name: "rename", Usage: "column=name that the Delta table has for it"},
		&cli.StringFlag{Name: "deleted-column", Usage: "column of a silver table that marks deleted rows"},
		&cli.StringFlag{Name: "time-zone", Usage: "as source_time_zone of the input", Value: "auto"},
	}
}

// reconcileChoices are the flags that say how.
func reconcileChoices() []cli.Flag {
	return []cli.Flag{
		&cli.Float64Flag{Name: "sample", Usage: "share of the rows that are compared whole; of the others only the keys, unless one of their bucket differs", Value: 1},
		&cli.Uint64Flag{Name: "seed", Usage: "of the sample; by default another one each time"},
		&cli.Int64Flag{Name: "bucket-rows", Usage: "rows that are read and counted together", Value: reconcile.DefaultBucketRows},
		&cli.Int64Flag{Name: "budget", Usage: "rows a second that are read from the source at most; 0 is no limit"},
		&cli.IntFlag{Name: "connections", Usage: "buckets that are read at once", Value: reconcile.DefaultConnections},
		&cli.StringFlag{Name: "isolation", Usage: "read_committed or snapshot", Value: "read_committed"},
		&cli.Int64Flag{Name: "memory-mb", Usage: "digests that are kept in memory before they are spilled to a file", Value: reconcile.DefaultMemory >> 20},
		&cli.StringFlag{Name: "temp-dir", Usage: "where that file is; the system's by default"},
		&cli.DurationFlag{Name: "wait", Usage: "how long to wait for capture to pass the read, where keys differ", Value: reconcile.DefaultWait},
		&cli.DurationFlag{Name: "settle", Usage: "how long to wait for the table to pass changes that are in flight", Value: 30 * time.Second},
		&cli.IntFlag{Name: "max-keys", Usage: "keys that are listed; all are counted", Value: reconcile.DefaultMaxKeys},
		&cli.BoolFlag{Name: "hide-keys", Usage: "no values of keys, neither here nor in the report"},
		&cli.BoolFlag{Name: flagJSON, Usage: "print one line of JSON"},
	}
}

// compareTables opens what the flags name and compares.
func compareTables(ctx context.Context, c *cli.Context, stderr io.Writer) (result *reconcile.Result, err error) {
	config, err := reconcileConfig(c, stderr)
	if err != nil {
		return nil, err
	}
	lake := &opened{registry: cloud.NewRegistry(cloud.FromEnvironment(os.Getenv))}
	defer func() { err = errors.Join(err, lake.close(ctx)) }()
	if err := lake.targets(ctx, c, &config); err != nil {
		return nil, err
	}
	client, err := sqlserver.Open(ctx, sqlserver.Config{ConnectionString: c.String("connection-string"), TimeZone: c.String("time-zone"), MaxConnections: config.Connections + 2})
	if err != nil {
		return nil, fmt.Errorf("connecting to SQL Server: %w", err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	config.Client = client
	if result, err = reconcile.Run(ctx, config); err != nil {
		return nil, err
	}
	if c.Bool("hide-keys") {
		result = result.WithoutKeys()
	}
	return result, lake.report(ctx, c.String("report"), result)
}

// reconcileConfig is what the flags say that needs no connection.
func reconcileConfig(c *cli.Context, stderr io.Writer) (reconcile.Config, error) {
	config := reconcile.Config{
		Instance: c.String("capture-instance"), Keys: c.StringSlice("key"),
		Columns:    sqlserver.ColumnOptions{Exclude: c.StringSlice("exclude")},
		BucketRows: c.Int64("bucket-rows"), Sample: c.Float64("sample"), Seed: c.Uint64("seed"), Budget: c.Int64("budget"), Connections: c.Int("connections"),
		Memory: c.Int64("memory-mb") << 20, Dir: c.String("temp-dir"), Wait: c.Duration("wait"), Settle: c.Duration("settle"), MaxKeys: c.Int("max-keys"),
		AppID: c.String("app-id"),
		Say:   func(text string) { fmt.Fprintf(stderr, "%s\n", text) },
	}
	if !c.IsSet("seed") {
		config.Seed = uint64(time.Now().UnixNano())
	}
	var err error
	if config.Table, err = mssqlcdc.ParseTableID(c.String("table")); err != nil {
		return config, fmt.Errorf("--table: %w", err)
	}
	switch c.String("isolation") {
	case "read_committed":
	case "snapshot":
		config.Isolation = sqlserver.Snapshot
	default:
		return config, fmt.Errorf("--isolation %s: want read_committed or snapshot", c.String("isolation"))
	}
	if config.Columns.Types, err = pairs("column-type", c.StringSlice("column-type")); err != nil {
		return config, err
	}
	if config.Target.Rename, err = pairs("rename", c.StringSlice("rename")); err != nil {
		return config, err
	}
	if c.IsSet("kind") {
		if config.Target.Kind, err = reconcile.ParseKind(c.String("kind")); err != nil {
			return config, fmt.Errorf("--kind: %w", err)
		}
	}
	config.Target.DeletedColumn = c.String("deleted-column")
	config.Target.Name = c.String("target")
	if config.Target.Name == "" {
		config.Target.Name = config.Table.String()
	}
	return config, nil
}

// pairs reads column=value flags.
func pairs(flag string, texts []string) (map[string]string, error) {
	values := map[string]string{}
	for _, text := range texts {
		column, value, ok := strings.Cut(text, "=")
		if !ok || column == "" || value == "" {
			return nil, fmt.Errorf("--%s %s: want column=value", flag, text)
		}
		values[column] = value
	}
	return values, nil
}

// opened is what has to be closed at the end.
type opened struct {
	registry *store.Registry
	tables   []*delta.Table
	control  *control.Table
}

func (o *opened) close(ctx context.Context) error {
	var all []error
	ctx = context.WithoutCancel(ctx)
	for _, table := range o.tables {
		all = append(all, table.Close(ctx))
	}
	if o.control != nil {
		all = append(all, o.control.Close(ctx))
	}
	return errors.Join(all...)
}

func (o *opened) open(ctx context.Context, path string) (*delta.Table, error) {
	st, err := o.registry.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	table, err := delta.Open(ctx, st, delta.Options{Engine: programName, CheckpointInterval: -1})
	if errors.Is(err, delta.ErrNotTable) {
		return nil, fmt.Errorf("%s holds no Delta table: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	o.tables = append(o.tables, table)
	return table, nil
}

// report adds the result to the report table.
func (o *opened) report(ctx context.Context, path string, result *reconcile.Result) error {
	if path == "" {
		return nil
	}
	st, err := o.registry.Open(ctx, path)
	if err != nil {
		return err
	}
	table, err := reconcile.OpenReport(ctx, st, delta.Options{Engine: programName})
	if err != nil {
		return err
	}
	o.tables = append(o.tables, table)
	return result.Append(ctx, table)
}
