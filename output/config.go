package output

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/bronze"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/data"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/rows"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/storage"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/target"
)

// config is the parsed config.
type config struct {
	path, appID    *service.InterpolatedString
	batchKey       *service.InterpolatedString // nil for none
	factsPath      string                      // "" for none
	factsInterval  time.Duration
	idleInterval   time.Duration
	afterCommit    []*service.OwnedProcessor
	partitionBy    []string
	tableComment   string
	columnComments map[string]string
	properties     map[string]string
	writer         data.WriterOptions
	schema         *schema.Struct // nil to infer
	atLeastOnce    bool
	adopt          bronze.Adoption // without Find
	evolve         bool
	onTypeChange   target.OnTypeChange
	columnMapping  target.ColumnMapping
	commitTimeout  time.Duration
	maxOpenTables  int
	batching       service.BatchPolicy
	stores         *store.Registry
}

// reader reads fields and keeps the first error.
type reader struct {
	conf *service.ParsedConfig
	err  error
}

func field[T any](r *reader, get func(path ...string) (T, error), path ...string) T {
	v, err := get(path...)
	if err != nil && r.err == nil {
		r.err = err
	}
	return v
}

// option reads a field that is one of several words, which the engine accepts in any
// letter case.
func option(r *reader, conf *service.ParsedConfig, path ...string) string {
	return strings.ToLower(field(r, conf.FieldString, path...))
}

func parseConfig(conf *service.ParsedConfig) (config, error) {
	r := &reader{conf: conf}
	c := config{
		path:           field(r, conf.FieldInterpolatedString, doFieldPath),
		appID:          field(r, conf.FieldInterpolatedString, doFieldAppID),
		factsPath:      field(r, conf.FieldString, doFieldFactsPath),
		factsInterval:  field(r, conf.FieldDuration, doFieldFactsInterval),
		idleInterval:   field(r, conf.FieldDuration, doFieldIdleFactsInterval),
		afterCommit:    field(r, conf.FieldProcessorList, doFieldAfterCommit),
		partitionBy:    field(r, conf.FieldStringList, doFieldPartitionBy),
		tableComment:   field(r, conf.FieldString, doFieldTableComment),
		columnComments: field(r, conf.FieldStringMap, doFieldColumnComments),
		properties:     field(r, conf.FieldStringMap, doFieldTableProperties),
		writer: data.WriterOptions{
			Compression:     data.Compression(option(r, conf, doFieldParquet, doFieldCompression)),
			Encodings:       data.Encodings(option(r, conf, doFieldParquet, doFieldEncodings)),
			RowGroupRows:    int64(field(r, conf.FieldInt, doFieldParquet, doFieldRowGroupRows)),
			RowGroupBytes:   int64(field(r, conf.FieldInt, doFieldParquet, doFieldRowGroupBytes)),
			TargetFileBytes: int64(field(r, conf.FieldInt, doFieldParquet, doFieldTargetFileBytes)),
		},
		atLeastOnce:   option(r, conf, doFieldDelivery) == deliveryAtLeastOnce,
		evolve:        field(r, conf.FieldBool, doFieldSchemaEvolution, doFieldEnabled),
		onTypeChange:  target.OnTypeChange(option(r, conf, doFieldOnTypeChange)),
		columnMapping: target.ColumnMapping(option(r, conf, doFieldColumnMapping)),
		commitTimeout: field(r, conf.FieldDuration, doFieldCommitTimeout),
		maxOpenTables: field(r, conf.FieldInt, doFieldMaxOpenTables),
		batching:      field(r, conf.FieldBatchPolicy, doFieldBatching),
	}
	if conf.Contains(doFieldBatchKey) {
		c.batchKey = field(r, conf.FieldInterpolatedString, doFieldBatchKey)
	}
	if r.err != nil {
		return config{}, r.err
	}
	var err error
	if c.schema, err = parseSchema(conf); err != nil {
		return config{}, err
	}
	if c.stores, err = storage.Registry(conf); err != nil {
		return config{}, err
	}
	if c.adopt, err = parseAdopt(field(r, conf.FieldString, doFieldAdopt)); err != nil {
		return config{}, err
	}
	return c, errors.Join(r.err, c.check(field(r, conf.FieldInt, doFieldMaxInFlight)))
}

// check is the flat list of what no single field can say. The lint rules of the
// spec say the same where they can.
func (c *config) check(maxInFlight int) error {
	static, isStatic := c.path.Static()
	appID, appStatic := c.appID.Static()
	switch {
	case isStatic && static == "":
		return errors.New("path must not be empty: give the folder or URI of the table")
	case maxInFlight != 1:
		return fmt.Errorf("max_in_flight is %d: the order of changes needs 1", maxInFlight)
	case c.batching.ByteSize > 0:
		return errors.New("batching.byte_size writes every message as JSON only to weigh it: use batching.count and batching.period")
	case c.batching.Period == "" && (c.batching.Count > 1 || c.batching.Check != ""):
		return errors.New("batching without a period never writes the last messages of an input that ends: set batching.period beside count or check")
	case c.batchKey != nil && appStatic && appID == "":
		return errors.New("batch_key needs app_id, which names the writer that the keys belong to")
	case c.adopt.Mode == bronze.AdoptFound && c.factsPath == "":
		return errors.New("adopt: facts needs facts_path, the facts table of the pipeline that is taken over")
	case !c.evolve && c.onTypeChange != target.Fail:
		return fmt.Errorf("on_type_change: %s changes the table, and schema_evolution.enabled is false: allow it, or set on_type_change to fail", c.onTypeChange)
	case c.factsInterval <= 0:
		return fmt.Errorf("facts_interval is %s: it must be positive", c.factsInterval)
	case c.maxOpenTables < 1:
		return fmt.Errorf("max_open_tables is %d: it must be at least 1", c.maxOpenTables)
	case c.commitTimeout <= 0:
		return fmt.Errorf("commit_timeout is %s: it must be positive", c.commitTimeout)
	case c.writer.RowGroupRows < 1 || c.writer.RowGroupBytes < 1 || c.writer.TargetFileBytes < 1:
		return errors.New("parquet.row_group_rows, row_group_bytes and target_file_bytes must be at least 1")
	}
	for _, name := range c.partitionBy {
		if regexp.MustCompile(`[()]`).MatchString(name) && name != bronze.ByCommitDate {
			return fmt.Errorf("partition_by has %q: want the name of a column or %s", name, bronze.ByCommitDate)
		}
	}
	return nil
}

func parseAdopt(text string) (bronze.Adoption, error) {
	switch text {
	case adoptRefuse:
		return bronze.Adoption{Mode: bronze.AdoptRefuse}, nil
	case adoptFacts:
		return bronze.Adoption{Mode: bronze.AdoptFound}, nil
	}
	lsn, err := mssqlcdc.ParseLSN(text)
	if err != nil {
		return bronze.Adoption{}, fmt.Errorf("adopt is %q: want refuse, facts, or the LSN up to which the table holds every change", text)
	}
	return bronze.Adoption{Mode: bronze.AdoptAt, LSN: lsn}, nil
}

// parseSchema is the declared schema, nil if there is none.
func parseSchema(conf *service.ParsedConfig) (*schema.Struct, error) {
	columns, err := conf.FieldObjectList(doFieldSchema)
	if err != nil {
		return nil, err
	}
	if len(columns) == 0 {
		return nil, nil
	}
	s := &schema.Struct{}
	for _, column := range columns {
		r := &reader{conf: column}
		f := schema.Field{
			Name:     field(r, column.FieldString, doFieldName),
			Nullable: field(r, column.FieldBool, doFieldNullable),
		}
		typ := field(r, column.FieldString, doFieldType)
		comment := field(r, column.FieldString, doFieldComment)
		if r.err != nil {
			return nil, r.err
		}
		if f.Type, err = rows.ParseType(typ); err != nil {
			return nil, fmt.Errorf("schema: column %q: %w", f.Name, err)
		}
		s.Fields = append(s.Fields, f.WithComment(comment))
	}
	// Whether the table takes the names is decided by column_mapping.
	if err := schema.MapByName.ValidateNames(s); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}
