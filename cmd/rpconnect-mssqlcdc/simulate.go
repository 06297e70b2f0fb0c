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

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/simulate"
)

func simulateCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "simulate",
		Usage: "Run a SQL Server simulator with a running workload",
		Description: "Speaks TDS, so sqlcmd, tsql and drivers connect to it as to SQL Server. The database lab holds what the workloads and the script make, and lives\n" +
			"   in memory. With --state FILE it can be stopped and started again with the same rows, LSNs and commit times; what clients wrote is not kept.\n\n" +
			"   Workloads: orders (dbo.orders and dbo.order_lines), types (dbo.all_types, every type), key_moves (dbo.key_moves, keys that change),\n" +
			"   huge_transaction (dbo.huge, one transaction), idle (entries without changes), ddl (dbo.changing, columns and capture instances that come and go).",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Usage: "address to listen on", Value: "127.0.0.1:14330"},
			&cli.StringFlag{Name: "script", Usage: "T-SQL `FILE` to run first, batches parted by lines of GO"},
			&cli.StringFlag{Name: "workload", Usage: "`NAMES` of workloads, by commas: " + strings.Join(simulate.Names(), ", ") + "; none: only what the script makes", DefaultText: "orders,types"},
			&cli.DurationFlag{Name: "every", Usage: "pause between two steps of the workloads; 0 makes none after the first hundred", Value: 500 * time.Millisecond},
			&cli.DurationFlag{Name: "capture-interval", Usage: "pause between two scans of the capture job", Value: time.Second},
			&cli.Int64Flag{Name: "seed", Usage: "seed of the workloads and the log", DefaultText: "1"},
			&cli.IntFlag{Name: "rows", Usage: "rows of huge_transaction", DefaultText: "100000"},
			&cli.StringFlag{Name: "state", Usage: "`FILE` to resume from and to go on writing; seed, script, workloads and rows are in it"},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			cfg, err := simulation(c)
			if err != nil {
				return err
			}
			return runSimulation(ctx, cfg, stdout)
		},
	}
}

// simulation reads the flags.
func simulation(c *cli.Context) (simulate.Config, error) {
	cfg := simulate.Config{
		Addr: c.String("addr"), Seed: c.Int64("seed"), WarmUp: 100, Every: c.Duration("every"), CaptureInterval: c.Duration("capture-interval"),
		HugeRows: c.Int("rows"), State: c.String("state"),
	}
	switch names := c.String("workload"); names {
	case "":
	case "none":
		cfg.Workloads = []string{}
	default:
		cfg.Workloads = strings.Split(names, ",")
	}
	if path := c.String("script"); path != "" {
		script, err := os.ReadFile(path)
		if err != nil {
			return cfg, fmt.Errorf("reading the script: %w", err)
		}
		cfg.Script = string(script)
	}
	return cfg, nil
}

func runSimulation(ctx context.Context, cfg simulate.Config, stdout io.Writer) (err error) {
	sim, err := simulate.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	tables, err := sim.Server.Query(ctx, `SELECT SCHEMA_NAME(schema_id) + '.' + name FROM sys.tables WHERE is_tracked_by_cdc = 1 ORDER BY 1`)
	if err != nil {
		return fmt.Errorf("listing the tables: %w", err)
	}
	names := make([]string, len(tables.Rows))
	for i, row := range tables.Strings() {
		names[i] = row[0]
	}
	fmt.Fprintf(stdout, "A SQL Server simulator listens on %s: database lab, with CDC: %s.\n\n", sim.Server.Addr(), strings.Join(names, ", "))
	fmt.Fprintf(stdout, "export MSSQL_DSN='%s'\n\n", sim.Server.DSN())
	fmt.Fprintf(stdout, "Next, in another terminal: the line above, then %s -c config/examples/orders.yaml\nEnd with Ctrl-C", programName)
	if cfg.State != "" {
		fmt.Fprintf(stdout, ", go on with simulate --state %s", cfg.State)
	}
	fmt.Fprintln(stdout, ".")
	return sim.Run(ctx)
}
