package rowfilter

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/microsoft/go-mssqldb/msdsn"
)

// Security is the protection that was asked for. The Conn gives it in the driver's place, which must be told not to encrypt
// when [Security.Ours] says so:
//
//	required   PRELOGIN asks for encryption. Nothing else leaves before TLS stands; a server that refuses ends the connection.
//	strict     TLS comes first (TDS 8.0), then everything. The login names the version that belongs to it.
//	optional   PRELOGIN asks for an encrypted login. A server that wants all encrypted gets TLS here; if it wants the login
//	           only, the driver does that, since all that follows is clear.
//	disabled   bytes pass.
//
// The bytes on the wire are those that the driver would send, and the certificate is checked by the driver's own rules.
type Security struct {
	Encryption msdsn.Encryption
	TLS        *tls.Config // as msdsn.Parse made it; nil for the driver's defaults
	HostGiven  bool        // TLS.ServerName was given; else it is the host that is dialled
}

// Ours tells whether the driver has to be told that it should not encrypt.
func (s Security) Ours() bool {
	return s.Encryption == msdsn.EncryptionRequired || s.Encryption == msdsn.EncryptionStrict
}

// phase is how far a login is. Only the goroutine that logs in looks at it before it is phaseOpen.
type phase uint8

const (
	phaseOpen     phase = iota // bytes pass
	phasePrelogin              // the driver's PRELOGIN is awaited
	phaseAnswer                // the server's answer to it is awaited
	phaseLogin                 // strict: the driver's LOGIN7 is awaited
	phaseDead
)

// secure is the protection of one connection.
type secure struct {
	phase      phase
	encryption msdsn.Encryption
	config     *tls.Config
	prelogin   []byte // what the driver has written of it
}

// Answers and questions of PRELOGIN's option ENCRYPTION (MS-TDS 2.2.6.5).
const (
	encryptOff          = 0x00
	encryptOn           = 0x01
	encryptNotSupported = 0x02
	encryptRequired     = 0x03
	encryptStrict       = 0x04

	optionEncryption = 0x01
	optionTerminator = 0xFF

	longestPrelogin = 4096
	versionTDS8     = 0x08000000
	offsetOfVersion = headerSize + 4 // in the first packet of LOGIN7
)

// New makes the driver's socket out of a dialled one. host is the name that was dialled, which the certificate must have unless
// another was given. In strict mode the TLS handshake follows with the first byte.
func New(socket net.Conn, host string, security Security) (*Conn, error) {
	c := &Conn{Conn: socket, stream: socket, secure: secure{encryption: security.Encryption}}
	switch security.Encryption {
	case msdsn.EncryptionRequired, msdsn.EncryptionStrict, msdsn.EncryptionOff:
	case msdsn.EncryptionDisabled:
		return c, nil
	default:
		return nil, fmt.Errorf("an encryption of kind %d is not known", security.Encryption)
	}
	config := security.TLS
	if config == nil {
		var err error
		if config, err = msdsn.SetupTLS("", "", false, host, ""); err != nil {
			return nil, fmt.Errorf("preparing TLS: %w", err)
		}
	}
	config = config.Clone()
	config.DynamicRecordSizingDisabled = true // the server wants a packet in one record
	if !security.HostGiven {
		config.ServerName = host
	}
	c.secure.config, c.secure.phase = config, phasePrelogin
	if security.Encryption == msdsn.EncryptionStrict {
		config.NextProtos = []string{"tds/8.0"}
		c.stream = tls.Client(socket, config)
	}
	return c, nil
}

// writeLogin takes what the driver writes before the connection is open.
func (c *Conn) writeLogin(p []byte) (int, error) {
	s := &c.secure
	switch s.phase {
	case phasePrelogin:
		s.prelogin = append(s.prelogin, p...)
		if len(s.prelogin) < headerSize || len(s.prelogin) < be16(s.prelogin[2:]) {
			return len(p), nil
		}
		if err := c.ask(); err != nil {
			return 0, c.die(err)
		}
		return len(p), nil
	case phaseLogin:
		if len(p) < offsetOfVersion+4 || p[0] != packetLogin7 {
			return 0, c.die(errors.New("the driver does not send its login in one piece after PRELOGIN"))
		}
		login := append([]byte(nil), p...)
		binary.LittleEndian.PutUint32(login[offsetOfVersion:], versionTDS8)
		s.phase = phaseOpen
		if _, err := c.stream.Write(login); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return 0, c.die(errors.New("the driver writes while the answer to PRELOGIN is awaited"))
}

// ask sends PRELOGIN with the encryption that was asked for.
func (c *Conn) ask() error {
	s := &c.secure
	if s.prelogin[0] != packetPrelogin || s.prelogin[1]&statusLast == 0 || len(s.prelogin) != be16(s.prelogin[2:]) {
		return errors.New("the driver does not begin with a PRELOGIN of one packet")
	}
	wanted := map[msdsn.Encryption]byte{
		msdsn.EncryptionRequired: encryptOn, msdsn.EncryptionStrict: encryptStrict, msdsn.EncryptionOff: encryptOff,
	}[s.encryption]
	if _, err := setEncryption(s.prelogin, wanted); err != nil {
		return err
	}
	s.phase = phaseAnswer
	if t, ok := c.stream.(*tls.Conn); ok {
		if err := t.Handshake(); err != nil {
			return fmt.Errorf("making TLS with the server: %w", err)
		}
	}
	_, err := c.stream.Write(s.prelogin)
	s.prelogin = nil
	return err
}

// answered reads the server's answer to PRELOGIN, makes TLS where it has to be made, and leaves an answer for the driver that
// says that there is none.
func (c *Conn) answered() error {
	s := &c.secure
	answer, err := readPrelogin(c.stream)
	if err != nil {
		return c.die(err)
	}
	got, err := setEncryption(answer, encryptNotSupported)
	if err != nil {
		return c.die(err)
	}
	switch {
	case s.encryption == msdsn.EncryptionStrict:
		s.phase = phaseLogin
	case got == encryptOn || got == encryptRequired:
		if err := c.encrypt(); err != nil {
			return c.die(err)
		}
		s.phase = phaseOpen
	case s.encryption == msdsn.EncryptionOff && (got == encryptOff || got == encryptNotSupported):
		if _, err := setEncryption(answer, got); err != nil {
			return c.die(err)
		}
		s.phase = phaseOpen
	default:
		return c.die(errors.New("the server does not support encryption, which is asked for: install a certificate there, or set encrypt=optional in a network that can be trusted"))
	}
	c.filter.out = append(c.filter.out[:0], answer...)
	return nil
}

// encrypt makes TLS whose handshake lies in PRELOGIN packets (MS-TDS 3.2.5.1).
func (c *Conn) encrypt() error {
	wrapped := &handshake{Conn: c.Conn, wrap: true}
	t := tls.Client(wrapped, c.secure.config)
	if err := t.Handshake(); err != nil {
		return fmt.Errorf("making TLS with the server: %w", err)
	}
	if err := wrapped.finish(); err != nil {
		return fmt.Errorf("making TLS with the server: %w", err)
	}
	c.stream = t
	return nil
}

// die closes the connection: nothing may leave any more.
func (c *Conn) die(err error) error {
	c.secure.phase = phaseDead
	return errors.Join(err, c.Close())
}

// readPrelogin reads the one packet of the server's answer.
func readPrelogin(from io.Reader) ([]byte, error) {
	packet := make([]byte, headerSize, 256)
	if _, err := io.ReadFull(from, packet); err != nil {
		return nil, fmt.Errorf("reading the answer to PRELOGIN: %w", err)
	}
	length := be16(packet[2:])
	if packet[0] != packetReply || packet[1]&statusLast == 0 || length <= headerSize || length > longestPrelogin {
		return nil, errors.New("what answers PRELOGIN is no SQL Server: is this its port?")
	}
	packet = append(packet, make([]byte, length-headerSize)...)
	if _, err := io.ReadFull(from, packet[headerSize:]); err != nil {
		return nil, fmt.Errorf("reading the answer to PRELOGIN: %w", err)
	}
	return packet, nil
}

// setEncryption puts a value into the option ENCRYPTION of a PRELOGIN packet and returns the one that was there.
func setEncryption(packet []byte, value byte) (byte, error) {
	b := packet[headerSize:]
	for at := 0; at+5 <= len(b) && b[at] != optionTerminator; at += 5 {
		offset, length := be16(b[at+1:]), be16(b[at+3:])
		if b[at] == optionEncryption && length == 1 && offset < len(b) {
			was := b[offset]
			b[offset] = value
			return was, nil
		}
	}
	return 0, errors.New("a PRELOGIN that says nothing about encryption")
}
