// Command latency measures how long a change takes from the moment at which capture has
// written it to the Delta commit that holds it, on local disk and at low load.
//
//	go run ./test/bench/latency [--changes N] [--poll D] [--format record_batch|rows] [--dir D] [--statements] [--json]
//
// Changes come one by one at random moments, so up to one poll interval is waiting for
// the next poll; the figures name what is left as overhead. The simulator runs in the
// same process.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"

	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/input"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/processor"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

type options struct {
	changes int
	poll    time.Duration
	format  string
	dir     string
	json    bool
	trace   bool
	after   func() // called while the pipeline runs, after the last change; nil: nothing
}

// result is what was measured, in milliseconds.
type result struct {
	Format     string  `json:"format"`
	Changes    int     `json:"changes"`
	Poll       float64 `json:"poll_interval_ms"`
	Median     float64 `json:"median_ms"`
	P99        float64 `json:"p99_ms"`
	Most       float64 `json:"max_ms"`
	Statements float64 `json:"statements_per_change"` // those of polls that find nothing included

	statements []string
}

func main() {
	var o options
	flag.IntVar(&o.changes, "changes", 200, "changes to measure")
	flag.DurationVar(&o.poll, "poll", 100*time.Millisecond, "poll_interval")
	flag.StringVar(&o.format, "format", "record_batch", "record_batch or rows")
	flag.StringVar(&o.dir, "dir", "", "folder for the tables; default: a temporary one that is removed")
	flag.BoolVar(&o.json, "json", false, "print one line of JSON")
	flag.BoolVar(&o.trace, "statements", false, "print the statements of the pipeline while it was measured")
	flag.Parse()
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) (err error) {
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "latency-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		o.dir = dir
	}
	sim, err := sqlserversim.Start(sqlserversim.WithCaptureInterval(0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sim.Close()) }()
	r, err := o.measure(ctx, sim)
	if err != nil {
		return err
	}
	for _, statement := range r.statements {
		if o.trace {
			fmt.Println("---", statement)
		}
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Printf("format %s, polls every %s, %d changes: median %.1f ms, p99 %.1f ms, max %.1f ms; %.1f statements per change\n",
		r.Format, o.poll, r.Changes, r.Median, r.P99, r.Most, r.Statements)
	return nil
}

const tableSQL = `EXEC sys.sp_cdc_enable_db;
CREATE TABLE dbo.orders (id bigint NOT NULL PRIMARY KEY, customer int NOT NULL, amount decimal(18,2) NOT NULL, note nvarchar(100) NULL);
EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'orders', @role_name = NULL`

const clientYAML = `
input:
  mssql_cdc:
    connection_string: %q
    tables: [ dbo.orders ]
    format: %s
    poll_interval: %s
    checkpoint_cache: position
output:
  delta_lake:
    path: %q
    app_id: latency
    facts_path: %q
    delivery: %s
    after_commit: %s
cache_resources:
  - label: position
    atomic_file: {directory: %q}
pipeline: {threads: 1}
logger: {level: WARN}
http: {enabled: false}
`

func (o options) pipeline(dsn string) (*service.Stream, error) {
	delivery, finalize := "exactly_once", fmt.Sprintf(`[{finalize: {control_path: %q, granularity: minute}}]`, filepath.Join(o.dir, "control"))
	if o.format == "rows" {
		delivery, finalize = "at_least_once", "[]"
	}
	in := func(name string) string { return filepath.Join(o.dir, name) }
	builder := service.NewStreamBuilder()
	if err := builder.SetYAML(fmt.Sprintf(clientYAML, dsn, o.format, o.poll, in("bronze"), in("facts"), delivery, finalize, in("position"))); err != nil {
		return nil, err
	}
	return builder.Build()
}

func (o options) measure(ctx context.Context, sim *sqlserversim.Server) (r result, err error) {
	if err := sim.Exec(ctx, tableSQL); err != nil {
		return result{}, err
	}
	stream, err := o.pipeline(sim.DSN())
	if err != nil {
		return result{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- stream.Run(ctx) }()
	defer func() { err = errors.Join(err, stream.StopWithin(10*time.Second), <-ended) }()
	commits := commits{log: filepath.Join(o.dir, "bronze", "_delta_log")}
	var took []time.Duration
	begin := 0
	for i := range o.changes + warmUp {
		if i == warmUp {
			begin = len(sim.Statements())
		}
		// Polls and changes must not fall into step.
		time.Sleep(o.poll + rand.N(o.poll))
		if err := sim.Exec(ctx, fmt.Sprintf("INSERT INTO dbo.orders VALUES (%d, %d, %d.25, N'change %d')", i, i%17, i, i)); err != nil {
			return result{}, err
		}
		if err := sim.Capture(ctx); err != nil {
			return result{}, err
		}
		since := time.Now()
		if err := commits.await(ctx); err != nil {
			return result{}, fmt.Errorf("waiting for change %d: %w", i, err)
		}
		if i >= warmUp {
			took = append(took, time.Since(since))
		}
	}
	statements := sim.Statements()[begin:]
	if o.after != nil {
		o.after()
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return result{
		Format: o.format, Changes: len(took), Poll: ms(o.poll),
		Median: ms(took[len(took)/2]), P99: ms(took[len(took)*99/100]), Most: ms(took[len(took)-1]),
		Statements: float64(len(statements)) / float64(len(took)), statements: statements,
	}, nil
}

// warmUp is how many changes come before those that are measured.
const warmUp = 10

// commits follows the commits of a table by the files of its log.
type commits struct {
	log  string
	next int
}

// patience is how long a commit may take.
const patience = 30 * time.Second

// await waits for the next commit that adds rows. Looking for it costs a call of the
// file system and no more, so that the pipeline is not disturbed.
func (c *commits) await(ctx context.Context) error {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		text, err := os.ReadFile(filepath.Join(c.log, fmt.Sprintf("%020d.json", c.next)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			time.Sleep(200 * time.Microsecond)
		case err != nil:
			return err
		default:
			c.next++
			if slices.Contains(addsRows(text), true) {
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errors.New("no commit came")
}

// addsRows tells of each action of a commit whether it adds rows, and does not only
// move them as a compaction does.
func addsRows(commit []byte) []bool {
	var adds []bool
	lines := json.NewDecoder(bytes.NewReader(commit))
	for {
		var action struct {
			Add *struct {
				DataChange bool `json:"dataChange"`
			} `json:"add"`
		}
		if lines.Decode(&action) != nil {
			return adds
		}
		adds = append(adds, action.Add != nil && action.Add.DataChange)
	}
}
