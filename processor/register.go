package processor

import (
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// The names of the processors in configurations.
const (
	NameFinalize = "finalize"
	NameEachRow  = "each_row"
	NameApply    = "apply_changes"
)

// init puts the plugins into the global environment, which is what a blank
// import of this package is for.
func init() {
	if err := Register(service.GlobalEnvironment()); err != nil {
		panic(err) // the names are constants: only a programming error can bring us here
	}
}

// Option changes what the processors are built on, for tests.
type Option func(*options)

type options struct {
	stores *store.Registry // nil: those of the config
}

// WithStores sets where the control table's path or URI leads; the default is what
// the config says.
func WithStores(stores *store.Registry) Option { return func(o *options) { o.stores = stores } }

// Register adds the processors to an environment.
func Register(env *service.Environment, opts ...Option) error {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	err := env.RegisterBatchProcessor(NameFinalize, finalizeSpec(),
		func(conf *service.ParsedConfig, res *service.Resources) (service.BatchProcessor, error) {
			return newFinalize(conf, res, o)
		})
	if err != nil {
		return fmt.Errorf("registering the %s processor: %w", NameFinalize, err)
	}
	err = env.RegisterBatchProcessor(NameEachRow, eachRowSpec(),
		func(conf *service.ParsedConfig, _ *service.Resources) (service.BatchProcessor, error) {
			return newEachRow(conf)
		})
	if err != nil {
		return fmt.Errorf("registering the %s processor: %w", NameEachRow, err)
	}
	err = env.RegisterBatchProcessor(NameApply, applyChangesSpec(),
		func(conf *service.ParsedConfig, res *service.Resources) (service.BatchProcessor, error) {
			return newApplyChanges(conf, res, o)
		})
	if err != nil {
		return fmt.Errorf("registering the %s processor: %w", NameApply, err)
	}
	return nil
}
