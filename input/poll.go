package input

import (
	"context"
	"errors"
	"fmt"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// pollIfDue asks how far capture has come and which tables moved.
func (s *scheduler) pollIfDue(ctx context.Context) error {
	now := time.Now()
	if !s.polledAt.IsZero() && now.Sub(s.polledAt) < s.config.pollInterval {
		return nil
	}
	if now.Sub(s.foundAt) >= s.tablesInterval() {
		s.foundAt = now
		if err := s.findMore(ctx); err != nil {
			return err
		}
	}
	head, err := s.source.MaxLSN(ctx)
	if err != nil {
		return fmt.Errorf("polling max_lsn: %w", err)
	}
	if s.head.LSN.Less(head.LSN) && !s.head.LSN.IsZero() {
		s.headMoved = now
	}
	if !head.LSN.Less(s.head.LSN) || s.head.LSN.IsZero() {
		s.head = head
	}
	s.polledAt = now
	s.metrics.polled(head)
	s.checkHealth(ctx, now)
	s.setTarget()
	if err := s.look(ctx, now); err != nil {
		return err
	}
	if err := s.lookForNewer(ctx); err != nil {
		return err
	}
	s.retry.reset()
	s.failures = 0
	return nil
}

// tablesInterval is how often tables are looked for: soon again while some wait for
// capture.
func (s *scheduler) tablesInterval() time.Duration {
	if len(s.waiting) > 0 {
		return min(s.config.tablesInterval, max(s.config.pollInterval, time.Second))
	}
	return s.config.tablesInterval
}

// setTarget decides where a bounded run ends: at max_lsn of its start, or where the
// changes are that the chunks of its snapshots may show, if that is later and capture has
// come so far. A run of snapshots only has no other end than that.
func (s *scheduler) setTarget() {
	if s.config.run == runContinuous {
		return
	}
	var through mssqlcdc.LSN
	for _, t := range s.tables {
		switch {
		case t.isolated || t.snapshot == nil:
		case t.snapshot.ended && s.awaits(t) && !checkpoint.Covers(s.targetTime, t.snapshot.clock):
			through = s.head.LSN
		case t.snapshot.ended && through.Less(t.snapshot.through):
			through = t.snapshot.through
		case !t.snapshot.ended && s.config.run == runSnapshotOnly:
			return
		}
	}
	if s.target == nil {
		s.target = &mssqlcdc.LSN{}
		if s.config.run == runAvailableNow {
			*s.target, s.targetTime = s.head.LSN, s.head.Time
		}
	}
	if s.target.Less(through) {
		*s.target, s.targetTime = through, time.Time{}
		if through == s.head.LSN {
			s.targetTime = s.head.Time
		}
	}
}

// upto is the last LSN that a window may end at.
func (s *scheduler) upto() mssqlcdc.LSN {
	if s.target != nil && s.target.Less(s.head.LSN) {
		return *s.target
	}
	return s.head.LSN
}

// look finds out which tables moved and advances the ones that did not.
func (s *scheduler) look(ctx context.Context, now time.Time) error {
	var asked []*table
	var cursors []sqlserver.Cursor
	for _, t := range s.tables {
		if !t.ready(now) || t.moved || !t.sent.Less(s.upto()) {
			continue
		}
		if t.looked == s.upto() && t.loss == nil && !s.idleDue(t, now) {
			continue // nothing new can have come
		}
		if err := t.loss; err != nil {
			t.loss = nil
			if err := s.tableFailed(ctx, t, err); err != nil {
				return err
			}
			continue
		}
		if !t.checked {
			done, err := s.setup.checkRestored(ctx, t, s.head)
			if err != nil {
				if err := s.tableFailed(ctx, t, err); err != nil {
					return err
				}
				continue
			}
			if !done {
				continue
			}
			t.checked = true
		}
		asked, cursors = append(asked, t), append(cursors, t.cursor())
	}
	if len(asked) == 0 {
		return nil
	}
	movements, err := s.source.Moved(ctx, cursors, s.upto())
	if err != nil {
		return fmt.Errorf("looking for changed tables: %w", err)
	}
	for i, t := range asked {
		if err := s.moved(ctx, t, movements[i], now); err != nil {
			return err
		}
	}
	return nil
}

func (s *scheduler) moved(ctx context.Context, t *table, m sqlserver.Movement, now time.Time) error {
	if m.Err == nil {
		t.measured(t.tracker.acknowledged().Time(), m.MinLSNTime)
	}
	switch {
	case m.Err != nil:
		return s.tableFailed(ctx, t, m.Err)
	case m.Moved:
		t.moved = true
		return nil
	case !s.idleDue(t, now):
		t.looked = s.upto()
		return nil
	}
	window := mssqlcdc.Window{Start: t.sent, End: s.upto()}
	switch {
	case window.End == s.head.LSN:
		window.EndTime = s.head.Time
	case s.target != nil && window.End == *s.target:
		window.EndTime = s.targetTime
	}
	t.idleAt = now
	return s.sendIdle(ctx, t, window, m)
}

// idleDue tells whether the position of a table without changes is to move on.
func (s *scheduler) idleDue(t *table, now time.Time) bool {
	return s.target != nil || s.awaits(t) || now.Sub(t.idleAt) >= s.config.idleInterval
}

// sendIdle sends a window without rows, which nobody needs to read.
func (s *scheduler) sendIdle(ctx context.Context, t *table, window mssqlcdc.Window, m sqlserver.Movement) error {
	r := s.newRead(t, window)
	r.end, r.events, t.events = window.End, t.events, nil
	part := s.source.Idle(t.layout, window, m, s.head)
	r.parts <- part
	close(r.parts)
	t.sent = window.End
	select {
	case s.reads <- r:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// findMore opens tables that appeared since the last look.
func (s *scheduler) findMore(ctx context.Context) error {
	known := map[mssqlcdc.TableID]bool{}
	for _, t := range s.tables {
		known[t.id] = true
	}
	all, err := s.setup.find(ctx)
	var gone *sqlserver.ConfigError
	if errors.As(err, &gone) {
		return nil // the tables that run have their own errors
	}
	if err != nil {
		return err
	}
	for _, f := range all {
		if known[f.table] {
			continue
		}
		start := startFrom{kind: startEarliest}
		if s.waiting[f.table] {
			start = s.config.start
		}
		t, err := s.setup.open(ctx, f, start)
		switch {
		case err == nil:
			delete(s.waiting, f.table)
			s.refused.own(f.table)
			s.tables = append(s.tables, t)
			s.log.Infof("Table %s was found and is read from %s on", t.id, t.sent)
		case notReady(err), sqlserver.Classify(err) == sqlserver.Transient:
			s.log.Debugf("Table %s is not ready yet: %v", f.table, err)
		case s.config.onTableError == onErrorIsolate:
			s.log.Warnf("Table %s is left out: %v", f.table, err)
		default:
			return err
		}
	}
	return nil
}
