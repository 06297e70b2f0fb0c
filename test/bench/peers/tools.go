package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/workload"
)

func tools() []tool {
	return []tool{
		{name: "ours", drain: drainOurs},
		{name: "debezium", prepare: prepareDebezium, drain: drainDebezium},
		{name: "rivet", drain: drainRivet},
		{name: "mssql-cdc-pyspark", drain: drainPyspark},
	}
}

// missing names what a tool needs and does not find; empty when it is there.
func (l *lab) missing(name string) string {
	need := map[string]string{"debezium": "debezium/lib", "rivet": "clients/bin/rivet", "mssql-cdc-pyspark": "clients/lib/python3.11/site-packages/mssql_cdc"}[name]
	if need == "" {
		return ""
	}
	found, err := filepath.Glob(filepath.Join(l.interop, strings.Replace(need, "python3.11", "python*", 1)))
	if err != nil || len(found) == 0 {
		return filepath.Join(".interop", need)
	}
	return ""
}

// measured runs a child to its end and gives its output, and its time, CPU and memory.
func measured(cmd *exec.Cmd, stdout io.Writer) (result, error) {
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, &errs
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return result{}, fmt.Errorf("starting %s: %w", filepath.Base(cmd.Path), err)
	}
	peak := watchPeak(cmd.Process.Pid)
	err := cmd.Wait()
	rss := peak()
	if err != nil {
		return result{}, fmt.Errorf("running %s: %w: %s", filepath.Base(cmd.Path), err, errs.String()[max(0, errs.Len()-2000):])
	}
	r := result{Seconds: time.Since(begin).Seconds()}
	r.CPUPerRow = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() // of all rows, until finish
	r.PeakRSSMB = rss
	return r, nil
}

// watchPeak follows the peak of a process's resident memory, in 10^6 bytes, until the function that it returns is called. Linux says it in
// /proc; what it says at a process's end counts the memory of the process that started it, too, which is the simulator here.
func watchPeak(pid int) (stop func() float64) {
	quit, peak := make(chan struct{}), make(chan float64, 1)
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		most := 0.0
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			var kib float64
			if _, after, found := strings.Cut(string(status), "VmHWM:"); err == nil && found {
				_, _ = fmt.Sscan(after, &kib) // nothing is read of what is no number, and the peak stays
			}
			most = max(most, kib*1024/1e6)
			select {
			case <-quit:
				peak <- most
				return
			case <-ticker.C:
			}
		}
	}()
	return func() float64 { close(quit); return <-peak }
}

// finish fills in what follows from the rows and from the seconds that draining them took.
func (r result) finish(into string, rows int64, seconds float64) (result, error) {
	if rows == 0 || seconds <= 0 {
		return r, errors.New("nothing was drained")
	}
	r.Into, r.Rows = into, rows
	r.RowsPerSecond, r.CPUPerRow = float64(rows)/seconds, r.CPUPerRow*1e6/float64(rows)
	return r, nil
}

const oursYAML = `
input:
  mssql_cdc:
    connection_string: %q
    tables: [ %s ]
    run: available_now
    format: record_batch
    checkpoint_cache: position
output:
  delta_lake: {path: %q, app_id: peers}
cache_resources:
  - label: position
    atomic_file: {directory: %q}
logger: {level: WARN}
http: {enabled: false}
`

// drainOurs runs the program with a configuration as its users write it.
func drainOurs(ctx context.Context, l *lab) (result, error) {
	program := filepath.Join(l.dir, "rpconnect-mssqlcdc")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/rpconnect-mssqlcdc").CombinedOutput(); err != nil {
		return result{}, fmt.Errorf("building the program: %w: %s", err, out)
	}
	config, bronze := filepath.Join(l.dir, "ours.yaml"), filepath.Join(l.dir, "bronze")
	yaml := fmt.Sprintf(oursYAML, l.sim.DSN(), l.truth.Table, bronze, filepath.Join(l.dir, "position"))
	if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
		return result{}, err
	}
	r, err := measured(exec.CommandContext(ctx, program, "-c", config), io.Discard)
	if err != nil {
		return r, err
	}
	rows, err := rowsOf(ctx, bronze)
	if err != nil {
		return r, err
	}
	return r.finish("a Delta table", rows, r.Seconds)
}

// rowsOf counts the rows of a Delta table by its statistics.
func rowsOf(ctx context.Context, path string) (int64, error) {
	st, err := file.New(path)
	if err != nil {
		return 0, err
	}
	table, err := delta.Open(ctx, st, delta.Options{})
	if err != nil {
		return 0, err
	}
	return table.Snapshot().NumRecords(ctx)
}

// debezium is the connector in the embedded engine, which counts what it gets and does nothing with it: the cheapest that it can be.
func (l *lab) debezium(ctx context.Context, more ...string) (*exec.Cmd, error) {
	host, port, err := net.SplitHostPort(l.sim.Addr())
	if err != nil {
		return nil, err
	}
	home := filepath.Join(l.interop, "debezium")
	args := []string{"-Xmx512m", "-cp", home + "/classes:" + home + "/lib/*", "harness.Main", "--host", host, "--port", port, "--user", "sa",
		"--password", sqlserversim.DefaultPassword, "--database", sqlserversim.DefaultDatabase, "--tables", l.truth.Table,
		"--state-dir", filepath.Join(l.dir, "debezium"), "--encrypt", "true", "--print", "count", "--poll-ms", "50", "--max-seconds", "600"}
	return exec.CommandContext(ctx, "java", append(args, more...)...), nil
}

// prepareDebezium lets it take its snapshot and one change, so that it has a place that what comes later is behind.
func prepareDebezium(ctx context.Context, l *lab) error {
	cmd, err := l.debezium(ctx, "--snapshot-mode", "no_data", "--max-events", "1")
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, err := measured(cmd, io.Discard)
		ended <- err
	}()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for streaming := false; ; {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
			polls := func(statement string) bool { return strings.Contains(statement, "next_lsns") }
			if streaming || !slices.ContainsFunc(l.sim.Statements(), polls) {
				continue
			}
			streaming = true
			if err := workload.Grow(ctx, l.sim, &l.truth, workload.Narrow, 1, 1); err != nil {
				return err
			}
		}
	}
}

func drainDebezium(ctx context.Context, l *lab) (result, error) {
	cmd, err := l.debezium(ctx, "--snapshot-mode", "no_data", "--max-events", fmt.Sprint(l.truth.Rows-2), "--idle-seconds", "30")
	if err != nil {
		return result{}, err
	}
	var out bytes.Buffer
	r, err := measured(cmd, &out)
	if err != nil {
		return r, err
	}
	var end struct {
		Events int64
		First  float64 `json:"first_event_s"`
		Last   float64 `json:"last_event_s"`
	}
	if err := json.Unmarshal(out.Bytes(), &end); err != nil {
		return r, fmt.Errorf("reading Debezium's summary: %w", err)
	}
	if end.Events < l.truth.Rows-2 { // the first row, and the one that it was prepared with
		return r, fmt.Errorf("it ended with %d events: %s", end.Events, out.Bytes())
	}
	return r.finish("nothing, events counted", end.Events, end.Last-end.First)
}

// lineCounter counts lines.
type lineCounter struct{ lines int64 }

// Write takes part of the text.
func (c *lineCounter) Write(p []byte) (int, error) {
	c.lines += int64(bytes.Count(p, []byte{'\n'}))
	return len(p), nil
}

func drainRivet(ctx context.Context, l *lab) (result, error) {
	address := url.UserPassword("sa", sqlserversim.DefaultPassword).String() + "@" + l.sim.Addr() + "/" + sqlserversim.DefaultDatabase
	var lines lineCounter
	out := bufio.NewWriterSize(&lines, 1<<20)
	r, err := measured(exec.CommandContext(ctx, filepath.Join(l.interop, "clients/bin/rivet"), "cdc", "--source", "sqlserver://"+address,
		"--capture-instance", l.truth.Instance, "--checkpoint", filepath.Join(l.dir, "rivet")), out)
	if err := errors.Join(err, out.Flush()); err != nil {
		return r, err
	}
	return r.finish("lines of JSON, counted", lines.lines, r.Seconds)
}

// drainPyspark runs the client layer of mssql-cdc-pyspark, over Microsoft's driver, into Arrow batches: without Spark, which writes its table.
func drainPyspark(ctx context.Context, l *lab) (result, error) {
	host, port, err := net.SplitHostPort(l.sim.Addr())
	if err != nil {
		return result{}, err
	}
	options, err := json.Marshal(map[string]string{"user": "sa", "password": sqlserversim.DefaultPassword,
		"connectionString": fmt.Sprintf("Server=%s,%s;Database=%s;Encrypt=yes;TrustServerCertificate=yes;", host, port, sqlserversim.DefaultDatabase)})
	if err != nil {
		return result{}, err
	}
	var out bytes.Buffer
	r, err := measured(exec.CommandContext(ctx, filepath.Join(l.interop, "clients/bin/python"), "test/interop/clients/testdata/cdc_pyspark_client.py",
		string(options), l.truth.Instance, "1", "drain"), &out)
	if err != nil {
		return r, err
	}
	var end struct {
		Rows    int64
		Seconds float64
	}
	if err := json.Unmarshal(out.Bytes(), &end); err != nil {
		return r, fmt.Errorf("reading the client's summary: %w", err)
	}
	return r.finish("Arrow batches, counted (without Spark)", end.Rows, end.Seconds)
}
