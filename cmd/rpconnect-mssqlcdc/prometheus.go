package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redpanda-data/benthos/v4/public/service"
)

const fieldProcessMetrics = "add_process_metrics"

// registerPrometheus adds the prometheus metrics exporter, which the engine serves
// at /metrics.
func registerPrometheus(env *service.Environment) error {
	spec := service.NewConfigSpec().
		Stable().
		Summary("Serves metrics at `/metrics` in the text format of Prometheus.").
		Field(service.NewBoolField(fieldProcessMetrics).Description("Whether to add metrics of the process and the Go runtime.").Default(true))
	err := env.RegisterMetricsExporter("prometheus", spec, func(conf *service.ParsedConfig, log *service.Logger) (service.MetricsExporter, error) {
		process, err := conf.FieldBool(fieldProcessMetrics)
		if err != nil {
			return nil, err
		}
		return newExporter(process, log), nil
	})
	if err != nil {
		return fmt.Errorf("registering the prometheus exporter: %w", err)
	}
	return nil
}

// exporter keeps the engine's metrics in a registry of its own.
type exporter struct {
	registry *prometheus.Registry
	log      *service.Logger
}

func newExporter(process bool, log *service.Logger) *exporter {
	registry := prometheus.NewRegistry()
	if process {
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return &exporter{registry: registry, log: log}
}

// HandlerFunc is what the engine's HTTP server serves at /metrics.
func (e *exporter) HandlerFunc() http.HandlerFunc {
	return promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{}).ServeHTTP
}

// register gives the collector that is there already, if a component of the same
// kind asked before.
func register[C prometheus.Collector](e *exporter, collector C) C {
	err := e.registry.Register(collector)
	if err == nil {
		return collector
	}
	var existing prometheus.AlreadyRegisteredError
	if errors.As(err, &existing) {
		if same, ok := existing.ExistingCollector.(C); ok {
			return same
		}
	}
	e.log.Warnf("Metric is not exported: %v", err)
	return collector
}

// NewCounterCtor makes a counter with labels.
func (e *exporter) NewCounterCtor(name string, labels ...string) service.MetricsExporterCounterCtor {
	vec := register(e, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help(name)}, labels))
	return func(values ...string) service.MetricsExporterCounter {
		return counter{vec.WithLabelValues(values...)}
	}
}

// NewTimerCtor makes a histogram. The engine's timers count nanoseconds, and their
// names say so.
func (e *exporter) NewTimerCtor(name string, labels ...string) service.MetricsExporterTimerCtor {
	vec := register(e, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help(name) + " (nanoseconds)",
		Buckets: prometheus.ExponentialBuckets(1e5, 4, 12), // 0.1 ms to 7 min
	}, labels))
	return func(values ...string) service.MetricsExporterTimer {
		return timer{vec.WithLabelValues(values...)}
	}
}

// NewGaugeCtor makes a gauge with labels.
func (e *exporter) NewGaugeCtor(name string, labels ...string) service.MetricsExporterGaugeCtor {
	vec := register(e, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help(name)}, labels))
	return func(values ...string) service.MetricsExporterGauge {
		return gauge{vec.WithLabelValues(values...)}
	}
}

// Close does nothing: the registry lives in memory.
func (e *exporter) Close(context.Context) error { return nil }

func help(name string) string { return "Metric " + name + " of the pipeline" }

type counter struct{ prometheus.Counter }

func (c counter) Incr(n int64)          { c.Add(float64(n)) }
func (c counter) IncrFloat64(n float64) { c.Add(n) }

type timer struct{ prometheus.Observer }

func (t timer) Timing(nanoseconds int64) { t.Observe(float64(nanoseconds)) }

type gauge struct{ prometheus.Gauge }

func (g gauge) Set(n int64)          { g.Gauge.Set(float64(n)) }
func (g gauge) SetFloat64(n float64) { g.Gauge.Set(n) }
