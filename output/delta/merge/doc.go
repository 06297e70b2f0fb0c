// Package merge changes a Delta table by key: rows are inserted, replaced and deleted where
// a source says so, in one commit.
//
// [Run] is MERGE: every upsert takes the place of the target's row with the same key, or is
// inserted where there is none; every delete deletes the row with its key; and within key
// ranges, rows that the source does not name are deleted, too. [Lookup] streams the rows whose
// keys are in a set.
//
// # Keys
//
// A key is the values of one or more columns of the top, of any type but array, map, struct
// and void. Keys are compared null-safe: NULL equals NULL. NaN equals NaN, whatever its bits,
// and -0 equals 0, as in Spark's joins. Strings and binary are equal by their bytes: case,
// trailing spaces and Unicode forms count. The order of keys, for ranges, is that of their
// columns from the left, each in Delta's order: NULL below all, NaN above all numbers, strings
// by their bytes.
//
// A key may be in the source once ([DuplicateKeyError]). Where the target has several rows of
// one key, which no merge makes, an upsert takes the place of all of them and a delete deletes
// them all.
//
// # Newer wins
//
// With version columns ([Options.Versions]) a row of the target gives way only to a source
// row whose version is strictly above its own, compared column by column from the left, NULL
// below all. Then a merge may come again, or late, and does no harm; but for one thing: a row
// that was deleted leaves no version behind, so an old upsert that comes again without its
// later delete brings it back. Who repeats must repeat up to the end.
//
// # How it is done
//
// First the keys are looked for. Files that cannot have any of them, by their partition values
// and the bounds in their statistics, are left alone, and so are such row groups; of the others
// only the key and version columns are read. Then files that have some are rewritten without
// the rows that go and with the new rows in the place of those they replace ([CopyOnWrite]),
// or get a deletion vector ([DeletionVectors]), with the new rows in files of their own. New rows
// are sorted by key, so that the bounds of files stay narrow; in a table without partitions a
// row that replaces one of a rewritten file goes into that file.
//
// [Options.PurgeRatio] bounds what deletion vectors leave behind. Writing a file anew takes about
// 25 times as long as marking rows in it; with every merge marking one row of 200, a ratio of a
// tenth makes purging about as expensive as all the marking before it.
//
// # Memory
//
// The source is in memory as a whole, with an index of its keys of about 40 bytes a row; a few
// 100,000 rows at a time are fine, and a larger source comes as several merges. Of the target
// as many files are read and written at a time as Options.Parallel says, in batches.
//
// # Other writers
//
// Appends and deletes of others that cannot touch the keys of a merge do not matter to it.
// After others, among them compactions, the merge is computed again from the newest version:
// what was looked through and written for files that are still there is used again.
package merge
