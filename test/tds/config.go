package tds

import (
	"crypto/tls"
	"time"
)

// Config is what a server says of itself and what it allows. The zero value is a server without TLS, named SIM, that says it
// is SQL Server 2022.
type Config struct {
	// ServerName stands in every ERROR and INFO token. Default "SIM".
	ServerName string
	// Version is the product's version in PRELOGIN and LOGINACK. Default 16.0.4265. A major version below 11 makes jdbc
	// choose an older protocol.
	Version ProductVersion
	// ProgramName stands in LOGINACK. Default "Microsoft SQL Server" and two NUL characters, as all servers send it.
	ProgramName string
	// Collation is the server's, sent at login. Default [CollationDefault].
	Collation Collation
	// Language is sent at login unless the client asks for one. Default us_english.
	Language string

	// TLS holds the certificate; nil answers that encryption is not supported. See [NewCertificate]. In the TDS 7 form TLS
	// is capped at 1.2, since FreeTDS and msodbcsql hang in a 1.3 handshake there.
	TLS *tls.Config
	// Encryption is the policy when there is a certificate. A client that starts with TLS ("strict") is always served then.
	Encryption Encryption
	// FedAuth says how a client that asks for FEDAUTHREQUIRED is answered.
	FedAuth FedAuth

	// PacketSize is the largest packet granted, in bytes with its header. Default 32767; under TLS 16383.
	PacketSize int
	// DefaultPacketSize is granted to a client that leaves the size to the server. Default 4096.
	DefaultPacketSize int
	// MaxRequest is the longest request in bytes; a longer one ends the connection. Default 64 MiB.
	MaxRequest int
	// LoginTimeout ends a connection that has not logged in by then. Default 30 s; negative for none.
	LoginTimeout time.Duration
	// NBC says when rows are sent as NBCROW. Default: when they hold NULLs and the client knows the token.
	NBC NBCPolicy

	// Hooks break connections on purpose.
	Hooks Hooks
	// OnEnd, when set, is called once at the end of every connection with the error that ended it, nil when the client
	// closed it between requests.
	OnEnd func(c *Conn, err error)
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	setDefault(&c.ServerName, "SIM")
	setDefault(&c.Version, ProductVersion{16, 0, 4265})
	setDefault(&c.ProgramName, "Microsoft SQL Server\x00\x00")
	setDefault(&c.Collation, CollationDefault())
	setDefault(&c.Language, "us_english")
	setDefault(&c.PacketSize, MaxPacketSize)
	setDefault(&c.DefaultPacketSize, DefaultPacketSize)
	setDefault(&c.MaxRequest, 64<<20)
	setDefault(&c.LoginTimeout, 30*time.Second)
	return c
}

// setDefault sets v if it is the zero value.
func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

// grant gives the packet size for a client's wish.
func (c *Config) grant(asked uint32, encrypted bool) int {
	size := int(min(asked, MaxPacketSize))
	if size == 0 {
		size = c.DefaultPacketSize
	}
	size = max(min(size, c.PacketSize, MaxPacketSize), MinPacketSize)
	if encrypted {
		size = min(size, MaxTLSPacketSize)
	}
	return size
}

// NBCPolicy says when a row is sent as NBCROW instead of ROW.
type NBCPolicy uint8

// Policies.
const (
	NBCAuto   NBCPolicy = iota // rows with a NULL, for clients of TDS 7.3B and later
	NBCNever                   // never
	NBCAlways                  // every row of a rowset that can hold NULL
)
