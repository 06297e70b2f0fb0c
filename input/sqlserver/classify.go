package sqlserver

import (
	"context"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/dsn"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
)

// Class is what an error means for the caller.
type Class int

// The classes.
const (
	Transient  Class = iota + 1 // try again, on a new connection, with growing waits
	DataLoss                    // changes are gone: on_data_loss decides
	Schema                      // a table or column cannot be read as configured
	Permission                  // the login lacks a right; the error holds the grant
	Fatal                       // configuration, login, or a fault of the program: trying again does not help
	Canceled                    // the caller's context ended or the client was closed
)

// String names the class.
func (c Class) String() string {
	switch c {
	case Transient:
		return "transient"
	case DataLoss:
		return "data loss"
	case Schema:
		return "schema"
	case Permission:
		return "permission"
	case Fatal:
		return "fatal"
	case Canceled:
		return "canceled"
	}
	return "none"
}

// Classify says what an error means. Server errors are told by their number, never by their text, which follows the
// login's language. Zero for nil.
func Classify(err error) Class {
	if err == nil {
		return 0
	}
	if class := classifyOwn(err); class != 0 {
		return class
	}
	var server mssql.Error
	if errors.As(err, &server) {
		return classifyServer(err, server)
	}
	return classifyNetwork(err)
}

// classifyOwn knows the errors of this module and of contexts.
func classifyOwn(err error) Class {
	var (
		loss       *DataLossError
		permission *PermissionError
		schema     *SchemaError
		value      *fetch.ValueError
		config     *ConfigError
		text       *dsn.Error
		connect    *connectError
	)
	switch {
	case errors.As(err, &loss):
		return DataLoss
	case errors.As(err, &permission), errors.Is(err, ErrNoInstances):
		return Permission
	case errors.As(err, &schema), errors.As(err, &value), errors.Is(err, ErrUnknownInstance):
		return Schema
	case errors.As(err, &config), errors.As(err, &text), errors.Is(err, ErrCDCDisabled), errors.Is(err, ErrUnknownDatabase):
		return Fatal
	case errors.Is(err, ErrNotYetCaptured):
		// It passes by itself once capture runs.
		return Transient
	case errors.Is(err, ErrClosed), errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, errQueryTimeout):
		return Transient
	case errors.As(err, &connect) && refusesTLS(connect):
		// The driver turns what TLS said into text. A certificate does not become valid by trying again.
		return Fatal
	case errors.Is(err, context.DeadlineExceeded):
		// Somebody's deadline: the server or the network was slow.
		return Transient
	}
	return 0
}

func refusesTLS(err *connectError) bool {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	return errors.As(err, &unknown) || errors.As(err, &host) ||
		strings.Contains(err.text, "x509: ") || strings.Contains(err.text, "does not support encryption")
}

// classifyServer decides by the numbers of all messages that the server sent with the error.
func classifyServer(err error, server mssql.Error) Class {
	numbers := server.All
	if len(numbers) == 0 {
		numbers = []mssql.Error{server}
	}
	for _, one := range numbers {
		switch one.Number {
		case 4060, 4064, 18456:
			// Cannot open the database of the login, or the login itself is refused. Before the first login that is a wrong
			// name or password; after it, the server is being failed over, recovered or restored, and will take it again. A
			// password that was changed ends the run once the input connects anew.
			var connect *connectError
			if errors.As(err, &connect) && connect.again {
				return Transient
			}
			return Fatal
		}
	}
	if class := classifyNumber(server.Number); class != 0 {
		return class
	}
	var severe mssql.ServerError
	switch {
	case server.Class >= 20, errors.As(err, &severe):
		return Transient // the server has closed the connection, or gave up the session
	case server.Class >= 17:
		return Transient // out of memory, disk, tempdb, locks: somebody else's load
	}
	return Fatal
}

// classifyNumber knows the errors that say more than their severity.
func classifyNumber(number int32) Class {
	switch number {
	case 1205, // chosen as deadlock victim
		1222,       // a lock was not granted within LockTimeout
		3960, 3961, // snapshot isolation: a conflict with an update or with DDL
		3958, 3966, // snapshot isolation: tempdb ran out of room for row versions
		601,                                             // data moved during a scan
		64, 121, 233, 10053, 10054, 10060, 10061, 11001, // the network, as the server's side names it
		596, 6005, 17142, 17148, // session killed, shutting down, paused
		17197, 17830, 18401, // login timed out, or the server is upgrading its scripts
		615, 921, 922, 923, 924, 926, 927, 942, 945, 952, // database is starting, recovering, restoring, offline, in transition
		976, 978, 979, 980, 981, 982, 983, 988, // availability group: this replica does not serve now
		4221,                                                                                      // readable secondary still has to catch up
		10928, 10929, 40143, 40166, 40197, 40501, 40540, 40613, 49918, 49919, 49920, 42108, 42109, // Azure: throttled, failing over, resuming
		8628, 8645, 8651, 701, 802, 1204: // no memory or no locks for the query now
		return Transient
	case 229, 230, 262, 297, 300, 916, 22902, 22981: // denied; 22981 also says that the object does not exist
		return Permission
	case 207, 213, 220, 241, 242, 245, 248, 295, 529, 2628, 8114, 8115, 8152, 8169: // a column is missing or does not convert
		return Schema
	case 18456, 18450, 18452, 18470, 18486, 18487, 18488, 911, 22901: // login refused, disabled, locked, expired; no database; no CDC
		return Fatal
	}
	return 0
}

// classifyNetwork decides about what is not a server's message.
func classifyNetwork(err error) Class {
	var (
		network net.Error
		stream  mssql.StreamError
		answer  *rowfilter.StreamError
		retry   mssql.RetryableError
		connect *connectError
	)
	switch {
	case errors.As(err, &network),
		errors.As(err, &stream), // cut in the middle of a response
		errors.As(err, &answer), // the same, seen by the row filter
		errors.As(err, &retry),  // a pooled connection was dead
		errors.Is(err, driver.ErrBadConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return Transient
	case errors.As(err, &connect):
		return Transient // no answer, or an answer that breaks off
	}
	return Fatal
}
