package replay

import (
	"bytes"
	"context"
	"crypto/md5" // what PROTOCOL.md prescribes for this checksum; it guards against torn files, not people
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
)

// LastCheckpoint is the content of _last_checkpoint. The file is a hint: it may
// be absent, old, or broken, and then the log is listed from its beginning.
type LastCheckpoint struct {
	Version int64 `json:"version"`
	// Size is the number of actions in the checkpoint.
	Size int64 `json:"size"`
	// Parts is set for multi-part checkpoints only.
	Parts         int64 `json:"parts,omitempty"`
	SizeInBytes   int64 `json:"sizeInBytes,omitempty"`
	NumOfAddFiles int64 `json:"numOfAddFiles,omitempty"`
}

// ParseLastCheckpoint reads a _last_checkpoint file. If it has a checksum, the
// content must match.
func ParseLastCheckpoint(data []byte) (LastCheckpoint, error) {
	var l LastCheckpoint
	var raw struct {
		LastCheckpoint
		Version  *int64  `json:"version"`
		Checksum *string `json:"checksum"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return l, fmt.Errorf("decoding _last_checkpoint: %w", err)
	}
	if raw.Version == nil || *raw.Version < 0 {
		return l, fmt.Errorf("decoding _last_checkpoint: no version")
	}
	if raw.Checksum != nil {
		sum, err := checksum(data)
		if err != nil {
			return l, fmt.Errorf("decoding _last_checkpoint: %w", err)
		}
		if sum != *raw.Checksum {
			return l, fmt.Errorf("decoding _last_checkpoint: checksum is %s, content has %s", *raw.Checksum, sum)
		}
	}
	l = raw.LastCheckpoint
	l.Version = *raw.Version
	return l, nil
}

// Encode returns the file, with its checksum.
func (l LastCheckpoint) Encode() ([]byte, error) {
	data, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encoding _last_checkpoint: %w", err)
	}
	sum, err := checksum(data)
	if err != nil {
		return nil, fmt.Errorf("encoding _last_checkpoint: %w", err)
	}
	return fmt.Appendf(data[:len(data)-1], `,"checksum":%q}`, sum), nil
}

// readLastCheckpoint returns the hint, if there is a usable one. Whatever is
// wrong with it, the log itself has the truth.
func readLastCheckpoint(ctx context.Context, st store.Store) (LastCheckpoint, bool) {
	data, err := st.Get(ctx, lastCheckpointPath)
	if err != nil {
		return LastCheckpoint{}, false
	}
	l, err := ParseLastCheckpoint(data)
	return l, err == nil
}

// writeLastCheckpoint points at a checkpoint, unless the file points at a newer
// one already.
func writeLastCheckpoint(ctx context.Context, st store.Store, l LastCheckpoint) error {
	if have, ok := readLastCheckpoint(ctx, st); ok && have.Version > l.Version {
		return nil
	}
	data, err := l.Encode()
	if err != nil {
		return err
	}
	if err := st.Put(ctx, lastCheckpointPath, data); err != nil {
		return fmt.Errorf("writing _last_checkpoint: %w", err)
	}
	return nil
}

// checksum is the MD5 of the canonical form of a JSON object ("JSON checksum" in
// PROTOCOL.md): one path=value pair per leaf, paths joined with "+", everything
// percent-encoded, pairs sorted by bytes and joined with ",". The checksum key
// itself does not count.
func checksum(data []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var root map[string]any
	if err := dec.Decode(&root); err != nil {
		return "", err
	}
	delete(root, "checksum")
	var pairs []string
	if err := canonical(&pairs, "", root); err != nil {
		return "", err
	}
	slices.Sort(pairs)
	sum := md5.Sum([]byte(strings.Join(pairs, ",")))
	return hex.EncodeToString(sum[:]), nil
}

func canonical(pairs *[]string, path string, value any) error {
	below := func(step string) string {
		if path == "" {
			return step
		}
		return path + "+" + step
	}
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if err := canonical(pairs, below(`"`+percentEncode(key)+`"`), child); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range v {
			if err := canonical(pairs, below(strconv.Itoa(i)), child); err != nil {
				return err
			}
		}
	case string:
		*pairs = append(*pairs, path+`="`+percentEncode(v)+`"`)
	case json.Number:
		*pairs = append(*pairs, path+"="+v.String())
	case bool:
		*pairs = append(*pairs, path+"="+strconv.FormatBool(v))
	case nil:
		*pairs = append(*pairs, path+"=null")
	default:
		return errors.New("value of unknown kind")
	}
	return nil
}

// percentEncode leaves only the unreserved characters of RFC 3986 as they are.
func percentEncode(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
