package workload

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// HugeTransaction makes dbo.huge (id int key, payload varchar(100)) with CDC and inserts rows rows into it in one transaction, in
// statements of a thousand. The change rows it causes are exactly rows.
func HugeTransaction(ctx context.Context, db Execer, rows int) error {
	ddl := "CREATE TABLE dbo.huge (id int NOT NULL PRIMARY KEY, payload varchar(100) NOT NULL);\n" + enableSQL("dbo", "", "huge")
	if err := db.Exec(ctx, ddl); err != nil {
		return fmt.Errorf("creating the huge transaction's table: %w", err)
	}
	var b strings.Builder
	b.WriteString("SET NOCOUNT ON; SET XACT_ABORT ON; BEGIN TRANSACTION;\n")
	for n := 0; n < rows; n += 1000 {
		b.WriteString("INSERT INTO dbo.huge (id, payload) VALUES ")
		for i := n; i < min(n+1000, rows); i++ {
			if i > n {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "(%d,'payload of row %d of a transaction that is too large to hold')", i+1, i+1)
		}
		b.WriteString(";\n")
	}
	b.WriteString("COMMIT TRANSACTION;")
	if err := db.Exec(ctx, b.String()); err != nil {
		return fmt.Errorf("writing a transaction of %d rows: %w", rows, err)
	}
	return nil
}

// Idler adds idle entries to the LSN time mapping.
type Idler interface {
	Idle(ctx context.Context) error
}

// Idle adds an idle entry every interval until ctx ends, and returns nil then: a database where nothing happens.
func Idle(ctx context.Context, db Idler, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := db.Idle(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("keeping the database idle: %w", err)
			}
		}
	}
}

// RunFor makes order transactions at a pace until ctx ends, and returns nil then: what the simulate command shows.
func (o *Orders) RunFor(ctx context.Context, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := o.Step(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
	}
}
