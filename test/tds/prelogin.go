package tds

import (
	"encoding/binary"
	"errors"
)

// PreloginToken is an option of a PRELOGIN message (MS-TDS 2.2.6.5).
type PreloginToken uint8

// PRELOGIN options.
const (
	PreloginVersion    PreloginToken = 0
	PreloginEncryption PreloginToken = 1
	PreloginInstance   PreloginToken = 2
	PreloginThreadID   PreloginToken = 3
	PreloginMARS       PreloginToken = 4
	PreloginTraceID    PreloginToken = 5
	PreloginFedAuth    PreloginToken = 6
	PreloginNonce      PreloginToken = 7

	preloginEnd = 0xFF
)

// Values of the encryption option.
const (
	encryptOff          = 0 // TLS for LOGIN7 only
	encryptOn           = 1
	encryptNotSupported = 2
	encryptRequired     = 3
)

// PreloginOption is one option with its data.
type PreloginOption struct {
	Token PreloginToken
	Data  []byte
}

// errPrelogin is the reason for refusing a PRELOGIN.
var errPrelogin = errors.New("an option that points outside the message")

// ParsePrelogin reads the options of a PRELOGIN payload, in either direction. Data aliases the payload.
func ParsePrelogin(payload []byte) ([]PreloginOption, error) {
	d := decoder{b: payload}
	var options []PreloginOption
	for {
		token := d.u8("PRELOGIN option")
		if d.err != nil {
			return nil, d.err
		}
		if token == preloginEnd {
			return options, nil
		}
		place := d.take("PRELOGIN option", 4)
		if d.err != nil {
			return nil, d.err
		}
		at, n := int(binary.BigEndian.Uint16(place)), int(binary.BigEndian.Uint16(place[2:]))
		if at+n > len(payload) {
			d.fail("PRELOGIN option", errPrelogin)
			return nil, d.err
		}
		options = append(options, PreloginOption{PreloginToken(token), payload[at : at+n : at+n]})
	}
}

// AppendPrelogin appends a PRELOGIN payload: the table of options, then their data in the same order.
func AppendPrelogin(dst []byte, options []PreloginOption) []byte {
	at := 5*len(options) + 1
	for _, o := range options {
		dst = append(dst, byte(o.Token))
		dst = binary.BigEndian.AppendUint16(dst, uint16(at))
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(o.Data)))
		at += len(o.Data)
	}
	dst = append(dst, preloginEnd)
	for _, o := range options {
		dst = append(dst, o.Data...)
	}
	return dst
}

// preloginOf gives the data of an option and whether it is there.
func preloginOf(options []PreloginOption, token PreloginToken) ([]byte, bool) {
	for _, o := range options {
		if o.Token == token {
			return o.Data, true
		}
	}
	return nil, false
}

// answerPrelogin makes the answer to the client's options. 0 to 4 are always there: jdbc takes the TDS version from the
// first, and FreeTDS falls back to TDS 7.1 without MARS. TRACEID is mirrored empty as SQL Server does; FEDAUTHREQUIRED
// only when the configuration says what to answer.
func answerPrelogin(asked []PreloginOption, cfg *Config, encryption byte) []PreloginOption {
	version := []byte{cfg.Version.Major, cfg.Version.Minor, byte(cfg.Version.Build >> 8), byte(cfg.Version.Build), 0, 0}
	answer := []PreloginOption{
		{PreloginVersion, version},
		{PreloginEncryption, []byte{encryption}},
		{PreloginInstance, []byte{0}},
		{PreloginThreadID, nil},
		{PreloginMARS, []byte{0}},
	}
	if _, ok := preloginOf(asked, PreloginTraceID); ok {
		answer = append(answer, PreloginOption{PreloginTraceID, nil})
	}
	if _, ok := preloginOf(asked, PreloginFedAuth); ok && cfg.FedAuth != FedAuthSilent {
		answer = append(answer, PreloginOption{PreloginFedAuth, []byte{byte(cfg.FedAuth - FedAuthNotRequired)}})
	}
	return answer
}

// Encryption is the server's policy.
type Encryption uint8

// Policies. Without a certificate each of them is EncryptionNone.
const (
	EncryptionOptional Encryption = iota // what the client asks: none, the login only, or everything
	EncryptionNone                       // "not supported"; a client that insists gives up
	EncryptionRequired                   // everything; a client that has no TLS is turned away
)

// negotiate gives the answer to the client's encryption option, and whether the connection is refused after it
// (MS-TDS 2.2.6.5, ENCRYPTION).
func (e Encryption) negotiate(client byte, certificate bool) (answer byte, refuse bool) {
	if !certificate {
		e = EncryptionNone
	}
	wants := client == encryptOn || client == encryptRequired
	switch {
	case e == EncryptionNone:
		return encryptNotSupported, false // a client that insists hangs up itself
	case wants:
		return encryptOn, false
	case client == encryptNotSupported && e == EncryptionRequired:
		return encryptRequired, true
	case client == encryptNotSupported:
		return encryptNotSupported, false
	case e == EncryptionRequired:
		return encryptRequired, false
	default:
		return encryptOff, false
	}
}

// FedAuth says how a PRELOGIN that asks for FEDAUTHREQUIRED is answered.
type FedAuth uint8

// Answers.
const (
	FedAuthSilent      FedAuth = iota // the option is left out: go-mssqldb and jdbc then use SQL logins
	FedAuthNotRequired                // 0
	FedAuthRequired                   // 1, as Azure answers
)
