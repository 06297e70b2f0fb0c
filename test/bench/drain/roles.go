package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/input"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

// simulatorReady is the first line of the simulator, simulatorDone its last.
type simulatorReady struct {
	DSN  string `json:"dsn"`
	Rows int64  `json:"rows"`
}

type simulatorDone struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	BytesSent  int64   `json:"bytes_sent"`
}

// clientDone is what the client prints.
type clientDone struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	Allocs     uint64  `json:"allocs"`
}

// simulate fills a backlog and serves it until its standard input closes.
func (o *options) simulate(ctx context.Context) error {
	options := []sqlserversim.Option{sqlserversim.WithCaptureInterval(0)}
	if !o.tls {
		options = append(options, sqlserversim.WithoutTLS())
	}
	sim, err := sqlserversim.Start(options...)
	if err != nil {
		return err
	}
	if err := o.fill(ctx, sim); err != nil {
		return err
	}
	runtime.GC()
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(simulatorReady{DSN: sim.DSN(), Rows: o.rows}); err != nil {
		return err
	}
	before := cpuSeconds()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	if err := out.Encode(simulatorDone{CPUSeconds: cpuSeconds() - before, BytesSent: int64(sim.Counters().Sent)}); err != nil {
		return err
	}
	return sim.Close()
}

// fill makes what is to be read.
func (o *options) fill(ctx context.Context, sim *sqlserversim.Server) (err error) {
	if !o.snapshot {
		switch o.shape {
		case shapeManyTables:
			_, err = workload.BacklogTables(ctx, sim, manyTables, o.rows, o.rowsPerTxn)
		case shapeTinyCommits:
			_, err = workload.Backlog(ctx, sim, workload.Narrow, o.rows, 1)
		case shapeLOB:
			err = lobBacklog(ctx, sim, o.rows, o.rowsPerTxn)
		default:
			_, err = workload.Backlog(ctx, sim, workload.Shape(o.shape), o.rows, o.rowsPerTxn)
		}
		return err
	}
	if o.rows, err = workload.Full(ctx, sim, o.rows); err != nil {
		return err
	}
	if err := sim.Idle(ctx); err != nil {
		return err
	}
	return sim.Capture(ctx)
}

const clientYAML = `
input:
  mssql_cdc:
    connection_string: %q
    tables: [ dbo.* ]
    run: available_now
    stream_snapshot: %t
    format: %s
    checkpoint_cache: position
    reader: %s
%soutput:
  delta_lake:
    path: %q
    app_id: drain
    delivery: %s
cache_resources:
  - label: position
    atomic_file: {directory: %q}
pipeline: {threads: 1}
logger: {level: WARN}
http: {enabled: false}
`

// client runs the pipeline with the memory settings of the program.
func (o options) client(ctx context.Context) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
	delivery := map[string]string{"record_batch": "exactly_once", "rows": "at_least_once"}[o.format]
	path := o.bronze()
	if o.shape == shapeManyTables {
		path += "/${! @table }"
	}
	builder := service.NewStreamBuilder()
	yaml := fmt.Sprintf(clientYAML, o.dsn, o.snapshot, o.format, o.reader, o.partYAML(), path, delivery, filepath.Join(o.dir, "position"))
	if err := builder.SetYAML(yaml); err != nil {
		return err
	}
	stream, err := builder.Build()
	if err != nil {
		return err
	}
	stop, err := o.startProfile()
	if err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, cpu := time.Now(), cpuSeconds()
	if err := stream.Run(ctx); err != nil {
		return err
	}
	took, used := time.Since(begin), cpuSeconds()-cpu
	runtime.ReadMemStats(&after)
	if err := stop(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(clientDone{Seconds: took.Seconds(), CPUSeconds: used, Allocs: after.Mallocs - before.Mallocs})
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// peakRSS is in 10^6 bytes; Linux counts in KiB.
func peakRSS(state *os.ProcessState) float64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return float64(usage.Maxrss) * 1024 / 1e6
}

// partYAML is the line of the input's configuration that bounds its parts.
func (o options) partYAML() string {
	if o.partBytes == 0 {
		return ""
	}
	return fmt.Sprintf("    max_bytes_per_part: %d\n", o.partBytes)
}
