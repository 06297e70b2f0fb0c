package output

import (
	"context"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
)

// recoverFacts takes up the facts that a crash kept from the facts table, from the
// log of the data table. What lies before the first facts of a table is taken as
// far as the log still has it.
func (o *deltaOutput) recoverFacts(ctx context.Context, t *bronze.Table) error {
	if _, ours := t.Position(); o.facts == nil || !ours {
		return nil
	}
	key := t.FactsKey()
	mark, known := o.facts.Watermark(key)
	for r, err := range t.Recorded(ctx, mark, known) {
		if err != nil {
			return err
		}
		if _, err := o.facts.AddEvents(ctx, key, r.Events); err != nil {
			return err
		}
		if r.Window.Version > 0 {
			o.facts.AddWindow(key, r.Window, false)
		}
		if o.facts.Pending() < maxPendingFacts {
			continue
		}
		if err := o.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// recordFacts takes the facts of a window, and writes them at once if there are
// events: the resume position must not pass an event that is not written.
func (o *deltaOutput) recordFacts(ctx context.Context, label string, t *bronze.Table, done bronze.Result) error {
	for _, event := range done.Events {
		o.logEvent(event)
	}
	if o.facts == nil {
		return nil
	}
	key, windowTaken, now := t.FactsKey(), false, false
	err := o.retry(ctx, label, "Writing facts", bronze.Decide, func() error {
		if !windowTaken {
			added, err := o.facts.AddEvents(ctx, key, done.Events)
			if err != nil {
				return err
			}
			o.facts.AddWindow(key, *done.Window, done.Idle)
			windowTaken, now = true, added > 0 || len(done.Events) > 0
		}
		if !now && o.facts.Pending() < maxPendingFacts {
			return nil
		}
		return o.flush(ctx)
	})
	if err != nil && ctx.Err() == nil && bronze.Decide(err) == bronze.Stop {
		return o.fatal(err)
	}
	return err
}

func (o *deltaOutput) logEvent(event mssqlcdc.Fact) {
	log := o.log.With("table", event.Table.String(), "event", string(event.Event), "detail", event.Detail)
	if event.Event == mssqlcdc.EventDataSkipped {
		log.Warn("Changes that the source no longer has were skipped")
		return
	}
	log.Info("Recorded an event")
}

func (o *deltaOutput) flush(ctx context.Context) error {
	rows, err := o.facts.Flush(ctx)
	o.metrics.factsRows.Incr(int64(rows))
	return err
}

// flushFacts writes collected facts every interval until the context ends. A
// failure keeps the rows, and the next interval tries again.
func (o *deltaOutput) flushFacts(life context.Context) {
	ticker := time.NewTicker(o.cfg.factsInterval)
	defer ticker.Stop()
	failed := 0
	for {
		select {
		case <-life.Done():
			return
		case <-ticker.C:
		}
		err := o.flush(life)
		switch {
		case err == nil:
			failed = 0
		case life.Err() == nil:
			if failed&(failed-1) == 0 {
				o.log.With("error", err, "attempt", failed+1).Warn("Writing facts failed; they are kept and tried again")
			}
			failed++
		}
	}
}
