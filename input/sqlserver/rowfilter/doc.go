// Package rowfilter reads the rows of one statement beside the driver. A [Conn] is the socket that go-mssqldb is given. For the
// one statement that it is armed for, it takes the ROW and NBCROW tokens out of the server's answer and decodes them straight
// into Arrow buffers; every other byte goes on to the driver, which believes that the statement returned no row. So login,
// parameters, cancelling, errors, transactions and the pool stay the driver's, and a row costs a tenth of what the driver's
// values cost.
//
// A rowset that the filter does not want is told by its column metadata, before the first row is taken: it then flows to the
// driver untouched, and [Fetcher] reads it as [fetch.Driver] does. The statement is never run twice.
//
// So that there is plain TDS to look at, the Conn ends TLS itself; see [Security] for what that keeps. The protocol is that of
// MS-TDS, https://learn.microsoft.com/openspecs/windows_protocols/ms-tds.
package rowfilter
