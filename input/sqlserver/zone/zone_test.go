package zone_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/zone"
)

const layout = "2006-01-02 15:04:05"

func at(t require.TestingT, text string) time.Time {
	parsed, err := time.Parse(layout, text)
	require.NoError(t, err)
	return parsed
}

func parse(t require.TestingT, name string) zone.Zone {
	z, err := zone.Parse(name)
	require.NoError(t, err)
	return z
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, wantOffset := range map[string]time.Duration{
		"UTC":                            0,
		"utc":                            0,
		"W. Europe Standard Time":        time.Hour,
		"w. europe standard time":        time.Hour,
		"Eastern Standard Time":          -5 * time.Hour,
		"E. South America Standard Time": -3 * time.Hour,
		"Lord Howe Standard Time":        11 * time.Hour,
		"India Standard Time":            5*time.Hour + 30*time.Minute,
		"Nepal Standard Time":            5*time.Hour + 45*time.Minute,
		"Line Islands Standard Time":     14 * time.Hour,
		"Dateline Standard Time":         -12 * time.Hour,
		"Europe/Berlin":                  time.Hour,
		" Greenwich Standard Time ":      0,
		"+05:30":                         5*time.Hour + 30*time.Minute,
		"-03:00":                         -3 * time.Hour,
		"Central Standard Time (Mexico)": -6 * time.Hour,
		"Turks And Caicos Standard Time": -5 * time.Hour,
		"UTC-11":                         -11 * time.Hour,
		"UTC+13":                         13 * time.Hour,
		"Russia Time Zone 11":            12 * time.Hour,
		"Central European Standard Time": time.Hour,
		"Aus Central W. Standard Time":   8*time.Hour + 45*time.Minute,
		"Chatham Islands Standard Time":  13*time.Hour + 45*time.Minute,
		"Coordinated Universal Time":     0,
		"South Sudan Standard Time":      2 * time.Hour,
		"Kamchatka Standard Time":        12 * time.Hour,
		"Qyzylorda Standard Time":        5 * time.Hour,
		"Yukon Standard Time":            -7 * time.Hour,
		"Newfoundland Standard Time":     -3*time.Hour - 30*time.Minute,
	} {
		z, err := zone.Parse(name)
		require.NoError(t, err, name)
		instant := at(t, "2025-01-15 12:00:00")
		require.Equal(t, wantOffset, z.Wall(instant).Sub(instant), name)
	}
	for _, name := range []string{"", "Local", "local", "W. Europe", "Mars/Olympus", "+25:00", "+1:00", "+05:60", "../etc/passwd"} {
		_, err := zone.Parse(name)
		require.ErrorContains(t, err, "unknown time zone", name)
	}
}

func TestInstants(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		zone, wall string
		want       []string
	}{
		"berlin, winter":                    {"W. Europe Standard Time", "2025-01-15 12:00:00", []string{"2025-01-15 11:00:00"}},
		"berlin, summer":                    {"W. Europe Standard Time", "2025-07-15 12:00:00", []string{"2025-07-15 10:00:00"}},
		"berlin, just before the repeat":    {"Europe/Berlin", "2025-10-26 01:59:59", []string{"2025-10-25 23:59:59"}},
		"berlin, repeat begins":             {"Europe/Berlin", "2025-10-26 02:00:00", []string{"2025-10-26 00:00:00", "2025-10-26 01:00:00"}},
		"berlin, repeat ends":               {"Europe/Berlin", "2025-10-26 02:59:59", []string{"2025-10-26 00:59:59", "2025-10-26 01:59:59"}},
		"berlin, after the repeat":          {"Europe/Berlin", "2025-10-26 03:00:00", []string{"2025-10-26 02:00:00"}},
		"berlin, before the gap":            {"Europe/Berlin", "2025-03-30 01:59:59", []string{"2025-03-30 00:59:59"}},
		"berlin, in the gap":                {"Europe/Berlin", "2025-03-30 02:30:00", []string{"2025-03-30 01:30:00"}},
		"berlin, after the gap":             {"Europe/Berlin", "2025-03-30 03:00:00", []string{"2025-03-30 01:00:00"}},
		"new york, repeat":                  {"Eastern Standard Time", "2025-11-02 01:30:00", []string{"2025-11-02 05:30:00", "2025-11-02 06:30:00"}},
		"new york, gap":                     {"America/New_York", "2025-03-09 02:30:00", []string{"2025-03-09 07:30:00"}},
		"lord howe, repeat of half an hour": {"Australia/Lord_Howe", "2025-04-06 01:45:00", []string{"2025-04-05 14:45:00", "2025-04-05 15:15:00"}},
		"lord howe, half an hour earlier":   {"Australia/Lord_Howe", "2025-04-06 01:15:00", []string{"2025-04-05 14:15:00"}},
		"lord howe, gap":                    {"Australia/Lord_Howe", "2025-10-05 02:15:00", []string{"2025-10-04 15:45:00"}},
		"sao paulo, repeat across midnight": {"America/Sao_Paulo", "2019-02-16 23:30:00", []string{"2019-02-17 01:30:00", "2019-02-17 02:30:00"}},
		"sao paulo, gap at midnight":        {"America/Sao_Paulo", "2018-11-04 00:30:00", []string{"2018-11-04 03:30:00"}},
		"sao paulo, no more changes":        {"America/Sao_Paulo", "2025-02-16 23:30:00", []string{"2025-02-17 02:30:00"}},
		"fixed":                             {"+05:30", "2025-10-26 02:30:00", []string{"2025-10-25 21:00:00"}},
		"utc":                               {"UTC", "2025-10-26 02:30:00", []string{"2025-10-26 02:30:00"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, instant := range parse(t, c.zone).Instants(at(t, c.wall)) {
				got = append(got, instant.UTC().Format(layout))
			}
			require.Equal(t, c.want, got)
		})
	}
}

// zones are those with the peculiar changes.
func zones() []string {
	return []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Kathmandu",
		"Pacific/Apia", "Antarctica/Troll", "Europe/Dublin", "America/Caracas", "UTC", "+05:45",
	}
}

// TestInstantsAreThoseThatShowTheReading compares with a search through all offsets.
func TestInstantsAreThoseThatShowTheReading(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		z := parse(t, rapid.SampledFrom(zones()).Draw(t, "zone"))
		instant := time.Unix(rapid.Int64Range(946684800, 1893456000).Draw(t, "second"), 0).UTC() // 2000 to 2030
		if rapid.Bool().Draw(t, "near a change") {
			// The last change before the instant, plus or minus two hours.
			for _, r := range z.Repeats(instant.AddDate(-1, 0, 0), instant) {
				instant = r.At.Add(time.Duration(rapid.Int64Range(-7200, 7200).Draw(t, "off")) * time.Second)
			}
		}
		wall := z.Wall(instant)
		var want []time.Time
		for quarters := -14 * 4; quarters <= 14*4; quarters++ {
			candidate := wall.Add(-time.Duration(quarters) * 15 * time.Minute)
			if z.Wall(candidate).Equal(wall) {
				want = append([]time.Time{candidate}, want...)
			}
		}
		got := z.Instants(wall)
		if len(got) != len(want) {
			t.Fatalf("%s %s: %v, want %v", z, wall, got, want)
		}
		for i := range got {
			if !got[i].Equal(want[i]) {
				t.Fatalf("%s %s: %v, want %v", z, wall, got, want)
			}
		}
	})
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	z := parse(t, "Europe/Berlin")
	repeats := z.Repeats(at(t, "2023-01-01 00:00:00"), at(t, "2025-12-31 00:00:00"))
	require.Len(t, repeats, 3)
	require.Equal(t, zone.Repeat{At: at(t, "2025-10-26 01:00:00"), From: at(t, "2025-10-26 02:00:00"), To: at(t, "2025-10-26 03:00:00")}, repeats[2])
	require.Empty(t, z.Repeats(at(t, "2025-10-26 03:00:00"), at(t, "2026-10-25 01:59:59")))
	require.Len(t, z.Repeats(at(t, "2025-10-26 02:59:59"), at(t, "2025-10-26 02:59:59")), 1)
	require.Empty(t, parse(t, "UTC").Repeats(at(t, "2023-01-01 00:00:00"), at(t, "2025-12-31 00:00:00")))
	howe := parse(t, "Australia/Lord_Howe").Repeats(at(t, "2025-01-01 00:00:00"), at(t, "2025-12-31 00:00:00"))
	require.Len(t, howe, 1)
	require.Equal(t, 30*time.Minute, howe[0].To.Sub(howe[0].From))
}

func TestEarlyNeverErrsLate(t *testing.T) {
	t.Parallel()
	require.Equal(t, at(t, "2025-10-26 01:30:00"), parse(t, "Europe/Berlin").Early(at(t, "2025-10-26 00:30:00").Add(900*time.Millisecond)))
	require.Equal(t, at(t, "2025-10-26 02:30:00"), parse(t, "Europe/Berlin").Early(at(t, "2025-10-26 01:30:00")))
	rapid.Check(t, func(t *rapid.T) {
		z := parse(t, rapid.SampledFrom(zones()).Draw(t, "zone"))
		instant := time.Unix(rapid.Int64Range(946684800, 1893456000).Draw(t, "second"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanos")).UTC()
		early := z.Early(instant)
		// Every commit that shows this reading or an earlier one, the first showing counted, lies at or before the instant.
		for _, shown := range z.Instants(early)[:1] {
			if shown.After(instant) {
				t.Fatalf("%s: %s reads early as %s, which is %s", z, instant, early, shown)
			}
		}
	})
}
