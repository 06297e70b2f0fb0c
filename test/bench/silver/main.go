// Command silver measures how changes come from bronze into a silver table, beside the merge of deltalake (delta-rs) where that is installed.
//
//	go run ./test/bench/silver [--peers] [--rows N] [--changed N] [--batch N] [--runs N] [--only CASE] [--json]
//
// It is run from the module's root. The table has a million rows in ten files. The cases apply 10,000 changes of random keys to it, and a
// batch of 5,000,000 that does not fit into memory, by copy on write and with deletion vectors. Every case runs in a process of its own, in
// turns with deltalake, on hard links to the same files; the figures are medians over the runs.
//
// Ours is one call of silver.Applier, from opening both tables to the commit: it finds the new rows of bronze, reads them, keeps the latest
// of each key and merges. Theirs is given those rows in memory, ready to be merged, and merges them into the table that copy on write made.
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
	role, name, dir, profile, only string
	rows, changed, batch, runs     int
	peers, json                    bool
}

// The roles of the children; "" is the parent.
const (
	rolePrepare = "prepare"
	roleCase    = "case"
)

func main() {
	var o options
	flag.StringVar(&o.role, "role", "", "internal: prepare or case")
	flag.StringVar(&o.name, "case", "", "internal: the case to run")
	flag.StringVar(&o.dir, "dir", "", "folder for the tables; default: a temporary one that is removed")
	flag.StringVar(&o.profile, "cpuprofile", "", "file for a CPU profile of our side, for one case")
	flag.StringVar(&o.only, "only", "", "run the cases whose names begin with this")
	flag.IntVar(&o.rows, "rows", 1_000_000, "rows of the table, in ten files")
	flag.IntVar(&o.changed, "changed", 10_000, "changes of the small cases")
	flag.IntVar(&o.batch, "batch", 5_000_000, "changes of the large cases, of three times as many keys as the table has rows")
	flag.IntVar(&o.runs, "runs", 3, "how often each case is run")
	flag.BoolVar(&o.peers, "peers", false, "measure deltalake too")
	flag.BoolVar(&o.json, "json", false, "print one line of JSON")
	flag.Parse()
	if err := o.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "silver:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) (err error) {
	switch o.role {
	case rolePrepare:
		return prepare(ctx, o)
	case roleCase:
		return runCase(ctx, o)
	}
	if o.rows < tableFiles || o.changed < 1 || o.batch < 1 || o.runs < 1 {
		return fmt.Errorf("--rows %d --changed %d --batch %d --runs %d: want at least %d rows and 1 of the others", o.rows, o.changed, o.batch, o.runs, tableFiles)
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "silver-bench-"); err != nil {
			return err
		}
		defer func() {
			if removed := os.RemoveAll(o.dir); err == nil {
				err = removed
			}
		}()
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
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

// chosen are the cases to run.
func (o options) chosen() []benchCase {
	var out []benchCase
	for _, c := range o.cases() {
		if strings.HasPrefix(c.name, o.only) {
			out = append(out, c)
		}
	}
	return out
}
