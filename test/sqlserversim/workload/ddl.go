package workload

import (
	"context"
	"fmt"
	"strings"
)

// DDL writes to dbo.changing while its columns change: columns come, grow and go, and from time to time a new capture instance takes the
// place of the oldest. Every fifth step changes the table, the others its rows. It is not safe for concurrent use.
type DDL struct {
	db        Execer
	step      int
	columns   int      // extra columns so far
	present   []string // of them, those that are still there
	width     int      // of name
	instances []string // oldest first, two at most
	made      int
}

// NewDDL makes dbo.changing (id int key, name varchar(20)) with the capture instance dbo_changing.
func NewDDL(ctx context.Context, db Execer) (*DDL, error) {
	d := &DDL{db: db, width: 20, instances: []string{"dbo_changing"}, made: 1}
	ddl := "CREATE TABLE dbo.changing (id int NOT NULL PRIMARY KEY, name varchar(20) NULL);\n" + enableSQL("dbo", "", "changing")
	if err := db.Exec(ctx, ddl); err != nil {
		return nil, fmt.Errorf("creating the DDL workload: %w", err)
	}
	return d, nil
}

// Step makes one transaction or one change of the table.
func (d *DDL) Step(ctx context.Context) error {
	d.step++
	for _, batch := range d.next() {
		if err := d.db.Exec(ctx, batch); err != nil {
			return fmt.Errorf("changing dbo.changing in step %d: %w", d.step, err)
		}
	}
	return nil
}

// Run makes n steps.
func (d *DDL) Run(ctx context.Context, n int) error {
	for range n {
		if err := d.Step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *DDL) next() []string {
	if d.step%5 != 0 {
		return []string{d.rows()}
	}
	switch d.step / 5 % 5 {
	case 1:
		d.columns++
		name := fmt.Sprintf("extra_%d", d.columns)
		d.present = append(d.present, name)
		return []string{fmt.Sprintf("ALTER TABLE dbo.changing ADD %s %s NULL", name, []string{"int", "nvarchar(30)", "decimal(9,2)"}[d.columns%3])}
	case 2, 4:
		return d.newInstance()
	case 3:
		d.width += 10
		return []string{fmt.Sprintf("ALTER TABLE dbo.changing ALTER COLUMN name varchar(%d) NULL", d.width)}
	}
	if len(d.present) < 2 {
		return []string{d.rows()}
	}
	gone := d.present[0]
	d.present = d.present[1:]
	return []string{"ALTER TABLE dbo.changing DROP COLUMN " + gone}
}

func (d *DDL) newInstance() []string {
	var batches []string
	if len(d.instances) == 2 {
		batches = append(batches, fmt.Sprintf("EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'changing', @capture_instance = N'%s'", d.instances[0]))
		d.instances = d.instances[1:]
	}
	d.made++
	name := fmt.Sprintf("dbo_changing_%d", d.made)
	d.instances = append(d.instances, name)
	return append(batches, fmt.Sprintf("EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'changing', @role_name = NULL, @capture_instance = N'%s'", name))
}

// rows inserts, updates and deletes in one transaction.
func (d *DDL) rows() string {
	names, values := []string{"id", "name"}, []string{fmt.Sprint(d.step), fmt.Sprintf("'row %d'", d.step)}
	for _, c := range d.present {
		names, values = append(names, c), append(values, fmt.Sprint(d.step))
	}
	sql := fmt.Sprintf("SET XACT_ABORT ON; BEGIN TRANSACTION;\nINSERT dbo.changing (%s) VALUES (%s);\n", strings.Join(names, ", "), strings.Join(values, ", "))
	if len(d.present) > 0 {
		sql += fmt.Sprintf("UPDATE dbo.changing SET %s = %d WHERE id %% 7 = %d;\n", d.present[len(d.present)-1], d.step, d.step%7)
	}
	return sql + fmt.Sprintf("DELETE dbo.changing WHERE id < %d AND id %% 2 = 0;\nCOMMIT TRANSACTION;", d.step-20)
}
