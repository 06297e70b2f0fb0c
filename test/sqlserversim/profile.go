package sqlserversim

import "fmt"

// profile is what a version of SQL Server says about itself and the few places where behaviour differs.
type profile struct {
	year                    int
	major, minor            uint8
	build                   uint16
	revision                int
	built                   string // the date in @@VERSION
	compatibility           uint8
	currentTimeZoneID       bool // CURRENT_TIMEZONE_ID() exists
	maxTrans, threshold     int  // defaults of the capture job and the clean-up job
	minLSNNullUntilCaptured bool // fn_cdc_get_min_lsn gives NULL, not 0x00, before capture has seen the enable
}

// profileOf gives the release build of the version of that year.
func profileOf(year int) (profile, bool) {
	p := profile{year: year, maxTrans: 500, threshold: 5000}
	switch year {
	case 2016:
		p.major, p.build, p.revision, p.built, p.compatibility = 13, 6300, 2, "Aug  8 2021 01:20:55", 130
	case 2017:
		p.major, p.build, p.revision, p.built, p.compatibility = 14, 1000, 169, "Aug 22 2017 17:04:49", 140
	case 2019:
		p.major, p.build, p.revision, p.built, p.compatibility = 15, 2000, 5, "Sep 24 2019 13:48:23", 150
	case 2022:
		p.major, p.build, p.revision, p.built, p.compatibility = 16, 1000, 6, "Oct  8 2022 05:58:25", 160
		p.currentTimeZoneID = true
	case 2025:
		p.major, p.build, p.revision, p.built, p.compatibility = 17, 1000, 7, "Oct 21 2025 12:05:57", 170
		p.currentTimeZoneID = true
		p.maxTrans, p.threshold = 10000, 4999
		p.minLSNNullUntilCaptured = true
	default:
		return profile{}, false
	}
	return p, true
}

// productVersion is SERVERPROPERTY('ProductVersion'), for example 16.0.1000.6.
func (p profile) productVersion() string {
	return fmt.Sprintf("%d.%d.%d.%d", p.major, p.minor, p.build, p.revision)
}

// level is SERVERPROPERTY('ProductLevel').
func (p profile) level() string {
	if p.year == 2016 {
		return "SP3"
	}
	return "RTM"
}

const edition = "Developer Edition (64-bit)"

// versionText is @@VERSION. The operating system names the simulator, so nobody takes a log line for a real server's.
func (p profile) versionText() string {
	return fmt.Sprintf("Microsoft SQL Server %d (%s) - %s (X64) \n\t%s \n\tCopyright (C) %d Microsoft Corporation\n\t%s on Linux (rpconnect-mssqlcdc simulator) <X64>",
		p.year, p.level(), p.productVersion(), p.built, p.year, edition)
}
