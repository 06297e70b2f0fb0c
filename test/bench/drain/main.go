// Command drain measures how fast a captured backlog becomes committed Delta.
//
//	go run ./test/bench/drain [--shape narrow|wide|lob|tiny_commits|many_tables] [--rows N] [--format record_batch|rows] [--snapshot] [--reader auto|driver] [--tls=false]
//	    [--profile DIR] [--json]
//
// The simulator and the client are processes of their own, so that each has its own
// CPU time and memory. The client runs the pipeline with the defaults of
// rpconnect-mssqlcdc.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
)

// options are the flags; both children get them, too.
type options struct {
	role, shape, format, dsn, dir string
	rows                          int64
	rowsPerTxn, partBytes         int
	json, snapshot, tls           bool
	reader, profile               string
}

// result is the line of JSON.
type result struct {
	Snapshot            bool    `json:"snapshot,omitempty"`
	Reader              string  `json:"reader"`
	TLS                 bool    `json:"tls"`
	Shape               string  `json:"shape"`
	Format              string  `json:"format"`
	Rows                int64   `json:"rows"`
	RowsPerSecond       float64 `json:"rows_per_second"`
	MBPerSecond         float64 `json:"mb_per_second"`
	PeakRSSMB           float64 `json:"peak_rss_mb"`
	ClientCPUSeconds    float64 `json:"client_cpu_seconds"` // of the whole process
	MicrosecondsPerRow  float64 `json:"cpu_us_per_row"`     // of the client's CPU, its start left out
	SimulatorCPUSeconds float64 `json:"simulator_cpu_seconds"`
	AllocsPerRow        float64 `json:"allocs_per_row"`
	DeltaCommits        int64   `json:"delta_commits"`
}

func main() {
	var o options
	flag.StringVar(&o.role, "role", "", "internal: simulator or client")
	flag.StringVar(&o.shape, "shape", "narrow", "narrow (13 columns, about 150 bytes), wide (1.4 kB), lob (24 kB), tiny_commits (narrow, one row to a transaction), or many_tables (narrow, 50 tables)")
	flag.Int64Var(&o.rows, "rows", 0, "rows of the backlog; 0 is 2,000,000 narrow, 200,000 wide, 10,000 lob ones")
	flag.IntVar(&o.rowsPerTxn, "rows-per-txn", 20, "rows of a source transaction")
	flag.StringVar(&o.format, "format", "record_batch", "record_batch or rows")
	flag.StringVar(&o.dsn, "dsn", "", "internal: how the client connects")
	flag.StringVar(&o.dir, "dir", "", "folder for the table; default: a temporary one that is removed")
	flag.BoolVar(&o.snapshot, "snapshot", false, "read a table of narrow rows whole instead of a backlog of changes; --rows is rounded up to a power of ten")
	flag.StringVar(&o.reader, "reader", "auto", "who decodes rows: auto (the row filter) or driver")
	flag.IntVar(&o.partBytes, "part-bytes", 0, "max_bytes_per_part; 0 is its default")
	flag.BoolVar(&o.tls, "tls", true, "encrypt the connection")
	flag.StringVar(&o.profile, "profile", "", "folder for CPU and allocation profiles of the client")
	flag.BoolVar(&o.json, "json", false, "print one line of JSON")
	flag.Parse()
	if o.snapshot && o.rows == 0 {
		o.rows = 1_000_000
	}
	if o.rows == 0 {
		o.rows = defaultRows(o.shape)
	}
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "drain:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	switch o.role {
	case "simulator":
		return o.simulate(ctx)
	case "client":
		return o.client(ctx)
	}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "drain-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	}
	r, err := o.measure(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("%s rows, format %s, reader %s, TLS %t: %d rows in %d commits\n%.0f rows/s, %.1f MB/s\npeak resident memory of the client %.0f MB\nCPU: client %.1f s, simulator %.1f s\nper row: %.2f µs of the client's CPU, %.2f allocations\n",
		r.Shape, r.Format, r.Reader, r.TLS, r.Rows, r.DeltaCommits, r.RowsPerSecond, r.MBPerSecond, r.PeakRSSMB, r.ClientCPUSeconds, r.SimulatorCPUSeconds, r.MicrosecondsPerRow, r.AllocsPerRow)
	return nil
}

// measure runs both children and reads the table.
func (o options) measure(ctx context.Context) (result, error) {
	sim, err := o.child("simulator")
	if err != nil {
		return result{}, err
	}
	stdin, err := sim.StdinPipe()
	if err != nil {
		return result{}, err
	}
	stdout, err := sim.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	if err := sim.Start(); err != nil {
		return result{}, fmt.Errorf("starting the simulator: %w", err)
	}
	lines := bufio.NewScanner(stdout)
	var ready simulatorReady
	if err := readLine(lines, &ready); err != nil {
		return result{}, fmt.Errorf("waiting for the simulator: %w", err)
	}
	o.dsn, o.rows = ready.DSN, ready.Rows
	client, err := o.child("client")
	if err != nil {
		return result{}, err
	}
	output, err := client.Output()
	if err != nil {
		return result{}, fmt.Errorf("running the client: %w", err)
	}
	var drained clientDone
	if err := json.Unmarshal(output, &drained); err != nil {
		return result{}, fmt.Errorf("reading what the client measured: %w", err)
	}
	if err := stdin.Close(); err != nil {
		return result{}, err
	}
	var used simulatorDone
	if err := readLine(lines, &used); err != nil {
		return result{}, fmt.Errorf("reading what the simulator measured: %w", err)
	}
	if err := sim.Wait(); err != nil {
		return result{}, fmt.Errorf("ending the simulator: %w", err)
	}
	return o.result(ctx, drained, used, client.ProcessState)
}

func (o options) result(ctx context.Context, drained clientDone, used simulatorDone, state *os.ProcessState) (result, error) {
	rows, commits, err := o.committed(ctx)
	if err != nil {
		return result{}, err
	}
	if rows != o.rows {
		return result{}, fmt.Errorf("the table has %d rows, the backlog %d", rows, o.rows)
	}
	return result{
		Snapshot: o.snapshot, Reader: o.reader, TLS: o.tls, Shape: o.shape, Format: o.format, Rows: rows, DeltaCommits: commits,
		RowsPerSecond:       float64(rows) / drained.Seconds,
		MBPerSecond:         float64(used.BytesSent) / 1e6 / drained.Seconds,
		PeakRSSMB:           peakRSS(state),
		ClientCPUSeconds:    (state.UserTime() + state.SystemTime()).Seconds(),
		MicrosecondsPerRow:  drained.CPUSeconds * 1e6 / float64(rows),
		SimulatorCPUSeconds: used.CPUSeconds,
		AllocsPerRow:        float64(drained.Allocs) / float64(rows),
	}, nil
}

func readLine(lines *bufio.Scanner, into any) error {
	if !lines.Scan() {
		if err := lines.Err(); err != nil {
			return err
		}
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(lines.Bytes(), into)
}

// child makes this program again in another role.
func (o options) child(role string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "-role", role, "-shape", o.shape, "-rows", fmt.Sprint(o.rows),
		"-rows-per-txn", fmt.Sprint(o.rowsPerTxn), "-format", o.format, "-snapshot="+fmt.Sprint(o.snapshot), "-dsn", o.dsn, "-dir", o.dir,
		"-reader", o.reader, "-tls="+fmt.Sprint(o.tls), "-profile", o.profile, "-part-bytes", fmt.Sprint(o.partBytes))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// committed counts the rows of the tables by their statistics, and their data commits.
func (o options) committed(ctx context.Context) (rows, commits int64, err error) {
	dirs := []string{o.bronze()}
	if o.shape == shapeManyTables {
		if dirs, err = filepath.Glob(filepath.Join(o.bronze(), "*")); err != nil {
			return 0, 0, err
		}
	}
	for _, dir := range dirs {
		n, c, err := committedTo(ctx, dir)
		if err != nil {
			return 0, 0, err
		}
		rows, commits = rows+n, commits+c
	}
	return rows, commits, nil
}

// bronze is the folder of the table, or of the tables.
func (o options) bronze() string { return filepath.Join(o.dir, "bronze") }

func committedTo(ctx context.Context, dir string) (rows, commits int64, err error) {
	st, err := file.New(dir)
	if err != nil {
		return 0, 0, err
	}
	table, err := delta.Open(ctx, st, delta.Options{})
	if err != nil {
		return 0, 0, err
	}
	for commit, err := range table.Commits(ctx, 0) {
		if err != nil {
			return 0, 0, err
		}
		if commit.Adds > 0 {
			commits++
		}
	}
	rows, err = table.Snapshot().NumRecords(ctx)
	return rows, commits, err
}
