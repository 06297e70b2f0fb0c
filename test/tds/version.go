package tds

import (
	"errors"
	"fmt"
)

// Version is a TDS version as LOGIN7 carries it, read as a little-endian number: 0x74000004 is 7.4.
type Version uint32

// TDS versions (MS-TDS 2.2.6.4, LOGIN7, TDSVersion).
const (
	Version71 Version = 0x71000001 // SQL Server 2000; narrower tokens, refused by this package
	Version72 Version = 0x72090002 // SQL Server 2005
	Version73 Version = 0x730A0003 // SQL Server 2008: date, time, datetime2, datetimeoffset
	Version7B Version = 0x730B0003 // SQL Server 2008 with NBCROW
	Version74 Version = 0x74000004 // SQL Server 2012 to 2025
	Version80 Version = 0x08000000 // TLS first ("strict")
)

// Wide reports whether the version has the token widths of TDS 7.2 and later: ALL_HEADERS in requests, 32-bit user types,
// 64-bit row counts.
func (v Version) Wide() bool { return v == Version80 || v>>24 >= 0x72 }

// HasDateTypes reports whether the version knows date, time, datetime2 and datetimeoffset.
func (v Version) HasDateTypes() bool { return v == Version80 || v>>24 >= 0x73 }

// HasNBCRow reports whether the version knows the NBCROW token.
func (v Version) HasNBCRow() bool { return v == Version80 || v >= Version7B }

// String gives the number in hex, as protocol traces print it.
func (v Version) String() string { return fmt.Sprintf("0x%08X", uint32(v)) }

// granted is the version the server answers with: the client's own, but never above 7.4 (8.0 is echoed).
func (v Version) granted() Version {
	if v != Version80 && v > Version74 {
		return Version74
	}
	return v
}

// ProductVersion is the version of the server software, as PRELOGIN and LOGINACK carry it.
type ProductVersion struct {
	Major, Minor uint8
	Build        uint16
}

// String gives major.minor.build.
func (p ProductVersion) String() string { return fmt.Sprintf("%d.%d.%d", p.Major, p.Minor, p.Build) }

// Errors a caller may want to tell apart.
var (
	// ErrAttention is the cause of a request's context, and the error of its [Writer], after the client's ATTENTION.
	ErrAttention = errors.New("client sent an attention")
	// ErrDisconnected is the cause of a request's context when the client went away.
	ErrDisconnected = errors.New("client closed the connection")
	// ErrVersion is the end of a connection whose LOGIN7 asks for a version below TDS 7.2.
	ErrVersion = errors.New("TDS version below 7.2 is not supported")
	// ErrFault is the end of a connection that a [Fault] broke on purpose.
	ErrFault = errors.New("connection broken by an injected fault")
	// ErrClosed is the error of operations on a connection this side has closed.
	ErrClosed = errors.New("connection is closed")
)

// UnsupportedError says that a well-formed request uses something this package does not decode, by its SQL Server name.
// The request arrives as an [Invalid] body, so that the session can answer with an error of its own.
type UnsupportedError struct {
	What string // such as "table-valued parameter dbo.ids" or "encrypted parameter @p1"
}

// Error names the thing.
func (e *UnsupportedError) Error() string { return e.What + " is not supported" }
