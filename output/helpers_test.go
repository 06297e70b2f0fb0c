package output_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	_ "github.com/redpanda-data/benthos/v4/public/components/pure"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/changetest"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/fault"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/mem"
)

// lake is a place for tables in memory, with faults by path.
type lake struct {
	mu     sync.Mutex
	inner  map[string]store.Store
	faulty map[string]*fault.Store
	decide func(uri string, c fault.Call) fault.Fault
}

func newLake() *lake {
	return &lake{inner: map[string]store.Store{}, faulty: map[string]*fault.Store{}}
}

func (l *lake) provider() store.Provider {
	return store.Provider{Schemes: []string{"mem"}, Open: func(_ context.Context, uri string) (store.Store, error) {
		return l.at(uri), nil
	}}
}

func (l *lake) at(uri string) *fault.Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faulty[uri] == nil {
		l.inner[uri] = mem.New()
		l.faulty[uri] = fault.Wrap(l.inner[uri], func(c fault.Call) fault.Fault {
			l.mu.Lock()
			decide := l.decide
			l.mu.Unlock()
			if decide == nil {
				return fault.Fault{}
			}
			return decide(uri, c)
		})
	}
	return l.faulty[uri]
}

func (l *lake) fail(decide func(uri string, c fault.Call) fault.Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decide = decide
}

// plain is the store of a table without faults.
func (l *lake) plain(uri string) store.Store {
	l.at(uri)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inner[uri]
}

// counters is a metrics exporter that can be asked.
type counters struct {
	mu     sync.Mutex
	values map[string]float64
	made   map[string]bool
}

// names are the metrics that were made.
func (c *counters) names() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.made)
}

func (c *counters) add(name string, v float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[name] += v
}

func (c *counters) set(name string, v float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[name] = v
}

func (c *counters) get(name string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.values[name]
}

type counter struct {
	c    *counters
	name string
}

func (m counter) Incr(n int64)             { m.c.add(m.name, float64(n)) }
func (m counter) IncrFloat64(n float64)    { m.c.add(m.name, n) }
func (m counter) Decr(n int64)             { m.c.add(m.name, -float64(n)) }
func (m counter) DecrFloat64(n float64)    { m.c.add(m.name, -n) }
func (m counter) Set(n int64)              { m.c.set(m.name, float64(n)) }
func (m counter) SetFloat64(n float64)     { m.c.set(m.name, n) }
func (m counter) Timing(nanoseconds int64) { m.c.add(m.name, 1) }

func (c *counters) named(name string, keys []string) func(values ...string) counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[name] = true
	return func(values ...string) counter {
		full := name
		for i, key := range keys {
			if key == "table" {
				full += "{" + values[i] + "}"
			}
		}
		return counter{c, full}
	}
}

func (c *counters) NewCounterCtor(name string, keys ...string) service.MetricsExporterCounterCtor {
	ctor := c.named(name, keys)
	return func(values ...string) service.MetricsExporterCounter { return ctor(values...) }
}

func (c *counters) NewTimerCtor(name string, keys ...string) service.MetricsExporterTimerCtor {
	ctor := c.named(name, keys)
	return func(values ...string) service.MetricsExporterTimer { return ctor(values...) }
}

func (c *counters) NewGaugeCtor(name string, keys ...string) service.MetricsExporterGaugeCtor {
	ctor := c.named(name, keys)
	return func(values ...string) service.MetricsExporterGauge { return ctor(values...) }
}

func (c *counters) Close(context.Context) error { return nil }

// source is an input that plays the part of mssql_cdc: it cuts a history into
// windows, counts acknowledgements, and goes back on a nack.
type source struct {
	mu      sync.Mutex
	cut     func(at changetest.Cursor) (changetest.Window, bool)
	at      changetest.Cursor // of the next window to send
	acked   changetest.Cursor
	queue   []*mssqlcdc.RecordBatch
	after   map[*mssqlcdc.RecordBatch]changetest.Cursor // of last parts
	done    map[mssqlcdc.LSN]changetest.Cursor          // acknowledged, by start
	attempt int64
	flying  int
	rewind  bool
	nacks   []error
	unmark  int
	settled chan struct{}
}

func newSource(cut func(changetest.Cursor) (changetest.Window, bool)) *source {
	return &source{
		cut: cut, after: map[*mssqlcdc.RecordBatch]changetest.Cursor{}, done: map[mssqlcdc.LSN]changetest.Cursor{},
		settled: make(chan struct{}, 100_000),
	}
}

func (s *source) Connect(context.Context) error { return nil }
func (s *source) Close(context.Context) error   { return nil }

func (s *source) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	for {
		part, ended := s.next()
		if part != nil {
			return service.MessageBatch{message(part)}, s.ack(part), nil
		}
		if ended {
			return nil, nil, service.ErrEndOfInput
		}
		select {
		case <-s.settled:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// next is the part to send, nil if something must settle first or the end is there.
func (s *source) next() (part *mssqlcdc.RecordBatch, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rewind {
		if s.flying > 0 {
			return nil, false
		}
		s.rewind, s.at, s.queue = false, s.acked, nil
	}
	if len(s.queue) == 0 {
		w, ok := s.cut(s.at)
		if !ok {
			return nil, s.flying == 0
		}
		s.attempt++
		w = w.Attempt(s.attempt)
		s.queue, s.at = w.Parts, w.After
		s.after[w.Parts[len(w.Parts)-1]] = w.After
	}
	part = s.queue[0]
	s.queue = s.queue[1:]
	s.flying++
	return part, false
}

func (s *source) ack(part *mssqlcdc.RecordBatch) service.AckFunc {
	return func(_ context.Context, err error) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flying--
		defer func() { s.settled <- struct{}{} }()
		if err != nil {
			s.nacks, s.rewind = append(s.nacks, err), true
			return nil
		}
		if len(part.Marks()) == 0 {
			s.unmark++
		}
		// Acknowledgements come in any order; the position moves only behind the
		// one before it, as a tracker would have it.
		if after, ok := s.after[part]; ok {
			s.done[part.Envelope().Window.Start] = after
			for {
				after, ok := s.done[s.acked.LSN]
				if !ok || after == s.acked {
					break
				}
				s.acked = after
			}
		}
		return nil
	}
}

// processor is a function as a processor.
type processor func(m *service.Message) error

func (p processor) Process(_ context.Context, m *service.Message) (service.MessageBatch, error) {
	if err := p(m); err != nil {
		return nil, err
	}
	return service.MessageBatch{m}, nil
}

func (p processor) Close(context.Context) error { return nil }

func (b *bench) processor(name string, p processor) {
	require.NoError(b.t, b.env.RegisterProcessor(name, service.NewConfigSpec(),
		func(*service.ParsedConfig, *service.Resources) (service.Processor, error) { return p, nil }))
}

// bench is an environment with the output, the source and a metrics exporter.
type bench struct {
	t     *testing.T
	env   *service.Environment
	lake  *lake
	count *counters
	state *mssqlcdc.RunState
	now   func() time.Time
}

func newBench(t *testing.T, src service.BatchInput) *bench {
	b := &bench{t: t, env: service.NewEnvironment(), lake: newLake(), count: &counters{values: map[string]float64{}, made: map[string]bool{}}, state: mssqlcdc.NewRunState(), now: time.Now}
	require.NoError(t, output.Register(b.env,
		output.WithStores(store.NewRegistry(b.lake.provider())),
		output.WithClock(func() time.Time { return b.now() }),
		output.WithRetryAfter(time.Millisecond)))
	if src != nil {
		require.NoError(t, b.env.RegisterBatchInput("source", service.NewConfigSpec(),
			func(*service.ParsedConfig, *service.Resources) (service.BatchInput, error) { return src, nil }))
	}
	require.NoError(t, b.env.RegisterMetricsExporter("counters", service.NewConfigSpec(),
		func(*service.ParsedConfig, *service.Logger) (service.MetricsExporter, error) { return b.count, nil }))
	return b
}

// stream builds a stream of a config with a run state.
func (b *bench) stream(config string) *service.Stream {
	b.t.Helper()
	builder := b.env.NewStreamBuilder()
	require.NoError(b.t, builder.SetYAML(strings.ReplaceAll(config, "\t", "  ")+"\nmetrics: { counters: {} }\nlogger: { level: NONE }\n"))
	stream, err := builder.Build()
	require.NoError(b.t, err)
	stream.Resources().SetGeneric(mssqlcdc.RunStateKey(""), b.state)
	return stream
}

// run runs a stream until it ends by itself.
func (b *bench) run(config string) {
	b.t.Helper()
	stream := b.stream(config)
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(b.t, stream.Run(ctx))
}

func (b *bench) requireRows(uri string, want []changetest.Row) {
	b.t.Helper()
	got, err := changetest.ReadBack(b.t.Context(), b.lake.plain(uri))
	require.NoError(b.t, err)
	require.Empty(b.t, changetest.Difference(want, got))
}
