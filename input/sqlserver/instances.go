package sqlserver

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// mostNamed is how many tables are asked for by name: the list of a whole database costs the server more than a few of them.
const mostNamed = 16

// InstancesOf lists the capture instances of some tables, ordered as [Client.Instances]: one round trip. It may list others, too. A
// table that has none is not an error.
func (c *Client) InstancesOf(ctx context.Context, tables []mssqlcdc.TableID) ([]mssqlcdc.CaptureInstance, error) {
	if len(tables) == 0 {
		return nil, nil
	}
	if len(tables) <= mostNamed {
		var batch []string
		for _, table := range tables {
			batch = append(batch, fmt.Sprintf("%s @source_schema = %s, @source_name = %s", helpStatement, literal(table.Schema), literal(table.Name)))
		}
		instances, err := c.listInstances(ctx, strings.Join(batch, ";\n"))
		if class := Classify(err); err == nil || class == Transient || class == Canceled {
			return instances, err
		}
		// One of them is gone or was renamed, which fails the batch.
	}
	return c.listInstances(ctx, helpStatement)
}

// queryAll runs a batch and joins its results.
func queryAll(ctx context.Context, conn *sql.Conn, batch string) (all []record, err error) {
	rows, err := conn.QueryContext(ctx, batch)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := rows.Close(); err == nil {
			err = closing
		}
	}()
	for {
		found, err := readRows(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if !rows.NextResultSet() {
			return all, rows.Err()
		}
	}
}
