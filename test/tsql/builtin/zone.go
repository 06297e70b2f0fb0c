package builtin

import (
	"strings"
	"time"
	_ "time/tzdata" // zones must be there on machines without a zone database

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// AtTimeZone is x AT TIME ZONE zone: a datetimeoffset moves to the zone, any other
// moment is taken for the zone's wall clock. In the hour that repeats the offset
// before the change is meant; a time in the gap moves on by the gap (documentation
// page "AT TIME ZONE"; measured on SQL Server 2022: 2025-11-02 01:30 Eastern is -04:00).
func AtTimeZone(v value, zone string) (value, error) {
	loc, ok := LoadZone(zone)
	if !ok {
		return value{}, sqlerr.Make(9820, zone)
	}
	t := typeOffset(offsetScale(v))
	const epoch = 719_162 // days from 0001-01-01 to 1970-01-01
	if v.Kind() == sqltype.KindDateTimeOffset {
		sec := (int64(v.Days())-epoch)*86_400 + v.Ticks()/sqltype.TicksPerSecond
		return sqltype.DateTimeOffset(v.Days(), v.Ticks(), int16(zoneOffset(loc, sec)/60), t.Scale), nil
	}
	days, ticks := v.LocalParts()
	local := (days-epoch)*86_400 + ticks/sqltype.TicksPerSecond
	off := localOffset(loc, local)
	shift := zoneOffset(loc, local-off) - off // not zero in a gap
	off += shift
	return sqltype.FromLocalParts(t, days, ticks+shift*sqltype.TicksPerSecond, int16(off/60))
}

// zoneOffset is the offset in seconds at an instant.
func zoneOffset(loc *time.Location, unix int64) int64 {
	_, off := time.Unix(unix, 0).In(loc).Zone()
	return int64(off)
}

// localOffset finds the offset that a wall clock (in seconds, as if UTC) has.
func localOffset(loc *time.Location, local int64) int64 {
	before, after := zoneOffset(loc, local-86_400), zoneOffset(loc, local+86_400)
	if zoneOffset(loc, local-before) != before && zoneOffset(loc, local-after) == after {
		return after
	}
	return before // right, the first of two that are right, or a gap
}

// LoadZone finds a time zone by its Windows name, or by its IANA name.
func LoadZone(name string) (*time.Location, bool) {
	iana, ok := IANAZone(name)
	if !ok {
		return nil, false
	}
	loc, err := time.LoadLocation(iana)
	return loc, err == nil
}

// IANAZone gives the IANA name of a Windows time zone (Unicode CLDR, windowsZones,
// territory 001). A name with a slash, and UTC, stand for themselves.
func IANAZone(name string) (string, bool) {
	for _, z := range windowsZones() {
		if strings.EqualFold(z[0], name) {
			return z[1], true
		}
	}
	return name, strings.Contains(name, "/")
}

// WindowsZone gives a Windows name for an IANA zone; ok is false when the table has none.
func WindowsZone(iana string) (string, bool) {
	for _, z := range windowsZones() {
		if z[1] == iana {
			return z[0], true
		}
	}
	return "", false
}

func windowsZones() [][2]string {
	return [][2]string{
		{"UTC", "UTC"}, {"Dateline Standard Time", "Etc/GMT+12"}, {"UTC-11", "Etc/GMT+11"},
		{"Aleutian Standard Time", "America/Adak"}, {"Hawaiian Standard Time", "Pacific/Honolulu"},
		{"Marquesas Standard Time", "Pacific/Marquesas"}, {"Alaskan Standard Time", "America/Anchorage"},
		{"UTC-09", "Etc/GMT+9"}, {"Pacific Standard Time (Mexico)", "America/Tijuana"}, {"UTC-08", "Etc/GMT+8"},
		{"Pacific Standard Time", "America/Los_Angeles"}, {"US Mountain Standard Time", "America/Phoenix"},
		{"Mountain Standard Time (Mexico)", "America/Mazatlan"}, {"Mountain Standard Time", "America/Denver"},
		{"Yukon Standard Time", "America/Whitehorse"}, {"Central America Standard Time", "America/Guatemala"},
		{"Central Standard Time", "America/Chicago"}, {"Easter Island Standard Time", "Pacific/Easter"},
		{"Central Standard Time (Mexico)", "America/Mexico_City"}, {"Canada Central Standard Time", "America/Regina"},
		{"SA Pacific Standard Time", "America/Bogota"}, {"Eastern Standard Time (Mexico)", "America/Cancun"},
		{"Eastern Standard Time", "America/New_York"}, {"Haiti Standard Time", "America/Port-au-Prince"},
		{"Cuba Standard Time", "America/Havana"}, {"US Eastern Standard Time", "America/Indianapolis"},
		{"Turks And Caicos Standard Time", "America/Grand_Turk"}, {"Paraguay Standard Time", "America/Asuncion"},
		{"Atlantic Standard Time", "America/Halifax"}, {"Venezuela Standard Time", "America/Caracas"},
		{"Central Brazilian Standard Time", "America/Cuiaba"}, {"SA Western Standard Time", "America/La_Paz"},
		{"Pacific SA Standard Time", "America/Santiago"}, {"Newfoundland Standard Time", "America/St_Johns"},
		{"Tocantins Standard Time", "America/Araguaina"}, {"E. South America Standard Time", "America/Sao_Paulo"},
		{"SA Eastern Standard Time", "America/Cayenne"}, {"Argentina Standard Time", "America/Buenos_Aires"},
		{"Greenland Standard Time", "America/Godthab"}, {"Montevideo Standard Time", "America/Montevideo"},
		{"Magallanes Standard Time", "America/Punta_Arenas"}, {"Saint Pierre Standard Time", "America/Miquelon"},
		{"Bahia Standard Time", "America/Bahia"}, {"UTC-02", "Etc/GMT+2"}, {"Azores Standard Time", "Atlantic/Azores"},
		{"Cape Verde Standard Time", "Atlantic/Cape_Verde"}, {"GMT Standard Time", "Europe/London"},
		{"Greenwich Standard Time", "Atlantic/Reykjavik"}, {"Sao Tome Standard Time", "Africa/Sao_Tome"},
		{"Morocco Standard Time", "Africa/Casablanca"}, {"W. Europe Standard Time", "Europe/Berlin"},
		{"Central Europe Standard Time", "Europe/Budapest"}, {"Romance Standard Time", "Europe/Paris"},
		{"Central European Standard Time", "Europe/Warsaw"}, {"W. Central Africa Standard Time", "Africa/Lagos"},
		{"GTB Standard Time", "Europe/Bucharest"}, {"Middle East Standard Time", "Asia/Beirut"},
		{"Egypt Standard Time", "Africa/Cairo"}, {"E. Europe Standard Time", "Europe/Chisinau"},
		{"West Bank Standard Time", "Asia/Hebron"}, {"South Africa Standard Time", "Africa/Johannesburg"},
		{"FLE Standard Time", "Europe/Kiev"}, {"Israel Standard Time", "Asia/Jerusalem"},
		{"South Sudan Standard Time", "Africa/Juba"}, {"Kaliningrad Standard Time", "Europe/Kaliningrad"},
		{"Sudan Standard Time", "Africa/Khartoum"}, {"Libya Standard Time", "Africa/Tripoli"},
		{"Namibia Standard Time", "Africa/Windhoek"}, {"Jordan Standard Time", "Asia/Amman"},
		{"Arabic Standard Time", "Asia/Baghdad"}, {"Syria Standard Time", "Asia/Damascus"},
		{"Turkey Standard Time", "Europe/Istanbul"}, {"Arab Standard Time", "Asia/Riyadh"},
		{"Belarus Standard Time", "Europe/Minsk"}, {"Russian Standard Time", "Europe/Moscow"},
		{"E. Africa Standard Time", "Africa/Nairobi"}, {"Volgograd Standard Time", "Europe/Volgograd"},
		{"Iran Standard Time", "Asia/Tehran"}, {"Arabian Standard Time", "Asia/Dubai"},
		{"Astrakhan Standard Time", "Europe/Astrakhan"}, {"Azerbaijan Standard Time", "Asia/Baku"},
		{"Russia Time Zone 3", "Europe/Samara"}, {"Mauritius Standard Time", "Indian/Mauritius"},
		{"Saratov Standard Time", "Europe/Saratov"}, {"Georgian Standard Time", "Asia/Tbilisi"},
		{"Caucasus Standard Time", "Asia/Yerevan"}, {"Afghanistan Standard Time", "Asia/Kabul"},
		{"West Asia Standard Time", "Asia/Tashkent"}, {"Qyzylorda Standard Time", "Asia/Qyzylorda"},
		{"Ekaterinburg Standard Time", "Asia/Yekaterinburg"}, {"Pakistan Standard Time", "Asia/Karachi"},
		{"India Standard Time", "Asia/Calcutta"}, {"Sri Lanka Standard Time", "Asia/Colombo"},
		{"Nepal Standard Time", "Asia/Katmandu"}, {"Central Asia Standard Time", "Asia/Bishkek"},
		{"Bangladesh Standard Time", "Asia/Dhaka"}, {"Omsk Standard Time", "Asia/Omsk"},
		{"Myanmar Standard Time", "Asia/Rangoon"}, {"SE Asia Standard Time", "Asia/Bangkok"},
		{"Altai Standard Time", "Asia/Barnaul"}, {"W. Mongolia Standard Time", "Asia/Hovd"},
		{"North Asia Standard Time", "Asia/Krasnoyarsk"}, {"N. Central Asia Standard Time", "Asia/Novosibirsk"},
		{"Tomsk Standard Time", "Asia/Tomsk"}, {"China Standard Time", "Asia/Shanghai"},
		{"North Asia East Standard Time", "Asia/Irkutsk"}, {"Singapore Standard Time", "Asia/Singapore"},
		{"W. Australia Standard Time", "Australia/Perth"}, {"Taipei Standard Time", "Asia/Taipei"},
		{"Ulaanbaatar Standard Time", "Asia/Ulaanbaatar"}, {"Aus Central W. Standard Time", "Australia/Eucla"},
		{"Transbaikal Standard Time", "Asia/Chita"}, {"Tokyo Standard Time", "Asia/Tokyo"},
		{"North Korea Standard Time", "Asia/Pyongyang"}, {"Korea Standard Time", "Asia/Seoul"},
		{"Yakutsk Standard Time", "Asia/Yakutsk"}, {"Cen. Australia Standard Time", "Australia/Adelaide"},
		{"AUS Central Standard Time", "Australia/Darwin"}, {"E. Australia Standard Time", "Australia/Brisbane"},
		{"AUS Eastern Standard Time", "Australia/Sydney"}, {"West Pacific Standard Time", "Pacific/Port_Moresby"},
		{"Tasmania Standard Time", "Australia/Hobart"}, {"Vladivostok Standard Time", "Asia/Vladivostok"},
		{"Lord Howe Standard Time", "Australia/Lord_Howe"}, {"Bougainville Standard Time", "Pacific/Bougainville"},
		{"Russia Time Zone 10", "Asia/Srednekolymsk"}, {"Magadan Standard Time", "Asia/Magadan"},
		{"Norfolk Standard Time", "Pacific/Norfolk"}, {"Sakhalin Standard Time", "Asia/Sakhalin"},
		{"Central Pacific Standard Time", "Pacific/Guadalcanal"}, {"Russia Time Zone 11", "Asia/Kamchatka"},
		{"New Zealand Standard Time", "Pacific/Auckland"}, {"UTC+12", "Etc/GMT-12"},
		{"Fiji Standard Time", "Pacific/Fiji"}, {"Chatham Islands Standard Time", "Pacific/Chatham"},
		{"UTC+13", "Etc/GMT-13"}, {"Tonga Standard Time", "Pacific/Tongatapu"},
		{"Samoa Standard Time", "Pacific/Apia"}, {"Line Islands Standard Time", "Pacific/Kiritimati"},
	}
}
