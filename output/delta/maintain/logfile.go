package maintain

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/replay"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// logKind is what a file of the log is to the clean-up.
type logKind int

const (
	commitFile logKind = iota + 1
	checkpointFile
	compactedFile // several commits in one
	checksumFile
	sumFile     // a side file of Hadoop's to one of the others
	sidecarFile // of a v2 checkpoint, in a folder of its own
)

// logFile is a file of the log that belongs to a version.
type logFile struct {
	kind    logKind
	version int64
	info    store.Info
}

// logFiles yields the files of the log that belong to a version and that a
// clean-up knows, in the order of their names. Of files with a number only the side
// files come before the others, since their names begin with a dot.
func logFiles(ctx context.Context, st store.Store) iter.Seq2[logFile, error] {
	return func(yield func(logFile, error) bool) {
		for info, err := range st.List(ctx, replay.LogDir, "") {
			if err != nil {
				yield(logFile{}, err)
				return
			}
			f, ok := parseLogFile(info)
			if ok && !yield(f, nil) {
				return
			}
		}
	}
}

// parseLogFile reads the name of a file of the log. Names that it does not know
// belong to somebody else.
func parseLogFile(info store.Info) (logFile, bool) {
	name, ok := strings.CutPrefix(info.Path, replay.LogDir)
	if !ok {
		return logFile{}, false
	}
	if of, ok := strings.CutSuffix(name, ".crc"); ok && strings.HasPrefix(of, ".") {
		f, ok := parseLogFile(store.Info{Path: replay.LogDir + of[1:]})
		f.kind, f.info = sumFile, info
		return f, ok
	}
	const digits = 20
	if len(name) < digits {
		return logFile{}, false
	}
	version, err := strconv.ParseUint(name[:digits], 10, 63)
	f := logFile{version: int64(version), info: info}
	switch suffix := name[digits:]; {
	case err != nil:
		return logFile{}, false
	case suffix == ".json":
		f.kind = commitFile
	case suffix == ".crc":
		f.kind = checksumFile
	case strings.HasPrefix(suffix, ".checkpoint.") && (strings.HasSuffix(suffix, ".parquet") || strings.HasSuffix(suffix, ".json")):
		f.kind = checkpointFile
	case len(suffix) == len(".")+digits+len(".compacted.json") && strings.HasSuffix(suffix, ".compacted.json"):
		f.kind = compactedFile
	default:
		return logFile{}, false
	}
	return f, true
}
