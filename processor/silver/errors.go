package silver

import (
	"errors"
	"fmt"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// ErrOvertaken reports that another call has changed the table while this one was at
// work. Nothing is lost: what this one had not finished is applied by the next call.
var ErrOvertaken = errors.New("another call of apply_changes was faster; the next one goes on")

// ConfigError reports a configuration, or a state of the tables, that no repetition
// mends. Nothing was changed.
type ConfigError struct {
	Target string
	Reason string
}

// Error names the table, what is wrong and the way out.
func (e *ConfigError) Error() string { return fmt.Sprintf("table %s: %s", e.Target, e.Reason) }

// KeyError reports a key column that is not what it was, or not there, or NULL where the
// source has no NULL. Nothing was changed.
type KeyError struct {
	Target, Column, Reason string
}

// Error names the column and the way out.
func (e *KeyError) Error() string {
	return fmt.Sprintf("key column %s of table %s %s", e.Column, e.Target, e.Reason)
}

// BehindError reports a bronze table that does not have what was applied from it before:
// it was restored, or another one has taken its place. Nothing was changed.
type BehindError struct {
	Target, Bronze string
	Applied, Have  mssqlcdc.LSN
}

// Error names both positions and the way out.
func (e *BehindError) Error() string {
	return fmt.Sprintf("table %s was built from %s up to %s, but that table ends at %s now: restore it, or delete table %s, which is then built anew",
		e.Target, e.Bronze, e.Applied, e.Have, e.Target)
}

// Lasting tells whether an error of [Applier.Apply] needs somebody to do something;
// others go away when the call is repeated.
func Lasting(err error) bool {
	var config *ConfigError
	var key *KeyError
	var behind *BehindError
	return errors.As(err, &config) || errors.As(err, &key) || errors.As(err, &behind)
}
