package action

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Key identifies a logical file in the log: two actions with equal keys are
// about the same file. It is comparable.
type Key struct {
	// Path is the canonical, decoded path.
	Path string
	// DV is the id of the deletion vector, "" for none.
	DV string
}

func keyOf(path string, dv *DeletionVector) Key {
	return Key{Path: CanonicalPath(path), DV: dv.ID()}
}

// ID is the unique id of the vector as PROTOCOL.md defines it, "" for none.
func (dv *DeletionVector) ID() string {
	if dv == nil {
		return ""
	}
	id := dv.StorageType + dv.PathOrInlineDv
	if dv.Offset != nil {
		id += "@" + strconv.FormatInt(int64(*dv.Offset), 10)
	}
	return id
}

// EncodePath turns a plain relative path into the URI reference that stands in
// the log. Each segment is percent-encoded; a colon too, since Spark takes a
// colon in the first segment for the end of a scheme.
func EncodePath(path string) string {
	escaped := (&url.URL{Path: path}).EscapedPath()
	return strings.ReplaceAll(escaped, ":", "%3A")
}

// DecodePath turns a path of the log into a plain one. A "+" stays a plus.
func DecodePath(path string) (string, error) {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return "", fmt.Errorf("decoding file path %q of the log: %w", path, err)
	}
	return plain, nil
}

// CanonicalPath decodes a path of the log and drops a "file:" scheme, so that
// the spellings file:/a/b, file:///a/b and /a/b of one file compare equal, and so
// do s3:, s3a: and s3n:, Hadoop's names of one store. A path that is not valid
// percent-encoding is taken as it stands: comparing must not fail.
func CanonicalPath(path string) string {
	if strings.IndexByte(path, '%') >= 0 {
		if plain, err := url.PathUnescape(path); err == nil {
			path = plain
		}
	}
	for _, alias := range [...]string{"s3a://", "s3n://"} {
		if rest, ok := strings.CutPrefix(path, alias); ok {
			return "s3://" + rest
		}
	}
	rest, ok := strings.CutPrefix(path, "file:")
	if !ok || !strings.HasPrefix(rest, "/") {
		return path
	}
	return "/" + strings.TrimLeft(rest, "/")
}

// IsAbsolutePath reports whether a path of the log names a file by a full path
// or URI instead of relative to the table's root.
func IsAbsolutePath(path string) bool {
	if strings.HasPrefix(path, "/") {
		return true
	}
	scheme, _, ok := strings.Cut(path, ":")
	if !ok || scheme == "" {
		return false
	}
	for i, c := range scheme {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+.-", c)) {
			return false
		}
	}
	return true
}
