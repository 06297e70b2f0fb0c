package action_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/action"
)

func TestVectorPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, text, want, refused string }{
		// The samples of PROTOCOL.md.
		{"u", "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", ""},
		{"u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", ""},
		{"p", "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", "s3://mytable/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", ""},
		{"p", "file:/a%20b/x.bin", "file:/a%20b/x.bin", ""},
		{"i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "", ""},
		{"p", "x.bin", "", "not absolute"},
		{"u", "short", "", "too short"},
		{"u", "^-aqEH.-t@S}K{vb[*k~", "", "no digit"},
		{"u", "#####" + "EH.-t@S}K{vb[*k", "", "no four bytes"},
		{"x", "", "", "unknown"},
	} {
		got, err := (&action.DeletionVector{StorageType: c.kind, PathOrInlineDv: c.text}).Path()
		require.Equal(t, c.want, got)
		if c.refused == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.refused)
		}
	}
}

func TestInlineVectors(t *testing.T) {
	t.Parallel()
	dv := action.DeletionVector{StorageType: "i", PathOrInlineDv: "HelloWorld", SizeInBytes: 7} // the sample of RFC 32
	data, err := dv.Inline()
	require.NoError(t, err)
	require.Equal(t, "864fd26fb559f7", hex.EncodeToString(data))
	for _, size := range []int32{-1, 4, 9} {
		dv.SizeInBytes = size
		_, err = dv.Inline()
		require.ErrorContains(t, err, "has 8 bytes")
	}
	dv.PathOrInlineDv += "x"
	_, err = dv.Inline()
	require.ErrorContains(t, err, "whole groups")
	dv.StorageType = "u"
	_, err = dv.Inline()
	require.ErrorContains(t, err, "not inline")
}

// Whatever a descriptor says, it names a file or an error.
func FuzzVector(f *testing.F) {
	f.Add("u", "ab^-aqEH.-t@S}K{vb[*k^", int32(40))
	f.Add("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", int32(40))
	f.Add("p", "s3://x/y", int32(0))
	f.Fuzz(func(t *testing.T, kind, text string, size int32) {
		dv := action.DeletionVector{StorageType: kind, PathOrInlineDv: text, SizeInBytes: size}
		if path, err := dv.Path(); err == nil && kind == "u" {
			require.True(t, strings.HasSuffix(path, ".bin"), path)
		}
		if data, err := dv.Inline(); err == nil {
			require.Len(t, data, int(size))
		}
	})
}

func TestZ85ThereAndBack(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"nothing":      {},
		"one group":    {0x86, 0x4f, 0xd2, 0x6f},
		"whole groups": {0, 0, 0, 0, 255, 255, 255, 255},
		"a rest":       {1, 2, 3, 4, 5, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := action.DeletionVector{StorageType: action.VectorInline, PathOrInlineDv: action.EncodeZ85(data), SizeInBytes: int32(len(data))}
			have, err := d.Inline()
			require.NoError(t, err)
			require.Equal(t, data, append([]byte{}, have...))
		})
	}
	// The example of ZeroMQ RFC 32.
	require.Equal(t, "HelloWorld", action.EncodeZ85([]byte{0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B}))
}
