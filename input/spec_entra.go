package input

import (
	"fmt"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/entra"
)

// Fields of the object entra.
const (
	entraMethod              = "method"
	entraTenant              = "tenant_id"
	entraClient              = "client_id"
	entraSecret              = "client_secret"
	entraCertificate         = "certificate_file"
	entraCertificatePassword = "certificate_password"
	entraCommand             = "token_command"
	entraFile                = "token_file"
)

func entraField() *service.ConfigField {
	text := func(name, description string) *service.ConfigField {
		return service.NewStringField(name).Description(description).Default("")
	}
	return service.NewObjectField(fieldEntra,
		service.NewStringAnnotatedEnumField(entraMethod, map[string]string{
			string(entra.None):             "Log in with a name and a password.",
			string(entra.Default):          "What Azure's SDK finds: environment variables, a workload identity, a managed identity, the Azure CLI.",
			string(entra.ManagedIdentity):  "The identity of the machine or container; `client_id` chooses one of several.",
			string(entra.WorkloadIdentity): "The identity of a Kubernetes service account.",
			string(entra.ServicePrincipal): "An application: `tenant_id`, `client_id`, and `client_secret` or `certificate_file`.",
			string(entra.TokenCommand):     "A program that prints a token.",
			string(entra.TokenFile):        "A file that holds a token, which somebody else renews.",
		}).Description("Where tokens come from.").Default(string(entra.None)),
		text(entraTenant, "The directory of the application."),
		text(entraClient, "The application, or the managed identity."),
		text(entraSecret, "The application's secret. Quote the variable that holds it.").Secret(),
		text(entraCertificate, "A PEM or PKCS #12 file with the application's certificate and its private key."),
		text(entraCertificatePassword, "The password of that file.").Secret(),
		service.NewStringListField(entraCommand).Description("The program and its arguments. It is run for each new connection and must print the token alone within 30 s.").Default([]any{}),
		text(entraFile, "The file is read for each new connection."),
	).Description("Login with a token of Microsoft Entra ID instead of a name and a password, which the connection string then must not have. Each new connection takes a fresh token.").Optional().Advanced()
}

// parseEntra makes the source of tokens, nil if the login is by name and password.
func parseEntra(conf *service.ParsedConfig) (entra.Source, error) {
	if !conf.Contains(fieldEntra) {
		return nil, nil
	}
	f := &fields{conf: conf.Namespace(fieldEntra)}
	config := entra.Config{
		Method:   entra.Method(takeOption(f, entraMethod)),
		TenantID: take(f, f.conf.FieldString, entraTenant), ClientID: take(f, f.conf.FieldString, entraClient),
		ClientSecret:    take(f, f.conf.FieldString, entraSecret),
		CertificateFile: take(f, f.conf.FieldString, entraCertificate), CertificatePassword: take(f, f.conf.FieldString, entraCertificatePassword),
		Command: take(f, f.conf.FieldStringList, entraCommand), File: take(f, f.conf.FieldString, entraFile),
	}
	if f.err != nil {
		return nil, f.err
	}
	source, err := entra.New(config)
	if err != nil {
		return nil, fmt.Errorf("field %s: %w", fieldEntra, err)
	}
	return source, nil
}
