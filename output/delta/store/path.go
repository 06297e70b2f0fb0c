package store

import (
	"fmt"
	"strings"
)

// CheckPath reports why path is not one a Store accepts, or nil. Every Store
// calls it first, so that no path from a log can leave the table's root.
func CheckPath(path string) error {
	if path == "" {
		return fmt.Errorf("object path is empty")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return fmt.Errorf("object path %q contains a NUL byte", path)
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "":
			return fmt.Errorf("object path %q has an empty segment: it must be relative to the table's root, without doubled or trailing slashes", path)
		case ".", "..":
			return fmt.Errorf("object path %q has the segment %q: it must stay below the table's root", path, segment)
		}
	}
	return nil
}
