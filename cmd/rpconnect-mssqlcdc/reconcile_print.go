package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
)

// printResult shows what a comparison found: for people, or as one line of JSON.
func printResult(w io.Writer, r *reconcile.Result, asJSON bool) error {
	if asJSON {
		return printJSON(w, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s against %s (%s, version %d, holds changes up to %s)\n", statusWord(r.Status), r.Source, r.Target, r.Kind, r.Version, r.TargetLSN)
	fmt.Fprintf(&b, "  %d rows in the source, %d of them compared whole; %d in the table; %d buckets; %s\n", r.SourceRows, r.Hashed, r.TargetRows, len(r.Buckets), time.Duration(r.TookMS)*time.Millisecond)
	if r.Hashed < r.SourceRows {
		fmt.Fprintf(&b, "  of %d rows only the keys were compared (--sample)\n", r.SourceRows-r.Hashed)
	}
	if len(r.NotCompared) > 0 {
		fmt.Fprintf(&b, "  columns that the table does not have: %s\n", strings.Join(r.NotCompared, ", "))
	}
	if r.Settled > 0 {
		fmt.Fprintf(&b, "  %d keys were in flight, and right once the table had passed their changes\n", r.Settled)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(&b, "  %8d %-16s %s\n", r.Counts[kind], kind, meaning(kind))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "  note: %s\n", note)
	}
	if len(r.Failures) > 0 {
		b.WriteString("\n")
		if err := printFailures(&b, r); err != nil {
			return err
		}
	}
	if r.Counts[reconcile.MissingTarget] > 0 && r.Kind == reconcile.Bronze.String() {
		b.WriteString("\nA table that was begun without a snapshot (stream_snapshot) lacks the rows that have not changed since.\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func statusWord(s reconcile.Status) string {
	switch s {
	case reconcile.Match:
		return "match"
	case reconcile.Mismatch:
		return "MISMATCH"
	}
	return "nothing wrong, some keys in flight"
}

// meaning says what a type of failure is.
func meaning(kind reconcile.FailureType) string {
	switch kind {
	case reconcile.MissingTarget:
		return "the source has the key, the table does not"
	case reconcile.MissingSource:
		return "the table has the key, the source does not"
	case reconcile.RecordDiff:
		return "other values"
	case reconcile.Doubled:
		return "the table has a row twice"
	case reconcile.NotUnique:
		return "the source has several rows of the key"
	case reconcile.InFlight:
		return "differs, and CDC has a later change of it"
	case reconcile.ChunkTiling:
		return "a chunk of the snapshot is missing, or unknown"
	case reconcile.ChunkRows:
		return "a chunk of the snapshot has another number of rows"
	case reconcile.ChunkStamp:
		return "a chunk of the snapshot has rows of another LSN"
	}
	return ""
}

func printFailures(b *strings.Builder, r *reconcile.Result) error {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  TYPE\tKEY\tCOLUMNS\tTABLE'S LSN\tNOTE")
	for _, f := range r.Failures {
		key, err := keyText(f)
		if err != nil {
			return err
		}
		lsn := ""
		if !f.TargetLSN.IsZero() {
			lsn = f.TargetLSN.String()
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", f.Type, key, strings.Join(f.Columns, ", "), lsn, f.Note)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	if more := r.Wrong() - int64(len(r.Failures)); more > 0 {
		fmt.Fprintf(b, "  and %d more (--max-keys)\n", more)
	}
	return nil
}

// keyText is a key as one line of JSON, or what stands for it.
func keyText(f reconcile.Failure) (string, error) {
	switch {
	case f.Chunk != nil:
		return fmt.Sprintf("chunk %d of snapshot %s: %d rows, %d in the facts", f.Chunk.Chunk, f.Chunk.Snapshot, f.Chunk.Rows, f.Chunk.FactsRows), nil
	case f.Key == nil:
		return "-", nil
	}
	text, err := json.Marshal(f.Key)
	if err != nil {
		return "", fmt.Errorf("writing a key: %w", err)
	}
	return string(text), nil
}
