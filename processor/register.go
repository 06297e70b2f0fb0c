package processor

import (
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// The names of the processors in configurations.
const (
	NameFinalize = "finalize"
	NameEachRow  = "each_row"
)

// init puts the plugins into the global environment, which is what a blank
// import of this package is for.
func init() {
	if err := Register(service.GlobalEnvironment()); err != nil {
		panic(err) // the names are constants: only a programming error can bring us here
	}
}

// Register adds the processors to an environment.
func Register(env *service.Environment) error {
	err := env.RegisterBatchProcessor(NameFinalize, finalizeSpec(),
		func(conf *service.ParsedConfig, res *service.Resources) (service.BatchProcessor, error) {
			return newFinalize(conf, res)
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
	return nil
}
