package input

import (
	"context"
	"iter"
	"time"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// source is what the stream needs of a SQL Server; *sqlserver.Client is one.
type source interface {
	Server() sqlserver.Server
	MaxLSN(ctx context.Context) (sqlserver.Head, error)
	MinLSN(ctx context.Context, instance string) (mssqlcdc.LSN, error)
	Diagnose(ctx context.Context, instance mssqlcdc.CaptureInstance) error
	Instances(ctx context.Context) ([]mssqlcdc.CaptureInstance, error)
	InstancesOf(ctx context.Context, tables []mssqlcdc.TableID) ([]mssqlcdc.CaptureInstance, error)
	CheckPermissions(ctx context.Context, instance mssqlcdc.CaptureInstance) error
	Columns(ctx context.Context, instance mssqlcdc.CaptureInstance, options sqlserver.ColumnOptions) (sqlserver.Layout, error)
	CommitTime(ctx context.Context, lsn mssqlcdc.LSN, exact bool) (time.Time, bool, error)
	LSNForTime(ctx context.Context, utc time.Time) (mssqlcdc.LSN, error)
	Remember(lsn mssqlcdc.LSN, utc time.Time)
	Moved(ctx context.Context, cursors []sqlserver.Cursor, upto mssqlcdc.LSN) ([]sqlserver.Movement, error)
	Plan(ctx context.Context, layout sqlserver.Layout, start, upto mssqlcdc.LSN, limits sqlserver.Limits) (sqlserver.Plan, error)
	Read(ctx context.Context, request sqlserver.ReadRequest) iter.Seq2[sqlserver.Part, error]
	Idle(layout sqlserver.Layout, window mssqlcdc.Window, movement sqlserver.Movement, head sqlserver.Head) sqlserver.Part
	SnapshotKey(ctx context.Context, layout sqlserver.Layout, names []string) (sqlserver.SnapshotKey, error)
	SnapshotStamp(ctx context.Context, instance mssqlcdc.CaptureInstance) (sqlserver.Head, error)
	MaxKey(ctx context.Context, layout sqlserver.Layout, key sqlserver.SnapshotKey) (sqlserver.Bound, error)
	NextBound(ctx context.Context, layout sqlserver.Layout, key sqlserver.SnapshotKey, from, upto sqlserver.Bound, rows int64) (sqlserver.Bound, error)
	EndBound(ctx context.Context, layout sqlserver.Layout, key sqlserver.SnapshotKey, last sqlserver.Bound) (sqlserver.Bound, error)
	ReadChunk(ctx context.Context, request sqlserver.ChunkRequest) iter.Seq2[sqlserver.Part, error]
	CheckSnapshotAllowed(ctx context.Context) error
	ServerClock(ctx context.Context) (string, error)
	ServerTime(ctx context.Context) (time.Time, error)
	UnchangedSince(ctx context.Context, instance mssqlcdc.CaptureInstance, since mssqlcdc.LSN, clock string) (unchanged, known bool, err error)
	CommitsAfter(ctx context.Context, after, upto mssqlcdc.LSN, n int64) (mssqlcdc.LSN, error)
	Health(ctx context.Context) (sqlserver.Health, error)
	DDL(ctx context.Context, instance mssqlcdc.CaptureInstance, after, upto mssqlcdc.LSN) ([]sqlserver.DDL, error)
	Close() error
}

type opener func(ctx context.Context, config sqlserver.Config) (source, error)

func openClient(ctx context.Context, config sqlserver.Config) (source, error) {
	client, err := sqlserver.Open(ctx, config)
	if err != nil {
		return nil, err // not a nil *Client in a non-nil interface
	}
	return client, nil
}

// WithDialer makes registered inputs connect through a dialer instead of the
// network, for tests.
func WithDialer(dialer sqlserver.Dialer) Option {
	return func(s *settings) {
		s.open = func(ctx context.Context, config sqlserver.Config) (source, error) {
			config.Dialer = dialer
			return openClient(ctx, config)
		}
	}
}
