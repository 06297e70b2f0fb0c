package main

import (
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
)

// benchCase is a number of changes that are applied in one way.
type benchCase struct {
	name, about string
	strategy    merge.Strategy
	bronze      string // the prepared table of changes
	peer        bool   // deltalake merges the same rows
	bar         bar
}

// bar is what a case must reach; zero fields demand nothing.
type bar struct {
	wallRatio float64 // ours to theirs, at most
	peakMB    float64 // resident memory of the process, at most
}

// The prepared tables of changes: both begin with the rows of the table.
const (
	smallBronze = "bronze-changed"
	largeBronze = "bronze-batch"
)

func silverName(s merge.Strategy) string { return "silver-" + string(s) }

func (o options) cases() []benchCase {
	small := fmt.Sprintf("%d changes of random keys into %d rows in %d files, ", o.changed, o.rows, tableFiles)
	large := fmt.Sprintf("%d changes of %d keys into %d rows, ", o.batch, 3*o.rows, o.rows)
	const peakMB = 300
	return []benchCase{
		{"changed-cow", small + "copy on write", merge.CopyOnWrite, smallBronze, true, bar{wallRatio: 1, peakMB: peakMB}},
		{"changed-dv", small + "deletion vectors (deltalake: copy on write)", merge.DeletionVectors, smallBronze, true, bar{wallRatio: 0.2, peakMB: peakMB}},
		{"batch-cow", large + "copy on write", merge.CopyOnWrite, largeBronze, false, bar{peakMB: peakMB}},
		{"batch-dv", large + "deletion vectors", merge.DeletionVectors, largeBronze, false, bar{peakMB: peakMB}},
	}
}
