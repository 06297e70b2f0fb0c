//go:build race

package delta_test

// raceEnabled says that the race detector is on, which makes Parquet slow.
const raceEnabled = true
