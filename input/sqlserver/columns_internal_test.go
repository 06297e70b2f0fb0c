package sqlserver

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// row is a row of sp_cdc_get_captured_columns.
func capturedRow(dataType string, length, precision, scale, digits any) record {
	return record{
		"data_type": dataType, "character_maximum_length": length, "numeric_precision": precision,
		"numeric_scale": scale, "datetime_precision": digits,
	}
}

func TestTypes(t *testing.T) {
	t.Parallel()
	micros := &arrow.TimestampType{Unit: arrow.Microsecond}
	cases := []struct {
		row      record
		declared string
		want     arrow.DataType // nil: not supported
	}{
		{capturedRow("bit", nil, nil, nil, nil), "bit", arrow.FixedWidthTypes.Boolean},
		{capturedRow("tinyint", nil, int64(3), int64(0), nil), "tinyint", arrow.PrimitiveTypes.Int16},
		{capturedRow("smallint", nil, int64(5), int64(0), nil), "smallint", arrow.PrimitiveTypes.Int16},
		{capturedRow("int", nil, int64(10), int64(0), nil), "int", arrow.PrimitiveTypes.Int32},
		{capturedRow("bigint", nil, int64(19), int64(0), nil), "bigint", arrow.PrimitiveTypes.Int64},
		{capturedRow("real", nil, int64(24), nil, nil), "real", arrow.PrimitiveTypes.Float32},
		{capturedRow("float", nil, int64(53), nil, nil), "float", arrow.PrimitiveTypes.Float64},
		{capturedRow("decimal", nil, int64(38), int64(38), nil), "decimal(38,38)", &arrow.Decimal128Type{Precision: 38, Scale: 38}},
		{capturedRow("numeric", nil, int64(9), int64(2), nil), "numeric(9,2)", &arrow.Decimal128Type{Precision: 9, Scale: 2}},
		{capturedRow("money", nil, int64(19), int64(4), nil), "money", &arrow.Decimal128Type{Precision: 19, Scale: 4}},
		{capturedRow("smallmoney", nil, int64(10), int64(4), nil), "smallmoney", &arrow.Decimal128Type{Precision: 10, Scale: 4}},
		{capturedRow("date", nil, nil, nil, int64(0)), "date", arrow.FixedWidthTypes.Date32},
		{capturedRow("datetime", nil, nil, nil, int64(3)), "datetime", micros},
		{capturedRow("smalldatetime", nil, nil, nil, int64(0)), "smalldatetime", micros},
		{capturedRow("datetime2", nil, nil, nil, int64(7)), "datetime2(7)", micros},
		{capturedRow("datetimeoffset", nil, nil, nil, int64(3)), "datetimeoffset(3)", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}},
		{capturedRow("time", nil, nil, nil, int64(0)), "time(0)", arrow.BinaryTypes.String},
		{capturedRow("char", int64(10), nil, nil, nil), "char(10)", arrow.BinaryTypes.String},
		{capturedRow("varchar", int64(-1), nil, nil, nil), "varchar(max)", arrow.BinaryTypes.String},
		{capturedRow("nchar", int64(4), nil, nil, nil), "nchar(4)", arrow.BinaryTypes.String},
		{capturedRow("nvarchar", int64(-1), nil, nil, nil), "nvarchar(max)", arrow.BinaryTypes.String},
		{capturedRow("sysname", int64(128), nil, nil, nil), "nvarchar(128)", arrow.BinaryTypes.String},
		{capturedRow("text", int64(2147483647), nil, nil, nil), "text", arrow.BinaryTypes.String},
		{capturedRow("ntext", int64(1073741823), nil, nil, nil), "ntext", arrow.BinaryTypes.String},
		{capturedRow("xml", int64(-1), nil, nil, nil), "xml", arrow.BinaryTypes.String},
		{capturedRow("uniqueidentifier", nil, nil, nil, nil), "uniqueidentifier", arrow.BinaryTypes.String},
		{capturedRow("binary", int64(3), nil, nil, nil), "binary(3)", arrow.BinaryTypes.Binary},
		{capturedRow("varbinary", int64(-1), nil, nil, nil), "varbinary(max)", arrow.BinaryTypes.Binary},
		{capturedRow("image", int64(2147483647), nil, nil, nil), "image", arrow.BinaryTypes.Binary},
		{capturedRow("timestamp", nil, nil, nil, nil), "timestamp", arrow.BinaryTypes.Binary},
		{capturedRow("sql_variant", int64(0), nil, nil, nil), "sql_variant", nil},
		{capturedRow("geography", int64(-1), nil, nil, nil), "geography", nil},
		{capturedRow("geometry", int64(-1), nil, nil, nil), "geometry", nil},
		{capturedRow("hierarchyid", int64(892), nil, nil, nil), "hierarchyid", nil},
	}
	for _, c := range cases {
		t.Run(c.declared, func(t *testing.T) {
			t.Parallel()
			typ := capturedType(c.row)
			require.Equal(t, c.declared, typ.String())
			require.True(t, typ.known())
			column, ok := typ.kind()
			require.Equal(t, c.want != nil, ok)
			if ok {
				require.Truef(t, arrow.TypeEqual(c.want, column.Type()), "%s", column.Type())
			}
		})
	}
	require.False(t, sqlType{name: "dbo_money"}.known())
}

// instanceOne is an instance with nasty names.
func instanceOne() mssqlcdc.CaptureInstance {
	return mssqlcdc.CaptureInstance{Name: "odd]name", Table: mssqlcdc.TableID{Schema: "my schema", Name: "t]"}, KeyColumns: []string{"id"}}
}

func columnsOf(more ...captured) []captured {
	return append([]captured{
		{name: "id", typ: sqlType{name: "int"}, declared: "int"},
		{name: "na]me", typ: sqlType{name: "varchar", length: 20}, declared: "varchar(20)", collation: "Latin1_General_100_CI_AS_SC_UTF8"},
	}, more...)
}

func TestStatement(t *testing.T) {
	t.Parallel()
	l, err := layoutOf(instanceOne(), columnsOf(captured{name: "g", typ: sqlType{name: "geography"}, declared: "geography"}), true,
		ColumnOptions{Types: map[string]string{"G": "string"}})
	require.NoError(t, err)
	shape := l.shape()
	require.Equal(t, `SELECT c.[__$start_lsn], c.[__$seqval], c.[__$operation], c.[__$command_id], m.[tran_end_time], c.[id], CONVERT(nvarchar(max), c.[na]]me]), CONVERT(nvarchar(max), c.[g])
FROM cdc.[odd]]name_CT] AS c LEFT JOIN cdc.lsn_time_mapping AS m ON m.start_lsn = c.[__$start_lsn]
WHERE c.[__$start_lsn] >= @from AND c.[__$start_lsn] <= @to
ORDER BY c.[__$start_lsn], c.[__$command_id], c.[__$seqval], c.[__$operation]
OPTION (FAST 1000)`, shape.text)
	require.True(t, shape.schema.Equal(l.Schema()))
	require.True(t, l.Columns[0].Key)
	require.Equal(t, "geography", l.Columns[2].SourceType)

	// Without command ids the record is the same and the statement is shorter.
	older, err := layoutOf(instanceOne(), columnsOf(), false, ColumnOptions{})
	require.NoError(t, err)
	shape = older.shape()
	require.NotContains(t, shape.text, "command_id")
	require.Equal(t, older.Schema().NumFields()-1, shape.schema.NumFields())
	require.Equal(t, "id", shape.columns[4].Name)
}

func TestColumnOptions(t *testing.T) {
	t.Parallel()
	odd := []captured{
		{name: "sum", typ: sqlType{name: "int"}, declared: "int", computed: true},
		{name: "Case", typ: sqlType{name: "int"}, declared: "int"},
		{name: "case", typ: sqlType{name: "int"}, declared: "int"},
		{name: "h", typ: sqlType{name: "hierarchyid"}, declared: "hierarchyid"},
	}
	cases := map[string]struct {
		options ColumnOptions
		more    []captured
		want    []string
		err     string
	}{
		"all":                         {want: []string{"id", "na]me"}},
		"computed is left out":        {more: odd[:1], want: []string{"id", "na]me"}},
		"include":                     {options: ColumnOptions{Include: []string{"ID"}}, want: []string{"id"}},
		"exclude":                     {options: ColumnOptions{Exclude: []string{"id"}}, want: []string{"na]me"}},
		"include and exclude":         {options: ColumnOptions{Include: []string{"id", "na]me"}, Exclude: []string{"ID"}}, want: []string{"na]me"}},
		"unsupported":                 {more: odd[3:], err: `column [h]: values of type hierarchyid cannot be read; convert them with the columns option (type "string"), or exclude the column`},
		"unsupported, excluded":       {more: odd[3:], options: ColumnOptions{Exclude: []string{"h"}}, want: []string{"id", "na]me"}},
		"unsupported, not included":   {more: odd[3:], options: ColumnOptions{Include: []string{"id"}}, want: []string{"id"}},
		"unknown include":             {options: ColumnOptions{Include: []string{"x"}}, err: "column [x]: it does not capture this column"},
		"unknown exclude":             {options: ColumnOptions{Exclude: []string{"x"}}, err: "column [x]: it does not capture this column"},
		"unknown type":                {options: ColumnOptions{Types: map[string]string{"id": "strnig"}}, err: "is not a type that values can be converted to"},
		"type that is no type":        {options: ColumnOptions{Types: map[string]string{"id": "int); DROP TABLE x--"}}, err: "is not a type"},
		"letter case, exact":          {more: odd[1:3], options: ColumnOptions{Include: []string{"case"}}, want: []string{"case"}},
		"letter case, ambiguous":      {more: odd[1:3], options: ColumnOptions{Include: []string{"CASE"}}, err: "in different letter case"},
		"nothing left":                {options: ColumnOptions{Exclude: []string{"id", "na]me"}}, err: "no column is left"},
		"reserved name":               {more: []captured{{name: "_Commit_TS", typ: sqlType{name: "int"}}}, err: "is used by a metadata column"},
		"reserved name, but excluded": {more: []captured{{name: "_chunk", typ: sqlType{name: "int"}}}, options: ColumnOptions{Exclude: []string{"_chunk"}}, want: []string{"id", "na]me"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := layoutOf(instanceOne(), columnsOf(c.more...), true, c.options)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.Equal(t, Schema, Classify(err))
				return
			}
			require.NoError(t, err)
			var got []string
			for _, column := range l.Columns {
				got = append(got, column.Name)
			}
			require.Equal(t, c.want, got)
			require.Len(t, l.LeftOut, 2+len(c.more)-len(got))
		})
	}
}

func TestConvert(t *testing.T) {
	t.Parallel()
	cases := []struct{ from, to, want string }{
		{"int", "string", "CONVERT(nvarchar(max), c.[x])"},
		{"geography", "string", "CONVERT(nvarchar(max), c.[x])"},
		{"sql_variant", "string", "CONVERT(nvarchar(4000), c.[x])"},
		{"sql_variant", "Decimal( 18 , 2 )", "CONVERT(decimal(18,2), c.[x])"},
		{"datetime2", "string", "CONVERT(nvarchar(max), c.[x], 121)"},
		{"datetimeoffset", "varchar(40)", "CONVERT(varchar(40), c.[x], 121)"},
		{"float", "string", "CONVERT(nvarchar(max), c.[x], 3)"},
		{"money", "string", "CONVERT(nvarchar(max), c.[x], 2)"},
		{"varbinary", "string", "CONVERT(nvarchar(max), c.[x], 1)"},
		{"image", "string", "CONVERT(nvarchar(max), CONVERT(varbinary(max), c.[x]), 1)"},
		{"bigint", "decimal", "CONVERT(decimal(18,0), c.[x])"},
		{"datetime", "datetime2", "CONVERT(datetime2(7), c.[x])"},
		{"int", "bigint", "CONVERT(bigint, c.[x])"},
		{"char", "varbinary(max)", "CONVERT(varbinary(max), c.[x])"},
	}
	for _, c := range cases {
		to, err := parseType(c.to)
		require.NoError(t, err)
		require.Equal(t, c.want, convert("c.[x]", sqlType{name: c.from}, to))
	}
	for _, text := range []string{"", "decimal(39)", "decimal(5,6)", "varchar", "varchar(9000)", "int(4)", "datetime2(8)", "geography", "rowversion", "a b", "varchar(-1)"} {
		_, err := parseType(text)
		require.Error(t, err, text)
	}
}

func TestSplitNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.String()).Draw(t, "names")
		list := ""
		for i, name := range names {
			if i > 0 {
				list += ", "
			}
			list += mssqlcdc.QuoteName(name)
		}
		got, err := splitNames(list)
		require.NoError(t, err)
		require.Equal(t, names, append([]string{}, got...))
	})
	for _, list := range []string{"a", "[a", "[a], b", "[a]]"} {
		_, err := splitNames(list)
		require.Error(t, err, list)
	}
}

func TestFindInstance(t *testing.T) {
	t.Parallel()
	instances := []mssqlcdc.CaptureInstance{{Name: "dbo_ORDER_ITEMS"}, {Name: "dbo_a"}, {Name: "DBO_A"}}
	found, err := FindInstance(instances, "dbo_order_items")
	require.NoError(t, err)
	require.Equal(t, "dbo_ORDER_ITEMS", found.Name)
	found, err = FindInstance(instances, "DBO_A")
	require.NoError(t, err)
	require.Equal(t, "DBO_A", found.Name)
	_, err = FindInstance(instances, "Dbo_A")
	require.ErrorContains(t, err, "matches dbo_a and DBO_A")
	_, err = FindInstance(instances, "items")
	require.ErrorContains(t, err, "similar: dbo_ORDER_ITEMS")
	_, err = FindInstance(instances, "x")
	require.ErrorIs(t, err, ErrUnknownInstance)
}

func FuzzSplitNames(f *testing.F) {
	f.Add("[a], [b]]c]")
	f.Fuzz(func(t *testing.T, list string) {
		names, err := splitNames(list)
		if err != nil {
			return
		}
		again := ""
		for i, name := range names {
			if i > 0 {
				again += ", "
			}
			again += mssqlcdc.QuoteName(name)
		}
		got, err := splitNames(again)
		require.NoError(t, err)
		require.Equal(t, names, got)
	})
}
