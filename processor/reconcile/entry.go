package reconcile

import (
	"bytes"
	"encoding/binary"
	"slices"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// Entries are what the piles hold: fixed bytes, sorted and grouped by the digest of the key they begin with.
//
//	source  key 16 | number of the bucket 4 | pass 1 | value 16
//	target  key 16 | rank 26 | value 16
//	change  key 16 | rank 26 | value 16 | value known 1
//
// A rank orders the rows of a key: commit LSN 10 | 0 snapshot row, 1 change 1 | command id 4 | seqval 10 | operation 1. That is the
// order of Position; of a snapshot row and a change of one LSN the change comes last.
const (
	rankSize = 26

	sourceWidth = digestSize + 5 + digestSize
	targetWidth = digestSize + rankSize + digestSize
	changeWidth = targetWidth + 1

	// orderedBytes is how much of an entry of the target or of a change its order depends on.
	orderedBytes = digestSize + rankSize
)

// How a row of the source was read.
const (
	passKeys byte = iota // its key only
	passRows             // whole
)

// rank is the place of a row among the rows of its key.
type rank [rankSize]byte

func rankOf(lsn mssqlcdc.LSN, snapshot bool, command int32, seqval mssqlcdc.LSN, operation mssqlcdc.Operation) rank {
	var r rank
	copy(r[:10], lsn[:])
	if !snapshot {
		r[10] = 1
	}
	binary.BigEndian.PutUint32(r[11:15], uint32(command)^1<<31)
	copy(r[15:25], seqval[:])
	r[25] = byte(operation)
	return r
}

func (r rank) lsn() mssqlcdc.LSN { return mssqlcdc.LSN(r[:mssqlcdc.LSNSize]) }

func (r rank) before(other rank) bool { return bytes.Compare(r[:], other[:]) < 0 }

// present tells whether the key is there after this row.
func (r rank) present() bool {
	op := mssqlcdc.Operation(r[rankSize-1])
	return op != mssqlcdc.Delete && op != mssqlcdc.UpdateBefore
}

func appendSource(dst []byte, key digest, bucket uint32, pass byte, value digest) []byte {
	dst = append(dst, key[:]...)
	dst = append(binary.BigEndian.AppendUint32(dst, bucket), pass)
	return append(dst, value[:]...)
}

func appendTarget(dst []byte, key digest, r rank, value digest) []byte {
	return append(append(append(dst, key[:]...), r[:]...), value[:]...)
}

func appendChange(dst []byte, key digest, r rank, value digest, known bool) []byte {
	dst = appendTarget(dst, key, r, value)
	if known {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// sorted splits entries and sorts them by their first bytes.
func sorted(entries []byte, width, ordered int) [][]byte {
	rows := make([][]byte, 0, len(entries)/width)
	for ; len(entries) > 0; entries = entries[width:] {
		rows = append(rows, entries[:width:width])
	}
	slices.SortFunc(rows, func(a, b []byte) int { return bytes.Compare(a[:ordered], b[:ordered]) })
	return rows
}

// sourceRow is what the source has of a key.
type sourceRow struct {
	bucket  uint32
	copies  int // rows with this key
	hashed  bool
	value   digest
	present bool
}

// targetRow is what the target has of a key.
type targetRow struct {
	present bool
	rank    rank
	value   digest
	doubled bool // a row is there twice
}

// changeRow is what CDC has of a key after the target's position.
type changeRow struct {
	touched bool
	rank    rank // of the last change
	value   digest
	known   bool // value is that of the row; false where an older capture instance lacks columns
}

// takeGroup takes the entries of a key off the front; none if the first is of another key.
func takeGroup(rows *[][]byte, key []byte) [][]byte {
	n := 0
	for n < len(*rows) && bytes.Equal((*rows)[n][:digestSize], key) {
		n++
	}
	group := (*rows)[:n]
	*rows = (*rows)[n:]
	return group
}

// sourceOf folds the entries of a key. Of a bucket that was read again, only the second read counts.
func sourceOf(group [][]byte, again func(bucket uint32) bool) sourceRow {
	var s sourceRow
	for _, e := range group {
		bucket, pass := binary.BigEndian.Uint32(e[digestSize:]), e[digestSize+4]
		if s.copies == 0 {
			s.bucket = bucket
		}
		if pass == passKeys && again(bucket) {
			continue
		}
		s.present, s.bucket = true, bucket
		s.copies++
		if pass == passRows {
			s.hashed, s.value = true, digest(e[digestSize+5:])
		}
	}
	return s
}

// targetOf folds the entries of a key. In a table of kind Current each key is there once.
func targetOf(group [][]byte, kind Kind) targetRow {
	if len(group) == 0 {
		return targetRow{}
	}
	last := group[len(group)-1]
	t := targetRow{rank: rank(last[digestSize:]), value: digest(last[orderedBytes:])}
	t.present = t.rank.present()
	t.doubled = kind == Current && len(group) > 1
	for i := 1; i < len(group) && !t.doubled; i++ {
		t.doubled = bytes.Equal(group[i][:orderedBytes], group[i-1][:orderedBytes])
	}
	return t
}

func changeOf(group [][]byte) changeRow {
	if len(group) == 0 {
		return changeRow{}
	}
	last := group[len(group)-1]
	return changeRow{
		touched: true, rank: rank(last[digestSize:]), value: digest(last[orderedBytes:]), known: last[changeWidth-1] == 1,
	}
}
