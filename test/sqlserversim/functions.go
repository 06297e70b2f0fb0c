package sqlserversim

import (
	"context"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim/engine"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// scalar describes a scalar function of the server. db is the database that a qualified call names, else the current one.
type scalar struct {
	min, max int
	params   []sqltype.Type
	result   sqltype.Type
	eval     func(s *session, db *database, args []sqltype.Value) (sqltype.Value, error)
}

func binary10() sqltype.Type  { return sqltype.BinaryType(10) }
func intType() sqltype.Type   { return sqltype.TypeOf(sqltype.KindInt) }
func bitType() sqltype.Type   { return sqltype.TypeOf(sqltype.KindBit) }
func variant() sqltype.Type   { return sqltype.TypeOf(sqltype.KindVariant) }
func datetime() sqltype.Type  { return sqltype.TypeOf(sqltype.KindDateTime) }
func smallInt() sqltype.Type  { return sqltype.TypeOf(sqltype.KindSmallInt) }
func maskType() sqltype.Type  { return sqltype.VarBinaryType(128) }
func hexType() sqltype.Type   { return sqltype.NVarCharType(sqltype.Max) }
func bytesType() sqltype.Type { return sqltype.VarBinaryType(sqltype.Max) }

// ScalarFunction finds a function that needs the server or the session.
func (s *session) ScalarFunction(name tsql.ObjectName) (*tsql.ScalarFunction, bool) {
	var f scalar
	var ok bool
	db := s.db
	switch {
	case name.Schema == "" && name.Database == "":
		if fold(name.Name) == "current_timezone_id" && !s.srv.profile.currentTimeZoneID {
			return nil, false
		}
		f, ok = s.srv.catalog.functions[fold(name.Name)]
	case strings.EqualFold(name.Schema, "sys"):
		if name.Database != "" {
			if db = s.srv.database(name.Database); db == nil {
				return nil, false
			}
		}
		f, ok = s.srv.catalog.sysFunctions[fold(name.Name)]
	}
	if !ok {
		return nil, false
	}
	return &tsql.ScalarFunction{
		MinArgs: f.min, MaxArgs: f.max, Params: f.params,
		Result: func([]sqltype.Type) sqltype.Type { return f.result },
		Eval: func(_ context.Context, args []sqltype.Value) (sqltype.Value, error) {
			return f.eval(s, db, args)
		},
	}, true
}

// fixed makes a function with all its arguments required.
func fixed(result sqltype.Type, eval func(*session, *database, []sqltype.Value) (sqltype.Value, error), params ...sqltype.Type) scalar {
	return scalar{min: len(params), max: len(params), params: params, result: result, eval: eval}
}

// optional makes a function whose arguments from min on may be left out.
func optional(least int, result sqltype.Type, eval func(*session, *database, []sqltype.Value) (sqltype.Value, error), params ...sqltype.Type) scalar {
	return scalar{min: least, max: len(params), params: params, result: result, eval: eval}
}

// cdcFunctions are the scalar functions of CDC, all in schema sys.
func cdcFunctions() map[string]scalar {
	return map[string]scalar{
		"fn_cdc_get_max_lsn":        fixed(binary10(), fnMaxLSN),
		"fn_cdc_get_min_lsn":        fixed(binary10(), fnMinLSN, sqltype.SysName()),
		"fn_cdc_increment_lsn":      fixed(binary10(), fnIncrementLSN, binary10()),
		"fn_cdc_decrement_lsn":      fixed(binary10(), fnDecrementLSN, binary10()),
		"fn_cdc_map_lsn_to_time":    fixed(datetime(), fnLSNToTime, binary10()),
		"fn_cdc_map_time_to_lsn":    fixed(binary10(), fnTimeToLSN, sqltype.NVarCharType(60), datetime()),
		"fn_cdc_get_column_ordinal": fixed(intType(), fnColumnOrdinal, sqltype.SysName(), sqltype.SysName()),
		"fn_cdc_is_bit_set":         fixed(bitType(), fnIsBitSet, intType(), maskType()),
		"fn_cdc_has_column_changed": fixed(bitType(), fnHasColumnChanged, sqltype.SysName(), sqltype.SysName(), maskType()),
		"fn_varbintohexstr":         fixed(hexType(), fnHex, bytesType()),
		"fn_varbintohexsubstring":   fixed(hexType(), fnHexSubstring, bitType(), bytesType(), intType(), intType()),
	}
}

// fnMaxLSN is NULL before the first scan, and 208 in a database without CDC [M25].
func fnMaxLSN(s *session, db *database, _ []sqltype.Value) (sqltype.Value, error) {
	v := s.view(db)
	if !v.Enabled() {
		return sqltype.Null(), message(208, "cdc.lsn_time_mapping")
	}
	lsn, ok := v.MaxLSN()
	if !ok {
		return sqltype.Null(), nil
	}
	return engine.LSNValue(lsn), nil
}

// fnMinLSN is 0x00…00 for an instance that is unknown, or that the caller may not see [D]; before capture has processed the
// enable 0x00 or NULL, by version.
func fnMinLSN(s *session, db *database, args []sqltype.Value) (sqltype.Value, error) {
	v := s.view(db)
	if !v.Enabled() {
		return sqltype.Null(), message(208, "cdc.change_tables")
	}
	zero := engine.LSNValue(engine.LSN{})
	i, ok := v.Instance(strings.TrimRight(args[0].Str(), " "))
	if args[0].IsNull() || !ok || !s.mayReadSource(db, i) {
		return zero, nil
	}
	lsn, _, pending := v.MinLSN(i.Name)
	switch {
	case pending && s.srv.profile.minLSNNullUntilCaptured:
		return sqltype.Null(), nil
	case pending:
		return zero, nil
	}
	return engine.LSNValue(lsn), nil
}

func fnIncrementLSN(_ *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if args[0].IsNull() {
		return args[0], nil
	}
	return engine.LSNValue(lsnArgument(args[0]).Increment()), nil
}

func fnDecrementLSN(_ *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if args[0].IsNull() {
		return args[0], nil
	}
	return engine.LSNValue(lsnArgument(args[0]).Decrement()), nil
}

func lsnArgument(v sqltype.Value) engine.LSN { return engine.LSNFromBytes([]byte(v.Str())) }

// fnLSNToTime is the time of exactly that entry, else NULL [M22].
func fnLSNToTime(s *session, db *database, args []sqltype.Value) (sqltype.Value, error) {
	v := s.view(db)
	if !v.Enabled() {
		return sqltype.Null(), message(208, "cdc.lsn_time_mapping")
	}
	if args[0].IsNull() {
		return sqltype.Null(), nil
	}
	return v.Mapping().LSNToTime(lsnArgument(args[0])), nil
}

// fnTimeToLSN takes four phrases and gives NULL for any other [K] and when no entry qualifies [D].
func fnTimeToLSN(s *session, db *database, args []sqltype.Value) (sqltype.Value, error) {
	v := s.view(db)
	if !v.Enabled() {
		return sqltype.Null(), message(208, "cdc.lsn_time_mapping")
	}
	var rel engine.TimeRelation
	switch strings.ToLower(strings.TrimSpace(args[0].Str())) {
	case "largest less than":
		rel = engine.LargestLess
	case "largest less than or equal":
		rel = engine.LargestLessOrEqual
	case "smallest greater than":
		rel = engine.SmallestGreater
	case "smallest greater than or equal":
		rel = engine.SmallestGreaterOrEqual
	default:
		return sqltype.Null(), nil
	}
	if args[1].IsNull() {
		return sqltype.Null(), nil
	}
	lsn, ok := v.Mapping().TimeToLSN(rel, args[1])
	if !ok {
		return sqltype.Null(), nil
	}
	return engine.LSNValue(lsn), nil
}

// fnColumnOrdinal is NULL for what is unknown or must not be seen [D].
func fnColumnOrdinal(s *session, db *database, args []sqltype.Value) (sqltype.Value, error) {
	i, ok := s.view(db).Instance(args[0].Str())
	if !ok || !s.mayReadSource(db, i) {
		return sqltype.Null(), nil
	}
	c := i.Captured(args[1].Str())
	if c < 0 {
		return sqltype.Null(), nil
	}
	return sqltype.Int(i.Columns[c].Ordinal), nil
}

// maskBit reads bit number pos, from 1, of an update mask: counted from the low bit of the last byte [K].
func maskBit(mask string, pos int) bool {
	at := len(mask) - 1 - (pos-1)/8
	return pos >= 1 && at >= 0 && mask[at]&(1<<((pos-1)%8)) != 0
}

func fnIsBitSet(_ *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if args[0].IsNull() || args[1].IsNull() {
		return sqltype.Null(), nil
	}
	return sqltype.Bit(maskBit(args[1].Str(), int(args[0].Int64()))), nil
}

func fnHasColumnChanged(s *session, db *database, args []sqltype.Value) (sqltype.Value, error) {
	ordinal, err := fnColumnOrdinal(s, db, args)
	if err != nil || ordinal.IsNull() || args[2].IsNull() {
		return sqltype.Null(), err
	}
	return sqltype.Bit(maskBit(args[2].Str(), int(ordinal.Int64()))), nil
}

func hexDigits(b string) string {
	const digits = "0123456789abcdef"
	var out strings.Builder
	for i := range len(b) {
		out.WriteByte(digits[b[i]>>4])
		out.WriteByte(digits[b[i]&15])
	}
	return out.String()
}

func fnHex(_ *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if args[0].IsNull() {
		return sqltype.Null(), nil
	}
	return sqltype.NVarChar("0x" + hexDigits(args[0].Str())), nil
}

func fnHexSubstring(_ *session, _ *database, args []sqltype.Value) (sqltype.Value, error) {
	if args[1].IsNull() {
		return sqltype.Null(), nil
	}
	b := args[1].Str()
	start := min(max(int(args[2].Int64())-1, 0), len(b))
	b = b[start:]
	if n := int(args[3].Int64()); n > 0 {
		b = b[:min(n, len(b))]
	}
	prefix := ""
	if args[0].Bool() {
		prefix = "0x"
	}
	return sqltype.NVarChar(prefix + hexDigits(b)), nil
}

// invalidObject is 208 for a name in text.
func invalidObject(name string) error { return sqlerr.Make(208, name) }
