// Package rows writes ordinary rows, objects as Bloblang has them, into a Delta
// table, with a schema that is declared or inferred from the rows.
//
// A whole number becomes a long, any other number a double, a timestamp a
// timestamp, bytes a binary, and an object or list a text of JSON. A column that
// holds null only is left out until it holds something else. Where the table has a
// column already, its type counts: values are stored in it if they fit without
// loss, and refused otherwise.
//
// A batch is one commit. It is written at least once; with a key, a number that
// rises from batch to batch, exactly once.
package rows
