// Package processor is the finalize, apply_changes and each_row processor plugins. They
// are thin: package control keeps the verdicts, package silver applies changes.
package processor
