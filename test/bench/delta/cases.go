package main

import (
	"context"
	"fmt"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/merge"
)

// benchCase is one thing to be measured.
type benchCase struct {
	name, about string
	// needs says what prepare has to make.
	needs needs
	// inMemory says that the case runs in the folder in memory, where fsync costs nothing.
	inMemory bool
	ours     func(ctx context.Context, o options) (measure, error)
	// peer is the function of testdata/peers.py and its arguments; nil if there is none.
	peer []string
	bar  bar
}

// needs are the prepared inputs of a case.
type needs struct {
	batches int       // files of rows
	log     synthetic // a table with a log only; zero for none
	merge   bool      // the target of the merges
}

// synthetic is a table without data files: version 0 and as many commits, each of which adds files.
type synthetic struct {
	commits, adds int
	checkpoint    bool
}

func (s synthetic) name() string {
	name := fmt.Sprintf("log-%d-%d", s.commits, s.adds)
	if s.checkpoint {
		name += "-checkpoint"
	}
	return name
}

// bar is what a case must reach; zero fields demand nothing.
type bar struct {
	cpuRatio, wallRatio, bytesRatio float64 // ours to theirs, at most
	aboveInputMB                    float64 // memory above the live input, at most
	milliseconds                    float64 // median of one operation, at most
}

// commitSizes are the numbers of files in the tables of the commit and appender cases.
const (
	smallTable  = 10
	middleTable = 1_000
	largeTable  = 10_000
)

// cases are all of them; rows is for those that write many.
func cases(rows int) []benchCase {
	batches := rows / batchRows
	out := []benchCase{
		{
			name: "append", about: fmt.Sprintf("%d appends of %d rows, the table opened for each", batches, batchRows),
			needs: needs{batches: batches}, ours: benchAppend, peer: []string{"append", fmt.Sprint(batches)},
			bar: bar{cpuRatio: 1, bytesRatio: 1, aboveInputMB: 100},
		},
		{
			name: "stream", about: fmt.Sprintf("one commit of %d rows", rows),
			needs: needs{batches: batches}, ours: benchStream(data.Plain), peer: []string{"stream", fmt.Sprint(batches)},
			bar: bar{cpuRatio: 1.5, bytesRatio: 1, aboveInputMB: 100},
		},
		{
			name: "stream-compact", about: "the same with encodings: compact",
			needs: needs{batches: batches}, ours: benchStream(data.Compact), peer: []string{"stream", fmt.Sprint(batches)},
			bar: bar{cpuRatio: 1, bytesRatio: 1, aboveInputMB: 100},
		},
	}
	for _, files := range []int{smallTable, middleTable, largeTable} {
		log := synthetic{commits: files, adds: 1, checkpoint: true}
		out = append(out,
			benchCase{
				name: fmt.Sprintf("commit-%d", files), about: fmt.Sprintf("append of one row to a held table of %d files, no fsync (in memory)", files),
				needs: needs{log: log}, inMemory: true, ours: benchCommit(log, true), peer: []string{"commit", log.name()}, bar: bar{milliseconds: 2},
			},
			benchCase{
				name: fmt.Sprintf("commit-sync-%d", files), about: fmt.Sprintf("append of one row to a held table of %d files, on disk (ours syncs, deltalake does not)", files),
				needs: needs{log: log}, ours: benchCommit(log, false), peer: []string{"commit", log.name()}, bar: bar{milliseconds: 5},
			},
			benchCase{
				name: fmt.Sprintf("checkpoint-%d", files), about: fmt.Sprintf("one checkpoint of a table of %d files", files),
				needs: needs{log: log}, ours: benchCheckpoint(log), peer: []string{"checkpoint", log.name()},
			},
			benchCase{
				name: fmt.Sprintf("appender-%d", files), about: fmt.Sprintf("10 appends of %d rows to a held table of %d files: memory", batchRows, files),
				needs: needs{batches: appenderBatches, log: log}, ours: benchAppender(log), peer: []string{"appender", log.name()}, bar: bar{aboveInputMB: 100},
			},
		)
	}
	indexed, plain := synthetic{commits: 10_000, adds: 10, checkpoint: true}, synthetic{commits: 10_000, adds: 1}
	for _, rows := range []int{10_000, 100_000} {
		for _, strategy := range []merge.Strategy{merge.CopyOnWrite, merge.DeletionVectors} {
			name, limit := "", bar{cpuRatio: 1}
			if strategy == merge.DeletionVectors {
				name, limit = "-dv", bar{cpuRatio: 0.2}
			}
			out = append(out, benchCase{
				name: fmt.Sprintf("merge-%d%s", rows, name), about: fmt.Sprintf("merge of %d rows, half of them known, into %d, %s (deltalake: copy on write)", rows, mergeTarget, strategy),
				needs: needs{merge: true}, ours: benchMerge(rows, strategy), peer: []string{"merge", fmt.Sprint(rows)}, bar: limit,
			})
		}
	}
	return append(out,
		benchCase{
			name: "open-checkpoint", about: "open a table of 100,000 files from a checkpoint and list them",
			needs: needs{log: indexed}, ours: benchOpen(indexed), peer: []string{"open", indexed.name()}, bar: bar{wallRatio: 0.5},
		},
		benchCase{
			name: "open-commits", about: "open a table of 10,000 commits without a checkpoint and list its files",
			needs: needs{log: plain}, ours: benchOpen(plain), peer: []string{"open", plain.name()}, bar: bar{wallRatio: 0.2},
		},
	)
}
