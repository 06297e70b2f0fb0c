package sqltype_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// TestDateTimeRounding: 1/300 s for datetime, half minutes for smalldatetime, as recorded.
func TestDateTimeRounding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, to, want string }{
		{"2024-01-01 00:00:00.001", "datetime", "2024-01-01 00:00:00.000"},
		{"2024-01-01 00:00:00.002", "datetime", "2024-01-01 00:00:00.003"},
		{"2024-01-01 00:00:00.005", "datetime", "2024-01-01 00:00:00.007"},
		{"2024-01-01 00:00:00.008", "datetime", "2024-01-01 00:00:00.007"},
		{"2024-01-01 23:59:59.999", "datetime", "2024-01-02 00:00:00.000"},
		{"2024-01-01 00:00:29.998", "smalldatetime", "2024-01-01 00:00:00.000"},
		{"2024-01-01 00:00:29.999", "smalldatetime", "2024-01-01 00:01:00.000"},
		{"2024-01-01 00:00:30", "smalldatetime", "2024-01-01 00:01:00.000"},
		{"2024-01-01 00:00:00.1234567", "datetime2(3)", "2024-01-01 00:00:00.123"},
		{"2024-01-01 23:59:59.9999999", "datetime2(0)", "2024-01-02 00:00:00"},
		{"9999-12-31 23:59:59.9999999", "datetime2(7)", "9999-12-31 23:59:59.9999999"},
		{"23:59:59.9999999", "time(7)", "23:59:59.9999999"},
		{"0001-01-01", "date", "0001-01-01"},
		{"9999-12-31 23:59:59.997", "datetime", "9999-12-31 23:59:59.997"},
		{"1753-01-01", "datetime", "1753-01-01 00:00:00.000"},
	} {
		v, err := sqltype.Convert(sqltype.VarChar(c.in), typ(t, c.to), sqltype.DefaultStyle)
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, v.String(), "%s as %s", c.in, c.to)
	}
}

func TestDateTexts(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"20240229": "2024-02-29 00:00:00.0000000", "2024-02-29": "2024-02-29 00:00:00.0000000", "2024/2/9": "2024-02-09 00:00:00.0000000",
		"2/29/2024": "2024-02-29 00:00:00.0000000", "2-29-24": "2024-02-29 00:00:00.0000000", "Feb 29 2024": "2024-02-29 00:00:00.0000000",
		"February 29, 2024 1:05PM": "2024-02-29 13:05:00.0000000", "29 Feb 2024": "2024-02-29 00:00:00.0000000", "2024-02-29T12:34:56.5": "2024-02-29 12:34:56.5000000",
		"2024-02-29 12:34": "2024-02-29 12:34:00.0000000", "12:34:56": "1900-01-01 12:34:56.0000000", "": "1900-01-01 00:00:00.0000000",
		"2024-02-29 12:34:56:789": "2024-02-29 12:34:56.7890000", "2024-02-29T12:34:56Z": "2024-02-29 12:34:56.0000000", "240229": "2024-02-29 00:00:00.0000000",
		"2024-02-29 1 PM": "2024-02-29 13:00:00.0000000", "12:00 AM": "1900-01-01 00:00:00.0000000", "1999": "1999-01-01 00:00:00.0000000",
	} {
		v, err := sqltype.Convert(sqltype.VarChar(in), typ(t, "datetime2(7)"), sqltype.DefaultStyle)
		require.NoError(t, err, in)
		require.Equal(t, want, v.String(), in)
	}
	for _, in := range []string{"x", "2024-02-30", "2024-13-01", "25:00", "2024-02-29 12:60", "2024-02-29T", "2024-02-29 12:34:56 +15:00", "Foo 1 2024", "1-2", "2024-02-29 2024-02-29"} {
		_, err := sqltype.Convert(sqltype.VarChar(in), typ(t, "datetime2(7)"), sqltype.DefaultStyle)
		require.Error(t, err, in)
	}
}

func TestDateStyles(t *testing.T) {
	t.Parallel()
	dt := must(sqltype.Convert(sqltype.VarChar("2024-02-09 13:04:56.123"), typ(t, "datetime"), 0))
	dt2 := must(sqltype.Convert(sqltype.VarChar("2024-02-29 12:34:56.1234567"), typ(t, "datetime2(7)"), 0))
	whole := must(sqltype.Convert(sqltype.VarChar("2024-02-29 12:34:56"), typ(t, "datetime2(7)"), 0))
	dto := must(sqltype.Convert(sqltype.VarChar("2024-02-29 12:34:56.1234567 +05:30"), typ(t, "datetimeoffset(7)"), 0))
	small := must(sqltype.Convert(sqltype.VarChar("2024-02-09 13:04"), typ(t, "smalldatetime"), 0))
	for _, c := range []struct {
		v     sqltype.Value
		style int
		want  string
	}{
		{dt, sqltype.DefaultStyle, "Feb  9 2024  1:04PM"}, {dt, 0, "Feb  9 2024  1:04PM"}, {dt, 1, "02/09/24"}, {dt, 101, "02/09/2024"},
		{dt, 103, "09/02/2024"}, {dt, 104, "09.02.2024"}, {dt, 106, "09 Feb 2024"}, {dt, 107, "Feb 09, 2024"}, {dt, 108, "13:04:56"},
		{dt, 109, "Feb  9 2024  1:04:56:123PM"}, {dt, 112, "20240209"}, {dt, 12, "240209"}, {dt, 113, "09 Feb 2024 13:04:56:123"}, {dt, 114, "13:04:56:123"},
		{dt, 20, "2024-02-09 13:04:56"}, {dt, 120, "2024-02-09 13:04:56"}, {dt, 21, "2024-02-09 13:04:56.123"}, {dt, 121, "2024-02-09 13:04:56.123"},
		{dt, 126, "2024-02-09T13:04:56.123"}, {dt, 127, "2024-02-09T13:04:56.123"},
		{dt2, sqltype.DefaultStyle, "2024-02-29 12:34:56.1234567"}, {dt2, 126, "2024-02-29T12:34:56.1234567"}, {dt2, 121, "2024-02-29 12:34:56.1234567"}, {dt2, 0, "Feb 29 2024 12:34PM"},
		{whole, 126, "2024-02-29T12:34:56"}, {whole, 121, "2024-02-29 12:34:56.0000000"},
		{dto, 121, "2024-02-29 12:34:56.1234567 +05:30"}, {dto, 126, "2024-02-29T12:34:56.1234567+05:30"}, {dto, 127, "2024-02-29T07:04:56.1234567Z"},
		{small, 121, "2024-02-09 13:04:00.000"}, {small, 0, "Feb  9 2024  1:04PM"}, {small, 126, "2024-02-09T13:04:00"},
		{sqltype.Date(738_000), 121, "2021-07-30"}, {sqltype.Date(738_000), 112, "20210730"}, {sqltype.Time(0, 0), 121, "00:00:00"},
		{sqltype.Time(1_234_567, 7), sqltype.DefaultStyle, "00:00:00.1234567"},
	} {
		v, err := sqltype.Convert(c.v, sqltype.VarCharType(50), c.style)
		require.NoError(t, err)
		require.Equal(t, c.want, v.Str(), "%s style %d", c.v.Kind(), c.style)
	}
}

func TestTemporalToTemporal(t *testing.T) {
	t.Parallel()
	dto := must(sqltype.Convert(sqltype.VarChar("2024-02-29 00:30:00 +05:30"), typ(t, "datetimeoffset(0)"), 0))
	require.Equal(t, int16(330), dto.Offset())
	for to, want := range map[string]string{
		"datetime2(0)": "2024-02-29 00:30:00", "date": "2024-02-29", "time(0)": "00:30:00", "datetime": "2024-02-29 00:30:00.000", "datetimeoffset(2)": "2024-02-29 00:30:00.00 +05:30",
	} {
		require.Equal(t, want, must(sqltype.Convert(dto, typ(t, to), 0)).String(), to)
	}
	tick := sqltype.DateTime(0, 1)
	require.Equal(t, "1900-01-01 00:00:00.0033333", must(sqltype.Convert(tick, typ(t, "datetime2(7)"), 0)).String())
	require.Equal(t, "1900-01-01 00:00:00.003", must(sqltype.Convert(tick, typ(t, "datetime2(3)"), 0)).String())
	require.Equal(t, tick, must(sqltype.Convert(must(sqltype.Convert(tick, typ(t, "datetime2(3)"), 0)), typ(t, "datetime"), 0)))
}

func TestGoTimes(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 2, 29, 12, 34, 56, 123_456_700, time.FixedZone("", 3600))
	require.Equal(t, "2024-02-29 12:34:56.1234567", sqltype.FromTime(at).String())
	require.Equal(t, "2024-02-29 12:34:56.1234567 +01:00", sqltype.FromTimeOffset(at).String())
	require.Equal(t, "2024-02-29 12:34:56.123", sqltype.FromTimeDateTime(at).String())
	require.True(t, sqltype.FromTimeOffset(at).GoTime(time.UTC).Equal(at))
	require.True(t, sqltype.FromTime(at).GoTime(at.Location()).Equal(at))
}

// TestDatesRoundTrip: what is written in style 121 or 126 reads back as it was.
func TestDatesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		scale := uint8(rapid.IntRange(0, 7).Draw(t, "scale"))
		unit := int64(1)
		for range 7 - scale {
			unit *= 10
		}
		days := int64(rapid.IntRange(1, sqltype.MaxDays-1).Draw(t, "days"))
		ticks := rapid.Int64Range(0, sqltype.TicksPerDay/unit-1).Draw(t, "ticks") * unit
		off := int16(rapid.IntRange(-840, 840).Draw(t, "offset"))
		kind := rapid.SampledFrom([]sqltype.Kind{sqltype.KindDateTime2, sqltype.KindDateTimeOffset}).Draw(t, "kind")
		to := sqltype.Type{Kind: kind, Scale: scale}
		v, err := sqltype.FromLocalParts(to, days, ticks, off)
		require.NoError(t, err)
		style := rapid.SampledFrom([]int{121, 126}).Draw(t, "style")
		s, err := sqltype.Convert(v, sqltype.VarCharType(50), style)
		require.NoError(t, err)
		back, err := sqltype.Convert(s, to, style)
		require.NoError(t, err, s.Str())
		require.Equal(t, v, back, s.Str())
		y, m, d := sqltype.CivilDate(days)
		n, ok := sqltype.DayNumber(y, m, d)
		require.True(t, ok)
		require.Equal(t, days, n)
	})
}

// FuzzDateText: no text makes the reader fail in an unforeseen way.
func FuzzDateText(f *testing.F) {
	for _, s := range []string{"2024-02-29 12:34:56.1234567 +05:30", "Feb 29 2024 1:05PM", "20240229", "::", "1:2:3:4", "T", "9999-99-99", "+", "0 AM", "Jan"} {
		f.Add(s)
	}
	kinds := []string{"datetime", "smalldatetime", "date", "time(3)", "datetime2(7)", "datetimeoffset(7)"}
	f.Fuzz(func(t *testing.T, s string) {
		for _, k := range kinds {
			v, err := sqltype.Convert(sqltype.NVarChar(s), typ(t, k), sqltype.DefaultStyle)
			if err != nil {
				continue
			}
			again, err := sqltype.Convert(sqltype.NVarChar(v.String()), typ(t, k), sqltype.DefaultStyle)
			require.NoError(t, err, "%q gave %s", s, v)
			require.Zero(t, sqltype.Compare(v, again, nil), "%q gave %s, then %s", s, v, again)
		}
	})
}
