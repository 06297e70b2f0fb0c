package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/storage"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// finalize is the processor. It is safe for concurrent use.
type finalize struct {
	path        string
	stores      *store.Registry // where it leads
	target      *service.InterpolatedString
	granularity control.Granularity
	check       bool
	from, until *service.InterpolatedString // check; from may be nil
	flag        bool

	log   *service.Logger
	age   *service.MetricGauge
	moves *service.MetricCounter

	mu      sync.Mutex
	table   *control.Table
	reached map[string]reached // per target, to leave the table alone within a period
}

// reached is what a target's row is known to hold.
type reached struct {
	period, completeFrom time.Time
	heldBy               string
}

func newFinalize(conf *service.ParsedConfig, res *service.Resources, o options) (*finalize, error) {
	f := &finalize{reached: map[string]reached{}}
	var err error
	if f.path, err = conf.FieldString(fieldControlPath); err != nil {
		return nil, err
	}
	if f.path == "" {
		return nil, fmt.Errorf("field %s must not be empty", fieldControlPath)
	}
	if f.stores = o.stores; f.stores == nil {
		f.stores, err = storage.Registry(conf)
	}
	if err != nil {
		return nil, err
	}
	if f.target, err = conf.FieldInterpolatedString(fieldTable); err != nil {
		return nil, err
	}
	operator, err := option(conf, fieldOperator)
	if err != nil {
		return nil, err
	}
	granularity, err := option(conf, fieldGranularity)
	if err != nil {
		return nil, err
	}
	f.granularity = control.Granularity(granularity)
	if f.check = operator == operatorCheck; f.check {
		if err := f.parseCheck(conf); err != nil {
			return nil, err
		}
	}
	f.log = res.Logger()
	f.age = res.Metrics().NewGauge("finalize_finalized_until_seconds", "table")
	f.moves = res.Metrics().NewCounter("finalize_moves_total", "table")
	return f, nil
}

// option reads a field that is one of several words, which the engine accepts in any
// letter case.
func option(conf *service.ParsedConfig, name string) (string, error) {
	word, err := conf.FieldString(name)
	return strings.ToLower(word), err
}

func (f *finalize) parseCheck(conf *service.ParsedConfig) (err error) {
	if !conf.Contains(fieldUntil) {
		return fmt.Errorf("field %s is required with %s: %s", fieldUntil, fieldOperator, operatorCheck)
	}
	if f.until, err = conf.FieldInterpolatedString(fieldUntil); err != nil {
		return err
	}
	if conf.Contains(fieldFrom) {
		if f.from, err = conf.FieldInterpolatedString(fieldFrom); err != nil {
			return err
		}
	}
	action, err := option(conf, fieldOnNotFinal)
	f.flag = action == notFinalFlag
	return err
}

// ProcessBatch advances or asks, message by message. Messages leave as they came;
// one that could not be handled is marked as failed.
func (f *finalize) ProcessBatch(ctx context.Context, batch service.MessageBatch) ([]service.MessageBatch, error) {
	for _, message := range batch {
		if message.GetError() != nil {
			continue // what failed before is in no table
		}
		handle := f.advance
		if f.check {
			handle = f.ask
		}
		if err := handle(ctx, message); err != nil {
			message.SetError(err)
		}
	}
	return []service.MessageBatch{batch}, nil
}

// advance moves the verdict by a window that is in the table.
func (f *finalize) advance(ctx context.Context, message *service.Message) error {
	body, err := message.AsStructured()
	if err != nil {
		return nil // not a record batch
	}
	record, ok := body.(*mssqlcdc.RecordBatch)
	if !ok {
		return nil
	}
	envelope := record.Envelope()
	if !envelope.Last || envelope.Chunk != nil { // rows of a snapshot say nothing about periods
		return nil
	}
	if !written(record) {
		return fmt.Errorf("finalize: window %s of %s is not in a table yet: put finalize into after_commit of the delta_lake output", envelope.Window, envelope.Table)
	}
	target, err := f.target.TryString(message)
	if err != nil {
		return fmt.Errorf("finalize: field %s: %w", fieldTable, err)
	}
	return f.move(ctx, control.Candidate{
		Target: target, Granularity: f.granularity,
		EndLSN: envelope.Window.End, EndCommitTime: envelope.Window.EndTime,
		CompleteFrom: envelope.CompleteFromTime, Gaps: gapsOf(envelope.Events), HeldBy: holds(envelope),
	})
}

// holds says why a window must not move the verdict: while a snapshot is open, rows
// that are older than the window are still to come.
func holds(envelope mssqlcdc.Envelope) string {
	if envelope.OpenSnapshot.IsZero() {
		return ""
	}
	return "snapshot " + envelope.OpenSnapshot.String() + " is not complete"
}

func written(record *mssqlcdc.RecordBatch) bool {
	for _, mark := range record.Marks() {
		if mark == mssqlcdc.Committed || mark == mssqlcdc.Skipped {
			return true
		}
	}
	return false
}

func gapsOf(events []mssqlcdc.Fact) []control.Gap {
	var gaps []control.Gap
	for _, event := range events {
		if event.LostFrom != nil && event.LostTo != nil {
			gaps = append(gaps, control.Gap{From: *event.LostFrom, To: *event.LostTo})
		}
	}
	return gaps
}

// move asks the control table only when the candidate can change it.
func (f *finalize) move(ctx context.Context, c control.Candidate) error {
	var period time.Time
	if !c.EndCommitTime.IsZero() {
		var err error
		if period, err = c.Granularity.Truncate(c.EndCommitTime); err != nil {
			return fmt.Errorf("finalize: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.reached[c.Target]
	if known && len(c.Gaps) == 0 && !period.After(last.period) && !c.CompleteFrom.After(last.completeFrom) && c.HeldBy == last.heldBy {
		return nil
	}
	table, err := f.openLocked(ctx)
	if err != nil {
		return err
	}
	verdict, moved, err := table.Advance(ctx, c)
	if err != nil {
		return fmt.Errorf("finalize: %w", err)
	}
	f.reached[c.Target] = reached{period: period, completeFrom: c.CompleteFrom, heldBy: c.HeldBy}
	if moved {
		f.moves.Incr(1, c.Target)
	}
	if !verdict.FinalizedUntil.IsZero() {
		f.age.SetFloat64(float64(verdict.FinalizedUntil.Unix()), c.Target)
	}
	return nil
}

// openLocked opens the control table at the first use. The caller holds mu.
func (f *finalize) openLocked(ctx context.Context) (*control.Table, error) {
	if f.table != nil {
		return f.table, nil
	}
	st, err := f.stores.Open(ctx, f.path)
	if err != nil {
		return nil, fmt.Errorf("finalize: opening the control table: %w", err)
	}
	open := control.Create
	if f.check {
		open = control.Open
	}
	table, err := open(ctx, st, control.Options{Engine: "rpconnect-mssqlcdc", Upkeep: storage.Upkeep(f.log, f.path)})
	if err != nil {
		return nil, fmt.Errorf("finalize: %w", err)
	}
	f.table = table
	return table, nil
}

// ask compares a message's period with the verdict.
func (f *finalize) ask(ctx context.Context, message *service.Message) error {
	target, err := f.target.TryString(message)
	if err != nil {
		return fmt.Errorf("finalize: field %s: %w", fieldTable, err)
	}
	until, err := period(f.until, fieldUntil, message)
	if err != nil {
		return err
	}
	var from time.Time
	if f.from != nil {
		if from, err = period(f.from, fieldFrom, message); err != nil {
			return err
		}
	}
	verdict, err := f.verdict(ctx, target)
	if err != nil {
		return err
	}
	answer := verdict.Answer(from, until)
	if !verdict.FinalizedUntil.IsZero() {
		message.MetaSetMut(metaFinalizedUntil, verdict.FinalizedUntil.Format(time.RFC3339))
	}
	message.MetaSetMut(metaFinal, map[control.Answer]string{
		control.Final: "true", control.NotYet: "false", control.FinalOverGap: "over_gap",
	}[answer])
	if f.flag || answer == control.Final {
		return nil
	}
	return notFinal(target, until, verdict, answer)
}

// verdict reads the table. No table or no row is a verdict that nothing is final
// yet: the pipeline that writes them may not have started.
func (f *finalize) verdict(ctx context.Context, target string) (control.Verdict, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	table, err := f.openLocked(ctx)
	if errors.Is(err, delta.ErrNotTable) {
		return control.Verdict{Target: target}, nil
	}
	if err != nil {
		return control.Verdict{}, err
	}
	verdict, err := table.Get(ctx, target)
	if errors.Is(err, control.ErrUnknownTarget) {
		return control.Verdict{Target: target}, nil
	}
	if err != nil {
		return control.Verdict{}, fmt.Errorf("finalize: %w", err)
	}
	return verdict, nil
}

func notFinal(target string, until time.Time, v control.Verdict, answer control.Answer) error {
	switch {
	case answer == control.FinalOverGap:
		return fmt.Errorf("finalize: %s is final until %s, but changes were lost on the way", target, until.Format(time.RFC3339))
	case v.HeldBy != "":
		return fmt.Errorf("finalize: the verdict of %s stands still: %s", target, v.HeldBy)
	case v.FinalizedUntil.IsZero():
		return fmt.Errorf("finalize: nothing of %s is final yet", target)
	case !v.FinalizedUntil.Before(until):
		return fmt.Errorf("finalize: %s is complete from %s on only", target, v.CompleteFrom.Format(time.RFC3339))
	}
	return fmt.Errorf("finalize: %s is final until %s, asked for %s", target, v.FinalizedUntil.Format(time.RFC3339), until.Format(time.RFC3339))
}

func period(field *service.InterpolatedString, name string, message *service.Message) (time.Time, error) {
	text, err := field.TryString(message)
	if err != nil {
		return time.Time{}, fmt.Errorf("finalize: field %s: %w", name, err)
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("finalize: field %s: %q is not a time of RFC 3339", name, text)
	}
	return t.UTC(), nil
}

// Close waits for the control table's work in the background.
func (f *finalize) Close(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.table == nil {
		return nil
	}
	err := f.table.Close(ctx)
	f.table = nil
	return err
}
