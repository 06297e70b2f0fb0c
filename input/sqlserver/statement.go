package sqlserver

import (
	"database/sql"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// readShape is the statement that reads change rows, without its parameters, and the shape of its result: the columns of
// a record in order, the commit time still by the server's clock, the command id left out where the table has none.
type readShape struct {
	text    string
	columns []fetch.Column
	schema  *arrow.Schema
}

// shape builds the statement of a layout. The text depends on the instance and its columns only. FAST keeps the server
// to a plan that follows the clustered index: without it, a wide range can look cheaper to join by hashing and to sort.
func (l Layout) shape() readShape {
	position := mssqlcdc.PositionColumns(l.HasCommandID)
	selected := []string{"c.[__$start_lsn]", "c.[__$seqval]", "c.[__$operation]"}
	columns := []fetch.Column{{Kind: fetch.LSN}, {Kind: fetch.LSN}, {Kind: fetch.Int32}}
	if l.HasCommandID {
		selected, columns = append(selected, "c.[__$command_id]"), append(columns, fetch.Column{Kind: fetch.Int32})
	}
	selected, columns = append(selected, "m.[tran_end_time]"), append(columns, fetch.Column{Kind: fetch.Timestamp})
	for _, f := range l.fields {
		selected, columns = append(selected, f.expression), append(columns, f.column)
	}
	order := make([]string, len(position))
	for i, column := range position {
		order[i] = "c." + mssqlcdc.QuoteName(column)
	}
	text := fmt.Sprintf(`SELECT %s
FROM %s AS c LEFT JOIN cdc.lsn_time_mapping AS m ON m.start_lsn = c.[__$start_lsn]
WHERE c.[__$start_lsn] >= @from AND c.[__$start_lsn] <= @to
ORDER BY %s
OPTION (FAST 1000)`, strings.Join(selected, ", "), changeTable(l.Instance.Name), strings.Join(order, ", "))

	fields := l.Schema().Fields()
	if !l.HasCommandID {
		fields = append(fields[:mssqlcdc.IdxCommandID:mssqlcdc.IdxCommandID], fields[mssqlcdc.IdxCommandID+1:]...)
	}
	schema := arrow.NewSchema(fields, nil)
	for i := range columns {
		columns[i].Name = schema.Field(i).Name
	}
	return readShape{text: text, columns: columns, schema: schema}
}

// statement is the shape with a closed range of commit LSNs.
func (s readShape) statement(from, to mssqlcdc.LSN, limits Limits) fetch.Statement {
	return fetch.Statement{
		Text:    s.text,
		Args:    []sql.NamedArg{lsnArg("from", from), lsnArg("to", to)},
		Columns: s.columns, Schema: s.schema,
		MaxRows: limits.PartRows, MaxBytes: limits.PartBytes,
	}
}
