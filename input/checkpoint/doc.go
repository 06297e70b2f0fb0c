// Package checkpoint keeps the resume position of each table: the state, its
// two-slot encoding over any Benthos cache, and atomic_file, a cache whose
// writes survive a power cut.
//
// A resume position costs nothing but re-reading when it is lost or old: what
// was written is recorded in the Delta log. It must never be ahead of the table,
// which is why only an acknowledged window moves it.
package checkpoint
