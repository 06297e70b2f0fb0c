package input

import (
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/checkpoint"
)

// Name is the name of the input in configurations.
const Name = "mssql_cdc"

// init puts the plugins into the global environment, which is what a blank
// import of this package is for.
func init() {
	if err := Register(service.GlobalEnvironment()); err != nil {
		panic(err) // the names are constants: only a programming error can bring us here
	}
}

// Register adds the mssql_cdc input and the atomic_file cache to an environment.
func Register(env *service.Environment, options ...Option) error {
	if err := checkpoint.RegisterAtomicFile(env); err != nil {
		return fmt.Errorf("registering the atomic_file cache: %w", err)
	}
	settings := settings{open: openClient}
	for _, option := range options {
		option(&settings)
	}
	err := env.RegisterBatchInput(Name, spec(), func(conf *service.ParsedConfig, res *service.Resources) (service.BatchInput, error) {
		return construct(conf, res, settings)
	})
	if err != nil {
		return fmt.Errorf("registering the %s input: %w", Name, err)
	}
	return nil
}

// Option changes how registered inputs reach their server.
type Option func(*settings)

type settings struct{ open opener }

// construct parses the configuration and wraps the input as it asks.
func construct(conf *service.ParsedConfig, res *service.Resources, settings settings) (service.BatchInput, error) {
	config, err := parseConfig(conf)
	if err != nil {
		return nil, err
	}
	if !res.HasCache(config.checkpointCache) {
		return nil, fmt.Errorf("field %s: there is no cache resource %q; add one, for example cache_resources: [{label: %s, atomic_file: {directory: ./state}}]",
			fieldCheckpointCache, config.checkpointCache, config.checkpointCache)
	}
	reader := newReader(config, res, settings.open)
	var input service.BatchInput = reader
	if config.format == formatRows && config.autoReplayNacks {
		input = service.InputBatchedWithMaxInFlight(1, newReplaying(reader))
	}
	return conf.WrapBatchInputExtractTracingSpanMapping(Name, input)
}
