package sqlserver

import "math"

// withDefaults fills in what is not given.
func (l Limits) withDefaults() Limits {
	limit := func(given, otherwise int64) int64 {
		switch {
		case given < 0:
			return math.MaxInt64
		case given == 0:
			return otherwise
		}
		return given
	}
	l.Commits = limit(l.Commits, math.MaxInt64)
	l.Rows = limit(l.Rows, DefaultWindowRows)
	l.Bytes = limit(l.Bytes, DefaultWindowBytes)
	if l.PartRows <= 0 {
		l.PartRows = DefaultPartRows
	}
	if l.PartBytes <= 0 {
		l.PartBytes = DefaultPartBytes
	}
	l.PartBytes = min(l.PartBytes, maxPartBytes)
	l.Ranges = max(l.Ranges, 1)
	return l
}

// maxPartBytes keeps the offsets of a record's text columns within their 32 bits.
const maxPartBytes = 1 << 30
