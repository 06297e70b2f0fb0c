//go:build race

package maintain_test

// crashStep is the pause between two calls that are cut short: with the race
// detector they are many times slower.
const crashStep = 5
