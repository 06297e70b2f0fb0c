package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/reconcile"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/silver"
)

// Wrong flags are told before anything is opened.
func TestReconcileFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"table":     {[]string{"--table", "orders"}, "want schema.name"},
		"kind":      {[]string{"--table", "dbo.t", "--kind", "gold"}, "want bronze or silver"},
		"isolation": {[]string{"--table", "dbo.t", "--isolation", "none"}, "want read_committed or snapshot"},
		"type":      {[]string{"--table", "dbo.t", "--column-type", "a"}, "want column=value"},
		"delta":     {[]string{"--table", "dbo.t"}, "holds no Delta table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"reconcile", "--connection-string", "sqlserver://sa:secret@localhost:1", "--delta", t.TempDir()}, c.args...)
			code, _, stderr := runCommand(t, func(w io.Writer) *cli.Command { return reconcileCommand(w, io.Discard) }, args...)
			require.Equal(t, exitUnknown, code)
			require.Contains(t, stderr, c.want)
			require.NotContains(t, stderr, "secret")
		})
	}
}

// tableWith makes a table with columns, properties and transactions.
func tableWith(t *testing.T, columns []string, properties map[string]string, txns ...delta.Txn) *delta.Table {
	t.Helper()
	s := &schema.Struct{}
	for _, name := range columns {
		s.Fields = append(s.Fields, schema.Field{Name: name, Type: schema.String, Nullable: true})
	}
	table, err := delta.Create(t.Context(), mem.New(), delta.Spec{Schema: s, Properties: properties}, delta.Options{})
	require.NoError(t, err)
	if len(txns) > 0 {
		_, err = table.Commit(t.Context(), delta.Change{Operation: delta.OpWrite, BlindAppend: true, Marks: txns})
		require.NoError(t, err)
	}
	return table
}

// What a table is, and how far, is told by itself.
func TestTargetTellsWhatItIs(t *testing.T) {
	t.Parallel()
	changes := []string{mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation}
	for name, c := range map[string]struct {
		columns    []string
		properties map[string]string
		want       reconcile.Target
	}{
		"bronze":                      {changes, nil, reconcile.Target{Kind: reconcile.Bronze}},
		"silver":                      {[]string{"id"}, nil, reconcile.Target{Kind: reconcile.Current}},
		"soft":                        {[]string{"id", silver.ColDeleted}, map[string]string{silver.PropMode: "current, soft"}, reconcile.Target{Kind: reconcile.Current, DeletedColumn: silver.ColDeleted}},
		"history":                     {append([]string{silver.ColIsCurrent}, changes...), map[string]string{silver.PropMode: string(silver.History)}, reconcile.Target{Kind: reconcile.Current, CurrentColumn: silver.ColIsCurrent}},
		"its own column of that name": {[]string{"id", silver.ColDeleted}, nil, reconcile.Target{Kind: reconcile.Current}},
	} {
		var target reconcile.Target
		describeTarget(tableWith(t, c.columns, c.properties).Snapshot(), &target)
		require.Equal(t, c.want, target, name)
	}
}

func TestPositionsOfATarget(t *testing.T) {
	t.Parallel()
	low, high := mssqlcdc.LSN{9: 5}, mssqlcdc.LSN{4: 1, 9: 5}
	of := func(name, upper, lower string, lsn mssqlcdc.LSN) []delta.Txn {
		hi, lo := lsn.Parts()
		return []delta.Txn{{AppID: name + upper, Version: hi}, {AppID: name + lower, Version: lo}}
	}
	verdicts, err := control.Create(t.Context(), mem.New(), control.Options{})
	require.NoError(t, err)
	_, _, err = verdicts.Advance(t.Context(), control.Candidate{Target: "t", Granularity: control.Minute, EndLSN: high, EndCommitTime: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)})
	require.NoError(t, err)

	bronze := tableWith(t, []string{"id"}, nil, of("app", mssqlcdc.TxnPositionHi, mssqlcdc.TxnPositionLo, low)...).Snapshot()
	app, err := onlyWriter(bronze)
	require.NoError(t, err)
	require.Equal(t, "app", app)
	p := positions{app: app, target: reconcile.Target{Kind: reconcile.Bronze, Name: "t"}}
	got, ok, err := p.position(t.Context(), bronze)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, low, got)
	p.control = verdicts
	got, _, err = p.position(t.Context(), bronze)
	require.NoError(t, err)
	require.Equal(t, high, got, "windows without rows are in the control table only")
	p.target.Name = "nobody"
	_, _, err = p.position(t.Context(), bronze)
	require.ErrorContains(t, err, "--target")

	derived := tableWith(t, []string{"id"}, nil, append(of(silver.TxnApplied, silver.TxnHi, silver.TxnLo, low), of(silver.TxnSnapshot, silver.TxnHi, silver.TxnLo, high)...)...).Snapshot()
	p = positions{target: reconcile.Target{Kind: reconcile.Current}}
	got, _, err = p.position(t.Context(), derived)
	require.NoError(t, err)
	require.Equal(t, high, got, "a snapshot stands for the changes up to it")
	_, _, err = p.position(t.Context(), bronze)
	require.ErrorContains(t, err, "--lsn")
	p.given, p.lsn = "0x05", low
	got, _, err = p.position(t.Context(), bronze)
	require.NoError(t, err)
	require.Equal(t, low, got)

	_, err = onlyWriter(tableWith(t, []string{"id"}, nil, append(of("a", mssqlcdc.TxnPositionHi, mssqlcdc.TxnPositionLo, low), of("b", mssqlcdc.TxnPositionHi, mssqlcdc.TxnPositionLo, low)...)...).Snapshot())
	require.ErrorContains(t, err, "--app-id")
}
