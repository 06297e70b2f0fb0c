package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// identity is what tells one change row from every other.
type identity struct {
	lsn, seqval string
	operation   int32
}

// check reads every bronze table and compares it with its change table.
func (d *demo) check(ctx context.Context) (demoResult, error) {
	result := demoResult{Dir: d.dir}
	tables := []string{"dbo.all_types", "dbo.orders", "dbo.order_lines"}
	if d.source.bulk > 0 {
		tables = append(tables, "dbo.backlog_narrow")
	}
	d.say("   %-20s %10s %10s %10s %10s\n", "table", "captured", "bronze", "missing", "doubled")
	for _, table := range tables {
		one, err := d.checkTable(ctx, table)
		if err != nil {
			return result, fmt.Errorf("checking %s: %w", table, err)
		}
		d.say("   %-20s %10d %10d %10d %10d\n", table, one.RowsCaptured, one.BronzeRows, one.Missing, one.Duplicates)
		result.RowsCaptured += one.RowsCaptured
		result.BronzeRows += one.BronzeRows
		result.Missing += one.Missing
		result.Duplicates += one.Duplicates
	}
	facts, err := d.countFacts(ctx)
	if err != nil {
		return result, fmt.Errorf("reading the facts: %w", err)
	}
	result.FactsRows = facts
	d.say("\n   facts: %d rows\n", facts)
	return result, d.readVerdicts(ctx, &result)
}

func (d *demo) open(ctx context.Context, name string) (*delta.Table, error) {
	st, err := file.New(d.path(name))
	if err != nil {
		return nil, err
	}
	return delta.Open(ctx, st, delta.Options{})
}

// checkTable counts captured rows that bronze lacks and rows that it has twice.
func (d *demo) checkTable(ctx context.Context, table string) (demoResult, error) {
	var result demoResult
	captured, err := d.captured(ctx, table)
	if err != nil {
		return result, err
	}
	result.RowsCaptured = int64(len(captured))
	seen := make(map[identity]bool, len(captured))
	bronze, err := d.open(ctx, table)
	if err != nil {
		return result, err
	}
	columns := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation}
	for rec, err := range bronze.Read(ctx, bronze.Snapshot(), delta.ReadOptions{Columns: columns}) {
		if err != nil {
			return result, err
		}
		lsn, seqval := rec.Column(0).(*array.String), rec.Column(1).(*array.String)
		operation := rec.Column(2).(*array.Int32)
		for i := range int(rec.NumRows()) {
			id := identity{strings.Clone(lsn.Value(i)), strings.Clone(seqval.Value(i)), operation.Value(i)}
			result.BronzeRows++
			if seen[id] {
				result.Duplicates++
			}
			seen[id] = true
		}
	}
	for id := range captured {
		if !seen[id] {
			result.Missing++
		}
	}
	return result, bronze.Close(ctx)
}

// captured asks the source for every row of the change table.
func (d *demo) captured(ctx context.Context, table string) (map[identity]bool, error) {
	instance := strings.ReplaceAll(table, ".", "_")
	text := fmt.Sprintf("SELECT CONVERT(varchar(22), __$start_lsn, 1), CONVERT(varchar(22), __$seqval, 1), __$operation FROM cdc.%s",
		mssqlcdc.QuoteName(instance+"_CT"))
	answer, err := d.source.sim.Query(ctx, text)
	if err != nil {
		return nil, err
	}
	ids := map[identity]bool{}
	for _, row := range answer.Strings() {
		var operation int32
		if _, err := fmt.Sscan(row[2], &operation); err != nil {
			return nil, fmt.Errorf("reading operation %q: %w", row[2], err)
		}
		ids[identity{row[0], row[1], operation}] = true
	}
	return ids, nil
}

func (d *demo) countFacts(ctx context.Context) (int64, error) {
	facts, err := d.open(ctx, "_facts")
	if err != nil {
		return 0, err
	}
	var rows int64
	for rec, err := range facts.Read(ctx, facts.Snapshot(), delta.ReadOptions{}) {
		if err != nil {
			return 0, err
		}
		rows += rec.NumRows()
	}
	return rows, facts.Close(ctx)
}

// readVerdicts shows every verdict and keeps the earliest, which holds for all.
func (d *demo) readVerdicts(ctx context.Context, result *demoResult) error {
	st, err := file.New(d.path("_control"))
	if err != nil {
		return err
	}
	table, err := control.Open(ctx, st, control.Options{})
	if err != nil {
		return err
	}
	verdicts, err := table.All(ctx)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		until := "not yet"
		if !v.FinalizedUntil.IsZero() {
			until = v.FinalizedUntil.Format(time.RFC3339)
		}
		d.say("   verdict: %-24s final until %s, complete from %s\n", v.Target, until, v.CompleteFrom.Format(time.RFC3339))
		if !v.FinalizedUntil.IsZero() && (result.FinalizedUntil == "" || until < result.FinalizedUntil) {
			result.FinalizedUntil = until
		}
	}
	return table.Close(ctx)
}
