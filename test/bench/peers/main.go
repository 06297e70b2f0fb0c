// Command peers has the same captured backlog drained by this project and by other readers of SQL Server CDC, one after the other, from one
// simulator over TLS, and says what it cost each of them.
//
//	go run ./test/bench/peers [--rows N] [--tools ours,debezium,rivet,mssql-cdc-pyspark] [--json]
//
// The others are used where test/interop/setup.sh --clients has installed them. Each runs as a process of its own and does no more than it
// must with a row, which is not the same for all: see the column "into". CPU and memory are of the whole process, its start included; the
// rate is of the draining alone where a tool says when that began, and of the whole process otherwise.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// result is what one tool took.
type result struct {
	Tool          string  `json:"tool"`
	Into          string  `json:"into"` // what it does with the rows
	Rows          int64   `json:"rows"`
	Seconds       float64 `json:"seconds"`
	RowsPerSecond float64 `json:"rows_per_second"`
	CPUPerRow     float64 `json:"cpu_us_per_row"`
	PeakRSSMB     float64 `json:"peak_rss_mb"`
}

// lab is what the tools drain.
type lab struct {
	sim     *sqlserversim.Server
	truth   workload.BacklogTruth
	dir     string // for what they write
	interop string // where the others are installed
}

// tool prepares, before the backlog is there, and drains it.
type tool struct {
	name    string
	prepare func(context.Context, *lab) error // nil when there is nothing to
	drain   func(context.Context, *lab) (result, error)
}

func main() {
	rows := flag.Int64("rows", 1_000_000, "rows of the backlog: narrow ones, 20 to a transaction")
	names := flag.String("tools", "", "tools by commas; default: all that are installed")
	asJSON := flag.Bool("json", false, "print one line of JSON")
	flag.Parse()
	if err := run(context.Background(), *rows, *names, *asJSON); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rows int64, names string, asJSON bool) (err error) {
	interop, err := filepath.Abs(".interop")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sim, err := sqlserversim.Start(sqlserversim.WithCaptureInterval(0))
	if err != nil {
		return err
	}
	defer sim.Close()
	l := &lab{sim: sim, dir: dir, interop: interop}
	// One row first: what is there before a reader starts is not in its stream for all of them.
	if l.truth, err = workload.Backlog(ctx, sim, workload.Narrow, 1, 1); err != nil {
		return err
	}
	tools, err := chosen(l, names)
	if err != nil {
		return err
	}
	for _, t := range tools {
		if t.prepare == nil {
			continue
		}
		if err := t.prepare(ctx, l); err != nil {
			return fmt.Errorf("preparing %s: %w", t.name, err)
		}
	}
	if err := workload.Grow(ctx, sim, &l.truth, workload.Narrow, rows, 20); err != nil {
		return err
	}
	var results []result
	for _, t := range tools {
		r, err := t.drain(ctx, l)
		if err != nil {
			return fmt.Errorf("draining with %s: %w", t.name, err)
		}
		if r.Tool = t.name; r.Rows < rows || r.Rows > l.truth.Rows {
			return fmt.Errorf("draining with %s: it has %d rows of %d", t.name, r.Rows, rows)
		}
		results = append(results, r)
	}
	return report(results, asJSON)
}

// chosen gives the tools that are asked for; all that are installed when none is named.
func chosen(l *lab, names string) ([]tool, error) {
	var out []tool
	asked := strings.Split(names, ",")
	for _, t := range tools() {
		missing := l.missing(t.name)
		switch {
		case names != "" && !slices.Contains(asked, t.name):
		case missing == "":
			out = append(out, t)
		case names != "":
			return nil, fmt.Errorf("%s is not installed: no %s; run test/interop/setup.sh --clients", t.name, missing)
		default:
			fmt.Fprintf(os.Stderr, "peers: left out, not installed: %s (test/interop/setup.sh --clients)\n", t.name)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no tool of the name %q", names)
	}
	return out, nil
}

func report(results []result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"tools": results})
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "tool\tinto\trows\trows/s\tCPU µs a row\tpeak RSS MB\tseconds of the process")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%d\t%.0f\t%.2f\t%.0f\t%.1f\n", r.Tool, r.Into, r.Rows, r.RowsPerSecond, r.CPUPerRow, r.PeakRSSMB, r.Seconds)
	}
	return w.Flush()
}
