// Package tsql runs T-SQL over an abstract host: the language half of a SQL
// Server simulator. It parses a batch, executes it statement by statement with
// SQL Server's rules, and hands rowsets, counts, messages and errors to a
// [ResultSink] in order. It knows neither the wire nor storage: tables,
// procedures, transactions and everything that belongs to a server come from
// the [Host].
//
// A [Session] holds what outlives a batch: SET options, @@ROWCOUNT, @@ERROR,
// prepared handles. Batches are refused whole on a syntax error (Msg 102, 105, 156
// …); statements are bound to tables when they run, one by one.
//
// Queries run as compiled closures over one frame: a scan yields a row slice,
// expressions read its values in place, a select list without ORDER BY, GROUP BY
// or window functions streams with constant memory. Conditions on a prefix of
// a table's clustered order become scan bounds, and an ORDER BY that this order
// already gives is not sorted.
//
// What T-SQL has and this package has not is refused with an error, never
// passed over: see package parse for the language.
//
// Known differences from SQL Server: a missing column (207) is reported when the
// statement runs, not before the batch starts; of several syntax errors the first is reported;
// a temporary table stands outside of transactions; warning 8153 (NULL eliminated by an
// aggregate) is not sent; SET DATEFORMAT takes mdy only; GOTO, cursors, views,
// triggers, SELECT INTO and user-defined functions do not exist.
package tsql
