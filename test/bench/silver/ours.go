package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"

	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/bench/tables"
)

// applier builds a silver table from a table of changes. Nothing works in the background, so that what is measured is what was asked for.
func applier(o options, bronze, target string, strategy merge.Strategy) (*silver.Applier, error) {
	from, err := file.New(bronze)
	if err != nil {
		return nil, err
	}
	to, err := file.New(target)
	if err != nil {
		return nil, err
	}
	return silver.New(silver.Config{
		Bronze: from, BronzeName: "bronze", Target: to, TargetName: "silver", Strategy: strategy, TempDir: o.dir,
		Upkeep: maintain.Auto{NoCompact: true, NoCleanLog: true},
	})
}

// prepare makes the tables: bronze with the rows of the silver tables, these, and then bronze with the changes to come.
func prepare(ctx context.Context, o options) error {
	for _, c := range o.chosen() {
		if _, err := os.Stat(filepath.Join(o.dir, c.bronze)); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := o.prepareBronze(ctx, c.bronze); err != nil {
			return fmt.Errorf("making %s: %w", c.bronze, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(measure{})
}

func (o options) prepareBronze(ctx context.Context, name string) error {
	dir := filepath.Join(o.dir, name)
	b, err := newBronze(ctx, dir)
	if err != nil {
		return err
	}
	strategies := []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors}
	var silvers []*silver.Applier
	for _, s := range strategies {
		a, err := applier(o, dir, filepath.Join(o.dir, name+"-"+silverName(s)), s)
		if err != nil {
			return err
		}
		silvers = append(silvers, a)
	}
	for part := range tableFiles {
		each := o.rows / tableFiles
		if err := b.write(ctx, mssqlcdc.Insert, each, func(i int) int64 { return int64(part*each + i) }); err != nil {
			return err
		}
		for _, a := range silvers {
			if _, err := a.Apply(ctx); err != nil {
				return err
			}
		}
	}
	for _, a := range silvers {
		if err := a.Close(ctx); err != nil {
			return err
		}
	}
	if name == smallBronze {
		err = b.write(ctx, mssqlcdc.UpdateAfter, o.changed, random(o.rows))
	} else {
		key := random(3 * o.rows)
		for left := o.batch; left > 0 && err == nil; left -= 1_000_000 {
			err = b.write(ctx, mssqlcdc.UpdateAfter, min(left, 1_000_000), key)
		}
	}
	return errors.Join(err, b.table.Close(ctx))
}

// runCase runs one case of ours in this process, with the collector as the program sets it.
func runCase(ctx context.Context, o options) error {
	debug.SetGCPercent(50)
	for _, c := range o.chosen() {
		if c.name != o.name {
			continue
		}
		m, err := c.run(ctx, o)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(m)
	}
	return fmt.Errorf("no case %q", o.name)
}

func (c benchCase) run(ctx context.Context, o options) (m measure, err error) {
	target := filepath.Join(o.dir, c.name+"-ours")
	if err := tables.Clone(filepath.Join(o.dir, c.bronze+"-"+silverName(c.strategy)), target); err != nil {
		return m, err
	}
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return m, err
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, f.Close())
		}()
		if err := pprof.StartCPUProfile(f); err != nil {
			return m, err
		}
	}
	runtime.GC()
	clock := startClock()
	a, err := applier(o, filepath.Join(o.dir, c.bronze), target, c.strategy)
	if err != nil {
		return m, err
	}
	done, err := a.Apply(ctx)
	if err != nil {
		return m, err
	}
	m = clock.stop()
	m.Commits, m.Changes = done.Merges, done.Rows
	if err := a.Close(ctx); err != nil {
		return m, err
	}
	m.Answer, err = answer(ctx, target)
	return m, errors.Join(err, os.RemoveAll(target))
}

// answer is the rows of a silver table and the sum of their totals, in cents.
func answer(ctx context.Context, dir string) (rows [2]int64, err error) {
	st, err := file.New(dir)
	if err != nil {
		return rows, err
	}
	table, err := delta.Open(ctx, st, delta.Options{})
	if err != nil {
		return rows, err
	}
	for rec, err := range table.Read(ctx, table.Snapshot(), delta.ReadOptions{Columns: []string{"total"}}) {
		if err != nil {
			return rows, err
		}
		totals, ok := rec.Column(0).(*array.Decimal128)
		if !ok {
			return rows, fmt.Errorf("column total is %s", rec.Column(0).DataType())
		}
		rows[0] += rec.NumRows()
		for i := range totals.Len() {
			rows[1] += int64(totals.Value(i).LowBits())
		}
	}
	return rows, table.Close(ctx)
}
