package tds

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificate is a server certificate made at start, signed by an authority made with it. It is a leaf and not the authority
// itself, since rustls takes no CA certificate for a server's.
type Certificate struct {
	Config *tls.Config // for Config.TLS
	CA     []byte      // PEM of the authority, for clients that check against one; strict mode needs this or Leaf
	Leaf   []byte      // PEM of the certificate itself, for clients that compare: msodbcsql's and jdbc's ServerCertificate
}

// NewCertificate makes a certificate for localhost, 127.0.0.1, ::1 and the hosts given, names or addresses. It is valid
// from yesterday for ten years. The key is ECDSA on P-256, which takes no time; [NewRSACertificate] is for clients that
// know RSA only.
func NewCertificate(hosts ...string) (*Certificate, error) {
	return newCertificate(hosts, func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })
}

// NewRSACertificate is NewCertificate with an RSA key of 2048 bits, as SQL Server's own self-signed certificate has.
func NewRSACertificate(hosts ...string) (*Certificate, error) {
	return newCertificate(hosts, func() (crypto.Signer, error) { return rsa.GenerateKey(rand.Reader, 2048) })
}

// newCertificate makes the authority and the leaf with keys from newKey.
func newCertificate(hosts []string, newKey func() (crypto.Signer, error)) (*Certificate, error) {
	caKey, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("making the authority's key: %w", err)
	}
	ca, err := template("test authority of the TDS server", 1)
	if err != nil {
		return nil, err
	}
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("signing the authority: %w", err)
	}
	key, err := newKey()
	if err != nil {
		return nil, fmt.Errorf("making the server's key: %w", err)
	}
	leaf, err := template("localhost", 2)
	if err != nil {
		return nil, err
	}
	leaf.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range append([]string{"localhost", "127.0.0.1", "::1"}, hosts...) {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return nil, fmt.Errorf("signing the server's certificate: %w", err)
	}
	return &Certificate{
		Config: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			MinVersion:   tls.VersionTLS12,
		},
		CA:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}),
		Leaf: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

// template gives the common fields of both certificates.
func template(name string, usage int64) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(usage)),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.AddDate(0, 0, -1),
		NotAfter:     now.AddDate(10, 0, 0),
	}, nil
}
