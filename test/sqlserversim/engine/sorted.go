package engine

import (
	"iter"
	"slices"
	"sort"
)

// sorted is an ordered collection with cheap snapshots: a list of chunks of items in ascending order. A snapshot shares the
// chunks; whoever changes a shared chunk copies it first. It is not safe for concurrent use, but a snapshot may be read while
// the original changes.
type sorted[T any] struct {
	compare func(a, b T) int
	chunks  []*chunk[T]
	owner   *sharing // chunks with this owner belong to this collection alone
	shared  bool     // the list of chunks itself is shared
	n       int
}

// sharing marks the chunks that were made since the last snapshot; it must not be of size zero, or all would be equal.
type sharing struct{ _ byte }

type chunk[T any] struct {
	owner *sharing
	items []T // never empty
}

const chunkItems = 512

func newSorted[T any](compare func(a, b T) int) *sorted[T] {
	return &sorted[T]{compare: compare, owner: &sharing{}}
}

// len is the number of items.
func (s *sorted[T]) len() int { return s.n }

// snapshot gives a collection that later changes of s do not touch, nor the other way round.
func (s *sorted[T]) snapshot() *sorted[T] {
	c := *s
	c.owner, c.shared = &sharing{}, true
	s.owner, s.shared = &sharing{}, true
	return &c
}

// place is a position: item i of chunk c. The end is (len(chunks), 0).
type place struct{ c, i int }

// seek finds the first item for which after is true; it must be false, then true along the order.
func (s *sorted[T]) seek(after func(T) bool) place {
	c := sort.Search(len(s.chunks), func(c int) bool {
		items := s.chunks[c].items
		return after(items[len(items)-1])
	})
	if c == len(s.chunks) {
		return place{c, 0}
	}
	items := s.chunks[c].items
	return place{c, sort.Search(len(items), func(i int) bool { return after(items[i]) })}
}

// find looks an item up.
func (s *sorted[T]) find(item T) (T, bool) {
	p := s.seek(func(x T) bool { return s.compare(x, item) >= 0 })
	if p.c < len(s.chunks) {
		if x := s.chunks[p.c].items[p.i]; s.compare(x, item) == 0 {
			return x, true
		}
	}
	var none T
	return none, false
}

// set adds the item or puts it in the place of an equal one.
func (s *sorted[T]) set(item T) {
	s.own()
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, &chunk[T]{owner: s.owner, items: append(make([]T, 0, 16), item)})
		s.n++
		return
	}
	p := s.seek(func(x T) bool { return s.compare(x, item) >= 0 })
	if p.c == len(s.chunks) {
		p = place{p.c - 1, len(s.chunks[p.c-1].items)}
	}
	k := s.ownChunk(p.c)
	if p.i < len(k.items) && s.compare(k.items[p.i], item) == 0 {
		k.items[p.i] = item
		return
	}
	k.items = slices.Insert(k.items, p.i, item)
	s.n++
	if len(k.items) > chunkItems {
		s.split(p)
	}
}

// split cuts a chunk that grew too large: in half, or at the end when items come in ascending order.
func (s *sorted[T]) split(p place) {
	k := s.chunks[p.c]
	at := len(k.items) / 2
	if p.c == len(s.chunks)-1 && p.i == len(k.items)-1 {
		at = len(k.items) - 1
	}
	rest := &chunk[T]{owner: s.owner, items: append(make([]T, 0, chunkItems), k.items[at:]...)}
	clear(k.items[at:])
	k.items = k.items[:at]
	s.chunks = slices.Insert(s.chunks, p.c+1, rest)
}

// remove takes an item out; false when it is not there.
func (s *sorted[T]) remove(item T) bool {
	p := s.seek(func(x T) bool { return s.compare(x, item) >= 0 })
	if p.c == len(s.chunks) || s.compare(s.chunks[p.c].items[p.i], item) != 0 {
		return false
	}
	s.own()
	k := s.ownChunk(p.c)
	k.items = slices.Delete(k.items, p.i, p.i+1)
	s.n--
	if len(k.items) == 0 {
		s.chunks = slices.Delete(s.chunks, p.c, p.c+1)
	}
	return true
}

// own makes the list of chunks private.
func (s *sorted[T]) own() {
	if s.shared {
		s.chunks, s.shared = slices.Clone(s.chunks), false
	}
}

func (s *sorted[T]) ownChunk(c int) *chunk[T] {
	k := s.chunks[c]
	if k.owner != s.owner {
		k = &chunk[T]{owner: s.owner, items: slices.Clone(k.items)}
		s.chunks[c] = k
	}
	return k
}

// ascend yields the items from the first one for which after is true.
func (s *sorted[T]) ascend(after func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		p := place{}
		if after != nil {
			p = s.seek(after)
		}
		for ; p.c < len(s.chunks); p = (place{p.c + 1, 0}) {
			for _, x := range s.chunks[p.c].items[p.i:] {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// descend yields the items downwards from the last one for which after is false.
func (s *sorted[T]) descend(after func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		p := place{len(s.chunks), 0}
		if after != nil {
			p = s.seek(after)
		}
		for {
			if p.i == 0 {
				if p.c == 0 {
					return
				}
				p.c--
				p.i = len(s.chunks[p.c].items)
			}
			p.i--
			if !yield(s.chunks[p.c].items[p.i]) {
				return
			}
		}
	}
}
