package reconcile

import (
	"encoding/hex"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// Tamper changes what is read of the target.
func (c *Config) Tamper(change func(arrow.RecordBatch) arrow.RecordBatch) { c.tamper = change }

// Showable is a value as it is shown in a key.
func Showable(v any) any { return showable(v) }

// Stored is the value that is shown so, of the type of another.
func Stored(like, shown any) any {
	text, _ := shown.(string)
	switch like.(type) {
	case []byte:
		raw, err := hex.DecodeString(text[2:])
		if err != nil {
			panic(err)
		}
		return raw
	case time.Time:
		at, err := time.Parse("2006-01-02T15:04:05.999999", text)
		if err != nil {
			panic(err)
		}
		return at
	}
	return shown
}
