package engine

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sorted is an algorithm, so it is tested from the inside.
func TestSortedAgainstASlice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := newSorted(cmp.Compare[int])
		var model []int
		type kept struct {
			s     *sorted[int]
			model []int
		}
		var snaps []kept
		steps := rapid.IntRange(1, 40).Draw(t, "steps")
		for range steps {
			from, n := rapid.IntRange(0, 3000).Draw(t, "from"), rapid.IntRange(1, 700).Draw(t, "n")
			switch rapid.SampledFrom([]string{"add", "add", "addDown", "remove", "snapshot"}).Draw(t, "do") {
			case "add", "addDown":
				for i := range n {
					x := from + i
					if n%2 == 0 {
						x = from + n - i
					}
					s.set(x)
					if at, found := slices.BinarySearch(model, x); !found {
						model = slices.Insert(model, at, x)
					}
				}
			case "remove":
				for i := range n {
					at, found := slices.BinarySearch(model, from+i)
					require.Equal(t, found, s.remove(from+i))
					if found {
						model = slices.Delete(model, at, at+1)
					}
				}
			case "snapshot":
				snaps = append(snaps, kept{s.snapshot(), slices.Clone(model)})
			}
		}
		for _, k := range append(snaps, kept{s, model}) {
			require.Equal(t, len(k.model), k.s.len())
			require.True(t, slices.Equal(k.model, slices.Collect(k.s.ascend(nil))))
			at := rapid.IntRange(-1, 4000).Draw(t, "seek")
			i, _ := slices.BinarySearch(k.model, at)
			after := func(x int) bool { return x >= at }
			require.True(t, slices.Equal(k.model[i:], slices.Collect(k.s.ascend(after))))
			down := slices.Collect(k.s.descend(after))
			slices.Reverse(down)
			require.True(t, slices.Equal(k.model[:i], down))
			_, found := k.s.find(at)
			require.Equal(t, slices.Contains(k.model, at), found)
		}
	})
}

func TestLogTailAlwaysGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		db := newDatabase(NewServer(Options{}), "x", 5, newRand(rapid.Uint64().Draw(t, "seed")))
		last := lsnKey{}
		for range 2000 {
			next := db.log.next(rapid.IntRange(50, 9000).Draw(t, "bytes"))
			require.True(t, last.less(next))
			last = next
			if rapid.Bool().Draw(t, "commit") {
				next = db.log.commit()
				require.True(t, last.less(next))
				last = next
			}
		}
	})
}

func TestMappingAppendAndTrim(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var m Mapping
		var model []uint64
		next := uint64(1)
		type kept struct {
			m     Mapping
			model []uint64
		}
		var old []kept
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "do") {
			case 0:
				n := rapid.IntRange(0, 2*mappingSegmentRows).Draw(t, "n")
				rows := make([]mappingEntry, n)
				for i := range rows {
					rows[i].start = lsnKey{hi: next}
					model = append(model, next)
					next++
				}
				m = m.append(rows)
			case 1:
				n := rapid.IntRange(0, m.Len()).Draw(t, "n")
				m, model = m.trim(n), model[n:]
			case 2:
				m = m.detached()
			}
			old = append(old, kept{m, slices.Clone(model)})
		}
		for _, k := range old {
			require.Equal(t, len(k.model), k.m.Len())
			for i := 1; i < k.m.Len(); i++ {
				require.True(t, k.m.At(i-1).StartLSN.Less(k.m.At(i).StartLSN))
			}
			for i, want := range k.model {
				if k.m.at(i).start.hi != want {
					t.Fatalf("row %d is %d, want %d", i, k.m.at(i).start.hi, want)
				}
			}
		}
	})
}
