// Command delta measures the Delta library, beside deltalake (delta-rs) where that is installed.
//
//	go run ./test/bench/delta [--peers] [--rows N] [--runs N] [--only CASE] [--json]
//
// It is run from the module's root. Every case runs in a process of its own, so that its memory and processor time are
// its own; with --peers the engines take turns, and the figures are medians over the runs. Rows are made before the
// clock starts and are the same bytes for both. test/interop/setup.sh installs deltalake; without it our side is
// measured alone.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// options are the flags; the children get them, too.
type options struct {
	role, name, dir, shm string
	profile              string
	only                 string
	rows                 int
	runs                 int
	peers, json          bool
}

// The roles of the children; "" is the parent.
const (
	rolePrepare = "prepare"
	roleCase    = "case"
)

// batchRows is the length of a batch, and of a file of the input.
const batchRows = 100_000

func main() {
	var o options
	flag.StringVar(&o.role, "role", "", "internal: prepare or case")
	flag.StringVar(&o.name, "case", "", "internal: the case to run")
	flag.StringVar(&o.shm, "shm", "", "folder in memory for the cases without fsync; default: a temporary one below /dev/shm")
	flag.StringVar(&o.dir, "dir", "", "folder for the tables; default: a temporary one that is removed")
	flag.StringVar(&o.profile, "cpuprofile", "", "file for a CPU profile of our side, for one case")
	flag.StringVar(&o.only, "only", "", "run the cases whose names begin with this")
	flag.IntVar(&o.rows, "rows", 5_000_000, "rows of the append and stream cases, in batches of 100,000")
	flag.IntVar(&o.runs, "runs", 3, "how often each case is run")
	flag.BoolVar(&o.peers, "peers", false, "measure deltalake too")
	flag.BoolVar(&o.json, "json", false, "print one line of JSON")
	flag.Parse()
	o.rows = max(batchRows, o.rows/batchRows*batchRows)
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "delta:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	switch o.role {
	case rolePrepare:
		return prepare(ctx, o)
	case roleCase:
		return runCase(ctx, o)
	}
	clean, err := o.folders()
	if err != nil {
		return err
	}
	defer clean()
	report, err := o.measure(ctx)
	if err != nil {
		return err
	}
	if o.json {
		return json.NewEncoder(os.Stdout).Encode(report)
	}
	_, err = os.Stdout.WriteString(report.table())
	return err
}

// folders makes those that were not given and returns what removes them.
func (o *options) folders() (func(), error) {
	var made []string
	clean := func() {
		for _, dir := range made {
			if err := os.RemoveAll(dir); err != nil {
				fmt.Fprintln(os.Stderr, "delta: removing", dir, "failed:", err)
			}
		}
	}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "delta-bench-")
		if err != nil {
			return nil, err
		}
		made, o.dir = append(made, dir), dir
	}
	if o.shm == "" {
		if dir, err := os.MkdirTemp("/dev/shm", "delta-bench-"); err == nil { // not every system has it
			made, o.shm = append(made, dir), dir
		}
	}
	var err error
	o.dir, err = filepath.Abs(o.dir)
	return clean, err
}

// chosen are the cases to run.
func (o options) chosen() []benchCase {
	var out []benchCase
	for _, c := range cases(o.rows) {
		if strings.HasPrefix(c.name, o.only) && (o.shm != "" || !c.inMemory) {
			out = append(out, c)
		}
	}
	return out
}
