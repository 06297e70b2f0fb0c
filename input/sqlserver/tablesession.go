package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// SnapshotIsolation is the isolation level of a read of a source table. Each of them sees every commit up to a max_lsn that was
// asked for before.
type SnapshotIsolation int

// The levels.
const (
	// ReadCommitted waits for the locks of writers, unless the database reads versions (READ_COMMITTED_SNAPSHOT).
	ReadCommitted SnapshotIsolation = iota
	// Snapshot reads versions and waits for nobody. The database must allow it (ALLOW_SNAPSHOT_ISOLATION).
	Snapshot
)

// String is the level as T-SQL has it.
func (i SnapshotIsolation) String() string {
	if i == Snapshot {
		return "SNAPSHOT"
	}
	return "READ COMMITTED"
}

// tableSettings is what a session that reads a source table is set to. The zero value is what every session is set to.
type tableSettings struct {
	isolation   SnapshotIsolation
	lockTimeout time.Duration // 0 is the client's own, negative is without limit
}

// statements sets a session; empty if there is nothing to set. Without parameters it runs in the session itself, so that it
// lasts.
func (s tableSettings) statements() string {
	var list []string
	if s.lockTimeout != 0 {
		list = append(list, fmt.Sprintf("SET LOCK_TIMEOUT %d", lockTimeoutMS(s.lockTimeout)))
	}
	if s.isolation != ReadCommitted {
		list = append(list, "SET TRANSACTION ISOLATION LEVEL "+s.isolation.String())
	}
	return strings.Join(list, "; ")
}

// under runs a call in a session that is set for it. Whatever happens, the pool gets no session back that is still set so:
// one whose call failed is dropped by hold, and one that cannot be set back is dropped here.
func (c *Client) under(ctx context.Context, conn *sql.Conn, settings tableSettings, call func() error) error {
	statements := settings.statements()
	if statements == "" {
		return call()
	}
	held, err := unwrap(conn)
	if err != nil {
		return err
	}
	set := func(text string) error {
		return c.within(ctx, conn, func(ctx context.Context) error {
			_, err := conn.ExecContext(ctx, text)
			return err
		})
	}
	if err := set(statements); err != nil {
		return err
	}
	err = call()
	if err == nil || errors.Is(err, errStopped) {
		if set(c.connector.session) != nil {
			held.drop() // the rows are read, and the session alone is at fault
		}
	}
	return err
}

// asking runs a question about the rows of a source table.
type asking func(ctx context.Context, statement string, args []sql.NamedArg) ([]record, error)

// onTable asks on a connection of its own, in a session that is set for it.
func (c *Client) onTable(layout Layout, key SnapshotKey) asking {
	return func(ctx context.Context, statement string, args []sql.NamedArg) ([]record, error) {
		return c.askTable(ctx, layout, key.Isolation, statement, args)
	}
}

// onConn asks on a connection whose session is set already.
func onConn(conn *sql.Conn) asking {
	return func(ctx context.Context, statement string, args []sql.NamedArg) ([]record, error) {
		return query(ctx, conn, statement, anyArgs(args)...)
	}
}

// askTable runs a question about the rows of a source table. It can take as long as the server does not fall silent: without
// an index on the columns it reads the whole table.
func (c *Client) askTable(ctx context.Context, layout Layout, isolation SnapshotIsolation, statement string, args []sql.NamedArg) ([]record, error) {
	var rows []record
	err := c.retry.do(ctx, func(attempt int) error {
		if attempt > 0 {
			c.forgetIdle()
		}
		return c.hold(ctx, func(ctx context.Context, conn *sql.Conn) error {
			return c.under(ctx, conn, tableSettings{isolation: isolation}, func() (err error) {
				rows, err = query(ctx, conn, statement, anyArgs(args)...)
				return err
			})
		})
	})
	if err != nil {
		return nil, c.explainSource(ctx, layout.Instance, err)
	}
	return rows, nil
}

func anyArgs(args []sql.NamedArg) []any {
	list := make([]any, len(args))
	for i, arg := range args {
		list[i] = arg
	}
	return list
}

// explainSource turns a server's error about a source table into one that says what to do.
func (c *Client) explainSource(ctx context.Context, instance mssqlcdc.CaptureInstance, err error) error {
	if ctx.Err() != nil {
		return withCause(ctx, err)
	}
	switch {
	case serverNumber(err, 229), serverNumber(err, 230):
		return c.denied(instance.Table.Quoted(), err)
	case serverNumber(err, 208):
		return goneTable(instance, err)
	case serverNumber(err, 207):
		return &SchemaError{Instance: instance.Name, Reason: "the source table no longer has a column that was read", Cure: "read its columns anew", Err: err}
	case serverNumber(err, 3952), serverNumber(err, 3956), serverNumber(err, 3957):
		return c.snapshotRefused(err)
	}
	var known *SchemaError
	if Classify(err) == Schema && !errors.As(err, &known) {
		return &SchemaError{Instance: instance.Name, Reason: "a value of the source table does not convert to the type that the columns option asks for, or that the column had when the layout was made", Cure: "check the columns option, or read the columns anew", Err: err}
	}
	return err
}

func goneTable(instance mssqlcdc.CaptureInstance, err error) error {
	return &SchemaError{
		Instance: instance.Name, Reason: "its source table " + instance.Table.String() + " is gone (dropped or renamed)",
		Cure: "list the capture instances anew", Err: err,
	}
}

// snapshotRefused says that the database does not allow the isolation level SNAPSHOT, or not yet.
func (c *Client) snapshotRefused(err error) error {
	return fmt.Errorf("%w: %w", c.notAllowed(serverNumber(err, 3956)), err)
}

func (c *Client) notAllowed(pending bool) *ConfigError {
	cure := fmt.Sprintf("the database owner can run: ALTER DATABASE %s SET ALLOW_SNAPSHOT_ISOLATION ON; or read under READ COMMITTED", mssqlcdc.QuoteName(c.server.Database))
	reason := "SNAPSHOT is not allowed in this database; " + cure
	if pending {
		reason = "SNAPSHOT is being allowed in this database, which waits until every transaction that is open there has ended; " + cure
	}
	return &ConfigError{Field: "snapshot isolation", Reason: reason}
}
