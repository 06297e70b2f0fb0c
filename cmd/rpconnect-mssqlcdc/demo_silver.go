package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
)

// demoApply is what --silver adds to the pipeline of the demo.
const demoApply = `      - apply_changes:
          bronze: %[1]s/${! @database_schema }.${! @table }
          target: %[1]s/silver/${! @database_schema }.${! @table }
          control_path: %[1]s/_control
`

// silverResult is what the demo found of one silver table.
type silverResult struct {
	SourceRows int64            `json:"source_rows"`
	SilverRows int64            `json:"silver_rows"`
	Status     reconcile.Status `json:"reconcile"`
}

func (d *demo) silverPath(table string) string { return filepath.Join("silver", table) }

// showSilver shows some orders in both tables, and compares the silver tables with their sources.
func (d *demo) showSilver(ctx context.Context, result *demoResult) error {
	const table = "dbo.orders"
	d.say("\n5. Bronze has every change, silver one row per key. Some of %s in both:\n\n", table)
	bronze, err := d.images(ctx, table)
	if err != nil {
		return fmt.Errorf("reading bronze: %w", err)
	}
	silver, err := d.images(ctx, d.silverPath(table))
	if err != nil {
		return fmt.Errorf("reading silver: %w", err)
	}
	d.sideBySide(bronze, silver)

	d.say("\n6. The silver tables are compared with the tables of the source, row by row.\n\n")
	d.say("   %-20s %10s %10s   %s\n", "table", "source", "silver", "reconcile")
	result.Silver = map[string]silverResult{}
	for _, name := range []string{"dbo.all_types", table, "dbo.order_lines"} {
		one, err := d.reconcileSilver(ctx, name)
		if err != nil {
			return fmt.Errorf("comparing the silver table of %s: %w", name, err)
		}
		d.say("   %-20s %10d %10d   %s\n", name, one.SourceRows, one.SilverRows, statusWord(one.Status))
		result.Silver[name] = one
	}
	return nil
}

// orderImage is what is shown of a row of either table; silver has no position.
type orderImage struct {
	position      mssqlcdc.Position
	at            time.Time
	status, total string
}

// images are the rows of a table of orders by key, those of a key in the order of their changes.
func (d *demo) images(ctx context.Context, name string) (map[int64][]orderImage, error) {
	table, err := d.open(ctx, name)
	if err != nil {
		return nil, err
	}
	columns := []string{"order_id", "status", "total", mssqlcdc.ColCommitTime}
	if table.Snapshot().Schema().Index(mssqlcdc.ColOperation) >= 0 {
		columns = append(columns, mssqlcdc.ColStartLSN, mssqlcdc.ColCommandID, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation)
	}
	found := map[int64][]orderImage{}
	for rec, err := range table.Read(ctx, table.Snapshot(), delta.ReadOptions{Columns: columns}) {
		if err != nil {
			return nil, err
		}
		for row := range mssqlcdc.Rows(rec, 0) {
			id, ok := row["order_id"].(int64)
			if !ok {
				return nil, fmt.Errorf("order_id is a %T in table %s", row["order_id"], name)
			}
			image, err := imageOf(row)
			if err != nil {
				return nil, err
			}
			found[id] = append(found[id], image)
		}
	}
	for _, images := range found {
		slices.SortFunc(images, func(a, b orderImage) int { return a.position.Compare(b.position) })
	}
	return found, table.Close(ctx)
}

func imageOf(row map[string]any) (image orderImage, err error) {
	text := func(column string) string { s, _ := row[column].(string); return strings.Clone(s) }
	image.status, image.total = text("status"), text("total")
	image.at, _ = row[mssqlcdc.ColCommitTime].(time.Time)
	operation, isChange := row[mssqlcdc.ColOperation].(int64)
	if !isChange {
		return image, nil
	}
	command, _ := row[mssqlcdc.ColCommandID].(int64)
	image.position.Operation, image.position.CommandID = mssqlcdc.Operation(operation), int32(command)
	if image.position.StartLSN, err = mssqlcdc.ParseLSN(text(mssqlcdc.ColStartLSN)); err != nil {
		return image, err
	}
	image.position.SeqVal, err = mssqlcdc.ParseLSN(text(mssqlcdc.ColSeqVal))
	return image, err
}

// sideBySide prints one order that was updated and one that was deleted: each change in bronze, and what silver has beside the last.
func (d *demo) sideBySide(bronze, silver map[int64][]orderImage) {
	d.say("   %-52s | %s\n", "bronze", "silver")
	d.say("   %-8s %-14s %8s %-9s %8s | %8s %-9s %8s\n", "commit", "what", "order_id", "status", "total", "order_id", "status", "total")
	for _, deleted := range []bool{false, true} {
		id, found := example(bronze, deleted)
		if !found {
			continue
		}
		for i, image := range bronze[id] {
			d.say("   %-8s %-14s %8d %-9s %8s |", image.at.Format(time.TimeOnly), image.position.Operation, id, image.status, image.total)
			switch {
			case i < len(bronze[id])-1:
			case len(silver[id]) == 0:
				d.say(" %8s", "no row")
			default:
				for _, now := range silver[id] {
					d.say(" %8d %-9s %8s", id, now.status, now.total)
				}
			}
			d.say("\n")
		}
	}
}

// example is the key of an order with a few changes, and whether there is one.
func example(bronze map[int64][]orderImage, deleted bool) (int64, bool) {
	for _, id := range slices.Sorted(maps.Keys(bronze)) {
		images := bronze[id]
		last := images[len(images)-1].position.Operation
		changed := slices.ContainsFunc(images, func(i orderImage) bool { return i.status != images[0].status })
		if images[0].position.Operation == mssqlcdc.Insert && changed && len(images) >= 3 && len(images) <= 7 && (last == mssqlcdc.Delete) == deleted && last != mssqlcdc.UpdateBefore {
			return id, true
		}
	}
	return 0, false
}

// reconcileSilver lets the program compare a silver table, in a process of its own, as anybody would.
func (d *demo) reconcileSilver(ctx context.Context, table string) (silverResult, error) {
	program, err := os.Executable()
	if err != nil {
		return silverResult{}, fmt.Errorf("looking for the program: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, append(d.reconcileArgs(table), "--json")...)
	cmd.Env = append(os.Environ(), "MSSQL_DSN="+d.source.dsn())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	answer, err := cmd.Output()
	if err != nil && len(answer) == 0 { // a difference is an answer, too
		return silverResult{}, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args[1:], " "), err, strings.TrimSpace(stderr.String()))
	}
	var result reconcile.Result
	if err := json.Unmarshal(answer, &result); err != nil {
		return silverResult{}, fmt.Errorf("reading the answer of reconcile: %w", err)
	}
	return silverResult{SourceRows: result.SourceRows, SilverRows: result.TargetRows, Status: result.Status}, nil
}

func (d *demo) reconcileArgs(table string) []string {
	return []string{"reconcile", "--table", table, "--delta", d.path(d.silverPath(table)), "--control", d.path("_control"), "--target", "silver." + table}
}

// differs names the silver tables that are not as their sources.
func (r demoResult) differs() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.Silver)) {
		if r.Silver[name].Status != reconcile.Match {
			names = append(names, name)
		}
	}
	return names
}
