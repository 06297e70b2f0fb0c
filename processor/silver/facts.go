package silver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
)

// completeByFacts is the newest snapshot of the bronze table that the facts table calls
// complete, zero for none. Bronze's own log says it, unless mssql-cdc-pyspark wrote it.
func (a *Applier) completeByFacts(ctx context.Context) (newest mssqlcdc.LSN, err error) {
	o := a.cfg.Delta
	o.Upkeep = nil
	table, err := delta.Open(ctx, a.cfg.Facts, o)
	if errors.Is(err, delta.ErrNotTable) {
		return newest, nil
	}
	if err != nil {
		return newest, fmt.Errorf("reading the facts table: %w", err)
	}
	defer func() { err = errors.Join(err, table.Close(ctx)) }()
	for rec, err := range table.Read(ctx, table.Snapshot(), delta.ReadOptions{Columns: []string{"event", "max_lsn", "target"}}) {
		if err != nil {
			return newest, fmt.Errorf("reading the facts table: %w", err)
		}
		event, ok0 := rec.Column(0).(*array.String)
		lsn, ok1 := rec.Column(1).(*array.String)
		target, ok2 := rec.Column(2).(*array.String)
		if !ok0 || !ok1 || !ok2 {
			return newest, fmt.Errorf("reading the facts table: columns event, max_lsn and target are not text")
		}
		for row := range int(rec.NumRows()) {
			e := mssqlcdc.Event(text(event, row))
			if e != mssqlcdc.EventBootstrap && e != mssqlcdc.EventResnapshot || lsn.IsNull(row) ||
				strings.TrimRight(text(target, row), "/") != strings.TrimRight(a.cfg.BronzeName, "/") {
				continue
			}
			s, err := mssqlcdc.ParseLSN(lsn.Value(row))
			if err != nil {
				return newest, fmt.Errorf("reading the facts table: column max_lsn: %w", err)
			}
			if newest.Less(s) {
				newest = s
			}
		}
	}
	return newest, nil
}
