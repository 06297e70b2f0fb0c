package silver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/schema"
)

// layout says which columns of bronze become which columns of the table.
type layout struct {
	read     []string          // columns of bronze to read: those of the order first, then the captured ones
	captured []column          // in the order of bronze
	keys     []string          // by their names in the table
	bronze   []string          // the same by their names in bronze
	inferred bool              // the keys are those of the source's unique index, so none is NULL
	wanted   *schema.Struct    // of the table
	large    map[string]bool   // columns of the table whose value CDC may leave out of images before a change
	own      []schema.Field    // columns of the table beside the captured ones
	extra    map[string]string // table properties that go with the schema
}

// column is one captured column.
type column struct{ from, to string }

// newLayout reads the schema of a version of bronze.
func newLayout(c Config, s *delta.Snapshot) (*layout, error) {
	l := &layout{own: c.own(), large: map[string]bool{}, extra: map[string]string{}}
	refuse := func(format string, args ...any) (*layout, error) {
		return nil, &ConfigError{Target: c.TargetName, Reason: fmt.Sprintf(format, args...)}
	}
	for _, name := range []string{mssqlcdc.ColStartLSN, mssqlcdc.ColSeqVal, mssqlcdc.ColOperation, mssqlcdc.ColCommitTime} {
		if _, ok := s.Schema().Field(name); !ok {
			return refuse("bronze table %s has no column %s, so it is no log of changes", c.BronzeName, name)
		}
		l.read = append(l.read, name)
	}
	for _, name := range []string{mssqlcdc.ColCommandID, mssqlcdc.ColSnapshot, mssqlcdc.ColChunk} {
		if _, ok := s.Schema().Field(name); ok {
			l.read = append(l.read, name)
		}
	}
	if err := l.takeColumns(c, s.Schema()); err != nil {
		return nil, &ConfigError{Target: c.TargetName, Reason: err.Error()}
	}
	if err := l.takeKeys(c, s); err != nil {
		return nil, &ConfigError{Target: c.TargetName, Reason: err.Error()}
	}
	if mode, ok := s.Property(delta.PropColumnMappingMode); ok {
		l.extra[delta.PropColumnMappingMode] = mode
	}
	if len(l.wanted.Fields) > statsColumns {
		l.extra[propStatsColumns] = strings.Join(l.skipping(), ",")
	}
	return l, nil
}

// Without the property, statistics are those of the first columns only, and the columns
// that merges look at come last.
const (
	statsColumns     = 32
	propStatsColumns = "delta.dataSkippingStatsColumns"
)

func (l *layout) skipping() []string {
	var names []string
	add := func(name string) {
		if len(names) < statsColumns && !slices.Contains(names, name) && !strings.ContainsAny(name, ",`. ") {
			names = append(names, name)
		}
	}
	for _, k := range l.keys {
		add(k)
	}
	for _, f := range l.own {
		add(f.Name)
	}
	for _, f := range l.wanted.Fields {
		add(f.Name)
	}
	return names
}

// takeColumns maps the captured columns.
func (l *layout) takeColumns(c Config, bronze *schema.Struct) error {
	reserved := append(mssqlcdc.ReservedColumns(), "_commit_date")
	l.wanted = &schema.Struct{}
	for _, f := range bronze.Fields {
		if slices.ContainsFunc(reserved, func(r string) bool { return strings.EqualFold(r, f.Name) }) {
			continue
		}
		to, ok := c.renamed(f.Name)
		if !ok {
			continue
		}
		if to == "" {
			return fmt.Errorf("columns.rename gives column %s an empty name", f.Name)
		}
		if l.wanted.Index(to) >= 0 || slices.ContainsFunc(l.own, func(o schema.Field) bool { return schema.SameName(o.Name, to) }) {
			return fmt.Errorf("two columns would be named %s: give one of them another name with columns.rename, or leave it out with columns.exclude", to)
		}
		l.captured = append(l.captured, column{from: f.Name, to: to})
		l.read = append(l.read, f.Name)
		l.wanted.Fields = append(l.wanted.Fields, schema.Field{Name: to, Type: f.Type, Nullable: true}.WithComment(f.Comment()))
		l.large[to] = isLarge(f.Comment())
	}
	l.wanted.Fields = append(l.wanted.Fields, l.own...)
	for _, name := range c.Exclude {
		if bronze.Index(name) < 0 {
			return fmt.Errorf("columns.exclude names %s, which bronze table %s does not have", name, c.BronzeName)
		}
	}
	for name := range c.Rename {
		if bronze.Index(name) < 0 {
			return fmt.Errorf("columns.rename names %s, which bronze table %s does not have", name, c.BronzeName)
		}
	}
	return nil
}

// isLarge tells of a source type whether change data capture leaves the value out of an
// image before a change. The comment is that of the bronze column.
func isLarge(comment string) bool {
	comment = strings.ToLower(comment)
	for _, mark := range []string{"(max)", "text", "image", "xml"} {
		if strings.Contains(comment, mark) {
			return true
		}
	}
	return false
}

// takeKeys finds the key columns.
func (l *layout) takeKeys(c Config, s *delta.Snapshot) error {
	names := c.Keys
	if len(names) == 0 {
		text, ok := s.Property(mssqlcdc.PropKeyColumns)
		if !ok {
			return fmt.Errorf("the source table has no unique index that CDC uses, as far as bronze table %s knows (property %s): name the key columns with keys", c.BronzeName, mssqlcdc.PropKeyColumns)
		}
		var err error
		if names, err = mssqlcdc.DecodeKeyColumns(text); err != nil {
			return fmt.Errorf("reading property %s of bronze table %s: %w", mssqlcdc.PropKeyColumns, c.BronzeName, err)
		}
		l.inferred = true
	}
	if len(names) == 0 {
		return errors.New("keys names no column")
	}
	for _, name := range names {
		at := slices.IndexFunc(l.captured, func(one column) bool { return strings.EqualFold(one.from, name) })
		switch {
		case at < 0 && s.Schema().Index(name) >= 0:
			return fmt.Errorf("key column %s is left out or no captured column: a key must be in the table", name)
		case at < 0:
			return fmt.Errorf("bronze table %s has no key column %s: name the columns that identify a row with keys", c.BronzeName, name)
		case slices.Contains(l.bronze, l.captured[at].from):
			return fmt.Errorf("key column %s is named twice", name)
		}
		f, _ := s.Schema().Field(name)
		if later := wentOn(s.Schema(), f.Name); later != "" {
			return fmt.Errorf("key column %s changed its type, and its values are in column %s since: two columns are no key; give the source column its type back and build bronze and this table anew, or leave keys to a column that stays", f.Name, later)
		}
		switch f.Type.(type) {
		case *schema.Array, *schema.Map, *schema.Struct:
			return fmt.Errorf("key column %s is of type %s, which cannot be compared", name, f.Type)
		}
		l.bronze = append(l.bronze, l.captured[at].from)
		l.keys = append(l.keys, l.captured[at].to)
	}
	return nil
}

// wentOn is the column in which bronze has the later values of a column, "" if there is none.
func wentOn(bronze *schema.Struct, name string) string {
	for _, f := range bronze.Fields {
		if source, ok := f.Metadata[mssqlcdc.MetaSourceColumn].(string); ok && strings.EqualFold(source, name) && !strings.EqualFold(f.Name, name) {
			return f.Name
		}
	}
	return ""
}

// project is the captured columns of rows of bronze by their names in the table. The
// caller releases it.
func (l *layout) project(rec arrow.RecordBatch, more []arrow.Field, arrays []arrow.Array) arrow.RecordBatch {
	fields := make([]arrow.Field, 0, len(l.captured)+len(more))
	columns := make([]arrow.Array, 0, len(l.captured)+len(more))
	for _, c := range l.captured {
		at := columnOf(rec.Schema(), c.from)
		fields = append(fields, arrow.Field{Name: c.to, Type: rec.Column(at).DataType(), Nullable: true})
		columns = append(columns, rec.Column(at))
	}
	return array.NewRecordBatch(arrow.NewSchema(append(fields, more...), nil), append(columns, arrays...), rec.NumRows())
}

// columnOf is the index of a column by name, ignoring case, -1 if there is none.
func columnOf(s *arrow.Schema, name string) int {
	return slices.IndexFunc(s.Fields(), func(f arrow.Field) bool { return schema.SameName(f.Name, name) })
}
