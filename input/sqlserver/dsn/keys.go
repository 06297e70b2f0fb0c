package dsn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// errHidden stands for an unknown key that may be part of a password, so that its text is not shown.
var errHidden = errors.New("unknown key after the password")

// canonical gives the one name of a key that several drivers spell differently, or the key in lower case without blanks
// and underscores.
func canonical(key string) string {
	plain := strings.NewReplacer(" ", "", "_", "", "\t", "").Replace(strings.ToLower(strings.TrimSpace(key)))
	switch plain {
	case "server", "datasource", "addr", "address", "networkaddress", "host":
		return "server"
	case "database", "initialcatalog":
		return "database"
	case "uid", "user", "userid", "username":
		return "user"
	case "pwd", "password":
		return "password"
	case "app", "appname", "applicationname":
		return "app"
	case "wsid", "workstationid":
		return "workstation"
	case "connectiontimeout", "connecttimeout", "timeout", "logintimeout", "dialtimeout":
		return "connecttimeout"
	case "trustedconnection", "integratedsecurity":
		return "integratedsecurity"
	case "columnencryption", "columnencryptionsetting":
		return "columnencryption"
	}
	return plain
}

// harmless tells whether a key of another driver changes nothing for a reader.
func harmless(name string) bool {
	switch name {
	case "driver", "provider", "description", "ansinpw", "quotedid", "autotranslate", "regional", "language",
		"marsconnection", "multipleactiveresultsets", "pooling", "minpoolsize", "maxpoolsize", "poolblockingperiod",
		"persistsecurityinfo", "connectionlifetime", "loadbalancetimeout", "connectionreset", "enlist", "replication",
		"connectretrycount", "connectretryinterval", "ipaddresspreference", "tcpipaddresspreference", "typesystemversion",
		"transactionbinding", "userinstance", "asynchronousprocessing", "commandtimeout", "querylogon", "statslogon",
		"disableretry", "guidconversion", "timezone", "log", "notraceid", "transparentnetworkipresolution",
		"packettrace", "retryexec", "usefmtonly", "getdataextensions", "longasmax", "vectortypesupport", "dataclassversion":
		return true
	}
	return false
}

type builder struct {
	c     Connection
	given map[string]string // canonical key → value, to find contradictions
}

func newBuilder() *builder {
	return &builder{c: Connection{Encrypt: Mandatory, MultiSubnetFailover: true}, given: map[string]string{}}
}

// set takes one entry. hidden says that an unknown key must not be named.
func (b *builder) set(key, value string, hidden bool) error {
	name := canonical(key)
	if before, ok := b.given[name]; ok && !sameValue(before, value) {
		return &Error{Key: name, Reason: "given twice with different values"}
	}
	b.given[name] = value
	known, err := b.apply(name, value)
	switch {
	case err != nil:
		return &Error{Key: printable(key), Reason: err.Error()}
	case known || harmless(name):
		return nil
	case hidden:
		return errHidden
	}
	return &Error{Key: printable(key), Reason: "unknown key"}
}

// sameValue tells whether two values mean the same: yes and true do.
func sameValue(a, b string) bool {
	yes1, err1 := parseBool(a)
	yes2, err2 := parseBool(b)
	return a == b || err1 == nil && err2 == nil && yes1 == yes2
}

// printable keeps a key that is not a plain word out of messages.
func printable(key string) string {
	for _, r := range key {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ _", r) {
			return "an unprintable key"
		}
	}
	return key
}

// apply sets the field of a known key. Errors must not hold the value.
func (b *builder) apply(name, value string) (known bool, err error) {
	c := &b.c
	switch name {
	case "server":
		return true, b.server(value)
	case "database":
		c.Database = value
	case "user":
		c.User = value
	case "password":
		c.Password = value
	case "port":
		c.Port, err = parsePort(value)
	case "app":
		c.AppName = value
	case "workstation":
		c.Workstation = value
	case "connecttimeout":
		c.ConnectTimeout, err = parseSeconds(value)
	case "keepalive":
		c.KeepAlive, err = parseSeconds(value)
	case "packetsize":
		c.PacketSize, err = parsePacketSize(value)
	case "multisubnetfailover":
		c.MultiSubnetFailover, err = parseBool(value)
	case "failoverpartner":
		c.FailoverPartner = value
	case "failoverport":
		c.FailoverPort, err = parsePort(value)
	case "serverspn":
		c.ServerSPN = value
	case "applicationintent":
		c.ReadOnlyIntent, err = parseIntent(value)
	default:
		return b.applySecurity(name, value)
	}
	return true, err
}

func (b *builder) applySecurity(name, value string) (known bool, err error) {
	c := &b.c
	switch name {
	case "encrypt":
		c.Encrypt, err = parseEncrypt(value)
	case "trustservercertificate":
		c.TrustServerCertificate, err = parseBool(value)
	case "hostnameincertificate":
		c.HostNameInCertificate = value
	case "servercertificate":
		c.ServerCertificate = value
	case "certificate":
		c.Certificate = value
	case "tlsmin":
		c.TLSMin = value
	case "integratedsecurity":
		err = refuseIf(isTrue(value) || strings.EqualFold(value, "sspi"),
			`Windows integrated login is not supported; use a SQL login, DOMAIN\user with a password (NTLM), or an access token`)
	case "authentication", "fedauth":
		err = refuseIf(value != "" && !strings.EqualFold(value, "SqlPassword"),
			"logins of Microsoft Entra ID need an access token instead (leave the key out)")
	case "columnencryption":
		err = refuseIf(isTrue(value) || strings.EqualFold(value, "enabled"), "Always Encrypted is not supported")
	case "epaenabled":
		err = refuseIf(isTrue(value), "extended protection is not supported")
	case "protocol":
		err = refuseIf(value != "" && !strings.EqualFold(value, "tcp"), "only tcp is supported")
	case "network", "networklibrary", "net":
		err = refuseIf(value != "" && !strings.EqualFold(value, "dbmssocn"), "only TCP (dbmssocn) is supported")
	case "dsn", "filedsn", "savefile", "attachdbfilename", "extendedproperties", "initialfilename":
		err = errors.New("refers to something outside the connection string; write the settings themselves")
	case "changepassword":
		err = errors.New("changing passwords is not supported")
	default:
		return false, nil
	}
	return true, err
}

func refuseIf(refuse bool, reason string) error {
	if refuse {
		return errors.New(reason)
	}
	return nil
}

// server reads [tcp:]host[\instance][,port]; IPv6 may stand in brackets.
func (b *builder) server(value string) error {
	rest := strings.TrimSpace(value)
	if protocol, after, ok := strings.Cut(rest, ":"); ok && !strings.ContainsAny(protocol, `[.\,`) {
		switch strings.ToLower(strings.TrimSpace(protocol)) {
		case "tcp":
			rest = strings.TrimSpace(after)
		case "np", "lpc", "admin", "sm", "via":
			return errors.New("only TCP is supported")
		}
	}
	if host, port, ok := strings.Cut(rest, ","); ok {
		number, err := parsePort(port)
		if err != nil {
			return errors.New("the port after the comma must be 1 to 65535")
		}
		b.c.Port, rest = number, strings.TrimSpace(host)
	}
	host, instance, _ := strings.Cut(rest, `\`)
	b.c.Instance = strings.TrimSpace(instance)
	host = strings.TrimSpace(host)
	if strings.HasPrefix(strings.ToLower(host), "(localdb)") || strings.HasPrefix(host, "@") {
		return errors.New("LocalDB is not supported")
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	b.c.Host = localName(host)
	return nil
}

// finish checks what only the whole string tells.
func (b *builder) finish() (Connection, error) {
	c := b.c
	switch {
	case c.Host == "":
		return Connection{}, &Error{Reason: "no server given (Server=host,port)"}
	case !plainHost(c.Host):
		return Connection{}, &Error{Key: "server", Reason: `not a host name; want host, host\instance, host,port or tcp:host,port`}
	case strings.ContainsAny(c.Instance, `/\?#`):
		return Connection{}, &Error{Key: "server", Reason: "not an instance name"}
	case c.ServerCertificate != "" && c.Certificate != "":
		return Connection{}, &Error{Key: "ServerCertificate", Reason: "excludes Certificate"}
	case c.ServerCertificate != "" && c.HostNameInCertificate != "":
		return Connection{}, &Error{Key: "ServerCertificate", Reason: "excludes HostNameInCertificate"}
	case c.ReadOnlyIntent && c.Database == "":
		return Connection{}, &Error{Key: "ApplicationIntent", Reason: "ReadOnly needs a database"}
	}
	return c, nil
}

func plainHost(host string) bool {
	for _, r := range host {
		if r <= ' ' || strings.ContainsRune(`/@?#\,;="'{}<>|^`+"`", r) || r == 0x7F {
			return false
		}
	}
	return true
}

func isTrue(value string) bool {
	yes, err := parseBool(value)
	return err == nil && yes
}

func parseBool(value string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true", "yes", "1", "t", "y", "enabled":
		return true, nil
	case "false", "no", "0", "f", "n", "disabled":
		return false, nil
	}
	return false, errors.New("want yes or no")
}

func parseEncrypt(value string) (Encryption, error) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true", "yes", "1", "t", "mandatory", "required":
		return Mandatory, nil
	case "false", "no", "0", "f", "optional":
		return Optional, nil
	case "strict":
		return Strict, nil
	case "disable", "disabled":
		return Disabled, nil
	}
	return "", errors.New("want yes, no, mandatory, optional, strict or disable")
}

func parseIntent(value string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "readonly":
		return true, nil
	case "readwrite":
		return false, nil
	}
	return false, errors.New("want ReadOnly or ReadWrite")
}

func parseSeconds(value string) (time.Duration, error) {
	seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
	if err != nil {
		return 0, errors.New("want a number of seconds")
	}
	return time.Duration(seconds) * time.Second, nil
}

func parsePacketSize(value string) (uint16, error) {
	size, err := strconv.ParseUint(strings.TrimSpace(value), 10, 16)
	if err != nil || size < 512 || size > 32767 {
		return 0, fmt.Errorf("want 512 to 32767 bytes")
	}
	return uint16(size), nil
}
