package input

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

const rowsYAML = `
tables: [ dbo.* ]
run: available_now
format: rows
max_rows_per_part: 4
max_parallel_reads: 1
`

// bodies are the ids of rows; the fake's rows have their id in their first column.
func bodies(t *testing.T, batch service.MessageBatch) (ids []int64) {
	t.Helper()
	for _, message := range batch {
		body, err := message.AsStructured()
		require.NoError(t, err)
		id, ok := body.(map[string]any)["id"].(int64)
		require.True(t, ok)
		ids = append(ids, id)
	}
	return ids
}

func failSome(batch service.MessageBatch, indexes ...int) error {
	failed := service.NewBatchError(batch, errRejected)
	for _, i := range indexes {
		failed = failed.Failed(i, errRejected)
	}
	return failed
}

// What was rejected comes again, all of it or the rows that were, before what is behind
// it, and as it was before processors changed it.
func TestRejectedRowsComeAgain(t *testing.T) {
	t.Parallel()
	foreign := service.NewMessage([]byte("of another input"))
	for name, tc := range map[string]struct {
		more   string
		reject []func(service.MessageBatch) error
		want   [][]int64 // batches up to the one that is accepted
	}{
		"nothing": {want: [][]int64{{2000, 2001, 2002, 2003}}},
		"all, twice": {
			reject: []func(service.MessageBatch) error{
				func(service.MessageBatch) error { return errRejected }, func(service.MessageBatch) error { return errRejected },
			},
			want: [][]int64{{2000, 2001, 2002, 2003}, {2000, 2001, 2002, 2003}, {2000, 2001, 2002, 2003}},
		},
		"some, then fewer, then all of those": {
			reject: []func(service.MessageBatch) error{
				func(b service.MessageBatch) error { return failSome(b, 0, 2, 3) },
				func(b service.MessageBatch) error { return failSome(b, 1, 2) },
				func(service.MessageBatch) error { return errRejected },
			},
			want: [][]int64{{2000, 2001, 2002, 2003}, {2000, 2002, 2003}, {2002, 2003}, {2002, 2003}},
		},
		"without a position": {
			more:   "include_position: false\n",
			reject: []func(service.MessageBatch) error{func(b service.MessageBatch) error { return failSome(b, 1) }},
			want:   [][]int64{{2000, 2001, 2002, 2003}, {2000, 2001, 2002, 2003}},
		},
		"a message that a processor made": {
			reject: []func(service.MessageBatch) error{func(b service.MessageBatch) error {
				return failSome(append(service.MessageBatch{foreign.Copy()}, b...), 0, 1)
			}},
			want: [][]int64{{2000, 2001, 2002, 2003}, {2000, 2001, 2002, 2003}},
		},
		"a message whose identity a processor changed": {
			reject: []func(service.MessageBatch) error{func(b service.MessageBatch) error {
				b[1].MetaSetMut(mssqlcdc.MetaSeqVal, "another")
				return failSome(b, 0, 1)
			}},
			want: [][]int64{{2000, 2001, 2002, 2003}, {2000, 2001, 2002, 2003}},
		},
		"rows behind a filter": {
			reject: []func(service.MessageBatch) error{func(b service.MessageBatch) error { return failSome(b[2:], 1) }},
			want:   [][]int64{{2000, 2001, 2002, 2003}, {2003}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := newFakeSource("a")
				source.commit("a", 2, 6)
				run := newTestRun(testConfig(t, rowsYAML+tc.more), resources(), source)
				input := service.InputBatchedWithMaxInFlight(1, newReplaying(run.reader))
				require.NoError(t, input.Connect(t.Context()))
				for i, want := range tc.want {
					batch, ack, err := input.ReadBatch(t.Context())
					require.NoError(t, err)
					require.Equal(t, want, bodies(t, batch))
					state, _ := run.stored(t.Context(), "a")
					require.True(t, state.LSN.Less(fakeLSN(2)), "stored before it was written")
					var rejection error
					if i < len(tc.reject) {
						rejection = tc.reject[i](batch)
						for _, message := range batch { // as a mapping may
							body, err := message.AsStructuredMut()
							require.NoError(t, err)
							body.(map[string]any)["id"] = "changed"
						}
					}
					require.NoError(t, ack(t.Context(), rejection))
				}
				batch, ack, err := input.ReadBatch(t.Context())
				require.NoError(t, err)
				require.Equal(t, []int64{2004, 2005}, bodies(t, batch))
				require.NoError(t, ack(t.Context(), nil))
				_, _, err = input.ReadBatch(t.Context())
				require.ErrorIs(t, err, service.ErrEndOfInput)
				state, _ := run.stored(t.Context(), "a")
				require.Equal(t, fakeLSN(2), state.LSN)
				require.NoError(t, input.Close(t.Context()))
			})
		})
	}
}

// A batch that is rejected for ever is tried at most once a second, and does not keep a
// run alive that another plugin has ended.
func TestRejectedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource("a")
		source.commit("a", 2, 2)
		run := newTestRun(testConfig(t, rowsYAML), resources(), source)
		input := newReplaying(run.reader)
		require.NoError(t, input.Connect(t.Context()))
		begin, tries := time.Now(), 0
		for time.Since(begin) < time.Minute {
			_, ack, err := input.ReadBatch(t.Context())
			require.NoError(t, err)
			require.NoError(t, ack(t.Context(), errRejected))
			tries++
		}
		require.InDelta(t, 70, tries, 10)
		run.state.Fail(errors.New("the output cannot go on"))
		_, _, err := input.ReadBatch(t.Context())
		require.ErrorIs(t, err, service.ErrEndOfInput)
		require.NoError(t, input.Close(t.Context()))
	})
}
