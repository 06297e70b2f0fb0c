//go:build race

package silver_test

// largeBatch is how many changes a batch has that does not fit into memory.
const largeBatch = 100_000
