package output

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redpanda-data/benthos/v4/public/service"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// job is what is written at one go: one record batch, or the rows of one table
// and batch key.
type job struct {
	destination
	indexes  []int // of the messages
	messages service.MessageBatch

	record *mssqlcdc.RecordBatch // nil for rows
	rows   []map[string]any
	key    *int64 // batch key of the rows, nil for none
}

// destination is the table that a message goes to, and who writes it.
type destination struct{ path, appID string }

// failures are the errors of a batch by message.
type failures struct {
	byIndex map[int]error
	byTable map[destination]error
}

func (f *failures) fail(index int, err error) { f.byIndex[index] = err }

func (f *failures) add(j job, err error) {
	var rows rowErrors
	if errors.As(err, &rows) {
		for at, rowErr := range rows {
			f.byIndex[j.indexes[at]] = rowErr
		}
		return
	}
	for _, index := range j.indexes {
		f.byIndex[index] = err
	}
	f.byTable[j.destination] = err
}

// before is the error of an earlier message of the same table.
func (f *failures) before(j job) error {
	if err, ok := f.byTable[j.destination]; ok {
		return fmt.Errorf("an earlier message of table %s was not written: %w", j.path, err)
	}
	return nil
}

// error is what WriteBatch returns: the messages that failed, and only they.
func (f *failures) error(batch service.MessageBatch) error {
	if len(f.byIndex) == 0 {
		return nil
	}
	var first error
	for i := range batch {
		if first = f.byIndex[i]; first != nil {
			break
		}
	}
	if len(f.byIndex) == len(batch) && len(batch) == 1 {
		return first
	}
	failed := service.NewBatchError(batch, first)
	for i, err := range f.byIndex {
		failed = failed.Failed(i, err)
	}
	return failed
}

// sort makes the jobs of a batch: record batches one by one, rows together by
// table and batch key, in the order of their first message.
func (o *deltaOutput) sort(batch service.MessageBatch) ([]job, *failures) {
	failed := &failures{byIndex: map[int]error{}, byTable: map[destination]error{}}
	names := o.namesOf(batch)
	var jobs []job
	together := map[group]int{} // index of the job that rows join
	for i, m := range batch {
		record, row, err := o.body(m)
		if err != nil {
			failed.fail(i, err)
			continue
		}
		to, err := names.group(i, record != nil)
		if err != nil {
			failed.fail(i, err)
			continue
		}
		at, known := together[to]
		if !known || record != nil {
			at = len(jobs)
			jobs = append(jobs, job{destination: to.destination, record: record})
		}
		j := &jobs[at]
		j.indexes, j.messages = append(j.indexes, i), append(j.messages, m)
		if record != nil {
			continue
		}
		together[to] = at
		j.rows = append(j.rows, row)
		if to.keyed && j.key == nil {
			key := to.key
			j.key = &key
		}
	}
	return jobs, failed
}

// group is what rows of one commit have in common.
type group struct {
	destination
	keyed bool
	key   int64
}

// names evaluates the fields with interpolations for the messages of one batch.
type names struct {
	path, appID name
	batchKey    *service.MessageBatchInterpolationExecutor // nil for none
}

// name is the value of a field, which most configurations give without interpolation.
type name struct {
	static string
	each   *service.MessageBatchInterpolationExecutor // nil: static
}

func nameOf(batch service.MessageBatch, field *service.InterpolatedString) name {
	if static, ok := field.Static(); ok {
		return name{static: static}
	}
	return name{each: batch.InterpolationExecutor(field)}
}

func (n name) of(i int) (string, error) {
	if n.each == nil {
		return n.static, nil
	}
	return n.each.TryString(i)
}

func (o *deltaOutput) namesOf(batch service.MessageBatch) names {
	n := names{path: nameOf(batch, o.cfg.path), appID: nameOf(batch, o.cfg.appID)}
	if o.cfg.batchKey != nil {
		n.batchKey = batch.InterpolationExecutor(o.cfg.batchKey)
	}
	return n
}

// group says where message i goes. Record batches have no batch key: they know what they
// are.
func (n names) group(i int, record bool) (g group, err error) {
	if g.path, err = n.path.of(i); err != nil {
		return group{}, fmt.Errorf("path: %w", err)
	}
	if g.path == "" {
		return group{}, errors.New("path is empty for this message")
	}
	if g.appID, err = n.appID.of(i); err != nil {
		return group{}, fmt.Errorf("app_id: %w", err)
	}
	switch {
	case record && g.appID == "":
		return group{}, errors.New("record batches need the field app_id: a name for this writer that stays the same for the life of the table, for example app_id: orders-pipeline")
	case !record && n.batchKey != nil:
		g.keyed = true
		g.key, err = n.key(i)
	}
	return g, err
}

func (n names) key(i int) (int64, error) {
	text, err := n.batchKey.TryString(i)
	if err != nil {
		return 0, fmt.Errorf("batch_key: %w", err)
	}
	key, err := strconv.ParseInt(text, 10, 64)
	if err != nil || key < 0 {
		return 0, fmt.Errorf("batch_key is %q: want a whole number from 0 on", text)
	}
	return key, nil
}

// body says what a message is. Bloblang takes a body that it does not know for
// null, so a message whose record batch got lost must be recognised here.
func (o *deltaOutput) body(m *service.Message) (*mssqlcdc.RecordBatch, map[string]any, error) {
	if err := m.GetError(); err != nil {
		return nil, nil, fmt.Errorf("the message failed before it came to delta_lake: %w", err)
	}
	value, err := m.AsStructured()
	if err != nil {
		return nil, nil, fmt.Errorf("the message is no object: %w", err)
	}
	format, _ := m.MetaGet(mssqlcdc.MetaFormat)
	switch body := value.(type) {
	case *mssqlcdc.RecordBatch:
		if body == nil {
			return nil, nil, errors.New("the message holds no record batch")
		}
		return body, nil, nil
	case []any:
		if slices.ContainsFunc(body, isRecordBatch) {
			return nil, nil, errors.New("the message is a list of record batches, which archive makes: send each by itself")
		}
		if format == mssqlcdc.FormatRecordBatch {
			return nil, nil, o.fatal(replaced(value))
		}
		return nil, nil, errors.New("the message is a list, want an object: split it with unarchive (format json_array)")
	case map[string]any:
		switch {
		case format == mssqlcdc.FormatRecordBatch:
			return nil, nil, o.fatal(replaced(value))
		case format == mssqlcdc.FormatRows && !o.cfg.atLeastOnce:
			// Trying again cannot help: every message of this configuration is like it.
			return nil, nil, o.fatal(errors.New("changes of mssql_cdc came in format: rows, which cannot be written exactly once: " +
				"set format: record_batch on the input (and wrap row processors in each_row), or accept doubled rows after a restart with delivery: at_least_once"))
		}
		return nil, body, nil
	}
	if format == mssqlcdc.FormatRecordBatch {
		return nil, nil, o.fatal(replaced(value))
	}
	return nil, nil, fmt.Errorf("the message is a %T, want an object", value)
}

func isRecordBatch(v any) bool {
	_, ok := v.(*mssqlcdc.RecordBatch)
	return ok
}

func replaced(value any) error {
	return fmt.Errorf("the message's metadata says record batch, but its body is a %T: a processor that works on rows replaced it; "+
		"wrap that in each_row, or read format: rows", value)
}
