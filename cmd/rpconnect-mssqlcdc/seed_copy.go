package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
)

// seed writes the copy as the snapshot of the table. The order is that of the pipeline:
// rows and their transactions in one commit, facts, resume position. A crash between two of
// them is repaired by the same command again.
func (s *seeding) seed(ctx context.Context) (string, error) {
	at, err := s.moment(ctx)
	if err != nil {
		return "", err
	}
	instance, err := s.instanceAfter(ctx, at.LSN)
	if err != nil {
		return "", err
	}
	state, stored, err := s.store.Load(ctx, s.table)
	if err != nil {
		return "", err
	}
	if stored && state.Snapshot != nil && state.Snapshot.LSN == at.LSN {
		return fmt.Sprintf("%s was begun with a copy at %s before: nothing to do", s.table, at.LSN), nil
	}
	if err := s.openLake(ctx, bronze.Adoption{}); err != nil {
		return "", err
	}
	generation, err := s.checkBegun(state, stored, at.LSN)
	if err != nil {
		return "", err
	}
	layout, err := s.layout(ctx, instance)
	if err != nil {
		return "", err
	}
	seed := copying{seeding: s, layout: layout, at: at, generation: generation}
	if generation > 0 {
		seed.lostFrom = state.Time()
	}
	rows, err := seed.write(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s begins with %d rows of the copy at %s (%s), and goes on with the changes after it", s.table, rows, at.LSN, textTime(at.Time)),
		s.storeBehind(ctx, instance, at, rows, generation)
}

// moment is the commit that the copy stands for.
func (s *seeding) moment(ctx context.Context) (at sqlserver.Head, err error) {
	if text := s.flags.String("lsn"); text != "" {
		if at.LSN, err = mssqlcdc.ParseLSN(text); err != nil {
			return at, fmt.Errorf("--lsn: %w", err)
		}
	} else {
		utc, err := time.Parse(time.RFC3339, s.flags.String("time"))
		if err != nil {
			return at, fmt.Errorf("--time: want a time with its zone, such as 2026-11-30T12:00:00Z: %w", err)
		}
		if at.LSN, err = s.client.LSNForTime(ctx, utc); err != nil {
			return at, err
		}
	}
	head, err := s.client.MaxLSN(ctx)
	switch {
	case err != nil:
		return at, err
	case at.LSN.IsZero():
		return at, errors.New("the source knows no commit so old: give --lsn, or take a newer copy")
	case head.LSN.Less(at.LSN):
		return at, fmt.Errorf("%s lies after the newest change that was captured, %s: is it of another database, or does capture stand still?", at.LSN, head.LSN)
	}
	at.Time, _, err = s.client.CommitTime(ctx, at.LSN, false)
	return at, err
}

// instanceAfter is the instance that has every change of the table after an LSN.
func (s *seeding) instanceAfter(ctx context.Context, lsn mssqlcdc.LSN) (mssqlcdc.CaptureInstance, error) {
	all, err := s.client.InstancesOf(ctx, []mssqlcdc.TableID{s.table})
	if err != nil {
		return mssqlcdc.CaptureInstance{}, err
	}
	if name := s.flags.String("capture-instance"); name != "" {
		one, err := sqlserver.FindInstance(all, name)
		if err != nil {
			return one, err
		}
		all = []mssqlcdc.CaptureInstance{one}
	}
	if len(all) == 0 {
		return mssqlcdc.CaptureInstance{}, fmt.Errorf("table %s has no capture instance that the login can see: check its name, or enable it with sql/enable_table.sql", s.table)
	}
	slices.SortFunc(all, func(a, b mssqlcdc.CaptureInstance) int { return b.StartLSN.Compare(a.StartLSN) })
	var lost *sqlserver.DataLossError
	for _, instance := range all {
		low, err := s.client.MinLSN(ctx, instance.Name)
		if err != nil {
			return instance, err
		}
		if low.IsZero() {
			if err := s.client.Diagnose(ctx, instance); err != nil {
				return instance, err
			}
			continue
		}
		if !lsn.Next().Less(low) {
			return instance, nil
		}
		lost = &sqlserver.DataLossError{
			Instance: instance.Name, Table: s.table, From: lsn.Next(), MinLSN: low,
			Reason: "CDC no longer has, or never had, what was committed after it; take a newer copy, or let the pipeline read the table whole with stream_snapshot",
		}
	}
	if lost == nil {
		return all[0], sqlserver.ErrNotYetCaptured
	}
	return all[0], lost
}

// checkBegun refuses a table that was begun, unless a newer copy is to be put over it, and
// gives the generation that the copy begins.
func (s *seeding) checkBegun(state checkpoint.State, stored bool, lsn mssqlcdc.LSN) (generation int, err error) {
	position, begun := s.bronze.Position()
	if !stored && !begun {
		return 0, nil
	}
	if !stored && bronze.Chunks(s.bronze.Target().Snapshot(), s.flags.String("app-id"), lsn) >= 0 {
		return 0, nil // a crash came before the resume position
	}
	where := fmt.Sprintf("bronze is at %s", position)
	if stored {
		where = fmt.Sprintf("its resume position is %s", state.LSN)
	}
	switch {
	case !s.flags.Bool("reseed"):
		return 0, fmt.Errorf("it was begun already: %s; --reseed puts a newer copy over it, and what was committed between is lost", where)
	case !stored:
		return 0, fmt.Errorf("%s, and no resume position is in %s: give the folder and the key that the pipeline has", where, s.flags.String("position"))
	case !position.Less(lsn):
		return 0, fmt.Errorf("bronze has every change up to %s, so a copy at %s brings nothing: leave it as it is", position, lsn)
	}
	return state.Generation + 1, nil
}

// storeBehind writes the resume position. The copy may show whatever was committed until
// now, so the verdict stands still until the changes have come so far.
func (s *seeding) storeBehind(ctx context.Context, instance mssqlcdc.CaptureInstance, at sqlserver.Head, rows int64, generation int) error {
	head, err := s.client.MaxLSN(ctx)
	if err != nil {
		return err
	}
	clock, err := s.client.ServerTime(ctx)
	if err != nil {
		return err
	}
	state := stateAt(instance, at.LSN, at.LSN, at.Time)
	state.Generation = generation
	snapshot := checkpoint.NewSnapshot(at.LSN, at.Time, time.Now(), nil, nil).Plan(nil, true).Advance(rows, head.LSN, clock)
	state.Snapshot = snapshot
	return s.store.Save(ctx, s.table, state)
}

// copying is a copy on its way into bronze.
type copying struct {
	*seeding
	layout     sqlserver.Layout
	at         sqlserver.Head
	generation int
	lostFrom   time.Time // commit time of the last change before what is lost
}

// write writes the copy as one chunk, part by part, which is one commit.
func (c *copying) write(ctx context.Context) (rows int64, err error) {
	source, err := c.openCopy(ctx)
	if err != nil {
		return 0, err
	}
	shape, err := newShape(c.layout, source.schema, c.flags.Bool("allow-missing-columns"))
	if err != nil {
		return 0, err
	}
	if len(shape.missing) > 0 {
		c.warn("the copy lacks %s: NULL in its rows", strings.Join(shape.missing, ", "))
	}
	part := 0
	for record, err := range source.records {
		if err != nil {
			return 0, err
		}
		if record.NumRows() == 0 {
			continue
		}
		converted, err := shape.convert(ctx, record, c.at)
		if err != nil {
			return 0, fmt.Errorf("row %d of the copy or one after it: %w", rows, err)
		}
		rows += converted.NumRows()
		if err := c.put(ctx, c.envelope(part, false), converted); err != nil {
			return 0, err
		}
		part++
	}
	envelope := c.envelope(part, true)
	event, err := c.event(rows)
	if err != nil {
		return 0, err
	}
	envelope.Events = []mssqlcdc.Fact{event}
	return rows, c.put(ctx, envelope, shape.empty())
}

func (c *copying) put(ctx context.Context, envelope mssqlcdc.Envelope, record arrowRecord) error {
	batch, err := mssqlcdc.NewRecordBatch(envelope, record)
	if err != nil {
		return err
	}
	result, err := c.bronze.Write(ctx, batch)
	if err != nil || !envelope.Last {
		return err
	}
	return c.record(ctx, result.Window, result.Events)
}

func (c *copying) envelope(part int, last bool) mssqlcdc.Envelope {
	server := c.client.Server()
	return mssqlcdc.Envelope{
		Version: mssqlcdc.EnvelopeVersion, Server: server.Name, Database: server.Database,
		Table: c.table, Instance: c.layout.Instance.Name, Generation: c.generation,
		Window:  mssqlcdc.Window{Start: c.at.LSN, End: c.at.LSN, EndTime: c.at.Time},
		Attempt: 1, Part: part, Last: last,
		CompleteFrom: c.at.LSN, CompleteFromTime: c.at.Time, OpenSnapshot: c.at.LSN,
		Chunk: &mssqlcdc.Chunk{Snapshot: c.at.LSN, Prev: -1, Stamp: c.at.LSN, StampTime: c.at.Time, Final: true},
	}
}

// event is the fact that the table has its snapshot whole.
func (c *copying) event(rows int64) (mssqlcdc.Fact, error) {
	detail, err := json.Marshal(map[string]any{"snapshot": c.at.LSN, "chunks": 1, "rows": rows, "last_lsn": c.at.LSN, "seed": true})
	if err != nil {
		return mssqlcdc.Fact{}, err
	}
	at := c.at.Time
	event := mssqlcdc.Fact{
		Event: mssqlcdc.EventBootstrap, CaptureInstance: c.layout.Instance.Name, Rows: rows,
		MinLSN: c.at.LSN, MaxLSN: c.at.LSN, EndLSN: c.at.LSN, EndCommitTime: &at, Detail: string(detail),
	}
	if c.generation > 0 {
		event.Event, event.LostTo = mssqlcdc.EventResnapshot, &at
		if !c.lostFrom.IsZero() {
			event.LostFrom = &c.lostFrom
		}
	}
	return event, nil
}

func textTime(t time.Time) string {
	if t.IsZero() {
		return "at a time that the source no longer knows"
	}
	return t.UTC().Format(time.RFC3339)
}
