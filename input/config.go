package input

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver"
)

// config is the parsed configuration.
type config struct {
	server    sqlserver.Config
	tables    tableFilter
	overrides []override
	start     startFrom

	run             string
	format          string
	onTableError    string
	onDataLoss      string
	pollInterval    time.Duration
	idleInterval    time.Duration
	tablesInterval  time.Duration
	checkpointCache string
	checkpointKey   string
	checkpointLimit int
	requireCommit   bool
	limits          sqlserver.Limits
	parallelReads   int
	includePosition bool
	includeMarkers  bool
	autoReplayNacks bool

	streamSnapshot    bool
	snapshotOnSwitch  bool
	snapshotChunkRows int64
	snapshotIsolation sqlserver.SnapshotIsolation
	snapshotMode      string

	snapshotParallelism int
	snapshotMinHeadroom time.Duration

	resnapshotInterval time.Duration
}

// override is one entry of table_overrides.
type override struct {
	pattern  pattern
	instance string
	columns  sqlserver.ColumnOptions
	keys     []string
	start    *startFrom

	snapshotKeys []string
}

// fields collects the first error of many reads, so that the parse reads as a
// list.
type fields struct {
	conf *service.ParsedConfig
	err  error
}

func take[T any](f *fields, read func(path ...string) (T, error), name string) T {
	value, err := read(name)
	if err != nil && f.err == nil {
		f.err = err
	}
	return value
}

// takeOption reads a field that is one of several words, which the engine accepts in
// any letter case.
func takeOption(f *fields, name string) string {
	return strings.ToLower(take(f, f.conf.FieldString, name))
}

func parseConfig(conf *service.ParsedConfig) (config, error) {
	f := &fields{conf: conf}
	c := config{
		server: sqlserver.Config{
			ConnectionString: take(f, conf.FieldString, fieldConnectionString),
			User:             take(f, conf.FieldString, fieldUser),
			Password:         take(f, conf.FieldString, fieldPassword),
			TimeZone:         take(f, conf.FieldString, fieldTimeZone),
			ConnectTimeout:   take(f, conf.FieldDuration, fieldConnectTimeout),
			ReadTimeout:      take(f, conf.FieldDuration, fieldReadTimeout),
			LockTimeout:      take(f, conf.FieldDuration, fieldLockTimeout),
			Reader:           takeOption(f, fieldReader),
		},
		run:             takeOption(f, fieldRun),
		format:          takeOption(f, fieldFormat),
		onTableError:    takeOption(f, fieldOnTableError),
		onDataLoss:      takeOption(f, fieldOnDataLoss),
		pollInterval:    take(f, conf.FieldDuration, fieldPollInterval),
		idleInterval:    take(f, conf.FieldDuration, fieldIdleInterval),
		tablesInterval:  take(f, conf.FieldDuration, fieldTablesInterval),
		checkpointCache: take(f, conf.FieldString, fieldCheckpointCache),
		checkpointKey:   take(f, conf.FieldString, fieldCheckpointKey),
		checkpointLimit: take(f, conf.FieldInt, fieldCheckpointLimit),
		requireCommit:   take(f, conf.FieldBool, fieldRequireCommit),
		parallelReads:   take(f, conf.FieldInt, fieldParallelReads),
		includePosition: take(f, conf.FieldBool, fieldIncludePosition),
		includeMarkers:  take(f, conf.FieldBool, fieldIncludeMarkers),
		autoReplayNacks: take(f, conf.FieldBool, service.AutoRetryNacksToggleFieldName),
		streamSnapshot:  take(f, conf.FieldBool, fieldStreamSnapshot),
	}
	c.snapshotOnSwitch = take(f, conf.FieldBool, fieldSnapshotOnSwitch)
	c.snapshotChunkRows = int64(take(f, conf.FieldInt, fieldSnapshotChunkRows))
	c.snapshotMode = takeOption(f, fieldSnapshotMode)
	c.snapshotParallelism = take(f, conf.FieldInt, fieldSnapshotParallelism)
	c.snapshotMinHeadroom = take(f, conf.FieldDuration, fieldSnapshotMinHeadroom)
	c.resnapshotInterval = take(f, conf.FieldDuration, fieldResnapshotInterval)
	if takeOption(f, fieldSnapshotIsolation) == isolationSnapshot {
		c.snapshotIsolation = sqlserver.Snapshot
	}
	maxCommits := take(f, conf.FieldInt, fieldMaxCommits)
	maxRows := take(f, conf.FieldInt, fieldMaxRows)
	maxBytes := take(f, conf.FieldInt, fieldMaxBytes)
	partRows := take(f, conf.FieldInt, fieldPartRows)
	partBytes := take(f, conf.FieldInt, fieldPartBytes)
	tables := take(f, conf.FieldStringList, fieldTables)
	start := take(f, conf.FieldString, fieldStartFrom)
	if f.err != nil {
		return config{}, f.err
	}

	c.limits = sqlserver.Limits{
		Commits: limit(maxCommits), Rows: limit(maxRows), Bytes: limit(maxBytes),
		PartRows: int64(partRows), PartBytes: int64(partBytes),
	}
	if c.format == formatRows && partRows == 0 {
		c.limits.PartRows = 4096
	}
	var err error
	if c.server.AccessToken, err = parseEntra(conf); err != nil {
		return config{}, err
	}
	if c.tables, err = parseTableFilter(tables); err != nil {
		return config{}, fmt.Errorf("field %s: %w", fieldTables, err)
	}
	if c.start, err = parseStartFrom(start); err != nil {
		return config{}, fmt.Errorf("field %s: %w", fieldStartFrom, err)
	}
	if c.overrides, err = parseOverrides(conf); err != nil {
		return config{}, err
	}
	if c.run == runSnapshotOnly {
		c.streamSnapshot = true
	}
	// One for each read, one for the poll, one for the end of the next chunk.
	c.server.MaxConnections = c.parallelReads + c.snapshotParallelism + 3
	return c, c.validate()
}

// limit turns "0 is none" of the configuration into "negative is none".
func limit(n int) int64 {
	if n == 0 {
		return -1
	}
	return int64(n)
}

func (c config) validate() error {
	positive := map[string]time.Duration{
		fieldPollInterval: c.pollInterval, fieldTablesInterval: c.tablesInterval,
		fieldConnectTimeout: c.server.ConnectTimeout, fieldReadTimeout: c.server.ReadTimeout,
	}
	for name, d := range positive {
		if d <= 0 {
			return fmt.Errorf("field %s: %s is not a positive duration", name, d)
		}
	}
	if c.idleInterval < 0 {
		return fmt.Errorf("field %s: %s is negative", fieldIdleInterval, c.idleInterval)
	}
	if strings.TrimSpace(c.server.ConnectionString) == "" {
		return fmt.Errorf("field %s is empty: set it, for example from the environment: \"${MSSQL_DSN}\"", fieldConnectionString)
	}
	if c.checkpointKey == "" {
		return fmt.Errorf("field %s must not be empty", fieldCheckpointKey)
	}
	return nil
}

func parseOverrides(conf *service.ParsedConfig) ([]override, error) {
	entries, err := conf.FieldObjectList(fieldTableOverrides)
	if err != nil {
		return nil, err
	}
	var overrides []override
	for i, entry := range entries {
		o, err := parseOverride(entry)
		if err != nil {
			return nil, fmt.Errorf("field %s, entry %d: %w", fieldTableOverrides, i+1, err)
		}
		overrides = append(overrides, o)
	}
	return overrides, nil
}

func parseOverride(conf *service.ParsedConfig) (override, error) {
	f := &fields{conf: conf}
	table := take(f, conf.FieldString, overrideTable)
	o := override{
		instance: take(f, conf.FieldString, overrideInstance),
		columns: sqlserver.ColumnOptions{
			Include: take(f, conf.FieldStringList, overrideInclude),
			Exclude: take(f, conf.FieldStringList, overrideExclude),
			Types:   take(f, conf.FieldStringMap, overrideTypes),
		},
		keys:         take(f, conf.FieldStringList, overrideKeys),
		snapshotKeys: take(f, conf.FieldStringList, overrideSnapshotKeys),
	}
	start := take(f, conf.FieldString, overrideStart)
	if f.err != nil {
		return override{}, f.err
	}
	if len(o.columns.Include) > 0 && len(o.columns.Exclude) > 0 {
		return override{}, fmt.Errorf("%s and %s exclude each other", overrideInclude, overrideExclude)
	}
	var err error
	if o.pattern, err = parsePattern(table); err != nil {
		return override{}, err
	}
	if start != "" {
		parsed, err := parseStartFrom(start)
		if err != nil {
			return override{}, fmt.Errorf("%s: %w", overrideStart, err)
		}
		o.start = &parsed
	}
	return o, nil
}

// overrideFor is the first entry that matches the table; the zero override if
// none does.
func (c config) overrideFor(table mssqlcdc.TableID) override {
	for _, o := range c.overrides {
		if o.pattern.matches(table) {
			return o
		}
	}
	return override{}
}

// startFrom is where a table without a resume position starts.
type startFrom struct {
	kind startKind
	lsn  mssqlcdc.LSN
	time time.Time
}

type startKind int

const (
	startEarliest startKind = iota
	startLatest
	startLSN
	startTime
)

var errStartFrom = errors.New("want earliest, latest, an LSN (0x and up to 20 hex digits) or a time (2026-11-30T12:00:00Z)")

func parseStartFrom(text string) (startFrom, error) {
	switch text {
	case "earliest":
		return startFrom{kind: startEarliest}, nil
	case "latest":
		return startFrom{kind: startLatest}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return startFrom{kind: startTime, time: t.UTC()}, nil
	}
	// Without 0x a mistyped word such as "ead" would be a number.
	if strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X") {
		lsn, err := mssqlcdc.ParseLSN(text)
		if err == nil && !lsn.IsZero() {
			return startFrom{kind: startLSN, lsn: lsn}, nil
		}
	}
	return startFrom{}, fmt.Errorf("%q: %w", text, errStartFrom)
}
