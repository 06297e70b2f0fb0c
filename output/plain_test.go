package output_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
)

func readRows(t *testing.T, st store.Store) []map[string]any {
	t.Helper()
	return readFacts(t, st) // any table reads like that
}

func rowMessage(json string, meta ...string) *service.Message {
	m := service.NewMessage([]byte(json))
	for i := 0; i+1 < len(meta); i += 2 {
		m.MetaSetMut(meta[i], meta[i+1])
	}
	return m
}

func TestOrdinaryRowsThroughAStream(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.run(`
input:
  generate:
    count: 25
    interval: ""
    mapping: |
      root = { "id": counter(), "half": counter(max: 100) / 2, "at": "2026-01-02T03:04:05Z".ts_parse("2006-01-02T15:04:05Z"), "even": @n.or(0) == 0, "deep": { "a": [ 1, null ] } }
output:
  delta_lake:
    path: mem://${! if this.id <= 20 { "low" } else { "high" } }
    batching: { count: 5, period: 1m }
`)
	low, high := readRows(t, b.lake.plain("mem://low")), readRows(t, b.lake.plain("mem://high"))
	require.Len(t, low, 20)
	require.Len(t, high, 5)
	require.Equal(t, `{"a":[1,null]}`, high[0]["deep"])
	require.Equal(t, int64(21), high[0]["id"])
	require.Equal(t, 10.5, high[0]["half"])
	require.Equal(t, float64(20), b.count.get("delta_lake_rows_total{low}"))
	require.Equal(t, float64(4), b.count.get("delta_lake_commits_total{low}"))
	table, err := delta.Open(t.Context(), b.lake.plain("mem://low"), delta.Options{})
	require.NoError(t, err)
	require.Equal(t, int64(4), table.Snapshot().Version(), "a commit per batch and table")
}

func TestADeclaredSchema(t *testing.T) {
	t.Parallel()
	l := newLake()
	d := newDirect(t, l, `
path: mem://t
partition_by: [ day ]
table_comment: what happened
column_comments: { AMOUNT: in euro }
table_properties: { delta.checkpointInterval: "7", team: sales }
schema:
  - { name: id, type: long, nullable: false, comment: the key }
  - { name: day, type: date }
  - { name: amount, type: "decimal(9,2)" }
`)
	require.NoError(t, d.WriteBatch(t.Context(), service.MessageBatch{
		rowMessage(`{"id":1,"day":"2026-01-01","amount":"1.50"}`), rowMessage(`{"id":2,"day":"2026-01-02","amount":2.25}`), rowMessage(`{"id":3}`),
	}))
	d.close()
	rows := readRows(t, l.plain("mem://t"))
	slices.SortFunc(rows, func(a, b map[string]any) int { return int(a["id"].(int64) - b["id"].(int64)) })
	require.Equal(t, []map[string]any{
		{"id": int64(1), "day": "2026-01-01", "amount": "1.50"}, {"id": int64(2), "day": "2026-01-02", "amount": "2.25"}, {"id": int64(3), "day": nil, "amount": nil},
	}, rows)
	table, err := delta.Open(t.Context(), l.plain("mem://t"), delta.Options{})
	require.NoError(t, err)
	s := table.Snapshot()
	require.Equal(t, []string{"day"}, s.PartitionColumns())
	require.Equal(t, "what happened", s.Metadata().Description)
	require.Equal(t, "sales", s.Metadata().Configuration["team"])
	amount, _ := s.Schema().Field("amount")
	require.Equal(t, "in euro", amount.Comment())
	id, _ := s.Schema().Field("id")
	require.False(t, id.Nullable)
	require.Equal(t, "the key", id.Comment())
	require.Equal(t, int64(3), s.NumFiles())
}

// Rows that do not fit go back alone, so that they can go elsewhere; the others are
// in the table.
func TestBadRowsGoBackAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.run(`
input:
  generate: { count: 6, interval: "", batch_size: 6, mapping: 'root.n = if counter() == 3 { "three" } else { counter(min: 10) }' }
output:
  fallback:
    - delta_lake:
        path: mem://good
        schema: [ { name: n, type: long } ]
    - delta_lake: { path: "mem://bad" }
`)
	require.Len(t, readRows(t, b.lake.plain("mem://good")), 5)
	require.Equal(t, []map[string]any{{"n": "three"}}, readRows(t, b.lake.plain("mem://bad")))
}

func TestBatchKeys(t *testing.T) {
	t.Parallel()
	l := newLake()
	config := "path: mem://t\napp_id: loader\nbatch_key: ${! @offset }\ncommit_timeout: 20ms\n"
	batch := func(offset int, rows ...int) service.MessageBatch {
		var batch service.MessageBatch
		for _, id := range rows {
			batch = append(batch, rowMessage(fmt.Sprintf(`{"id":%d}`, id), "offset", fmt.Sprint(offset)))
		}
		return batch
	}
	d := newDirect(t, l, config)
	require.NoError(t, d.WriteBatch(t.Context(), batch(1, 1, 2)))
	// The answer is lost, and the process with it.
	down := false
	l.fail(func(_ string, c fault.Call) fault.Fault {
		if down {
			return fault.Fault{Before: fault.ErrInjected}
		}
		if c.Op == fault.PutIfAbsent {
			down = true
			return fault.Fault{After: fault.ErrInjected}
		}
		return fault.Fault{}
	})
	d.state.Stop()
	require.Error(t, d.WriteBatch(t.Context(), batch(2, 3, 4)))
	l.fail(nil)
	d = newDirect(t, l, config)
	require.NoError(t, d.WriteBatch(t.Context(), batch(2, 3, 4)))
	require.NoError(t, d.WriteBatch(t.Context(), batch(1, 1, 2)))
	require.NoError(t, d.WriteBatch(t.Context(), append(batch(2, 3, 4), batch(3, 5)...)), "two keys in one batch are two commits")
	// A row that does not fit fails its batch whole: the rest of it could not come
	// again under the same key.
	bad := append(batch(4, 6), rowMessage(`{"id":"x"}`, "offset", "4"))
	require.Error(t, d.WriteBatch(t.Context(), bad))
	require.NoError(t, d.WriteBatch(t.Context(), batch(4, 6)))
	d.close()
	seen := map[any]int{}
	for _, row := range readRows(t, l.plain("mem://t")) {
		seen[row["id"]]++
	}
	require.Equal(t, map[any]int{int64(1): 1, int64(2): 1, int64(3): 1, int64(4): 1, int64(5): 1, int64(6): 1}, seen)
}

func TestRowsOfTheInputAtLeastOnce(t *testing.T) {
	t.Parallel()
	l := newLake()
	d := newDirect(t, l, "path: mem://t\ndelivery: at_least_once\n")
	require.NoError(t, d.WriteBatch(t.Context(), service.MessageBatch{rowMessage(`{"id":1}`, mssqlcdc.MetaFormat, mssqlcdc.FormatRows)}))
	d.close()
	require.Len(t, readRows(t, l.plain("mem://t")), 1)
}

func TestConfigsThatAreRefused(t *testing.T) {
	t.Parallel()
	env := newBench(t, nil).env
	for _, test := range []struct{ name, config, want string }{
		{"count without a period", "path: x\nbatching: { count: 10 }", "batching.count without batching.period"},
		{"check without a period", "path: x\nbatching: { check: 'true' }", "batching.check without batching.period"},
		{"bytes", "path: x\nbatching: { byte_size: 10, period: 1s }", "byte_size"},
		{"more in flight", "path: x\nmax_in_flight: 2", "max_in_flight must be 1"},
		{"no path", "app_id: x", "path"},
		{"an unknown field", "path: x\npaht: y", "paht"},
		{"an unknown delivery", "path: x\ndelivery: maybe", "maybe"},
		{"an unknown compression", "path: x\nparquet: { compression: gzip }", "gzip"},
		{"adopting what is no LSN", "path: x\nadopt: yesterday", "want refuse, facts, or an LSN"},
		{"adopting by facts that are nowhere", "path: x\nadopt: facts", "facts_path"},
		{"an unknown policy for types", "path: x\non_type_change: guess", "guess"},
		{"a policy for types that the table must not follow", "path: x\non_type_change: widen\nschema_evolution: { enabled: false }", "schema_evolution.enabled is false"},
		{"an unknown mapping", "path: x\ncolumn_mapping: id", "id"},
		{"a key without app_id", "path: x\nbatch_key: '1'", "batch_key needs app_id"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			config := "delta_lake:\n  " + strings.ReplaceAll(test.config, "\n", "\n  ")
			var found []string
			lints, err := env.NewComponentConfigLinter().LintYAML("output", []byte(config))
			if err != nil {
				found = append(found, err.Error())
			}
			for _, lint := range lints {
				found = append(found, lint.Error())
			}
			require.Contains(t, strings.Join(found, "\n"), test.want)
		})
	}
	for _, config := range []string{
		"path: ''", "path: x\nbatching: { count: 10 }", "path: x\nbatching: { check: 'true' }", "path: x\nbatching: { byte_size: 1, period: 1s }", "path: x\nmax_in_flight: 3",
		"path: x\nadopt: maybe", "path: x\nadopt: facts", "path: x\nbatch_key: '1'", "path: x\nfacts_interval: 0s", "path: x\nmax_open_tables: 0", "path: x\ncommit_timeout: 0s",
		"path: x\nparquet: { row_group_rows: 0 }", "path: x\non_type_change: new_column\nschema_evolution: { enabled: false }", "path: x\npartition_by: [ year(a) ]", "path: x\nschema: [ { name: a, type: number } ]",
		"path: x\nschema: [ { name: a, type: long }, { name: A, type: long } ]", "path: x\npath: ${! nosuch(",
	} {
		require.Error(t, compile(env, config), config)
	}
}

// compile builds a stream around the output.
func compile(env *service.Environment, config string) error {
	builder := env.NewStreamBuilder()
	builder.DisableLinting()
	err := builder.SetYAML("input: { generate: { count: 1, interval: \"\", mapping: \"root.a = 1\" } }\noutput:\n  delta_lake:\n    " + strings.ReplaceAll(config, "\n", "\n    ") + "\nlogger: { level: NONE }\n")
	if err != nil {
		return err
	}
	stream, err := builder.Build()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return stream.Run(ctx)
}
