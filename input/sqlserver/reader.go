package sqlserver

import (
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
)

// fetcher is who reads the rows of tables.
func (c Config) fetcher() fetch.Fetcher {
	if c.Reader != readerDriver {
		return rowfilter.Fetcher{Chosen: c.Chosen}
	}
	if c.Chosen == nil {
		return fetch.Driver{}
	}
	chosen := rowfilter.Choice{Reader: "driver", Reason: rowfilter.Configured, Detail: "reader: driver"}
	return fetch.Driver{Started: func() { c.Chosen(chosen) }}
}
