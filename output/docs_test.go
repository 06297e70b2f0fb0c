package output_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output"
)

// The examples of the reference are configs that lint.
func TestExamplesLint(t *testing.T) {
	t.Parallel()
	env := newBench(t, nil).env
	// finalize is another package's; here it need only be a name.
	require.NoError(t, env.RegisterProcessor("finalize",
		service.NewConfigSpec().Fields(service.NewStringField("control_path"), service.NewStringField("granularity")),
		func(*service.ParsedConfig, *service.Resources) (service.Processor, error) {
			return processor(func(*service.Message) error { return nil }), nil
		}))
	examples := output.ReferenceConfigs()
	require.NotEmpty(t, examples)
	for _, example := range examples {
		lints, err := env.FullConfigSchema("", "").NewStreamConfigLinter().LintYAML([]byte(example))
		require.NoError(t, err)
		require.Empty(t, lints, example)
	}
}

// Every field is documented, and what the reference says of metrics is what there
// is.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	env := newBench(t, nil).env
	config, ok := env.GetOutputConfig(output.Name)
	require.True(t, ok)
	data, err := config.TemplateData()
	require.NoError(t, err)
	require.NotEmpty(t, data.Summary)
	for _, f := range data.Fields {
		require.NotEmpty(t, strings.TrimSpace(f.Description), f.FullName)
	}
	require.GreaterOrEqual(t, len(data.Examples), 4)

	b := newBench(t, nil)
	_ = b.stream("input: { generate: { count: 1, interval: \"\", mapping: \"root.a = 1\" } }\noutput: { delta_lake: { path: \"mem://x\" } }").Run(context.Background())
	for name := range b.count.names() {
		if strings.HasPrefix(name, "delta_lake_") {
			require.Contains(t, data.Description, "`"+name+"`")
		}
	}
}
