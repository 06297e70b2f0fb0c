package replay

import (
	"iter"
	"maps"
)

// Layered is an immutable map with string keys, made for states that change a
// little with every commit: With copies a small top layer, not the whole map.
// The zero value is empty.
type Layered[V any] struct {
	base, top map[string]layer[V]
}

// layer is a value or, in the top layer, the absence of one.
type layer[V any] struct {
	value V
	gone  bool
}

// maxTop is how many entries the top layer may have before it is merged down.
const maxTop = 32

// Get returns the value of a key.
func (l Layered[V]) Get(key string) (V, bool) {
	e, ok := l.top[key]
	if !ok {
		e, ok = l.base[key]
	}
	return e.value, ok && !e.gone
}

// With returns the map with one value set.
func (l Layered[V]) With(key string, value V) Layered[V] {
	return l.set(key, layer[V]{value: value})
}

// Without returns the map with one key absent.
func (l Layered[V]) Without(key string) Layered[V] {
	return l.set(key, layer[V]{gone: true})
}

func (l Layered[V]) set(key string, e layer[V]) Layered[V] {
	if _, ok := l.top[key]; !ok && len(l.top) >= maxTop {
		base := make(map[string]layer[V], len(l.base)+len(l.top))
		maps.Copy(base, l.base)
		for k, e := range l.top {
			if e.gone {
				delete(base, k)
			} else {
				base[k] = e
			}
		}
		return Layered[V]{base: base, top: map[string]layer[V]{key: e}}
	}
	top := make(map[string]layer[V], len(l.top)+1)
	maps.Copy(top, l.top)
	top[key] = e
	return Layered[V]{base: l.base, top: top}
}

// All yields the entries in no particular order.
func (l Layered[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for key, e := range l.top {
			if !e.gone && !yield(key, e.value) {
				return
			}
		}
		for key, e := range l.base {
			if _, ok := l.top[key]; !ok && !e.gone && !yield(key, e.value) {
				return
			}
		}
	}
}
