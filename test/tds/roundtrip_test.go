package tds_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// typesRowset answers every request with all type cases: each value row, then a row with every second column NULL, then one
// with all columns NULL that can be.
func typesRowset(cases []typeCase) func(context.Context, *tds.Request, *tds.Writer) error {
	columns := make([]tds.Column, len(cases))
	for i, c := range cases {
		columns[i] = tds.Column{Name: c.name, Type: c.typ, UserType: c.user, Flags: tds.FlagsNullableOfTable}
	}
	return func(_ context.Context, _ *tds.Request, w *tds.Writer) error {
		w.Columns(columns)
		for k := range 5 {
			row := w.Row()
			for i, c := range cases {
				if isNull(k, i, &c.typ) {
					row.Null()
				} else {
					row.Value(c.values[k%3])
				}
			}
			if err := row.End(); err != nil {
				return err
			}
		}
		w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: 5})
		return nil
	}
}

// isNull says where row k of the types rowset holds NULL.
func isNull(k, column int, t *tds.TypeInfo) bool {
	return !t.IsFixed() && (k == 3 && column%2 == 0 || k == 4)
}

// compareTypes reads the types rowset and compares every value.
func compareTypes(t *testing.T, db *sql.DB, cases []typeCase) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT types")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	names, err := rows.Columns()
	require.NoError(t, err)
	require.Len(t, names, len(cases))
	got, into := make([]any, len(cases)), make([]any, len(cases))
	for i := range got {
		into[i] = &got[i]
	}
	k := 0
	for ; rows.Next(); k++ {
		require.NoError(t, rows.Scan(into...))
		for i, c := range cases {
			require.Equal(t, c.name, names[i])
			want := c.want[k%3]
			if isNull(k, i, &c.typ) {
				want = nil
			}
			if wantTime, ok := want.(time.Time); ok {
				gotTime, ok := got[i].(time.Time)
				require.True(t, ok, "row %d %s: %T", k, c.name, got[i])
				require.True(t, wantTime.Equal(gotTime), "row %d %s: want %s, got %s", k, c.name, wantTime, gotTime)
				_, offset := wantTime.Zone()
				_, gotOffset := gotTime.Zone()
				require.Equal(t, offset, gotOffset, c.name)
				continue
			}
			require.Equal(t, want, got[i], "row %d %s", k, c.name)
		}
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 5, k)
}

func TestTypesThroughMSSQLDB(t *testing.T) {
	t.Parallel()
	cert, err := tds.NewCertificate()
	require.NoError(t, err)
	cases := typeCases()
	type mode struct {
		name    string
		options []string
		max     int
	}
	modes := []mode{
		{"clear", []string{"encrypt", "disable"}, tds.MaxPacketSize},
		{"login only", []string{"encrypt", "false", "trustservercertificate", "true"}, tds.MaxPacketSize},
		{"TLS", []string{"encrypt", "true", "trustservercertificate", "true"}, tds.MaxTLSPacketSize},
	}
	for _, nbc := range []tds.NBCPolicy{tds.NBCAuto, tds.NBCNever, tds.NBCAlways} {
		for _, m := range modes {
			for _, size := range []int{512, 4096, 16383, 32767} {
				if size == 512 && m.name != "clear" {
					continue // go-mssqldb sends its TLS handshake in packets of that size, which not every record fits
				}
				t.Run(fmt.Sprintf("nbc %d, %s, %d", nbc, m.name, size), func(t *testing.T) {
					t.Parallel()
					var conn *tds.Conn
					h := &script{handle: typesRowset(cases), login: func(c *tds.Conn, _ *tds.Login) (*tds.LoginAnswer, error) {
						conn = c
						return nil, nil
					}}
					s := serve(t, tds.Config{TLS: cert.Config, NBC: nbc}, h)
					db := s.open(t, append(m.options, "packet size", strconv.Itoa(size))...)
					compareTypes(t, db, cases)
					require.Equal(t, min(size, m.max), conn.PacketSize())
				})
			}
		}
	}
}

// TestTypesThroughStrictDecoder sends the types through the strict decoder, which shares no code with the encoder, and asks
// for the very same values.
func TestTypesThroughStrictDecoder(t *testing.T) {
	t.Parallel()
	cases := typeCases()
	for _, nbc := range []tds.NBCPolicy{tds.NBCAuto, tds.NBCNever, tds.NBCAlways} {
		t.Run(fmt.Sprint(nbc), func(t *testing.T) {
			t.Parallel()
			c := dialRaw(t, tds.Config{NBC: nbc}, &script{handle: typesRowset(cases)})
			c.login(loginWords{})
			c.batch(1, "SELECT types")
			list, err := decodeTokens(c.answer(), false, false)
			require.NoError(t, err)
			names := make([]string, len(list))
			for i, token := range list {
				names[i] = token.name
			}
			rows := []string{"ROW", "ROW", "ROW", "NBCROW", "NBCROW"}
			switch nbc {
			case tds.NBCNever:
				rows = []string{"ROW", "ROW", "ROW", "ROW", "ROW"}
			case tds.NBCAlways:
				rows = []string{"NBCROW", "NBCROW", "NBCROW", "NBCROW", "NBCROW"}
			}
			require.Equal(t, append(append([]string{"COLMETADATA"}, rows...), "DONE"), names)
		})
	}
}

// TestOldVersionsGetNoNBCRow looks at what clients of TDS 7.2 and 7.3A are sent.
func TestOldVersionsGetNoNBCRow(t *testing.T) {
	t.Parallel()
	for version, row := range map[tds.Version]string{
		tds.Version72: "ROW NULL", tds.Version73: "ROW NULL", tds.Version7B: "NBCROW bitmap 01 NULL", tds.Version74: "NBCROW bitmap 01 NULL",
	} {
		c := dialRaw(t, tds.Config{}, &script{handle: func(_ context.Context, _ *tds.Request, w *tds.Writer) error {
			w.Columns([]tds.Column{{Name: "n", Type: tds.TypeInt(4)}})
			return w.WriteRow(nil)
		}})
		c.login(loginWords{version: version})
		c.batch(1, "x")
		require.Equal(t, []string{"COLMETADATA n intn4 flags 0x0000", row, "DONE status 0x0000 cmd 0x0000 count 0"}, c.tokens(), version)
	}
}
