package storage

import (
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/maintain"
)

// Upkeep keeps a table in shape in the background, and logs what it did and what
// failed. table is its name in the log.
func Upkeep(log *service.Logger, table string) maintain.Auto {
	return maintain.Auto{Done: func(d maintain.Done) {
		log := log.With("table", table, "task", d.Task())
		if d.Err != nil {
			log.With("error", d.Err).Warn("Keeping a table in shape failed; commits go on and it is tried again")
			return
		}
		log.Debug("Kept a table in shape")
	}}
}
