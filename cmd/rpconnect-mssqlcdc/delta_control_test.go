package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// Verdicts move on while their table is packed, checkpointed, vacuumed and its log
// cleaned, however many tables share it: none is lost and none goes back.
func TestControlUnderMaintenance(t *testing.T) {
	t.Parallel()
	const targets, steps = 6, 12
	path := filepath.Join(t.TempDir(), "control")
	st, err := file.New(path)
	require.NoError(t, err)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	first, err := control.Create(t.Context(), st, control.Options{})
	require.NoError(t, err)

	advance := func(table *control.Table, n, step int) {
		want := start.Add(time.Duration(step) * time.Hour)
		verdict, _, err := table.Advance(t.Context(), control.Candidate{
			Target: fmt.Sprint("table ", n), Granularity: control.Hour, EndLSN: mssqlcdc.LSN{9: byte(step + 1)}, EndCommitTime: want,
		})
		if err != nil || !verdict.FinalizedUntil.Equal(want) {
			t.Errorf("moving the verdict: %v, it is %v and should be %v", err, verdict.FinalizedUntil, want)
		}
	}
	for n := range targets {
		advance(first, n, 0)
	}
	require.Contains(t, ok(t, "optimize", path), "Packed 6 files", "all rows are in one file now, which everybody wants to replace")

	ctx, stop := context.WithCancel(t.Context())
	var maintaining, moving sync.WaitGroup
	maintaining.Go(func() {
		for ctx.Err() == nil {
			for _, args := range [][]string{{"optimize", path}, {"checkpoint", path}, {"vacuum", path}, {"cleanup", path}} {
				code, _, stderr := runDelta(t, args...)
				if code != exitOK && !strings.Contains(stderr, maintain.ErrBusy.Error()) {
					t.Errorf("%v: %s", args, stderr)
				}
			}
		}
	})
	for n := range targets {
		moving.Go(func() {
			table, err := control.Create(t.Context(), st, control.Options{})
			if err != nil {
				t.Errorf("opening the control table: %v", err)
				return
			}
			for step := 1; step < steps; step++ {
				advance(table, n, step)
			}
			if err := table.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	moving.Wait()
	stop()
	maintaining.Wait()
	all, err := first.All(t.Context())
	require.NoError(t, err)
	require.Len(t, all, targets)
	for _, v := range all {
		require.Equal(t, start.Add((steps-1)*time.Hour), v.FinalizedUntil)
	}
	require.NoError(t, first.Close(t.Context()))
}
