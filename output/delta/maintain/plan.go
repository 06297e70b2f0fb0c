package maintain

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

// tagInsertionTime is Delta's tag for the latest time, in microseconds since the
// epoch, at which rows of a file were inserted. A file without it is as old as its
// modification time. It keeps the order of rows over any number of compactions.
const tagInsertionTime = "INSERTION_TIME"

// maxPlanned bounds the files that one plan looks at, and with them its memory
// (about 1 kB each).
const maxPlanned = 10_000

// file is a data file that may be rewritten.
type file struct {
	add action.Add
	// inserted is the time of its rows, in microseconds since the epoch.
	inserted int64
	packed   bool // by a compaction
	small    bool
	// place is its place in the snapshot's list.
	place int
}

// order is the order in which rows came into the table, as far as it is known.
func (f file) order(o file) int {
	if c := cmp.Compare(f.inserted, o.inserted); c != 0 {
		return c
	}
	if f.packed != o.packed { // its rows are older than its place in the list
		if f.packed {
			return -1
		}
		return 1
	}
	return cmp.Compare(f.place, o.place)
}

// bin is files of one partition, in their order, that become one file.
type bin struct {
	files []file
	bytes int64
	// adds are the files written for it.
	adds []action.Add
}

func (b *bin) vectors() int64 {
	var n int64
	for _, f := range b.files {
		if f.add.DeletionVector != nil {
			n++
		}
	}
	return n
}

// plan is what to rewrite.
type plan struct {
	bins []*bin
	// partial says that the table has more files than one plan looks at.
	partial bool
}

// makePlan chooses what to rewrite in a snapshot.
func makePlan(ctx context.Context, s *delta.Snapshot, o OptimizeOptions) (plan, error) {
	var p plan
	groups := map[string][]file{}
	kept, place := 0, 0
	for add, err := range s.Files(ctx) {
		if err != nil {
			return plan{}, err
		}
		place++
		if !o.wants(add) {
			continue
		}
		key := partitionKey(add.PartitionValues)
		groups[key] = append(groups[key], o.file(add, place))
		if kept++; kept < o.maxPlanned {
			continue
		}
		kept -= dropSingles(groups)
		if p.partial = true; kept > o.maxPlanned/2 {
			break
		}
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		p.bins = append(p.bins, o.pack(groups[key])...)
	}
	return p, nil
}

// dropSingles forgets files that are alone in their partition, and returns how
// many those were.
func dropSingles(groups map[string][]file) int {
	n := 0
	for key, files := range groups {
		if len(files) == 1 && files[0].add.DeletionVector == nil {
			delete(groups, key)
			n++
		}
	}
	return n
}

func (o OptimizeOptions) file(add action.Add, place int) file {
	f := file{add: add, inserted: add.ModificationTime * 1000, small: add.Size < o.SmallBytes, place: place}
	if at, err := strconv.ParseInt(add.Tags[tagInsertionTime], 10, 64); err == nil {
		f.inserted, f.packed = at, true
	}
	return f
}

// wants reports whether a file may be rewritten.
func (o OptimizeOptions) wants(add action.Add) bool {
	return add.Size < o.SmallBytes || o.muchDeleted(add)
}

// muchDeleted reports whether so many rows of a file are deleted that it is worth
// rewriting.
func (o OptimizeOptions) muchDeleted(add action.Add) bool {
	if add.DeletionVector == nil {
		return false
	}
	rows, ok := numRecords(add)
	return !ok || float64(add.DeletionVector.Cardinality) > o.DeletedRatio*float64(rows)
}

// numRecords is how many rows a file says it holds, deleted ones included.
func numRecords(add action.Add) (int64, bool) {
	var stats struct {
		NumRecords *int64 `json:"numRecords"`
	}
	if json.Unmarshal([]byte(add.Stats), &stats) != nil || stats.NumRecords == nil {
		return 0, false
	}
	return *stats.NumRecords, true
}

// pack makes bins of the files of one partition.
func (o OptimizeOptions) pack(files []file) []*bin {
	small := 0
	for _, f := range files {
		if f.small {
			small++
		}
	}
	if small < o.MinFiles {
		files = slices.DeleteFunc(files, func(f file) bool { return !o.muchDeleted(f.add) })
	}
	if o.tiered {
		files = tiers(files, max(2, o.MinFiles/10))
	}
	slices.SortFunc(files, file.order)
	var bins []*bin
	current := &bin{}
	for _, f := range files {
		if len(current.files) > 0 && current.bytes+f.add.Size > o.TargetBytes {
			bins = append(bins, current)
			current = &bin{}
		}
		current.files = append(current.files, f)
		current.bytes += f.add.Size
	}
	bins = append(bins, current)
	return slices.DeleteFunc(bins, func(b *bin) bool {
		return len(b.files) == 0 || len(b.files) == 1 && !o.muchDeleted(b.files[0].add)
	})
}

// tiers leaves out files that are not worth rewriting yet: in a tier every file is
// at most twice as large as all smaller ones of it together, and only tiers of
// some files are packed. So a file is rewritten only when it at least grows by
// half, that is a few times on its way to its full size however many small files
// it came from.
func tiers(files []file, least int) []file {
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.add.Size, b.add.Size) })
	var out []file
	for from := 0; from < len(files); {
		to, sum := from+1, files[from].add.Size
		for to < len(files) && files[to].add.Size <= 2*sum {
			sum += files[to].add.Size
			to++
		}
		if to-from >= least {
			out = append(out, files[from:to]...)
		}
		from = to
	}
	return out
}

// partitionKey is the same for files of one partition only.
func partitionKey(values map[string]*string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		b.WriteString(strconv.Quote(name))
		if value := values[name]; value != nil {
			b.WriteString("=" + strconv.Quote(*value))
		}
		b.WriteByte(',')
	}
	return b.String()
}
