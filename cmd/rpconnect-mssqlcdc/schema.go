package main

import "github.com/redpanda-data/benthos/v4/public/service"

// mainSchema is the engine's configuration with the defaults that keep order and
// that suit a program which runs unattended.
func mainSchema(env *service.Environment, version, date string) *service.ConfigSchema {
	schema := env.FullConfigSchema(version, date)
	// More than one pipeline thread reorders batches.
	schema.SetFieldDefault(1, "pipeline", "threads")
	// Metrics and the position of a pipeline are nobody else's business; a
	// container binds all addresses in its own configuration.
	schema.SetFieldDefault("127.0.0.1:4195", "http", "address")
	// A commit to an object store may take longer than the default of 20 seconds.
	schema.SetFieldDefault("60s", "shutdown_timeout")
	// A message that failed in a processor must not reach an output.
	schema.SetFieldDefault(true, "error_handling", "strict")
	schema.SetFieldDefault(map[string]any{"prometheus": map[string]any{}}, "metrics")
	return schema
}
