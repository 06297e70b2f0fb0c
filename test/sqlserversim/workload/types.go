package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// TypeColumn is a column of dbo.all_types with the literals that its rows hold.
type TypeColumn struct {
	Name, Type string
	Min, Max   string   // T-SQL expressions
	Nasty      []string // more of them, one per further row
}

// TypeColumns lists every type that a reader of CDC meets, but for the CLR types and sql_variant, which CDC readers refuse. Min and Max
// are the ends of the type's range where it has them; Nasty holds what tends to break decoders: signs, roundings, empty values,
// surrogate pairs, code page limits, chunk borders.
func TypeColumns() []TypeColumn {
	repeat := func(text, n string) string { return "REPLICATE(CAST(" + text + " AS nvarchar(max)), " + n + ")" }
	return []TypeColumn{
		{"c_bit", "bit", "0", "1", nil},
		{"c_tinyint", "tinyint", "0", "255", []string{"128"}},
		{"c_smallint", "smallint", "-32768", "32767", []string{"-1"}},
		{"c_int", "int", "-2147483648", "2147483647", []string{"-1", "0"}},
		{"c_bigint", "bigint", "-9223372036854775808", "9223372036854775807", []string{"-1", "4294967296"}},
		{"c_real", "real", "-3.4028235e38", "3.4028235e38", []string{"1.1754944e-38", "0.1"}},
		{"c_float", "float", "-1.7976931348623157e308", "1.7976931348623157e308", []string{"2.2250738585072014e-308", "0.1"}},
		{"c_decimal_9_2", "decimal(9,2)", "-9999999.99", "9999999.99", []string{"-0.01", "0.00"}},
		{"c_decimal_18_4", "decimal(18,4)", "-99999999999999.9999", "99999999999999.9999", []string{"0.0001"}},
		{"c_decimal_28_8", "decimal(28,8)", "-99999999999999999999.99999999", "99999999999999999999.99999999", []string{"18446744073.70955161"}},
		{"c_decimal_38_10", "decimal(38,10)", "-9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999", []string{"1844674407370955161.6"}},
		{"c_decimal_38_0", "decimal(38,0)", "-99999999999999999999999999999999999999", "99999999999999999999999999999999999999", []string{"18446744073709551616"}},
		{"c_numeric_5_5", "numeric(5,5)", "-0.99999", "0.99999", []string{"0.00001"}},
		{"c_money", "money", "-922337203685477.5808", "922337203685477.5807", []string{"-0.0001", "429496.7296"}},
		{"c_smallmoney", "smallmoney", "-214748.3648", "214748.3647", []string{"-0.0001"}},
		{"c_date", "date", "'0001-01-01'", "'9999-12-31'", []string{"'1969-12-31'", "'2024-02-29'"}},
		{"c_time_0", "time(0)", "'00:00:00'", "'23:59:59'", nil},
		{"c_time_7", "time(7)", "'00:00:00.0000000'", "'23:59:59.9999999'", []string{"'12:34:56.0000001'"}},
		{"c_datetime2_0", "datetime2(0)", "'0001-01-01 00:00:00'", "'9999-12-31 23:59:59'", nil},
		{"c_datetime2_3", "datetime2(3)", "'0001-01-01 00:00:00.000'", "'9999-12-31 23:59:59.999'", []string{"'1969-12-31 23:59:59.999'"}},
		{"c_datetime2_7", "datetime2(7)", "'0001-01-01 00:00:00.0000000'", "'9999-12-31 23:59:59.9999999'", []string{"'2026-03-29 02:30:00.1234567'"}},
		{"c_datetimeoffset_3", "datetimeoffset(3)", "'0001-01-01 00:00:00.000 +00:00'", "'9999-12-31 23:59:59.999 +00:00'", []string{"'2026-06-01 12:00:00.001 -05:30'"}},
		{"c_datetimeoffset_7", "datetimeoffset(7)", "'0001-01-01 14:00:00.0000000 +14:00'", "'9999-12-31 09:59:59.9999999 -14:00'", []string{"'2026-10-25 02:30:00.1234567 +02:00'"}},
		{"c_datetime", "datetime", "'1753-01-01 00:00:00.000'", "'9999-12-31 23:59:59.997'", []string{"'1899-12-31 23:59:59.993'", "'2026-01-01 00:00:00.003'"}},
		{"c_smalldatetime", "smalldatetime", "'1900-01-01 00:00'", "'2079-06-06 23:59'", []string{"'2026-01-01 12:34:31'"}},
		{"c_char", "char(10)", "''", "'ÄÖÜ€abcdef'", []string{"'x'"}},
		{"c_varchar", "varchar(100)", "''", "REPLICATE('ß', 100)", []string{"'trailing blank '"}},
		{"c_varchar_max", "varchar(max)", "''", "REPLICATE(CAST('0123456789' AS varchar(max)), 2000)", []string{"'a'"}},
		{"c_nchar", "nchar(10)", "N''", "N'東京タワー🗼abc'", nil},
		{"c_nvarchar", "nvarchar(100)", "N''", "REPLICATE(N'🏭', 50)", []string{"N'tab\tquote''end'"}},
		{"c_nvarchar_max", "nvarchar(max)", "N''", repeat("N'Ω≈ç√'", "1500"), []string{"N'a'"}},
		{"c_binary", "binary(8)", "0x", "0xFFFFFFFFFFFFFFFF", []string{"0x0100"}},
		{"c_varbinary", "varbinary(100)", "0x", "CAST(REPLICATE(CHAR(255), 100) AS varbinary(100))", []string{"0x00"}},
		{"c_varbinary_max", "varbinary(max)", "0x", "CAST(REPLICATE(CAST('0123456789' AS varchar(max)), 1000) AS varbinary(max))", []string{"0x00"}},
		{"c_uniqueidentifier", "uniqueidentifier", "'00000000-0000-0000-0000-000000000000'", "'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'", []string{"'01234567-89AB-CDEF-0123-456789ABCDEF'"}},
		{"c_xml", "xml", "N''", "N'<a b=\"1\">é</a>'", nil},
		{"c_text", "text", "''", "REPLICATE(CAST('text ' AS varchar(max)), 400)", nil},
		{"c_ntext", "ntext", "N''", repeat("N'ñtext '", "400"), nil},
		{"c_image", "image", "0x", "CAST(REPLICATE(CAST('img' AS varchar(max)), 400) AS varbinary(max))", nil},
	}
}

// TypesTruth says what NewTypes wrote.
type TypesTruth struct {
	Table   string
	Rows    int // rows present at the end
	Changes int // change rows caused
}

// WriteTypes makes dbo.all_types (id int key, TypeColumns, a rowversion and a computed column), enables CDC for it, and writes: a row of
// NULLs, one of each type's minima, one of maxima, one row per further nasty value; then it updates every row's c_int, deletes the row
// of NULLs and puts it back.
func WriteTypes(ctx context.Context, db Execer) (TypesTruth, error) {
	truth := TypesTruth{Table: "dbo.all_types"}
	columns := TypeColumns()
	var ddl strings.Builder
	ddl.WriteString("CREATE TABLE dbo.all_types (id int NOT NULL PRIMARY KEY")
	for _, c := range columns {
		fmt.Fprintf(&ddl, ", %s %s NULL", c.Name, c.Type)
	}
	ddl.WriteString(", c_rowversion rowversion, c_computed AS (id * 2));\n")
	ddl.WriteString(enableSQL("dbo", "", "all_types"))
	batches := []string{ddl.String()}
	rows := typeRows(columns)
	for id, row := range rows {
		batches = append(batches, insertTypes(id, columns, row))
	}
	truth.Changes = len(rows)
	batches = append(batches, "UPDATE dbo.all_types SET c_int = COALESCE(c_int / 2, 7) + 1;", "DELETE FROM dbo.all_types WHERE id = 0;",
		insertTypes(0, columns, rows[0]))
	truth.Changes += 2*len(rows) + 2
	truth.Rows = len(rows)
	for _, b := range batches {
		if err := db.Exec(ctx, b); err != nil {
			return truth, fmt.Errorf("writing the types workload: %w (batch: %.200s)", err, b)
		}
	}
	return truth, nil
}

// typeRows gives the expressions of each row.
func typeRows(columns []TypeColumn) [][]string {
	most := 0
	for _, c := range columns {
		most = max(most, len(c.Nasty))
	}
	rows := [][]string{slices.Repeat([]string{"NULL"}, len(columns)), nil, nil}
	for _, c := range columns {
		rows[1] = append(rows[1], c.Min)
		rows[2] = append(rows[2], c.Max)
	}
	for n := range most {
		var row []string
		for _, c := range columns {
			if n < len(c.Nasty) {
				row = append(row, c.Nasty[n])
			} else {
				row = append(row, "NULL")
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func insertTypes(id int, columns []TypeColumn, row []string) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return fmt.Sprintf("INSERT INTO dbo.all_types (id, %s) VALUES (%d, %s);", strings.Join(names, ", "), id, strings.Join(row, ", "))
}
