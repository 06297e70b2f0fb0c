// Package replay reads and writes the files of a Delta log: it finds the files
// that make up a version, reconstructs the table's state from them, and writes
// checkpoints.
//
// A version is a checkpoint plus the commits after it. Both are read as streams
// where they can be large; the state that is kept (State) does not contain the
// list of data files, so it does not grow with the table.
package replay

import (
	"fmt"
	"strconv"
	"strings"
)

// LogDir is the folder of the log, with a trailing slash.
const LogDir = "_delta_log/"

// SidecarDir is the folder of the sidecars of v2 checkpoints, with a trailing slash.
const SidecarDir = LogDir + "_sidecars/"

const (
	lastCheckpointPath = LogDir + "_last_checkpoint"
	versionDigits      = 20
)

// CommitPath is the path of a version's commit.
func CommitPath(version int64) string {
	return fmt.Sprintf("%s%020d.json", LogDir, version)
}

// ChecksumPath is the path of a version's checksum file.
func ChecksumPath(version int64) string {
	return fmt.Sprintf("%s%020d.crc", LogDir, version)
}

// CheckpointPath is the path of a version's classic checkpoint.
func CheckpointPath(version int64) string {
	return fmt.Sprintf("%s%020d.checkpoint.parquet", LogDir, version)
}

// versionPrefix sorts before every file of the version and after every file of
// the one before.
func versionPrefix(version int64) string {
	return fmt.Sprintf("%s%020d", LogDir, version)
}

// kind is what a file of the log is.
type kind int

const (
	otherFile kind = iota // ignored
	commitFile
	classicCheckpoint // one Parquet file; may refer to sidecars
	partCheckpoint    // one part of a multi-part checkpoint
	uuidCheckpoint    // a v2 checkpoint with a unique name
)

// name is the parsed name of a file of the log.
type name struct {
	kind    kind
	version int64
	// part and parts are set for partCheckpoint; part counts from 1.
	part, parts int
	// id is the unique part of a uuidCheckpoint's name.
	id string
}

// parseName reads the path of a file in the log. Everything it does not
// recognise is otherFile: side files of Hadoop, checksums, folders, what future
// versions add. So are log compactions (x.y.compacted.json): they only repeat commits that are
// there too, nothing says whether they do it rightly, and there are wrong ones.
func parseName(path string) name {
	base, ok := strings.CutPrefix(path, LogDir)
	if !ok || len(base) <= versionDigits || base[versionDigits] != '.' {
		return name{}
	}
	version, ok := parseDigits(base[:versionDigits])
	if !ok {
		return name{}
	}
	n := name{version: version}
	fields := strings.Split(base[versionDigits+1:], ".")
	switch {
	case len(fields) == 1 && fields[0] == "json":
		n.kind = commitFile
	case len(fields) < 2 || fields[0] != "checkpoint":
		return name{}
	case len(fields) == 2 && fields[1] == "parquet":
		n.kind = classicCheckpoint
	case len(fields) == 3 && (fields[2] == "parquet" || fields[2] == "json") && len(fields[1]) == 36:
		n.kind, n.id = uuidCheckpoint, fields[1]
	case len(fields) == 4 && fields[3] == "parquet":
		part, ok1 := parseDigits(fields[1])
		parts, ok2 := parseDigits(fields[2])
		if !ok1 || !ok2 || len(fields[1]) != 10 || len(fields[2]) != 10 || part < 1 || part > parts {
			return name{}
		}
		n.kind, n.part, n.parts = partCheckpoint, int(part), int(parts)
	default:
		return name{}
	}
	return n
}

// parseDigits reads a number of digits only.
func parseDigits(s string) (int64, bool) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
