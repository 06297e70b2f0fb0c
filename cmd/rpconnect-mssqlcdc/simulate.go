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

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

func simulateCommand(stdout io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "simulate",
		Usage: "Run a SQL Server simulator with a running workload",
		Description: "Speaks TDS, so sqlcmd, tsql and drivers connect to it as to SQL Server. The database holds dbo.orders and dbo.order_lines with CDC, which the\n" +
			"   workload changes all the time, and dbo.all_types. It lives in memory and is gone when the program ends.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Usage: "address to listen on", Value: "127.0.0.1:14330"},
			&cli.DurationFlag{Name: "every", Usage: "pause between two transactions of the workload; 0 writes none after the first hundred", Value: 500 * time.Millisecond},
			&cli.DurationFlag{Name: "capture-interval", Usage: "pause between two scans of the capture job", Value: time.Second},
			&cli.Int64Flag{Name: "seed", Usage: "seed of the workload and the log", Value: 1},
		},
		Action: func(c *cli.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			return simulate(ctx, c, stdout)
		},
	}
}

func simulate(ctx context.Context, c *cli.Context, stdout io.Writer) (err error) {
	sim, err := sqlserversim.Start(
		sqlserversim.WithAddr(c.String("addr")),
		sqlserversim.WithSeed(c.Int64("seed")),
		sqlserversim.WithCaptureInterval(c.Duration("capture-interval")),
	)
	if err != nil {
		return fmt.Errorf("starting the simulator: %w", err)
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	orders, err := workload.NewOrders(ctx, sim, workload.OrdersConfig{Seed: c.Int64("seed"), Start: time.Now().UTC()})
	if err != nil {
		return err
	}
	if _, err := workload.WriteTypes(ctx, sim); err != nil {
		return err
	}
	if err := orders.Run(ctx, 100); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "A SQL Server simulator listens on %s: database lab with dbo.orders, dbo.order_lines and dbo.all_types, all with CDC.\n\n", sim.Addr())
	fmt.Fprintf(stdout, "export MSSQL_DSN='%s'\n\n", sim.DSN())
	fmt.Fprintf(stdout, "Next, in another terminal: the line above, then %s -c config/examples/orders.yaml\nEnd with Ctrl-C.\n", programName)
	every := c.Duration("every")
	if every <= 0 {
		<-ctx.Done()
		return nil
	}
	if err := orders.RunFor(ctx, every); err != nil && ctx.Err() == nil {
		return fmt.Errorf("running the workload: %w", err)
	}
	return nil
}
