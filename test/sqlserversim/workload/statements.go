package workload

import (
	"fmt"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// insert writes an INSERT and notes its change row.
func (o *Orders) insert(table, key string, columns []string, row sqltype.Row) {
	texts := make([]string, len(row))
	for i, v := range row {
		texts[i] = Literal(v)
	}
	fmt.Fprintf(&o.batch, "INSERT INTO %s (%s) VALUES (%s);\n", table, strings.Join(columns, ", "), strings.Join(texts, ", "))
	o.rec.note(table, 2, key, row)
}

// update writes an UPDATE of the columns that differ and notes the two images. A (max) column that did not change is NULL in the before
// image, as CDC records it.
func (o *Orders) update(table, key string, columns []string, keyColumns int, old, next sqltype.Row) {
	set, before := o.assignments(table, columns, old, next)
	if len(set) == 0 {
		return
	}
	fmt.Fprintf(&o.batch, "UPDATE %s SET %s WHERE %s;\n", table, strings.Join(set, ", "), where(columns, old, keyColumns))
	o.rec.note(table, 3, key, before)
	o.rec.note(table, 4, key, next)
}

func (o *Orders) assignments(table string, columns []string, old, next sqltype.Row) (set []string, before sqltype.Row) {
	before = append(before, old...)
	for i := range columns {
		if same(old[i], next[i]) {
			if table == o.linesTable() && i == lineComment {
				before[i] = sqltype.Null()
			}
			continue
		}
		set = append(set, columns[i]+" = "+Literal(next[i]))
	}
	return set, before
}

// moveKey writes an UPDATE of the key: a delete and an insert in the change table.
func (o *Orders) moveKey(table string, columns []string, keyColumns int, old, next sqltype.Row, from, to string) {
	set, _ := o.assignments(table, columns, old, next)
	fmt.Fprintf(&o.batch, "UPDATE %s SET %s WHERE %s;\n", table, strings.Join(set, ", "), where(columns, old, keyColumns))
	o.rec.note(table, 1, from, old)
	o.rec.note(table, 2, to, next)
}

func (o *Orders) delete(table, key string, columns []string, keyColumns int) {
	old := o.rec.row(table, key)
	fmt.Fprintf(&o.batch, "DELETE FROM %s WHERE %s;\n", table, where(columns, old, keyColumns))
	o.rec.note(table, 1, key, old)
}

func where(columns []string, row sqltype.Row, keyColumns int) string {
	var parts []string
	for i := range keyColumns {
		parts = append(parts, columns[i]+" = "+Literal(row[i]))
	}
	return strings.Join(parts, " AND ")
}

// same tells whether two values are the same to CDC: equal bytes, or both NULL.
func same(a, b sqltype.Value) bool {
	if a.IsNull() || b.IsNull() {
		return a.IsNull() == b.IsNull()
	}
	return Text(a) == Text(b)
}

// Text gives a value exactly: money with its four digits, everything else as it prints.
func Text(v sqltype.Value) string {
	if !v.Kind().IsMoney() {
		return v.String()
	}
	sign, units := "", v.Int64()
	if units < 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s%d.%04d", sign, abs(units/10_000), abs(units%10_000))
}

func abs(n int64) int64 { return max(n, -n) }

// Literal writes a value as a T-SQL literal.
func Literal(v sqltype.Value) string {
	switch k := v.Kind(); {
	case k == sqltype.KindNull:
		return "NULL"
	case k == sqltype.KindBit, k.IsInteger(), k == sqltype.KindDecimal:
		return v.String()
	case k.IsMoney(), k.IsFloat():
		return Text(v)
	case k.IsUnicode():
		return "N" + quoteText(v.Str())
	case k.IsText():
		return quoteText(v.Str())
	case k.IsBinary():
		return "0x" + fmt.Sprintf("%X", v.Str())
	}
	return "'" + v.String() + "'"
}

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
