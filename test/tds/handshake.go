package tds

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"
)

// tlsClientHello is the first byte of a connection that begins with TLS.
const tlsClientHello = 0x16

// Reasons for ending a handshake.
var (
	errNoTLS    = errors.New("client began with TLS, but there is no certificate")
	errNeedsTLS = errors.New("client has no encryption, but the server requires it")
	errOrder    = errors.New("unexpected message before login")
)

// maxLogin bounds the messages before the login, in bytes.
const maxLogin = 1 << 20

// handshake takes a connection through PRELOGIN, TLS and LOGIN7. A client that sends LOGIN7 at once, as old ones do, is
// taken too.
func (c *Conn) handshake() (*Login, error) {
	if c.cfg.LoginTimeout > 0 {
		if err := c.sock.SetDeadline(time.Now().Add(c.cfg.LoginTimeout)); err != nil {
			return nil, fmt.Errorf("%w: setting the login deadline: %w", ErrDisconnected, err)
		}
	}
	first, err := c.sock.peek()
	if err != nil {
		return nil, err
	}
	if first == tlsClientHello {
		if err := c.startStrict(); err != nil {
			return nil, err
		}
	}
	m, err := c.readEarly()
	if err != nil {
		return nil, err
	}
	if m.typ == PacketPrelogin {
		if err := c.prelogin(m); err != nil {
			return nil, err
		}
		if m, err = c.readEarly(); err != nil {
			return nil, err
		}
	} else if c.cfg.Encryption == EncryptionRequired && c.cfg.TLS != nil && !c.strict {
		return nil, errNeedsTLS
	}
	if m.typ != PacketLogin7 {
		return nil, fmt.Errorf("%w: %s", errOrder, m.typ)
	}
	return c.readLogin(m)
}

// readLogin reads LOGIN7 and settles what follows from it.
func (c *Conn) readLogin(m message) (*Login, error) {
	login, err := ParseLogin7(m.payload)
	if err != nil {
		return nil, err
	}
	if !login.Version.Wide() {
		return nil, fmt.Errorf("%w: client asks for %s", ErrVersion, login.Version)
	}
	c.login = login
	if !c.encrypted {
		c.stream = c.sock // after a login-only TLS session everything is clear
	}
	if !login.Version.HasNBCRow() {
		c.nbc = NBCNever
	}
	return login, c.sock.SetDeadline(time.Time{})
}

// readEarly reads one message before the login. It reads no byte too many, since TLS may follow.
func (c *Conn) readEarly() (message, error) {
	p := packetReader{r: c.stream, limit: maxLogin}
	return p.next()
}

// startStrict does TLS before anything else (TDS 8.0).
func (c *Conn) startStrict() error {
	if c.cfg.TLS == nil {
		return errNoTLS
	}
	cfg := c.cfg.TLS.Clone()
	cfg.NextProtos = []string{"tds/8.0"}
	cfg.MinVersion = max(cfg.MinVersion, tls.VersionTLS12)
	c.strict, c.encrypted = true, true
	return c.startTLS(cfg, &tlsCarrier{sock: c.sock})
}

// prelogin answers PRELOGIN and does TLS if that is what comes out.
func (c *Conn) prelogin(m message) error {
	asked, err := ParsePrelogin(m.payload)
	if err != nil {
		return err
	}
	client := byte(encryptNotSupported)
	if data, ok := preloginOf(asked, PreloginEncryption); ok && len(data) == 1 {
		client = data[0]
	}
	answer, refuse := c.cfg.Encryption.negotiate(client, c.cfg.TLS != nil)
	if c.strict {
		answer, refuse = client, false // TLS is there already
	}
	payload := AppendPrelogin(nil, answerPrelogin(asked, c.cfg, answer))
	if _, err := c.stream.Write(appendMessage(nil, PacketTabular, payload, DefaultPacketSize, 0)); err != nil {
		return fmt.Errorf("answering PRELOGIN: %w", err)
	}
	if refuse {
		return errNeedsTLS
	}
	if c.strict || answer == encryptNotSupported {
		return nil
	}
	cfg := c.cfg.TLS.Clone()
	cfg.NextProtos = nil
	cfg.MaxVersion = tls.VersionTLS12
	c.encrypted = answer != encryptOff
	return c.startTLS(cfg, &tlsCarrier{sock: c.sock, wrapped: true, single: !c.encrypted})
}

// startTLS does the handshake over the carrier and sends what follows through TLS.
func (c *Conn) startTLS(cfg *tls.Config, carrier *tlsCarrier) error {
	cfg.DynamicRecordSizingDisabled = true
	conn := tls.Server(carrier, cfg)
	if err := conn.HandshakeContext(c.gone); err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrDisconnected // the client did not like the certificate, or changed its mind
		}
		return fmt.Errorf("TLS handshake: %w", err)
	}
	carrier.wrapped = false
	c.tls, c.stream = conn, conn
	return nil
}

// accept tells the client that it is logged in: the tokens in the order in which servers from 2008 on send them.
func (c *Conn) accept(w *Writer, a *LoginAnswer) error {
	size := c.cfg.grant(c.login.PacketSize, c.encrypted)
	c.answerDefaults(a, size)
	w.begin(c.gone)
	w.Raw(appendLogin(nil, c.cfg, c.login, a))
	if a.Routing != nil {
		w.EnvRouting(*a.Routing)
	}
	w.Done(Done{})
	hooks := c.hooks
	c.hooks = Hooks{}                           // faults of packets begin with the first request
	c.packetSize = min(size, DefaultPacketSize) // the client learns of the size in this answer
	err := w.finish(false)
	c.packetSize, c.hooks, c.packets, c.sent = size, hooks, 0, 0
	return err
}

// answerDefaults fills what the handler left open.
func (c *Conn) answerDefaults(a *LoginAnswer, size int) {
	setDefault(&a.Database, c.login.Database)
	setDefault(&a.Database, "master")
	setDefault(&a.OldDatabase, "master")
	setDefault(&a.Language, c.cfg.Language)
	setDefault(&a.Collation, c.cfg.Collation)
	setDefault(&a.PacketSize, size)
	if _, asked := c.login.Feature(FeatureUTF8); asked && a.Features == nil {
		a.Features = []Feature{{FeatureUTF8, []byte{1}}}
	}
}

// appendLogin appends the tokens of a login answer but the last.
func appendLogin(dst []byte, cfg *Config, login *Login, a *LoginAnswer) []byte {
	dst = appendEnvText(dst, envDatabase, a.Database, a.OldDatabase)
	dst = databaseMessage(a.Database).append(dst, cfg.ServerName)
	dst = appendEnvBytes(dst, envCollation, a.Collation[:], nil)
	dst = appendEnvText(dst, envLanguage, a.Language, "")
	dst = languageMessage(a.Language).append(dst, cfg.ServerName)
	dst = appendLoginAck(dst, login.Version.granted(), cfg.ProgramName, cfg.Version)
	dst = appendEnvText(dst, envPacketSize, fmt.Sprint(a.PacketSize), fmt.Sprint(DefaultPacketSize))
	if a.Mirror != "" {
		dst = appendEnvText(dst, envMirror, a.Mirror, "")
	}
	if len(a.Features) > 0 {
		dst = appendFeatureAck(dst, a.Features)
	}
	return dst
}

// refuse tells the client why it cannot log in, as far as the error holds messages for it.
func (c *Conn) refuse(w *Writer, cause error) error {
	messages := messagesOf(cause)
	if len(messages) == 0 {
		return cause
	}
	w.begin(c.gone)
	for _, m := range messages {
		w.Message(m)
	}
	w.Done(Done{Status: DoneError})
	if err := w.finish(false); err != nil {
		return err
	}
	return cause
}

// messagesOf collects the server errors in an error, also in joined ones, in order.
func messagesOf(err error) []*ServerError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*ServerError
		for _, e := range joined.Unwrap() {
			all = append(all, messagesOf(e)...)
		}
		return all
	}
	if m, ok := errors.AsType[*ServerError](err); ok {
		return []*ServerError{m}
	}
	return nil
}
