package output

import (
	"context"
	"errors"
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// ConnectionTest reads the table's log and that of the facts table, where the
// config alone tells where they are. It changes nothing.
func (o *deltaOutput) ConnectionTest(ctx context.Context) service.ConnectionTestResults {
	path, ok := o.cfg.path.Static()
	if !ok {
		return service.ConnectionTestNotSupported().AsList()
	}
	for _, place := range []struct{ field, path string }{{doFieldPath, path}, {doFieldFactsPath, o.cfg.factsPath}} {
		if place.path == "" {
			continue
		}
		if err := o.look(ctx, place.path); err != nil {
			return service.ConnectionTestFailed(fmt.Errorf("%s: %w", place.field, err)).AsList()
		}
	}
	return service.ConnectionTestSucceeded().AsList()
}

// look opens a table that may not exist yet.
func (o *deltaOutput) look(ctx context.Context, path string) error {
	st, err := o.opts.stores.Open(ctx, path)
	if err != nil {
		return err
	}
	t, err := delta.Open(ctx, st, delta.Options{})
	if errors.Is(err, delta.ErrNotTable) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.Close(ctx)
}
