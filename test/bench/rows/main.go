// Command rows measures what format rows costs, and what many tables do: a captured
// backlog of narrow rows through ordinary Benthos pipelines.
//
//	go run ./test/bench/rows [--rows N] [--rows-per-txn N] [--tables N] [--into drop,mapping,...] [--profile DIR] [--json]
//
// The simulator is a process of its own; the pipelines run one after the other in this
// one, each from the beginning of the backlog, with the memory settings of
// rpconnect-mssqlcdc.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/cmd/rpconnect-mssqlcdc/heap"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/input"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/processor"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// pipeline is what the rows go through.
type pipeline struct{ name, format, more, pipeline, output string }

const dropOutput = `{drop: {}}`

// pipelines lists what is measured, in this order.
func pipelines() []pipeline {
	const toDelta = `{delta_lake: {path: %q, app_id: bench, max_open_tables: 1000, delivery: at_least_once}}`
	return []pipeline{
		{name: "drop", format: "rows", output: dropOutput},
		{name: "drop_without_position", format: "rows", more: "include_position: false", output: dropOutput},
		{name: "mapping", format: "rows", pipeline: `[{mapping: "root = this"}]`, output: dropOutput},
		{name: "mapping_field", format: "rows", pipeline: `[{mapping: "root = this\nroot.total = this.amount.number() * 2"}]`, output: dropOutput},
		{name: "mutation", format: "rows", pipeline: `[{mutation: "root.source = meta(\"table\")"}]`, output: dropOutput},
		{name: "delta", format: "rows", output: toDelta},
		{name: "each_row", format: "record_batch", more: "require_commit: false", pipeline: `[{each_row: {processors: [{mutation: "root.status = 1"}]}}]`, output: dropOutput},
		{name: "delta_record_batch", format: "record_batch", output: toDelta},
		{name: "record_batch", format: "record_batch", more: "require_commit: false", output: dropOutput},
	}
}

type options struct {
	rows       int64
	rowsPerTxn int
	tables     int
	into       string
	profile    string
	json       bool
	simulator  bool
}

// result is what one pipeline took.
type result struct {
	Into               string  `json:"into"`
	Rows               int64   `json:"rows"`
	RowsPerSecond      float64 `json:"rows_per_second"`
	MicrosecondsPerRow float64 `json:"cpu_us_per_row"`
	AllocsPerRow       float64 `json:"allocs_per_row"`
	BytesPerRow        float64 `json:"alloc_bytes_per_row"`
}

func main() {
	var o options
	flag.Int64Var(&o.rows, "rows", 500_000, "rows of the backlog")
	flag.IntVar(&o.rowsPerTxn, "rows-per-txn", 20, "rows of a source transaction")
	flag.IntVar(&o.tables, "tables", 1, "tables that the rows are spread over")
	flag.StringVar(&o.into, "into", "", "pipelines to run, by name and separated by commas; empty is all")
	flag.StringVar(&o.profile, "profile", "", "folder for a CPU profile of each pipeline and one of all allocations")
	flag.BoolVar(&o.json, "json", false, "print one line of JSON per pipeline")
	flag.BoolVar(&o.simulator, "simulator", false, "internal: be the simulator")
	flag.Parse()
	ctx := context.Background()
	run := o.measure
	if o.simulator {
		run = o.simulate
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "rows:", err)
		os.Exit(1)
	}
}

// simulate fills a backlog and serves it until its standard input closes.
func (o options) simulate(ctx context.Context) error {
	sim, err := sqlserversim.Start(sqlserversim.WithCaptureInterval(0))
	if err != nil {
		return err
	}
	if err := o.fill(ctx, sim); err != nil {
		return err
	}
	runtime.GC()
	fmt.Println(sim.DSN())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return sim.Close()
}

const tableSQL = `CREATE TABLE dbo.backlog_%03[1]d (id bigint NOT NULL PRIMARY KEY, customer int NOT NULL, sku varchar(20) NOT NULL, currency char(3) NOT NULL,
	amount decimal(18,2) NOT NULL, created datetime2(7) NOT NULL, updated datetime2(7) NOT NULL, note nvarchar(200) NULL);
EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'backlog_%03[1]d', @role_name = NULL`

// fill makes the backlog. The rows of several tables are those of one, dealt out in turn.
func (o options) fill(ctx context.Context, sim *sqlserversim.Server) error {
	if o.tables == 1 {
		_, err := workload.Backlog(ctx, sim, workload.Narrow, o.rows, o.rowsPerTxn)
		return err
	}
	if err := sim.Exec(ctx, "EXEC sys.sp_cdc_enable_db"); err != nil {
		return err
	}
	pool := make([][]sqltype.Value, 1024)
	for i := range pool {
		pool[i] = workload.NarrowRow(int64(i))
	}
	for table := range o.tables {
		if err := sim.Exec(ctx, fmt.Sprintf(tableSQL, table)); err != nil {
			return fmt.Errorf("making table %d: %w", table, err)
		}
		_, err := sim.DefaultDB().BulkCaptured(ctx, engine.BulkSpec{
			Instance: fmt.Sprintf("dbo_backlog_%03d", table), Rows: o.rows / int64(o.tables), RowsPerTxn: o.rowsPerTxn,
			Fill: func(n int64, v []sqltype.Value) int {
				copy(v, pool[n&1023])
				v[0] = sqltype.BigInt(n + 1)
				return 2
			},
		})
		if err != nil {
			return fmt.Errorf("filling table %d: %w", table, err)
		}
	}
	return nil
}

func (o options) measure(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	sim := exec.Command(program, "-simulator", "-rows", fmt.Sprint(o.rows), "-rows-per-txn", fmt.Sprint(o.rowsPerTxn), "-tables", fmt.Sprint(o.tables))
	sim.Stderr = os.Stderr
	stdin, err := sim.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := sim.StdoutPipe()
	if err != nil {
		return err
	}
	if err := sim.Start(); err != nil {
		return fmt.Errorf("starting the simulator: %w", err)
	}
	line := bufio.NewScanner(stdout)
	if !line.Scan() {
		return errors.Join(errors.New("the simulator did not start"), line.Err(), sim.Wait())
	}
	runErr := o.runAll(ctx, line.Text())
	return errors.Join(runErr, stdin.Close(), sim.Wait())
}

func (o options) runAll(ctx context.Context, dsn string) error {
	if os.Getenv("GOGC") == "" {
		heap.Tune(50, 24<<20)
	}
	names := strings.Split(o.into, ",")
	for _, p := range pipelines() {
		if o.into != "" && !slices.Contains(names, p.name) {
			continue
		}
		r, err := o.run(ctx, dsn, p)
		if err != nil {
			return fmt.Errorf("into %s: %w", p.name, err)
		}
		if o.json {
			if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
				return err
			}
			continue
		}
		fmt.Printf("%-22s %8.0f rows/s  %6.2f µs CPU  %5.1f allocations  %6.0f bytes a row\n", r.Into, r.RowsPerSecond, r.MicrosecondsPerRow, r.AllocsPerRow, r.BytesPerRow)
	}
	return nil
}

const clientYAML = `
input:
  mssql_cdc:
    connection_string: %q
    tables: [ dbo.* ]
    run: available_now
    format: %s
    checkpoint_cache: position
    %s
pipeline: {threads: 1, processors: %s}
output: %s
cache_resources: [ { label: position, memory: {} } ]
logger: {level: WARN}
http: {enabled: false}
`

// run runs one pipeline to the end of the backlog.
func (o options) run(ctx context.Context, dsn string, p pipeline) (r result, err error) {
	dir, err := os.MkdirTemp("", "rows-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	processors, output := p.pipeline, p.output
	if processors == "" {
		processors = "[]"
	}
	if strings.Contains(output, "%q") {
		output = fmt.Sprintf(output, filepath.Join(dir, `${! meta("table") }`))
	}
	builder := service.NewStreamBuilder()
	if err := builder.SetYAML(fmt.Sprintf(clientYAML, dsn, p.format, p.more, processors, output)); err != nil {
		return result{}, err
	}
	stream, err := builder.Build()
	if err != nil {
		return result{}, err
	}
	stop, err := o.startProfile(p.name)
	if err != nil {
		return result{}, err
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, cpu := time.Now(), cpuSeconds()
	if err := stream.Run(ctx); err != nil {
		return result{}, err
	}
	took, used := time.Since(begin).Seconds(), cpuSeconds()-cpu
	runtime.ReadMemStats(&after)
	rows := float64(o.rows)
	return result{
		Into: p.name, Rows: o.rows, RowsPerSecond: rows / took, MicrosecondsPerRow: used * 1e6 / rows,
		AllocsPerRow: float64(after.Mallocs-before.Mallocs) / rows, BytesPerRow: float64(after.TotalAlloc-before.TotalAlloc) / rows,
	}, stop()
}

// startProfile begins a CPU profile; the function that it returns ends it.
func (o options) startProfile(name string) (stop func() error, err error) {
	if o.profile == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(o.profile, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(o.profile, name+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(filepath.Join(o.profile, "allocs.pprof"))
		if err != nil {
			return errors.Join(err, f.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), f.Close())
	}, nil
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
