package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const pipelineFile = "pipeline.yaml"

// demoPipeline is the configuration that the demo runs and leaves in its folder.
const demoPipeline = `# The pipeline of the demo: every table of dbo, once, with facts and verdict.
input:
  mssql_cdc:
    connection_string: "${MSSQL_DSN}"
    tables: [ dbo.* ]
    run: available_now
    format: record_batch
    checkpoint_cache: position

output:
  delta_lake:
    path: %[1]s/${! @database_schema }.${! @table }
    app_id: demo-${! @database_schema }.${! @table }
    facts_path: %[1]s/_facts
    after_commit:
      - finalize:
          control_path: %[1]s/_control
          granularity: minute
%[2]s
cache_resources:
  - label: position
    atomic_file:
      directory: %[1]s/_position

http:
  enabled: false

logger:
  level: WARN
`

func (d *demo) writePipeline() error {
	if strings.ContainsAny(d.dir, "$\"'#\n") {
		return fmt.Errorf("--dir %s holds a character that a configuration would read as something else", d.dir)
	}
	apply := ""
	if d.silver {
		apply = fmt.Sprintf(demoApply, d.dir)
	}
	text := fmt.Sprintf(demoPipeline, d.dir, apply)
	if err := os.WriteFile(d.path(pipelineFile), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the pipeline: %w", err)
	}
	return nil
}

// pipeline runs the program on the pipeline, as a process of its own, and shows
// that it is at work.
func (d *demo) pipeline(ctx context.Context) (time.Duration, error) {
	program, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("looking for the program: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "-c", d.path(pipelineFile))
	cmd.Env = append(os.Environ(), "MSSQL_DSN="+d.source.dsn())
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	output, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting the pipeline: %w", err)
	}
	lines := make(chan []string, 1)
	go func() { lines <- d.relay(output) }()
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	err = d.progress(begin, exited)
	closeErr := writer.Close()
	last := <-lines
	if err != nil {
		return 0, fmt.Errorf("the pipeline failed (%w): %s", err, strings.Join(last, "\n"))
	}
	took := time.Since(begin)
	d.say("   done in %.1f s\n", took.Seconds())
	return took, closeErr
}

// relay shows what the pipeline says and keeps its last lines.
func (d *demo) relay(output io.Reader) []string {
	const keep = 5
	var last []string
	scanner := bufio.NewScanner(output)
	for scanner.Scan() {
		d.say("   | %s\n", scanner.Text())
		last = append(last, scanner.Text())
		last = last[max(0, len(last)-keep):]
	}
	return last
}

// progress waits for the pipeline and says from time to time how far it is.
func (d *demo) progress(begin time.Time, exited <-chan error) error {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case err := <-exited:
			return err
		case <-ticker.C:
			d.say("   %3.0f s: %d rows read from the source\n", time.Since(begin).Seconds(), d.source.rowsSent())
		}
	}
}
