package action

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// Where a deletion vector is stored, by DeletionVector.StorageType ("Deletion Vector
// Descriptor Schema" in PROTOCOL.md).
const (
	VectorInline   = "i" // in the log itself
	VectorRelative = "u" // in a file below the table's root, named by a UUID
	VectorAbsolute = "p" // in a file named by an absolute path
)

// uuidText is the length of a UUID in Z85.
const uuidText = 20

// Path is the path of the file that holds the vector, spelled like Add.Path; "" for an
// inline vector, which has none.
func (dv *DeletionVector) Path() (string, error) {
	switch dv.StorageType {
	case VectorInline:
		return "", nil
	case VectorAbsolute:
		if !IsAbsolutePath(dv.PathOrInlineDv) {
			return "", fmt.Errorf("deletion vector: path %q is not absolute", dv.PathOrInlineDv)
		}
		return dv.PathOrInlineDv, nil
	case VectorRelative:
		at := len(dv.PathOrInlineDv) - uuidText
		if at < 0 {
			return "", fmt.Errorf("deletion vector: %q is too short to name a file", dv.PathOrInlineDv)
		}
		id, err := decodeZ85(dv.PathOrInlineDv[at:])
		if err != nil {
			return "", fmt.Errorf("deletion vector: file name %q: %w", dv.PathOrInlineDv, err)
		}
		h := hex.EncodeToString(id)
		name := fmt.Sprintf("deletion_vector_%s-%s-%s-%s-%s.bin", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
		if at > 0 {
			name = dv.PathOrInlineDv[:at] + "/" + name
		}
		return EncodePath(name), nil
	default:
		return "", fmt.Errorf("deletion vector: storage type %q is unknown", dv.StorageType)
	}
}

// Inline is the content of an inline vector.
func (dv *DeletionVector) Inline() ([]byte, error) {
	if dv.StorageType != VectorInline {
		return nil, fmt.Errorf("deletion vector: storage type %q is not inline", dv.StorageType)
	}
	data, err := decodeZ85(dv.PathOrInlineDv)
	if err != nil {
		return nil, fmt.Errorf("deletion vector: inline content: %w", err)
	}
	// The text stands for whole groups of four bytes; the size says where the content ends.
	if size := int(dv.SizeInBytes); size < 0 || size > len(data) || len(data)-size >= 4 {
		return nil, fmt.Errorf("deletion vector: inline content has %d bytes, its size is given as %d", len(data), size)
	}
	return data[:dv.SizeInBytes], nil
}

const z85Digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

// decodeZ85 reads the base-85 encoding of ZeroMQ RFC 32: five characters are four bytes.
func decodeZ85(text string) ([]byte, error) {
	if len(text)%5 != 0 {
		return nil, fmt.Errorf("%d characters are no whole groups of base 85", len(text))
	}
	out := make([]byte, 0, len(text)/5*4)
	for at := 0; at < len(text); at += 5 {
		var n uint64
		for i := at; i < at+5; i++ {
			digit := strings.IndexByte(z85Digits, text[i])
			if digit < 0 {
				return nil, fmt.Errorf("%q is no digit of base 85", text[i])
			}
			n = n*85 + uint64(digit)
		}
		if n > 1<<32-1 {
			return nil, fmt.Errorf("the group %q stands for no four bytes", text[at:at+5])
		}
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	return out, nil
}

// EncodeZ85 is the base-85 encoding of ZeroMQ RFC 32 of whole groups of four bytes; a last
// group that is not whole is filled up with zeros.
func EncodeZ85(data []byte) string {
	out := make([]byte, 0, (len(data)+3)/4*5)
	for len(data) > 0 {
		var group [4]byte
		data = data[copy(group[:], data):]
		n := binary.BigEndian.Uint32(group[:])
		var digits [5]byte
		for i := 4; i >= 0; i-- {
			digits[i] = z85Digits[n%85]
			n /= 85
		}
		out = append(out, digits[:]...)
	}
	return string(out)
}
