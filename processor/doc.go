// Package processor is the finalize and each_row processor plugins. They are
// thin: package control keeps the verdicts.
package processor
