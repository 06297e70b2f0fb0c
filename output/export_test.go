package output

import (
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
)

// New makes the output of a config without a stream around it.
func New(yaml string, res *service.Resources, opts ...Option) (service.BatchOutput, error) {
	env := service.NewEnvironment()
	o := options{now: time.Now, retryAfter: time.Millisecond}
	for _, opt := range opts {
		opt(&o)
	}
	conf, err := spec().ParseYAML(yaml, env)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(conf)
	if err != nil {
		return nil, err
	}
	return newOutput(c, res, o), nil
}

// ReferenceConfigs are the examples of the reference.
func ReferenceConfigs() []string { return []string{exampleOne, exampleMany, exampleRows, exampleKeyed} }
