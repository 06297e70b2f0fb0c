package sqlserver_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/dsn"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	number := func(n int32, class uint8) error { return mssql.Error{Number: n, Class: class, Message: "?"} }
	cases := map[string]struct {
		err  error
		want sqlserver.Class
	}{
		"nil":                           {nil, 0},
		"deadlock victim":               {number(1205, 13), sqlserver.Transient},
		"snapshot conflict":             {number(3960, 16), sqlserver.Transient},
		"throttled":                     {number(40501, 20), sqlserver.Transient},
		"failing over":                  {number(40613, 17), sqlserver.Transient},
		"being moved":                   {number(40197, 17), sqlserver.Transient},
		"too many requests":             {number(49918, 16), sqlserver.Transient},
		"resource limit":                {number(10928, 20), sqlserver.Transient},
		"resource governance":           {number(10929, 16), sqlserver.Transient},
		"no process on the other end":   {number(233, 20), sqlserver.Transient},
		"aborted":                       {number(10053, 20), sqlserver.Transient},
		"reset":                         {number(10054, 20), sqlserver.Transient},
		"timed out":                     {number(10060, 20), sqlserver.Transient},
		"recovering":                    {number(922, 14), sqlserver.Transient},
		"replica is secondary":          {number(983, 14), sqlserver.Transient},
		"database offline":              {number(942, 14), sqlserver.Transient},
		"shutting down":                 {number(6005, 14), sqlserver.Transient},
		"paused":                        {number(17142, 14), sqlserver.Transient},
		"tempdb is full":                {number(1105, 17), sqlserver.Transient},
		"any error of class 20":         {number(3624, 20), sqlserver.Transient},
		"login refused":                 {number(18456, 14), sqlserver.Fatal},
		"password expired":              {number(18487, 14), sqlserver.Fatal},
		"no such database":              {number(4060, 11), sqlserver.Fatal},
		"denied":                        {number(229, 14), sqlserver.Permission},
		"denied column":                 {number(230, 14), sqlserver.Permission},
		"denied state":                  {number(300, 14), sqlserver.Permission},
		"no user in the database":       {number(916, 14), sqlserver.Permission},
		"missing column":                {number(207, 16), sqlserver.Schema},
		"overflow":                      {number(8115, 16), sqlserver.Schema},
		"syntax":                        {number(102, 15), sqlserver.Fatal},
		"missing object":                {number(208, 16), sqlserver.Fatal},
		"wrapped":                       {fmt.Errorf("reading: %w", number(1205, 13)), sqlserver.Transient},
		"severe":                        {mssql.ServerError{}, sqlserver.Transient},
		"broken stream":                 {mssql.StreamError{InnerError: io.EOF}, sqlserver.Transient},
		"end of file":                   {io.EOF, sqlserver.Transient},
		"half a packet":                 {io.ErrUnexpectedEOF, sqlserver.Transient},
		"bad connection":                {driver.ErrBadConn, sqlserver.Transient},
		"refused":                       {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, sqlserver.Transient},
		"no such host":                  {&net.DNSError{Err: "no such host", IsNotFound: true}, sqlserver.Transient},
		"read deadline":                 {os.ErrDeadlineExceeded, sqlserver.Transient},
		"canceled":                      {context.Canceled, sqlserver.Canceled},
		"deadline":                      {context.DeadlineExceeded, sqlserver.Transient},
		"closed":                        {fmt.Errorf("x: %w", sqlserver.ErrClosed), sqlserver.Canceled},
		"data loss":                     {fmt.Errorf("x: %w", &sqlserver.DataLossError{}), sqlserver.DataLoss},
		"permission with its cause":     {&sqlserver.PermissionError{Err: number(1205, 13)}, sqlserver.Permission},
		"schema with its cause":         {&sqlserver.SchemaError{Err: number(1205, 13)}, sqlserver.Schema},
		"value":                         {&fetch.ValueError{Column: "a"}, sqlserver.Schema},
		"config":                        {&sqlserver.ConfigError{}, sqlserver.Fatal},
		"connection string":             {&dsn.Error{}, sqlserver.Fatal},
		"CDC off":                       {sqlserver.ErrCDCDisabled, sqlserver.Fatal},
		"unknown database":              {sqlserver.ErrUnknownDatabase, sqlserver.Fatal},
		"nothing visible":               {sqlserver.ErrNoInstances, sqlserver.Permission},
		"unknown instance":              {sqlserver.ErrUnknownInstance, sqlserver.Schema},
		"not yet captured":              {sqlserver.ErrNotYetCaptured, sqlserver.Transient},
		"anything else":                 {errors.New("?"), sqlserver.Fatal},
		"canceled in front of a result": {fmt.Errorf("%w: %w", context.Canceled, number(1205, 13)), sqlserver.Canceled},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, sqlserver.Classify(c.err), "%v", c.err)
		})
	}
}

func TestClassNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for class := sqlserver.Class(0); class <= sqlserver.Canceled; class++ {
		require.False(t, seen[class.String()])
		seen[class.String()] = true
	}
}

func TestErrorTexts(t *testing.T) {
	t.Parallel()
	require.EqualError(t, &sqlserver.PermissionError{Object: "cdc.[a_CT]", Grant: "GRANT SELECT ON cdc.[a_CT] TO [u]"},
		"the login may not read cdc.[a_CT]; the database owner can run: GRANT SELECT ON cdc.[a_CT] TO [u]")
	require.EqualError(t, &sqlserver.SchemaError{Instance: "a", Column: "b]", Reason: "r", Cure: "c"}, "capture instance a, column [b]]]: r; c")
	require.EqualError(t, &sqlserver.DataLossError{Instance: "a", From: lsn(2), MinLSN: lsn(3), MinTime: begin(), Reason: "purged"},
		"changes of capture instance a from 0x00000000000000200000 on are lost: purged, the oldest that is left is 0x00000000000000300000 (2025-07-01T12:00:00Z)")
}
