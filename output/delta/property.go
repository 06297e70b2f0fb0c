package delta

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Table properties that this package reads ("Table Properties" in the Delta
// documentation).
const (
	PropAppendOnly            = "delta.appendOnly"
	PropAutoCompact           = "delta.autoOptimize.autoCompact"
	PropChangeDataFeed        = "delta.enableChangeDataFeed"
	PropCheckpointInterval    = "delta.checkpointInterval"
	PropColumnMappingMaxID    = "delta.columnMapping.maxColumnId" // kept by the library
	PropColumnMappingMode     = "delta.columnMapping.mode"
	PropCompression           = "delta.parquet.compression.codec"
	PropDeletedFileRetention  = "delta.deletedFileRetentionDuration"
	PropDeletionVectors       = "delta.enableDeletionVectors"
	PropInCommitTimestamps    = "delta.enableInCommitTimestamps"
	PropIsolationLevel        = "delta.isolationLevel"
	PropLogCleanup            = "delta.enableExpiredLogCleanup"
	PropLogRetention          = "delta.logRetentionDuration"
	PropRowTrackingSuspended  = "delta.rowTrackingSuspended"
	PropTargetFileSize        = "delta.targetFileSize"
	PropTypeWidening          = "delta.enableTypeWidening"
	propConstraintPrefix      = "delta.constraints."
	propFeaturePrefix         = "delta.feature."
	isolationSerializable     = "Serializable"
	isolationWriteSerializ    = "WriteSerializable"
	isolationSnapshot         = "SnapshotIsolation"
	defaultFileRetention      = 7 * 24 * time.Hour
	defaultLogRetention       = 30 * 24 * time.Hour
	minCheckpointInterval     = 1
	actionsPerExtraCheckpoint = 1000
)

// ParseInterval reads a duration as table properties have it, for example
// "interval 7 days" or "interval 1 week 12 hours": whole numbers of weeks, days,
// hours, minutes, seconds, milliseconds or microseconds. Months and years have
// no fixed length and are errors, and so are negative intervals.
func ParseInterval(text string) (time.Duration, error) {
	fields := strings.Fields(strings.ToLower(text))
	if len(fields) > 0 && fields[0] == "interval" {
		fields = fields[1:]
	}
	if len(fields) == 0 || len(fields)%2 != 0 {
		return 0, fmt.Errorf("parsing interval %q: want \"interval <number> <unit>\", for example \"interval 7 days\"", text)
	}
	var total time.Duration
	for i := 0; i < len(fields); i += 2 {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("parsing interval %q: %q is not a whole number of units", text, fields[i])
		}
		unit, ok := intervalUnit(fields[i+1])
		if !ok {
			return 0, fmt.Errorf("parsing interval %q: unit %q is none of weeks, days, hours, minutes, seconds, milliseconds, microseconds", text, fields[i+1])
		}
		const longest = time.Duration(1<<63 - 1)
		if n > int64(longest/unit) || total > longest-time.Duration(n)*unit {
			return 0, fmt.Errorf("parsing interval %q: longer than 292 years", text)
		}
		total += time.Duration(n) * unit
	}
	return total, nil
}

func intervalUnit(name string) (time.Duration, bool) {
	switch strings.TrimSuffix(name, "s") {
	case "week":
		return 7 * 24 * time.Hour, true
	case "day":
		return 24 * time.Hour, true
	case "hour":
		return time.Hour, true
	case "minute":
		return time.Minute, true
	case "second":
		return time.Second, true
	case "millisecond":
		return time.Millisecond, true
	case "microsecond":
		return time.Microsecond, true
	}
	return 0, false
}

// isTrue reads a boolean property.
func isTrue(properties map[string]string, name string) bool {
	return strings.EqualFold(properties[name], "true")
}

// FileRetention is how long removed files are kept, by the table's property
// delta.deletedFileRetentionDuration; a week without it.
func FileRetention(properties map[string]string) (time.Duration, error) {
	return interval(properties, PropDeletedFileRetention, defaultFileRetention)
}

// LogRetention is how long commits are kept, by the table's property
// delta.logRetentionDuration; 30 days without it.
func LogRetention(properties map[string]string) (time.Duration, error) {
	return interval(properties, PropLogRetention, defaultLogRetention)
}

func interval(properties map[string]string, name string, fallback time.Duration) (time.Duration, error) {
	text, ok := properties[name]
	if !ok {
		return fallback, nil
	}
	d, err := ParseInterval(text)
	if err != nil {
		return 0, fmt.Errorf("reading table property %s: %w", name, err)
	}
	return d, nil
}

// tombstoneExpiry is the time, in milliseconds since the epoch, before which
// removed files are forgotten. With a property that cannot be read none is.
func tombstoneExpiry(properties map[string]string, now time.Time) int64 {
	d, err := FileRetention(properties)
	if err != nil {
		return math.MinInt64
	}
	return now.Add(-d).UnixMilli()
}

// checkpointInterval is the commits between two checkpoints, by the table's
// property if it has one that can be read.
func checkpointInterval(properties map[string]string, fallback int) int64 {
	if n, err := strconv.ParseInt(properties[PropCheckpointInterval], 10, 64); err == nil && n >= minCheckpointInterval {
		return n
	}
	return int64(fallback)
}
