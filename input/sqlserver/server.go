package sqlserver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	mssql "github.com/microsoft/go-mssqldb"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/zone"
)

const identifyStatement = `SELECT @@SERVERNAME AS name, DB_NAME() AS db, USER_NAME() AS login,
CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')) AS version, CONVERT(int, SERVERPROPERTY('EngineEdition')) AS edition,
CONVERT(nvarchar(60), DATABASEPROPERTYEX(DB_NAME(), 'Updateability')) AS updateability`

// identify learns what the server is, and makes the clock.
func (c *Client) identify(ctx context.Context) error {
	err := c.ask(ctx, "identifying the server", func(ctx context.Context, conn *sql.Conn) error {
		row, err := one(ctx, conn, identifyStatement)
		if err != nil {
			return err
		}
		if row.text("updateability") == "READ_ONLY" {
			// What a secondary shows lags behind its primary by an unknown time, and capture runs on the primary.
			return &ConfigError{Field: "connection string", Reason: fmt.Sprintf(
				"database %s is read-only here (a readable secondary?), which is not supported as a source: connect to the primary, without ApplicationIntent=ReadOnly", row.text("db"))}
		}
		edition, _ := row.number("edition")
		c.login = row.text("login")
		c.server = Server{
			Name: row.text("name"), Database: row.text("db"), Version: row.text("version"),
			Major: majorOf(row.text("version")), EngineEdition: int(edition),
		}
		return nil
	})
	if serverNumber(err, 4060) {
		return fmt.Errorf("%w: %w", ErrUnknownDatabase, err)
	}
	if err != nil {
		return err
	}
	if err := c.makeClock(ctx); err != nil {
		return err
	}
	c.waits = c.probeWaits(ctx)
	return nil
}

func majorOf(version string) int {
	before, _, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(before)
	if err != nil {
		return 0
	}
	return major
}

// Editions whose name of the time zone can be asked whatever their version.
const (
	editionAzureDatabase   = 5
	editionManagedInstance = 8
)

// makeClock decides by which zone commit times are converted.
func (c *Client) makeClock(ctx context.Context) error {
	if !strings.EqualFold(c.config.TimeZone, "auto") {
		z, err := zone.Parse(c.config.TimeZone)
		if err != nil {
			return &ConfigError{Field: "time zone", Reason: err.Error()}
		}
		c.useZone(z, false)
		return nil
	}
	// Before 2022 the function does not compile, not even in a branch that is not taken.
	if c.server.Major >= 16 || c.server.EngineEdition == editionAzureDatabase || c.server.EngineEdition == editionManagedInstance {
		name, err := c.zoneName(ctx)
		if err != nil {
			return err
		}
		z, err := zone.Parse(name)
		if err == nil {
			c.useZone(z, false)
			return nil
		}
		c.notices.add(fmt.Sprintf("the server's time zone %q is not known here: its present offset is used, which is wrong for times before the last change of its clock; set the time zone", name))
	}
	offset, err := c.askOffset(ctx)
	if err != nil {
		return err
	}
	c.useZone(zone.Fixed(offset), true)
	c.notices.add(fmt.Sprintf("the server does not tell its time zone: its present offset %s is used and asked anew for each window; commit times around a change of its clock are not exact unless the time zone is set", c.server.Zone))
	return nil
}

func (c *Client) useZone(z zone.Zone, fixed bool) {
	c.server.Zone, c.server.FixedOffset = z.String(), fixed
	c.clock.Store(zone.NewClock(z))
}

func (c *Client) zoneName(ctx context.Context) (string, error) {
	var name string
	err := c.ask(ctx, "asking for the server's time zone", func(ctx context.Context, conn *sql.Conn) error {
		row, err := one(ctx, conn, "SELECT CURRENT_TIMEZONE_ID() AS zone")
		name = row.text("zone")
		return err
	})
	return name, err
}

func (c *Client) askOffset(ctx context.Context) (time.Duration, error) {
	var minutes int64
	err := c.ask(ctx, "asking for the offset of the server's clock", func(ctx context.Context, conn *sql.Conn) error {
		row, err := one(ctx, conn, "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET()) AS minutes")
		minutes, _ = row.number("minutes")
		return err
	})
	return time.Duration(minutes) * time.Minute, err
}

// newOffset follows a fixed offset that changed.
func (c *Client) newOffset(minutes int64) {
	z := zone.Fixed(time.Duration(minutes) * time.Minute)
	if before := c.clock.Load().Zone(); before.String() != z.String() {
		c.notices.add(fmt.Sprintf("the offset of the server's clock changed from %s to %s: commit times around the change are not exact unless the time zone is set", before, z))
		c.clock.Store(zone.NewClock(z))
	}
}

const waitColumn = `(SELECT SUM(wait_time_ms) FROM sys.dm_exec_session_wait_stats WHERE session_id = @@SPID AND wait_type = N'ASYNC_NETWORK_IO')`

// probeWaits finds out whether a session may see its own waits: since 2016, if nobody took the right away. They are a
// nicety, so no error matters.
func (c *Client) probeWaits(ctx context.Context) bool {
	return c.ask(ctx, "asking for waits", func(ctx context.Context, conn *sql.Conn) error {
		_, err := one(ctx, conn, "SELECT "+waitColumn+" AS waits")
		return err
	}) == nil
}

// serverNumber tells whether the server sent an error of the number.
func serverNumber(err error, number int32) bool {
	var server mssql.Error
	if !errors.As(err, &server) {
		return false
	}
	if server.Number == number {
		return true
	}
	for _, one := range server.All {
		if one.Number == number {
			return true
		}
	}
	return false
}
