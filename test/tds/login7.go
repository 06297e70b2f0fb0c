package tds

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Secret is a text that no print shows.
type Secret string

// String hides the text.
func (Secret) String() string { return "(hidden)" }

// GoString hides the text.
func (Secret) GoString() string { return "(hidden)" }

// MarshalText hides the text.
func (Secret) MarshalText() ([]byte, error) { return []byte("(hidden)"), nil }

// Feature is an entry of the feature list of LOGIN7 or FEATUREEXTACK.
type Feature struct {
	ID   uint8
	Data []byte
}

// Feature ids (MS-TDS 2.2.6.4, FeatureExt). Newer ones are skipped by their length.
const (
	FeatureSessionRecovery  uint8 = 0x01
	FeatureFedAuth          uint8 = 0x02
	FeatureColumnEncryption uint8 = 0x04 // never acknowledge: it changes COLMETADATA
	FeatureGlobalTran       uint8 = 0x05
	FeatureAzureSQL         uint8 = 0x08
	FeatureClassification   uint8 = 0x09
	FeatureUTF8             uint8 = 0x0A
	FeatureDNSCaching       uint8 = 0x0B

	featureEnd = 0xFF
)

// Login is a LOGIN7 message (MS-TDS 2.2.6.4).
type Login struct {
	Version       Version
	PacketSize    uint32 // asked for; 0 leaves it to the server
	ClientVersion uint32
	ClientPID     uint32
	ConnectionID  uint32
	Options       [4]byte // option flags 1, 2, type flags, option flags 3, in the order of the wire
	TimeZone      int32
	LCID          uint32

	Host        string
	User        string
	Password    Secret
	App         string
	Server      string
	Library     string
	Language    string
	Database    string
	ClientID    [6]byte // usually a network card's address
	SSPI        []byte  // of an integrated login, nil otherwise
	AttachDB    string
	NewPassword Secret
	Features    []Feature // as asked for, in the order of the wire
}

// ReadOnlyIntent reports whether the client said that it will only read (ApplicationIntent=ReadOnly).
func (l *Login) ReadOnlyIntent() bool { return l.Options[2]&0x20 != 0 }

// Integrated reports whether the login is to be done by SSPI.
func (l *Login) Integrated() bool { return l.Options[1]&0x80 != 0 }

// Feature gives the data of a feature the client asked for, and whether it did.
func (l *Login) Feature(id uint8) ([]byte, bool) {
	for _, f := range l.Features {
		if f.ID == id {
			return f.Data, true
		}
	}
	return nil, false
}

// Reasons for refusing a LOGIN7.
var (
	errLoginLength = errors.New("a length that is not the message's")
	errLoginField  = errors.New("a field outside the message")
)

// ParseLogin7 reads a LOGIN7 payload. Every offset is checked; passwords are made readable.
func ParseLogin7(payload []byte) (*Login, error) {
	d := &decoder{b: payload}
	if n := d.u32("length"); d.err == nil && int64(n) != int64(len(payload)) {
		d.fail("length", errLoginLength)
	}
	l := &Login{Version: Version(d.u32("TDS version")), PacketSize: d.u32("packet size")}
	l.ClientVersion, l.ClientPID, l.ConnectionID = d.u32("client version"), d.u32("process id"), d.u32("connection id")
	copy(l.Options[:], d.take("option flags", 4))
	l.TimeZone, l.LCID = int32(d.u32("time zone")), d.u32("locale")
	l.Host, l.User = d.field("host name"), d.field("user name")
	l.Password = Secret(d.secret("password"))
	l.App, l.Server = d.field("application name"), d.field("server name")
	extension := d.place("extension")
	l.Library, l.Language, l.Database = d.field("library name"), d.field("language"), d.field("database")
	copy(l.ClientID[:], d.take("client id", 6))
	sspi := d.place("SSPI")
	l.AttachDB = d.field("attached database file")
	if l.Version.Wide() { // TDS 7.1 ends here
		l.NewPassword = Secret(d.secret("new password"))
		if long := int(d.u32("long SSPI length")); sspi.n == 0xFFFF && long > 0 {
			sspi.n = long
		}
	}
	l.SSPI = d.at("SSPI", sspi.off, sspi.n)
	if l.Options[3]&0x10 != 0 {
		l.Features = d.features(extension)
	}
	if d.err != nil {
		return nil, fmt.Errorf("reading LOGIN7: %w", d.err)
	}
	return l, nil
}

// place is an offset and a length of a field in the message.
type place struct{ off, n int }

// place reads an offset and a length.
func (d *decoder) place(what string) place {
	return place{int(d.u16(what + " offset")), int(d.u16(what + " length"))}
}

// at gives n bytes at an absolute offset. An empty field may point anywhere, as some clients' do.
func (d *decoder) at(what string, off, n int) []byte {
	if d.err != nil || n == 0 {
		return nil
	}
	if off < 0 || n < 0 || off+n > len(d.b) {
		d.fail(what, errLoginField)
		return nil
	}
	return d.b[off : off+n : off+n]
}

// span reads a place and gives its bytes, the length being in units of width bytes.
func (d *decoder) span(what string, width int) []byte {
	p := d.place(what)
	return d.at(what, p.off, width*p.n)
}

// field reads a text field.
func (d *decoder) field(what string) string { return decodeUTF16(d.span(what, 2)) }

// secret reads a password: each byte has its halves swapped and was then XORed with 0xA5.
func (d *decoder) secret(what string) string {
	hidden := d.span(what, 2)
	clear := make([]byte, len(hidden))
	for i, b := range hidden {
		b ^= 0xA5
		clear[i] = b<<4 | b>>4
	}
	return decodeUTF16(clear)
}

// features reads the feature list whose absolute offset the extension field holds.
func (d *decoder) features(p place) []Feature {
	extension := d.at("extension", p.off, p.n)
	if len(extension) < 4 {
		d.fail("extension", errLoginField)
	}
	if d.err != nil {
		return nil
	}
	off := binary.LittleEndian.Uint32(extension)
	if int64(off) >= int64(len(d.b)) {
		d.fail("feature list", errLoginField)
		return nil
	}
	in := decoder{b: d.b, off: int(off)}
	var list []Feature
	for in.err == nil {
		id := in.u8("feature")
		if id == featureEnd || in.err != nil {
			break
		}
		list = append(list, Feature{id, in.take("feature", int(in.u32("feature length")))})
	}
	if in.err != nil {
		d.err = in.err
	}
	return list
}
