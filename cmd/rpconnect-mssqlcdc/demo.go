package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

func demoCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "Show the whole pipeline at work against a simulator, and check the result",
		Description: "Starts a SQL Server simulator in this process, writes a workload, runs the pipeline as a process of its own, writes more, runs it again, and reads the Delta\n" +
			"   tables back. Exit code 1 if a row is missing or doubled, or a silver table differs from its source.",
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "rows", Usage: "about how many change rows to write", Value: 10_000},
			&cli.StringFlag{Name: "dir", Usage: "folder for the tables; the default is a new one in the system's temporary folder"},
			&cli.BoolFlag{Name: "silver", Usage: "also build the current tables, show them beside the changes, and compare them with the source"},
			&cli.BoolFlag{Name: "json", Usage: "print one line of JSON at the end and nothing else"},
		},
		Action: func(c *cli.Context) error {
			d := &demo{rows: c.Int64("rows"), dir: c.String("dir"), silver: c.Bool("silver"), out: stdout, stderr: stderr}
			if c.Bool("json") {
				d.out = io.Discard
			}
			result, err := d.run(c.Context)
			if err != nil {
				return &exitError{code: exitFailure, err: err}
			}
			if c.Bool("json") {
				line, err := json.Marshal(result)
				if err != nil {
					return &exitError{code: exitFailure, err: err}
				}
				fmt.Fprintf(stdout, "%s\n", line)
			}
			if result.Missing > 0 || result.Duplicates > 0 {
				return &exitError{code: exitFailure, err: fmt.Errorf("%d rows are missing and %d are doubled", result.Missing, result.Duplicates)}
			}
			if names := result.differs(); len(names) > 0 {
				return &exitError{code: exitFailure, err: fmt.Errorf("silver tables differ from their sources: %s", strings.Join(names, ", "))}
			}
			return nil
		},
	}
}

// demoResult is what the demo measured.
type demoResult struct {
	RowsCaptured   int64   `json:"rows_captured"`
	BronzeRows     int64   `json:"bronze_rows"`
	Duplicates     int64   `json:"duplicates"`
	Missing        int64   `json:"missing"`
	FactsRows      int64   `json:"facts_rows"`
	FinalizedUntil string  `json:"finalized_until"`
	RowsPerSecond  float64 `json:"rows_per_second"`
	Dir            string  `json:"dir"`

	Silver map[string]silverResult `json:"silver,omitempty"` // by table, with --silver
}

// demo is one run of the demo.
type demo struct {
	rows        int64
	dir         string
	silver      bool // build and compare silver tables, too
	out, stderr io.Writer
	source      *demoSource
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format, args...) }

func (d *demo) run(ctx context.Context) (result demoResult, err error) {
	if d.rows < 1 {
		return result, fmt.Errorf("--rows %d: want at least 1", d.rows)
	}
	if err := d.makeDir(); err != nil {
		return result, err
	}
	d.say("1. A SQL Server simulator starts, and a workload writes to it.\n")
	if d.source, err = startDemoSource(ctx, d.rows); err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, d.source.close()) }()
	if err := d.source.write(ctx, d.say); err != nil {
		return result, err
	}
	d.say("\n2. The pipeline runs up to what is captured: %s\n", d.path(pipelineFile))
	if err := d.writePipeline(); err != nil {
		return result, err
	}
	first, err := d.pipeline(ctx)
	if err != nil {
		return result, err
	}
	d.say("\n3. More is written, and the pipeline runs again. It reads only what is new.\n")
	if err := d.source.writeMore(ctx, d.say); err != nil {
		return result, err
	}
	second, err := d.pipeline(ctx)
	if err != nil {
		return result, err
	}
	d.say("\n4. The tables are read back and compared with the change tables of the source.\n\n")
	if result, err = d.check(ctx); err != nil {
		return result, err
	}
	result.RowsPerSecond = float64(result.BronzeRows) / (first + second).Seconds()
	if d.silver {
		if err := d.showSilver(ctx, &result); err != nil {
			return result, err
		}
	}
	d.conclude(result)
	return result, nil
}

// makeDir makes the folder, which must be empty: rows of an earlier demo would come
// from another simulator.
func (d *demo) makeDir() (err error) {
	if d.dir == "" {
		d.dir, err = os.MkdirTemp("", programName+"-demo-")
		return err
	}
	if d.dir, err = filepath.Abs(d.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the demo: %w", err)
	}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("looking into the folder of the demo: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("--dir %s is not empty: name a new folder, or empty it", d.dir)
	}
	return nil
}

func (d *demo) path(name string) string { return filepath.Join(d.dir, name) }

func (d *demo) conclude(r demoResult) {
	d.say("\n   %d change rows captured, %d in bronze, %d missing, %d doubled, at %.0f rows/s with the start of the program\n",
		r.RowsCaptured, r.BronzeRows, r.Missing, r.Duplicates, r.RowsPerSecond)
	d.say("\nThe tables are in %s. Read them, for example, with DuckDB:\n\n", d.dir)
	d.say("   SELECT _operation, count(*) FROM delta_scan('%s') GROUP BY ALL;\n", d.path("dbo.orders"))
	if d.silver {
		d.say("   SELECT status, count(*), sum(total) FROM delta_scan('%s') GROUP BY ALL;\n", d.path(d.silverPath("dbo.orders")))
	}
	d.say("\nor ask for the verdict:\n\n   %s is-final --control %s --table dbo.orders --until %s\n", programName, d.path("_control"), orNow(r.FinalizedUntil))
}

func orNow(t string) string {
	if t == "" {
		return time.Now().UTC().Format(time.RFC3339)
	}
	return t
}
