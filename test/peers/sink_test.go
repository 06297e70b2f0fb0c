package peers

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"
)

// sink is an output that keeps the rows that it was given. decide says what becomes of
// the n-th batch, from 1: an error rejects it, and nothing of it is kept.
type sink struct {
	mu      sync.Mutex
	batches int
	decide  func(ctx context.Context, n int, batch service.MessageBatch) error
	kept    []map[string]any
	metas   []map[string]string
}

func newSink() *sink { return &sink{} }

func (s *sink) Connect(context.Context) error { return nil }
func (s *sink) Close(context.Context) error   { return nil }

func (s *sink) WriteBatch(ctx context.Context, batch service.MessageBatch) error {
	s.mu.Lock()
	s.batches++
	n, decide := s.batches, s.decide
	s.mu.Unlock()
	if decide != nil {
		if err := decide(ctx, n, batch); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, message := range batch {
		body, err := message.AsStructured()
		if err != nil {
			return err
		}
		row, ok := body.(map[string]any)
		if !ok {
			return errors.New("a message without a row")
		}
		meta := map[string]string{}
		_ = message.MetaWalk(func(key, value string) error { meta[key] = value; return nil })
		s.kept, s.metas = append(s.kept, maps.Clone(row)), append(s.metas, meta)
	}
	return nil
}

// rows are the rows so far, with their metadata.
func (s *sink) rows() ([]map[string]any, []map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]map[string]any{}, s.kept...), append([]map[string]string{}, s.metas...)
}

// identities are the rows so far in the form of lab.changes without columns.
func (s *sink) identities() []string {
	_, metas := s.rows()
	operations := map[string]string{"delete": "1", "insert": "2", "update_before": "3", "update_after": "4"}
	var lines []string
	for _, m := range metas {
		lines = append(lines, strings.Join([]string{m["lsn"], m["command_id"], m["seqval"], operations[m["operation"]]}, "|"))
	}
	return lines
}

// logs keeps what the stream logs.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// metrics is an exporter that can be asked. Labels follow the name: "rows{dbo.t}".
type metrics struct {
	mu     sync.Mutex
	values map[string]float64
}

func newMetrics() *metrics { return &metrics{values: map[string]float64{}} }

func (m *metrics) get(name string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[name]
}

type metric struct {
	m    *metrics
	name string
}

func (x metric) change(to func(float64) float64) {
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	x.m.values[x.name] = to(x.m.values[x.name])
}

func (x metric) IncrFloat64(n float64) { x.change(func(v float64) float64 { return v + n }) }
func (x metric) DecrFloat64(n float64) { x.IncrFloat64(-n) }
func (x metric) SetFloat64(n float64)  { x.change(func(float64) float64 { return n }) }
func (x metric) Incr(n int64)          { x.IncrFloat64(float64(n)) }
func (x metric) Decr(n int64)          { x.IncrFloat64(-float64(n)) }
func (x metric) Set(n int64)           { x.SetFloat64(float64(n)) }
func (x metric) Timing(int64)          { x.Incr(1) }

// named gives the metric of a name and labels; of these only those of our plugins count.
func (m *metrics) named(name string, keys []string) func(labels ...string) metric {
	return func(labels ...string) metric {
		full := name
		for i, key := range keys {
			if key == "table" || key == "class" {
				full += "{" + labels[i] + "}"
			}
		}
		return metric{m, full}
	}
}

func (m *metrics) NewCounterCtor(name string, keys ...string) service.MetricsExporterCounterCtor {
	made := m.named(name, keys)
	return func(labels ...string) service.MetricsExporterCounter { return made(labels...) }
}

func (m *metrics) NewTimerCtor(name string, keys ...string) service.MetricsExporterTimerCtor {
	made := m.named(name, keys)
	return func(labels ...string) service.MetricsExporterTimer { return made(labels...) }
}

func (m *metrics) NewGaugeCtor(name string, keys ...string) service.MetricsExporterGaugeCtor {
	made := m.named(name, keys)
	return func(labels ...string) service.MetricsExporterGauge { return made(labels...) }
}

func (m *metrics) Close(context.Context) error { return nil }

// eventually waits for something that a stream does.
func (r *running) eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			require.Fail(t, "waited in vain for "+what, "%s", r.p.log)
		}
		time.Sleep(2 * time.Millisecond) // the stream is at work
	}
}
