package reconcile

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/bits"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// FailureType is what is wrong with a key, or a chunk of a snapshot.
type FailureType string

// The types of keys. Those that mssql-cdc-pyspark does not have are Doubled and NotUnique.
const (
	MissingTarget FailureType = "MISSING_TARGET"   // the source has the key, the table does not
	MissingSource FailureType = "MISSING_SOURCE"   // the table has the key, the source does not
	RecordDiff    FailureType = "RECORD_DIFF"      // both have it, with different values
	Doubled       FailureType = "DUPLICATE_TARGET" // the table has a row twice
	NotUnique     FailureType = "KEY_NOT_UNIQUE"   // the source has several rows of the key, as it is compared
	InFlight      FailureType = "IN_FLIGHT"        // it differs, and CDC has a later change of it
)

// tally is what a bucket adds up to. The target's rows are those whose key the source has there.
type tally struct {
	sourceRows, targetRows int64
	sourceSum, targetSum   keySum
	inFlight, wrong        int64
}

// keySum adds up the first 8 bytes of digests of keys. It has 128 bits.
type keySum struct{ hi, lo uint64 }

func (s *keySum) add(key []byte) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, binary.BigEndian.Uint64(key), 0)
	s.hi += carry
}

// noBucket is where keys are that the source does not have.
const noBucket = -1

// finding is a key that differs.
type finding struct {
	key    digest
	kind   FailureType
	bucket int64
	lsn    mssqlcdc.LSN // of the target's row; zero if it has none
	change changeRow    // of what is in flight
	landed bool         // it was in flight, and is wrong in a later version
}

// join joins the piles partition by partition.
type join struct {
	kind                    Kind
	partitions              int
	buckets                 []*bucket
	outside                 *tally // keys that the source does not have
	source, target, changes *pile
}

// run counts anew, and hands out every key that differs.
func (j *join) run(ctx context.Context, found func(finding)) error {
	for _, b := range j.buckets {
		b.tally = tally{}
	}
	*j.outside = tally{}
	for part := range j.partitions {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := j.partition(part, found); err != nil {
			return err
		}
	}
	return nil
}

func (j *join) partition(part int, found func(finding)) error {
	var sides [3][][]byte
	for i, p := range []*pile{j.source, j.target, j.changes} {
		entries, err := p.load(part)
		if err != nil {
			return err
		}
		ordered := orderedBytes
		if p == j.source {
			ordered = digestSize
		}
		sides[i] = sorted(entries, p.width, ordered)
	}
	source, target, changes := sides[0], sides[1], sides[2]
	again := func(number uint32) bool { return j.buckets[number].again }
	for len(source) > 0 || len(target) > 0 {
		key := least(source, target)
		for len(changes) > 0 && bytes.Compare(changes[0][:digestSize], key) < 0 {
			changes = changes[1:]
		}
		s := sourceOf(takeGroup(&source, key), again)
		group := takeGroup(&target, key)
		t := targetOf(group, j.kind)
		c := changeOf(takeGroup(&changes, key))
		j.judge(digest(key), s, t, c, found)
	}
	return nil
}

// least is the lower of the keys that come first.
func least(a, b [][]byte) []byte {
	switch {
	case len(a) == 0:
		return b[0][:digestSize]
	case len(b) == 0 || bytes.Compare(a[0][:digestSize], b[0][:digestSize]) <= 0:
		return a[0][:digestSize]
	}
	return b[0][:digestSize]
}

// judge decides about one key.
func (j *join) judge(key digest, s sourceRow, t targetRow, c changeRow, found func(finding)) {
	at, number := j.outside, int64(noBucket)
	if s.copies > 0 {
		number = int64(s.bucket)
		at = &j.buckets[s.bucket].tally
		at.sourceRows += int64(s.copies)
		at.sourceSum.add(key[:])
	}
	if t.present {
		at.targetRows++
		at.targetSum.add(key[:])
	}
	f := finding{key: key, bucket: number, lsn: t.rank.lsn(), change: c}
	switch {
	case t.doubled:
		f.kind = Doubled // no change makes that right
	case s.copies > 1:
		f.kind = NotUnique
	case s.present && !t.present:
		f.kind = MissingTarget
	case !s.present && t.present:
		f.kind = MissingSource
	case s.present && s.hashed && s.value != t.value:
		f.kind = RecordDiff
	default:
		return
	}
	if c.touched && f.kind != Doubled {
		f.kind = InFlight
		at.inFlight++
	} else {
		at.wrong++
	}
	found(f)
}
