package main

import (
	// The components that need nothing but Benthos itself.
	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"

	// Ours.
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/input"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/output"
	_ "github.com/mssqlcdc/rpconnect-mssqlcdc/processor"
)
