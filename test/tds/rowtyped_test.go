package tds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// writeTyped writes a value by the method of its kind.
func writeTyped(r *tds.Row, v tds.Value) {
	switch v := v.(type) {
	case bool:
		r.Bool(v)
	case int64:
		r.Int(v)
	case float32:
		r.Float(float64(v))
	case float64:
		r.Float(v)
	case tds.Money:
		r.Money(v)
	case tds.Date:
		r.Date(v)
	case tds.Time:
		r.Time(v)
	case tds.DateTime2:
		r.DateTime2(v.Date, v.Time)
	case tds.DateTimeOffset:
		r.DateTimeOffset(v.Date, v.Time, v.Offset)
	case tds.DateTime:
		r.DateTime(v)
	case tds.SmallDateTime:
		r.SmallDateTime(v)
	case tds.UUID:
		r.UUID(v)
	default:
		r.Value(v)
	}
}

// TestTypedMethodsWriteWhatValueWrites compares the two ways to write every value of the type cases.
func TestTypedMethodsWriteWhatValueWrites(t *testing.T) {
	t.Parallel()
	cases := typeCases()
	columns := make([]tds.Column, len(cases))
	for i, c := range cases {
		columns[i] = tds.Column{Name: c.name, Type: c.typ}
	}
	answer := func(write func(*tds.Row, tds.Value)) []string {
		return answerOf(t, func(_ context.Context, w *tds.Writer) error {
			w.Columns(columns)
			for k := range 3 {
				row := w.Row()
				for _, c := range cases {
					if _, ok := c.values[k].(time.Time); ok {
						row.Value(c.values[k]) // has no method of its own
						continue
					}
					write(row, c.values[k])
				}
				if err := row.End(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.Equal(t, answer((*tds.Row).Value), answer(writeTyped))
}

func TestInject(t *testing.T) {
	t.Parallel()
	lines := answerOf(t, func(_ context.Context, w *tds.Writer) error {
		require.NoError(t, w.Inject(tds.Fault{}))
		w.Columns([]tds.Column{{Name: "n", Type: tds.TypeInt(4)}})
		w.Row().Int(1) // begun, and dropped by the fault
		return w.Inject(tds.Fault{Action: tds.FailAnswer, Message: &tds.ServerError{Number: 3960, Class: 16, State: 2, Text: "Snapshot isolation transaction aborted."}})
	})
	require.Equal(t, []string{
		"COLMETADATA n intn4 flags 0x0000", "ERROR 3960 state 2 class 16 'Snapshot isolation transaction aborted.' server 'SIM' proc '' line 0",
		"DONE status 0x0002 cmd 0x0000 count 0",
	}, lines)
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	t.Parallel()
	l := &tds.Login{User: "sa", Password: "hunter2", NewPassword: "hunter3", Options: [4]byte{0, 0x80}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		require.NotContains(t, fmt.Sprintf(format, l), "hunter", format)
		require.NotContains(t, fmt.Sprintf(format, l), fmt.Sprintf("%x", "hunter"), format)
	}
	text, err := json.Marshal(l)
	require.NoError(t, err)
	require.NotContains(t, string(text), "hunter")
	require.True(t, l.Integrated())
	require.False(t, l.ReadOnlyIntent())
}

func TestAllHeaders(t *testing.T) {
	t.Parallel()
	query := []byte{9, 0, 0, 0, 1, 0, 7, 7, 7}
	tran := []byte{18, 0, 0, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 5, 0, 0, 0}
	trace := append([]byte{26, 0, 0, 0, 3, 0}, make([]byte, 20)...)
	unknown := []byte{7, 0, 0, 0, 99, 0, 1}
	headers := []byte{4 + 9 + 18 + 26 + 7, 0, 0, 0}
	for _, h := range [][]byte{query, tran, trace, unknown} {
		headers = append(headers, h...)
	}
	req, err := tds.ParseRequest(tds.PacketBatch, append(headers, 'x', 0), tds.Version74)
	require.NoError(t, err)
	require.Equal(t, &tds.SQLBatch{Text: "x"}, req.Body)
	require.Equal(t, tds.Headers{Transaction: 0x0807060504030201, Outstanding: 5, Activity: make([]byte, 20), Query: []byte{7, 7, 7}}, req.Headers)
	for name, bad := range map[string][]byte{
		"total beyond the message":  {100, 0, 0, 0},
		"total below its own size":  {3, 0, 0, 0},
		"header beyond the total":   {10, 0, 0, 0, 18, 0, 0, 0, 2, 0, 0, 0},
		"header below its own size": {10, 0, 0, 0, 5, 0, 0, 0, 2, 0},
		"short transaction header":  {14, 0, 0, 0, 10, 0, 0, 0, 2, 0, 1, 2, 3, 4},
	} {
		req, err := tds.ParseRequest(tds.PacketBatch, bad, tds.Version74)
		require.NoError(t, err)
		require.Error(t, req.Body.(*tds.Invalid).Err, name)
	}
}

// TestVariantsRoundTrip decodes sql_variants of every base type as parameters.
func TestVariantsRoundTrip(t *testing.T) {
	t.Parallel()
	typ := tds.TypeVariant()
	for _, c := range variantCases() {
		for _, v := range c.values {
			b, err := tds.AppendValue(nil, &typ, v)
			require.NoError(t, err)
			got, n, err := tds.DecodeValue(b, &typ)
			require.NoError(t, err)
			require.Equal(t, len(b), n)
			again, err := tds.AppendValue(nil, &typ, got)
			require.NoError(t, err)
			require.Equal(t, b, again, v.(tds.Variant).Type)
		}
	}
	for name, bad := range map[string][]byte{
		"base type without a fixed form": {2, 0, 0, 0, 0x26, 0},
		"properties beyond the value":    {2, 0, 0, 0, 0xA7, 9},
		"too few properties":             {3, 0, 0, 0, 0xA7, 1, 0},
		"scale of 9":                     {3, 0, 0, 0, 0x2A, 1, 9},
		"value of another length":        {4, 0, 0, 0, 0x38, 0, 1, 2},
		"nothing":                        {1, 0, 0, 0, 0x38},
	} {
		_, _, err := tds.DecodeValue(bad, &typ)
		require.ErrorContains(t, err, "decoding sql_variant", name)
	}
}
