package sqlserversim

import (
	"fmt"
	"net"
	"time"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
)

// Option changes how Start builds the server.
type Option func(*config) error

// config is what the options fill. The zero value is not usable: newConfig gives the defaults.
type config struct {
	listener        net.Listener
	addr            string
	noListener      bool
	tls             bool
	hosts           []string
	seed            int64
	clock           engine.Clock
	zoneName        string
	location        *time.Location
	version         int
	logins          []loginSpec
	captureInterval time.Duration
	databases       []string
	serverName      string
}

type loginSpec struct {
	name, password string
	sysadmin       bool
}

// DefaultPassword is the password of sa, and of the logins made by WithLogin with an empty password.
const DefaultPassword = "Sim-0nly!Passw0rd"

// DefaultDatabase is the user database that Start creates when WithDatabase is not given.
const DefaultDatabase = "lab"

func newConfig() *config {
	return &config{
		addr:            "127.0.0.1:0",
		tls:             true,
		seed:            1,
		zoneName:        "UTC",
		location:        time.UTC,
		version:         2022,
		captureInterval: 5 * time.Second,
		serverName:      "SIMULATOR",
	}
}

// WithListener makes the server accept on l, which the server closes. The default is a free port on 127.0.0.1.
func WithListener(l net.Listener) Option {
	return func(c *config) error { c.listener = l; return nil }
}

// WithAddr makes the server listen on addr ("host:port", port 0 for a free one).
func WithAddr(addr string) Option {
	return func(c *config) error { c.addr = addr; return nil }
}

// WithoutListener makes a server without a socket; clients come through Server.Dial. It is what a testing/synctest bubble
// needs, where real sockets would stop the virtual clock.
func WithoutListener() Option {
	return func(c *config) error { c.noListener = true; return nil }
}

// WithTLS offers encryption with a certificate made at start, which is the default. hosts are extra names for the
// certificate besides localhost, 127.0.0.1 and ::1. Clients may still ask for clear text, as on a real server without
// "force encryption".
func WithTLS(hosts ...string) Option {
	return func(c *config) error { c.tls = true; c.hosts = hosts; return nil }
}

// WithoutTLS answers "encryption not supported".
func WithoutTLS() Option {
	return func(c *config) error { c.tls = false; return nil }
}

// WithSeed seeds everything random: LSN jumps, object ids, fault probabilities. The default is 1.
func WithSeed(seed int64) Option {
	return func(c *config) error { c.seed = seed; return nil }
}

// WithClock gives the server its time; nil and the default are the machine's clock.
func WithClock(clock engine.Clock) Option {
	return func(c *config) error { c.clock = clock; return nil }
}

// WithTimeZone sets the server's time zone: its Windows name, as CURRENT_TIMEZONE_ID() gives it, and its rules. Commit
// times in cdc.lsn_time_mapping, GETDATE and SYSDATETIMEOFFSET follow it. The default is UTC.
func WithTimeZone(windows string, loc *time.Location) Option {
	return func(c *config) error {
		if windows == "" || loc == nil {
			return fmt.Errorf("setting the time zone: a Windows name and a location are both needed")
		}
		c.zoneName, c.location = windows, loc
		return nil
	}
}

// WithVersion makes the server report and behave as SQL Server 2016, 2017, 2019, 2022 (default) or 2025.
func WithVersion(year int) Option {
	return func(c *config) error {
		if _, ok := profileOf(year); !ok {
			return fmt.Errorf("setting the version: %d is none of 2016, 2017, 2019, 2022, 2025", year)
		}
		c.version = year
		return nil
	}
}

// WithServerName sets @@SERVERNAME, the name that ERROR and INFO tokens carry.
func WithServerName(name string) Option {
	return func(c *config) error { c.serverName = name; return nil }
}

// WithLogin adds a SQL login. sa with DefaultPassword always exists unless WithLogin gives sa another password. A login that
// is not sysadmin has no user in any database until CREATE USER makes one.
func WithLogin(user, password string, sysadmin bool) Option {
	return func(c *config) error {
		if password == "" {
			password = DefaultPassword
		}
		c.logins = append(c.logins, loginSpec{user, password, sysadmin})
		return nil
	}
}

// WithCaptureInterval sets the capture job's polling interval, 5 s by default as on SQL Server. Zero means no job: the log is
// scanned only by Server.Capture and sys.sp_cdc_scan.
func WithCaptureInterval(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 {
			return fmt.Errorf("setting the capture interval: %s is negative", d)
		}
		c.captureInterval = d
		return nil
	}
}

// WithDatabase creates a user database. The first one named is the default database of every login; without any, it is
// DefaultDatabase.
func WithDatabase(name string) Option {
	return func(c *config) error { c.databases = append(c.databases, name); return nil }
}
