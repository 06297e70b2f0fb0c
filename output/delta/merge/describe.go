package merge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

func equalEntries(a, b []int32) bool { return slices.Equal(a, b) }

// count fills in the metrics of files, from the change without the files that get a deletion
// vector.
func (p *plan) count(c *delta.Change) {
	n := &p.metrics
	n.FilesAdded = int64(len(c.Add))
	for _, a := range c.Add {
		n.BytesAdded += a.Size
	}
	for _, w := range p.works {
		vector := w.file.add.DeletionVector != nil
		switch {
		case w.how == mark && vector:
			n.VectorsUpdated++
		case w.how == mark:
			n.VectorsAdded++
		default:
			n.FilesRemoved++
			n.BytesRemoved += w.file.add.Size
			if vector {
				n.VectorsRemoved++
			}
		}
		if w.how == rewrite {
			n.RowsCopied += w.file.rows - w.gone.Len()
		}
	}
}

// The names are Spark's, for its MERGE.
const (
	metricSource     = "numSourceRows"
	metricInserted   = "numTargetRowsInserted"
	metricUpdated    = "numTargetRowsUpdated"
	metricDeleted    = "numTargetRowsDeleted"
	metricByRange    = "numTargetRowsNotMatchedBySourceDeleted"
	metricCopied     = "numTargetRowsCopied"
	metricAdded      = "numTargetFilesAdded"
	metricRemoved    = "numTargetFilesRemoved"
	metricBytesIn    = "numTargetBytesAdded"
	metricBytesOut   = "numTargetBytesRemoved"
	metricDVsAdded   = "numTargetDeletionVectorsAdded"
	metricDVsUpdated = "numTargetDeletionVectorsUpdated"
	metricDVsRemoved = "numTargetDeletionVectorsRemoved"
	metricScan       = "scanTimeMs"
	metricRewrite    = "rewriteTimeMs"
	metricExecution  = "executionTimeMs"
)

// describe writes the operation's metrics and parameters.
func (p *plan) describe(c *delta.Change, m *merger) {
	n := p.metrics
	c.Metrics = map[string]int64{
		metricSource: n.SourceRows, metricInserted: n.RowsInserted, metricUpdated: n.RowsUpdated,
		metricDeleted: n.RowsDeleted, metricByRange: n.RowsDeletedByRange, metricCopied: n.RowsCopied,
		metricAdded: n.FilesAdded, metricRemoved: n.FilesRemoved, metricBytesIn: n.BytesAdded, metricBytesOut: n.BytesRemoved,
		metricDVsAdded: n.VectorsAdded, metricDVsUpdated: n.VectorsUpdated, metricDVsRemoved: n.VectorsRemoved,
		metricScan: n.ScanTime.Milliseconds(), metricRewrite: n.RewriteTime.Milliseconds(),
		metricExecution: time.Since(m.begun).Milliseconds(),

		"numOutputRows":                          n.RowsInserted + n.RowsUpdated + n.RowsCopied,
		"numTargetRowsMatchedUpdated":            n.RowsUpdated,
		"numTargetRowsMatchedDeleted":            n.RowsDeleted - n.RowsDeletedByRange,
		"numTargetRowsNotMatchedBySourceUpdated": 0,
		"numTargetChangeFilesAdded":              0,
	}
	c.OperationParameters = m.parameters()
}

// readMetrics is what describe wrote.
func readMetrics(in map[string]string) Metrics {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(in[name], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	millis := func(name string) time.Duration { return time.Duration(number(name)) * time.Millisecond }
	return Metrics{
		SourceRows: number(metricSource), RowsInserted: number(metricInserted), RowsUpdated: number(metricUpdated),
		RowsDeleted: number(metricDeleted), RowsDeletedByRange: number(metricByRange), RowsCopied: number(metricCopied),
		FilesAdded: number(metricAdded), FilesRemoved: number(metricRemoved), BytesAdded: number(metricBytesIn), BytesRemoved: number(metricBytesOut),
		VectorsAdded: number(metricDVsAdded), VectorsUpdated: number(metricDVsUpdated), VectorsRemoved: number(metricDVsRemoved),
		ScanTime: millis(metricScan), RewriteTime: millis(metricRewrite),
	}
}

// clause is an entry of a list of predicates as Spark writes them.
type clause struct {
	Predicate  string `json:"predicate,omitempty"`
	ActionType string `json:"actionType"`
}

// parameters describe the merge as SQL would have it, without any value of a key.
func (m *merger) parameters() map[string]string {
	var equal []string
	for _, f := range m.src.keys {
		equal = append(equal, fmt.Sprintf("(target.%s <=> source.%s)", f.Name, f.Name))
	}
	newer := ""
	if names := namesOf(m.src.versions); len(names) > 0 {
		newer = fmt.Sprintf("((source.%s) > (target.%s))", strings.Join(names, ", source."), strings.Join(names, ", target."))
	}
	var matched, notMatched, notInSource []clause
	if m.src.upserts > 0 {
		matched = append(matched, clause{newer, "update"})
		notMatched = append(notMatched, clause{"", "insert"})
	}
	if m.src.index.len() > m.src.upserts {
		matched = append(matched, clause{newer, "delete"})
	}
	if n := len(m.src.ranges.all); n > 0 {
		notInSource = append(notInSource, clause{fmt.Sprintf("key in %d ranges", n), "delete"})
	}
	return map[string]string{
		"predicate":                    jsonText([]string{strings.Join(equal, " AND ")}),
		"matchedPredicates":            jsonText(nonNil(matched)),
		"notMatchedPredicates":         jsonText(nonNil(notMatched)),
		"notMatchedBySourcePredicates": jsonText(nonNil(notInSource)),
	}
}

func nonNil(list []clause) []clause {
	if list == nil {
		return []clause{}
	}
	return list
}

func jsonText(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // lists of strings have a JSON form
	return strings.TrimSuffix(b.String(), "\n")
}

func isTrue(s *delta.Snapshot, property string) bool {
	value, _ := s.Property(property)
	return strings.EqualFold(value, "true")
}

// numRecords is how many rows a file says it holds, deleted ones included.
func numRecords(stats string) (int64, bool) {
	var in struct {
		NumRecords *int64 `json:"numRecords"`
	}
	if json.Unmarshal([]byte(stats), &in) != nil || in.NumRecords == nil {
		return 0, false
	}
	return *in.NumRecords, true
}

// looseStats are the statistics of a file of so many rows that gets another deletion vector:
// its bounds hold still, and may be wider than need be.
func looseStats(text string, rows int64) (string, error) {
	stats := map[string]json.RawMessage{}
	if text != "" && json.Unmarshal([]byte(text), &stats) != nil {
		stats = map[string]json.RawMessage{} // they are of no use to anybody
	}
	if have, ok := numRecords(text); ok && have != rows {
		return "", fmt.Errorf("it has %d rows and the log says %d: one of them is damaged, so it is left as it is", rows, have)
	}
	stats["numRecords"] = json.RawMessage(strconv.FormatInt(rows, 10))
	stats["tightBounds"] = json.RawMessage("false")
	return jsonText(stats), nil
}
