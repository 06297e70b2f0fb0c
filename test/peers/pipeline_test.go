package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/processor"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/processor/control"
)

// pipeline is the real input and the real output in one stream, with a folder of its
// own for tables and resume positions. Fields are set before it runs; it can run again
// and again, as after a restart.
type pipeline struct {
	dir    string
	dsn    string
	tables []string
	dialer sqlserver.Dialer // nil for the network

	input      []string    // further fields of mssql_cdc
	inputs     []*pipeline // inputs beside this one
	processors []string    // after the gate, each a YAML flow value
	deltaLake  []string    // further fields of delta_lake
	output     string      // instead of delta_lake
	outputs    []output.Option
	format     string
	cache      string // folder of the resume positions; dir/position by default

	live *running // the stream that runs, nil if none does
	sink *sink    // output "sink"
	pass int      // so many messages reach the output, then the process is as good as dead; negative for all
	log  *logs
	mets *metrics
}

// pipeline is a bounded run of record batches into Delta Lake for some tables.
func (l *lab) pipeline(t testing.TB, tables ...string) *pipeline {
	t.Helper()
	return &pipeline{dir: t.TempDir(), dsn: l.sim.DSN(), tables: tables, format: "record_batch", pass: -1, log: &logs{}, mets: newMetrics(), sink: newSink()}
}

// with sets further fields of the input.
func (p *pipeline) with(fields ...string) *pipeline {
	p.input = append(p.input, fields...)
	return p
}

// facts adds the facts table and the verdict.
func (p *pipeline) facts() *pipeline {
	p.deltaLake = append(p.deltaLake, fmt.Sprintf("facts_path: '%s/facts'", p.dir),
		fmt.Sprintf("after_commit: [ finalize: { control_path: '%s/control', granularity: minute } ]", p.dir))
	return p
}

// rows makes it a run of messages per row into the sink.
func (p *pipeline) rows() *pipeline {
	p.format, p.output = "rows", "sink: {}"
	return p
}

func (p *pipeline) yaml(run string) string {
	lines := []string{"input:"}
	if len(p.inputs) == 0 {
		lines = append(lines, p.inputYAML(run, "  ")...)
	} else {
		lines = append(lines, "  broker:", "    inputs:")
		for _, one := range append([]*pipeline{p}, p.inputs...) {
			nested := one.inputYAML(run, "        ")
			nested[0] = "      - " + strings.TrimLeft(nested[0], " ")
			lines = append(lines, nested...)
		}
	}
	lines = append(lines, "pipeline:", "  threads: 1", "  processors:", "    - gate: {}")
	for _, processor := range p.processors {
		lines = append(lines, "    - "+processor)
	}
	lines = append(lines, "output:")
	if p.output != "" {
		lines = append(lines, "  "+p.output)
	} else {
		lines = append(lines, "  delta_lake:", fmt.Sprintf("    path: '%s/lake/${! @table }'", p.dir), "    app_id: peers")
		for _, field := range p.deltaLake {
			lines = append(lines, "    "+field)
		}
	}
	lines = append(lines, "cache_resources:", "  - label: position", fmt.Sprintf("    atomic_file: { directory: '%s' }", p.positions()), "metrics: { kept: {} }")
	return strings.Join(lines, "\n")
}

func (p *pipeline) positions() string { return cmp.Or(p.cache, filepath.Join(p.dir, "position")) }

// inputYAML is the mssql_cdc input.
func (p *pipeline) inputYAML(run, indent string) []string {
	fields := []string{
		fmt.Sprintf("connection_string: %q", p.dsn), fmt.Sprintf("tables: [ %s ]", strings.Join(quoted(p.tables), ", ")), "run: " + run, "format: " + p.format,
		"checkpoint_cache: position", "poll_interval: 20ms", "idle_interval: 20ms",
	}
	for _, field := range p.input {
		name, _, _ := strings.Cut(field, ":")
		fields = slices.DeleteFunc(fields, func(set string) bool { return strings.HasPrefix(set, name+":") })
		fields = append(fields, field)
	}
	lines := []string{indent + "mssql_cdc:"}
	for _, field := range fields {
		lines = append(lines, indent+"  "+field)
	}
	return lines
}

// quoted are texts in the double quotes of YAML.
func quoted(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return all
}

// running is a stream that runs.
type running struct {
	p      *pipeline
	stream *service.Stream
	state  *mssqlcdc.RunState
	gate   *gate
	ended  chan error
}

// begin starts a stream.
func (p *pipeline) begin(t testing.TB, run string) *running {
	t.Helper()
	env := service.NewEnvironment()
	r := &running{p: p, state: mssqlcdc.NewRunState(), gate: newGate(p.pass), ended: make(chan error, 1)}
	require.NoError(t, errors.Join(
		output.Register(env, append([]output.Option{output.WithRetryAfter(5 * time.Millisecond)}, p.outputs...)...),
		env.RegisterBatchProcessor("gate", service.NewConfigSpec(), func(*service.ParsedConfig, *service.Resources) (service.BatchProcessor, error) { return r.gate, nil }),
		env.RegisterBatchOutput("sink", service.NewConfigSpec(), func(*service.ParsedConfig, *service.Resources) (service.BatchOutput, service.BatchPolicy, int, error) {
			return p.sink, service.BatchPolicy{}, 1, nil
		}),
		env.RegisterMetricsExporter("kept", service.NewConfigSpec(), func(*service.ParsedConfig, *service.Logger) (service.MetricsExporter, error) { return p.mets, nil }),
	))
	if p.dialer != nil {
		require.NoError(t, input.Register(env, input.WithDialer(p.dialer)))
	}
	builder := env.NewStreamBuilder()
	require.NoError(t, builder.SetYAML(p.yaml(run)))
	builder.SetLogger(slog.New(slog.NewTextHandler(p.log, nil)))
	var err error
	r.stream, err = builder.Build()
	require.NoError(t, err)
	r.stream.Resources().SetGeneric(mssqlcdc.RunStateKey(""), r.state)
	p.live = r
	go func() { r.ended <- r.stream.Run(context.WithoutCancel(t.Context())) }()
	t.Cleanup(func() {
		if p.live == r { // the test has failed
			r.state.Stop()
			_ = r.stream.StopWithin(patience)
		}
	})
	return r
}

// patience is how long anything may take before it counts as hanging.
const patience = 30 * time.Second

// end waits for the stream to end by itself, and tells what the program would.
func (r *running) end(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.ended:
		r.p.live = nil
		return errors.Join(err, r.state.Err())
	case <-time.After(patience):
		require.Fail(t, "the stream does not end", "%s", r.p.log)
		return nil
	}
}

// stop stops the stream as the first signal does, and tells what the program would.
func (r *running) stop(t testing.TB) error {
	t.Helper()
	r.state.Stop()
	err := r.stream.StopWithin(patience)
	return errors.Join(err, r.end(t))
}

// run is a bounded run that must end well.
func (p *pipeline) run(t testing.TB) {
	t.Helper()
	require.NoError(t, p.begin(t, "available_now").end(t), "%s", p.log)
}

// fail is a bounded run that must end badly; it returns the error.
func (p *pipeline) fail(t testing.TB) error {
	t.Helper()
	err := p.begin(t, "available_now").end(t)
	require.Error(t, err, "%s", p.log)
	return err
}

// crash is a bounded run that comes to an end after so many messages have reached the
// output (K2): later ones never do, and what was staged is lost. It tells whether there
// were more. Processes that are killed in truth are those of test/e2e.
func (p *pipeline) crash(t testing.TB, messages int) (more bool) {
	t.Helper()
	p.pass = messages
	defer func() { p.pass = -1 }()
	r := p.begin(t, "available_now")
	select {
	case <-r.gate.shut:
	case err := <-r.ended:
		p.live = nil
		require.NoError(t, errors.Join(err, r.state.Err()), "%s", p.log)
		return false
	case <-time.After(patience):
		require.Fail(t, "the stream does not end", "%s", p.log)
	}
	close(r.gate.dead)
	_ = r.stop(t) // it says that messages were dropped
	return true
}

// gate lets so many messages pass. What comes then waits until the process is dead and
// is dropped, which no output sees.
type gate struct {
	mu   sync.Mutex
	left int
	shut chan struct{} // closed when a message was held back
	dead chan struct{}
}

func newGate(pass int) *gate {
	return &gate{left: pass, shut: make(chan struct{}), dead: make(chan struct{})}
}

func (g *gate) ProcessBatch(ctx context.Context, batch service.MessageBatch) ([]service.MessageBatch, error) {
	if g.admit() {
		return []service.MessageBatch{batch}, nil
	}
	select {
	case <-g.dead:
	case <-ctx.Done():
	}
	return nil, nil
}

func (g *gate) admit() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.left > 0:
		g.left--
	case g.left == 0:
		g.left = -2
		close(g.shut)
	}
	return g.left > -2
}

func (g *gate) Close(context.Context) error { return nil }

// position is the stored resume position of a table of schema dbo.
func (p *pipeline) position(t testing.TB, table string) (checkpoint.State, bool) {
	t.Helper()
	var access checkpoint.Access
	if p.live != nil { // the folder is its own
		access = func(ctx context.Context, fn func(checkpoint.Cache)) error {
			return p.live.stream.Resources().AccessCache(ctx, "position", func(c service.Cache) { fn(c) })
		}
	} else {
		cache, err := checkpoint.NewAtomicFile(p.positions())
		require.NoError(t, err)
		access = func(_ context.Context, fn func(checkpoint.Cache)) error { fn(cache); return nil }
	}
	store := checkpoint.NewStore(access, input.Name)
	state, stored, err := store.Load(t.Context(), mssqlcdc.TableID{Schema: "dbo", Name: table})
	require.NoError(t, err)
	return state, stored
}

// open opens a table of the lake; nil if there is none.
func (p *pipeline) open(t testing.TB, elements ...string) *delta.Table {
	t.Helper()
	st, err := file.New(filepath.Join(append([]string{p.dir}, elements...)...))
	require.NoError(t, err)
	table, err := delta.Open(t.Context(), st, delta.Options{})
	if errors.Is(err, delta.ErrNotTable) {
		return nil
	}
	require.NoError(t, err)
	return table
}

// bronze are the rows of a bronze table commit by commit, in the form of lab.changes.
func (p *pipeline) bronze(t testing.TB, name string, columns ...string) []string {
	t.Helper()
	table := p.open(t, "lake", name)
	if table == nil {
		return nil
	}
	all := append([]string{mssqlcdc.ColBatchID, mssqlcdc.ColStartLSN, mssqlcdc.ColCommandID, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation}, columns...)
	type numbered struct {
		batch int64
		line  string
	}
	var rows []numbered
	for record, err := range table.Read(t.Context(), table.Snapshot(), delta.ReadOptions{Columns: all}) {
		require.NoError(t, err)
		for i, row := range slices.Collect(mssqlcdc.Rows(record, 0)) {
			var line []string
			for k := range all[1:] {
				line = append(line, strings.Clone(text(record.Column(k+1), i)))
			}
			batch, _ := row[mssqlcdc.ColBatchID].(int64) // a row of a snapshot has none
			rows = append(rows, numbered{batch, strings.Join(line, "|")})
		}
	}
	slices.SortStableFunc(rows, func(a, b numbered) int { return int(a.batch - b.batch) })
	var lines []string
	for _, row := range rows {
		lines = append(lines, row.line)
	}
	return lines
}

// column are the values of one column of a bronze table, commit by commit.
func (p *pipeline) column(t testing.TB, table, name string) []string {
	t.Helper()
	var found []string
	for _, line := range p.bronze(t, table, name) {
		found = append(found, strings.SplitN(line, "|", 5)[4])
	}
	return found
}

// verdict is the verdict of a table of schema dbo; zero if there is none.
func (p *pipeline) verdict(t testing.TB, name string) control.Verdict {
	t.Helper()
	if p.open(t, "control") == nil {
		return control.Verdict{}
	}
	st, err := file.New(filepath.Join(p.dir, "control"))
	require.NoError(t, err)
	table, err := control.Open(t.Context(), st, control.Options{})
	require.NoError(t, err)
	all, err := table.All(t.Context())
	require.NoError(t, err)
	for _, v := range all {
		if v.Target == "dbo."+name {
			return v
		}
	}
	return control.Verdict{}
}

// requireSame checks that bronze holds the rows of the change table of a table of
// schema dbo, in their order, each once (K8).
func (l *lab) requireSame(t testing.TB, p *pipeline, table string, columns ...string) {
	t.Helper()
	want := l.changes(t, "dbo_"+table, columns...)
	require.NotEmpty(t, want, "nothing was captured of %s: the test tests nothing", table)
	require.Equal(t, want, p.bronze(t, table, columns...), "rows of %s", table)
}
