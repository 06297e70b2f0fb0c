package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// ServerTime asks for the server's clock, in UTC by the rule that commit times are converted by, so that both can be compared whatever
// zone is configured. Every commit that a statement before the question saw has a commit time at or before it, up to the 1/300 s that
// commit times are rounded by.
func (c *Client) ServerTime(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := c.ask(ctx, "asking for the server's clock", func(ctx context.Context, conn *sql.Conn) error {
		row, err := one(ctx, conn, "SELECT SYSDATETIME() AS wall, SYSUTCDATETIME() AS utc")
		if err != nil {
			return err
		}
		wall, ok := row.wall("wall")
		utc, okUTC := row.wall("utc")
		if !ok || !okUTC {
			return errors.New("the server did not tell it")
		}
		now = utc.UTC()
		// In the hour that the clock shows twice the reading alone does not tell.
		if instants := c.clock.Load().Zone().Instants(wall); len(instants) == 1 {
			now = instants[0].UTC()
		}
		return nil
	})
	return now, err
}
