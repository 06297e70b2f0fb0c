package bronze

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// facts are the facts row of the window and those of its events. batchID is nil
// where the window makes no commit.
func (t *Table) facts(batchID *int64) (*mssqlcdc.Fact, []mssqlcdc.Fact) {
	w, env := t.win, t.win.env
	f := &mssqlcdc.Fact{
		Version: mssqlcdc.FactVersion, AppID: t.cfg.AppID, BatchID: batchID,
		Rows: w.tally.rows, MinLSN: w.tally.minLSN, MaxLSN: w.tally.maxLSN,
		Deletes: w.tally.deletes, Inserts: w.tally.inserts, Updates: w.tally.updates,
		StartedAt: new(w.begun.UTC()), DurationMS: new(t.cfg.Now().Sub(w.begun).Milliseconds()),
		EndLSN: env.Window.End, EndCommitTime: known(env.Window.EndTime),
		Target: t.target.Name(), Table: env.Table, CaptureInstance: env.Instance, Generation: env.Generation,
		StartLSN: env.Window.Start, Commits: w.tally.commits, Parts: w.next, RowsFiltered: w.filtered,
	}
	if w.tally.rows > 0 {
		f.MinCommitTime, f.MaxCommitTime = w.tally.times()
	}
	if env.Chunk == nil && t.hasPosition && env.Window.Start.Less(t.position) && t.position.Less(env.Window.End) {
		f.StartLSN = t.position // the rest was trimmed
	}
	measure(f, env.Metrics)
	f.Detail = warnings(env.Warnings)
	if env.Chunk != nil {
		describe(f, *env.Chunk)
	}

	var events []mssqlcdc.Fact
	if t.adopted != nil {
		events = append(events, *t.adopted)
	}
	for _, event := range env.Events {
		events = append(events, t.complete(event, batchID))
	}
	if batchID != nil {
		events = append(events, t.typeEvents(batchID)...)
	}
	return f, events
}

// typeEvents are the events of columns whose types changed.
func (t *Table) typeEvents(batchID *int64) []mssqlcdc.Fact {
	var events []mssqlcdc.Fact
	end := t.win.env.Window.End
	for _, c := range t.win.types() {
		events = append(events, t.complete(mssqlcdc.Fact{
			Event: mssqlcdc.EventSchemaChange, MinLSN: end, MaxLSN: end, EndLSN: end,
			EndCommitTime: known(t.win.env.Window.EndTime), Detail: typeDetail(c),
		}, batchID))
	}
	return events
}

// typeDetail is the detail of such an event, JSON.
func typeDetail(c target.TypeChange) string {
	detail := map[string]string{"column": c.Column, "from": c.From.String(), "to": c.To.String(), "text": c.String()}
	if c.NewColumn != "" {
		detail["new_column"] = c.NewColumn
	}
	text, err := json.Marshal(detail)
	if err != nil {
		return c.String() // strings always have a JSON form
	}
	return string(text)
}

// complete fills in what the input cannot know about an event.
func (t *Table) complete(event mssqlcdc.Fact, batchID *int64) mssqlcdc.Fact {
	env := t.win.env
	event.Version, event.AppID, event.Target = mssqlcdc.FactVersion, t.cfg.AppID, t.target.Name()
	if event.BatchID == nil {
		event.BatchID = batchID
	}
	if event.Table.IsZero() {
		event.Table = env.Table
	}
	if event.CaptureInstance == "" {
		event.CaptureInstance = env.Instance
	}
	if event.Generation == 0 {
		event.Generation = env.Generation
	}
	if event.StartedAt == nil {
		event.StartedAt = new(t.win.begun.UTC())
	}
	return event
}

// measure takes over what the input measured. A reader that measured nothing
// leaves StartedAt zero.
func measure(f *mssqlcdc.Fact, m mssqlcdc.WindowMetrics) {
	if !m.StartedAt.IsZero() {
		f.SourceRTT = new(round(m.RTT, 1))
		f.ReadSeconds = new(round(m.ReadSeconds, 3))
		f.ReadMB = new(round(float64(m.ReadBytes)/1e6, 6))
	}
	f.NetworkWaitMS = m.NetworkWait
	f.RetentionTime = known(m.MinLSNTime)
	f.SourceMaxTime = known(m.SourceMaxTime)

	end := f.EndCommitTime
	if end == nil {
		end = f.MaxCommitTime
	}
	if end != nil && f.RetentionTime != nil {
		f.RetentionHeadroom = new(round(end.Sub(*f.RetentionTime).Hours(), 2))
	}
	if f.SourceMaxTime != nil && !m.SourceSeenTime.IsZero() {
		f.CaptureLag = new(round(m.SourceSeenTime.Sub(*f.SourceMaxTime).Seconds(), 3))
	}
	if f.SourceMaxTime != nil && f.EndCommitTime != nil {
		f.IngestionLag = new(round(f.SourceMaxTime.Sub(*f.EndCommitTime).Seconds(), 3))
	}
}

func warnings(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	text, err := json.Marshal(map[string][]string{"warnings": texts})
	if err != nil {
		return fmt.Sprint(texts) // strings always have a JSON form
	}
	return string(text)
}

// known is nil for the zero time.
func known(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

func round(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}
