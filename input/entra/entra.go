// Package entra gives access tokens of Microsoft Entra ID for logins to SQL Server,
// a fresh one whenever a connection is made: from a managed identity, a workload
// identity, a service principal, the default chain of Azure's SDK, a command or a
// file.
package entra

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// Method is where tokens come from.
type Method string

// The methods.
const (
	None             Method = "none" // no token: a login with a name and a password
	Default          Method = "default"
	ManagedIdentity  Method = "managed_identity"
	WorkloadIdentity Method = "workload_identity"
	ServicePrincipal Method = "service_principal"
	TokenCommand     Method = "token_command"
	TokenFile        Method = "token_file"
)

// scope is Azure SQL's.
const scope = "https://database.windows.net/.default"

// Config says how to get tokens. Which fields a method takes is checked by [New].
type Config struct {
	Method              Method
	TenantID, ClientID  string
	ClientSecret        string
	CertificateFile     string // PEM or PKCS #12 with the private key, instead of a secret
	CertificatePassword string
	Command             []string // a program and its arguments; it prints a token
	File                string   // holds a token; it is read for each login

	// Transport replaces the network for the SDK's own requests, for tests.
	Transport policy.Transporter
}

// Source gives a token. It is safe for concurrent use.
type Source func(ctx context.Context) (string, error)

// takes lists the fields that a method takes, and of those the ones that it needs.
func takes(m Method) (fields, needed []string, known bool) {
	switch m {
	case None, Default:
		return nil, nil, true
	case ManagedIdentity:
		return []string{"client_id"}, nil, true
	case WorkloadIdentity:
		return []string{"client_id", "tenant_id"}, nil, true
	case ServicePrincipal:
		return []string{"client_id", "tenant_id", "client_secret", "certificate_file", "certificate_password"}, []string{"client_id", "tenant_id"}, true
	case TokenCommand:
		return []string{"token_command"}, []string{"token_command"}, true
	case TokenFile:
		return []string{"token_file"}, []string{"token_file"}, true
	}
	return nil, nil, false
}

func (c Config) set() map[string]bool {
	return map[string]bool{
		"tenant_id": c.TenantID != "", "client_id": c.ClientID != "", "client_secret": c.ClientSecret != "",
		"certificate_file": c.CertificateFile != "", "certificate_password": c.CertificatePassword != "",
		"token_command": len(c.Command) > 0, "token_file": c.File != "",
	}
}

func (c Config) validate() error {
	fields, needed, known := takes(c.Method)
	if !known {
		return fmt.Errorf("unknown method %q", c.Method)
	}
	set := c.set()
	for _, name := range needed {
		if !set[name] {
			return fmt.Errorf("method %s needs %s", c.Method, name)
		}
	}
	for _, name := range []string{"tenant_id", "client_id", "client_secret", "certificate_file", "certificate_password", "token_command", "token_file"} {
		if set[name] && !slices.Contains(fields, name) {
			return fmt.Errorf("method %s takes no %s: remove it or choose another method", c.Method, name)
		}
	}
	if c.Method == ServicePrincipal && set["client_secret"] == set["certificate_file"] {
		return fmt.Errorf("method %s needs either client_secret or certificate_file", c.Method)
	}
	return nil
}

// New makes a source; nil for [None]. It asks for no token yet. No error names a
// secret.
func New(c Config) (Source, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	switch c.Method {
	case None:
		return nil, nil
	case TokenFile:
		return fileSource(c.File), nil
	case TokenCommand:
		return commandSource(c.Command), nil
	}
	credential, err := c.credential()
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", c.Method, err)
	}
	return func(ctx context.Context) (string, error) {
		// The SDK keeps tokens and renews them before they expire.
		token, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		if err != nil {
			return "", fmt.Errorf("asking Microsoft Entra ID for a token (method %s): %w", c.Method, err)
		}
		return token.Token, nil
	}, nil
}

func (c Config) credential() (azcore.TokenCredential, error) {
	options := azcore.ClientOptions{Transport: c.Transport}
	switch c.Method {
	case ManagedIdentity:
		o := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: options}
		if c.ClientID != "" {
			o.ID = azidentity.ClientID(c.ClientID)
		}
		return azidentity.NewManagedIdentityCredential(o)
	case WorkloadIdentity:
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: options, ClientID: c.ClientID, TenantID: c.TenantID,
		})
	case ServicePrincipal:
		if c.CertificateFile == "" {
			return azidentity.NewClientSecretCredential(c.TenantID, c.ClientID, c.ClientSecret,
				&azidentity.ClientSecretCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: c.Transport != nil})
		}
		return c.certificate(options)
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options})
}

func (c Config) certificate(options azcore.ClientOptions) (azcore.TokenCredential, error) {
	raw, err := os.ReadFile(c.CertificateFile)
	if err != nil {
		return nil, fmt.Errorf("reading certificate_file: %w", err)
	}
	certificates, key, err := azidentity.ParseCertificates(raw, []byte(c.CertificatePassword))
	if err != nil {
		return nil, fmt.Errorf("reading certificate_file %s: %w", c.CertificateFile, err)
	}
	return azidentity.NewClientCertificateCredential(c.TenantID, c.ClientID, certificates, key,
		&azidentity.ClientCertificateCredentialOptions{ClientOptions: options, DisableInstanceDiscovery: c.Transport != nil})
}

func fileSource(path string) Source {
	return func(context.Context) (string, error) {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading token_file: %w", err)
		}
		token := strings.TrimSpace(string(raw))
		if token == "" {
			return "", fmt.Errorf("token_file %s is empty", path)
		}
		return token, nil
	}
}

// commandTimeout bounds a command that hangs.
const commandTimeout = 30 * time.Second

func commandSource(command []string) Source {
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, commandTimeout)
		defer cancel()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		// A child that keeps the pipes open must not hold up the login.
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("running token_command %s: %w%s", command[0], errors.Join(ctx.Err(), err), lastWords(stderr.String()))
		}
		token := strings.TrimSpace(stdout.String())
		if token == "" || strings.ContainsAny(token, " \n\t") {
			return "", fmt.Errorf("token_command %s printed no single token", command[0])
		}
		return token, nil
	}
}

// lastWords is the last line of what a command complained about.
func lastWords(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return ": " + last
	}
	return ""
}
