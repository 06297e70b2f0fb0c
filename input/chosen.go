package input

import (
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
)

// choices counts who decodes the rows of statements. Readers and reasons are few.
type choices struct {
	reads *service.MetricCounter
	log   *service.Logger
}

func newChoices(res *service.Resources) choices {
	return choices{reads: res.Metrics().NewCounter("mssql_cdc_reads_total", "reader", "reason"), log: res.Logger()}
}

// note is called for each statement that reads rows, by many goroutines.
func (c choices) note(choice rowfilter.Choice) {
	c.reads.Incr(1, choice.Reader, string(choice.Reason))
	if choice.Detail == "" {
		c.log.Debugf("rows are decoded by the %s", choice.Reader)
		return
	}
	c.log.Debugf("rows are decoded by the %s: %s", choice.Reader, choice.Detail)
}
