package output

import (
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

func init() {
	if err := Register(service.GlobalEnvironment()); err != nil {
		panic(err) // the name or a field is wrong: a mistake in this package
	}
}

// Name is the name of the output in a config.
const Name = "delta_lake"

// Option changes what the output is built on, for tests.
type Option func(*options)

type options struct {
	stores *store.Registry // nil: those of the config
	now    func() time.Time
	// retryAfter is the first pause after an error; it doubles up to 100 times
	// itself.
	retryAfter time.Duration
}

// WithStores sets where paths and URIs lead; the default is what the config says.
func WithStores(stores *store.Registry) Option { return func(o *options) { o.stores = stores } }

// WithClock sets the clock of facts and intervals.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithRetryAfter sets the first pause after an error; the default is 200 ms.
func WithRetryAfter(pause time.Duration) Option { return func(o *options) { o.retryAfter = pause } }

// Register adds the delta_lake output to an environment.
func Register(env *service.Environment, opts ...Option) error {
	o := options{now: time.Now, retryAfter: 200 * time.Millisecond}
	for _, opt := range opts {
		opt(&o)
	}
	return env.RegisterBatchOutput(Name, spec(),
		func(conf *service.ParsedConfig, res *service.Resources) (service.BatchOutput, service.BatchPolicy, int, error) {
			c, err := parseConfig(conf)
			if err != nil {
				return nil, service.BatchPolicy{}, 0, err
			}
			return newOutput(c, res, o), c.batching, 1, nil
		})
}
