// Package storage is the storage section that configurations of the plugins have
// in common: how the object stores are reached that their paths and URIs name.
package storage

import (
	"fmt"
	"os"

	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/cloud"
)

const (
	fieldStorage = "storage"

	fieldS3              = "s3"
	fieldRegion          = "region"
	fieldEndpoint        = "endpoint"
	fieldPathStyle       = "path_style"
	fieldAccessKeyID     = "access_key_id"
	fieldSecretAccessKey = "secret_access_key"
	fieldSessionToken    = "session_token"

	fieldAzure            = "azure"
	fieldAccount          = "account"
	fieldAccountKey       = "account_key"
	fieldSASToken         = "sas_token"
	fieldConnectionString = "connection_string"

	fieldGCS             = "gcs"
	fieldCredentialsFile = "credentials_file"
	fieldCredentialsJSON = "credentials_json"
	fieldAnonymous       = "anonymous"
)

// PathHelp is what a path or URI may be, for descriptions of fields.
const PathHelp = "a folder, `s3://bucket/path`, `gs://bucket/path`, `abfss://container@account.dfs.core.windows.net/path` or `az://container/path`"

// Field is the storage section.
func Field() *service.ConfigField {
	return service.NewObjectField(fieldStorage,
		service.NewObjectField(fieldS3,
			text(fieldRegion, "Region of the buckets. Empty: that of the environment, and `us-east-1` for an endpoint.").Example("eu-central-1"),
			text(fieldEndpoint, "URL of a server other than AWS. It must honour `If-None-Match` on PUT: the first commit finds out, and a server that does not is refused.").Example("http://minio:9000"),
			service.NewBoolField(fieldPathStyle).Description("Whether the bucket is in the path instead of the host name. Without it: yes with an endpoint, no for AWS.").Optional(),
			text(fieldAccessKeyID, "Access key. Empty: the environment, shared files and roles, as other AWS programs find them."),
			text(fieldSecretAccessKey, "Secret of the access key.").Secret(),
			text(fieldSessionToken, "Token of temporary credentials.").Secret(),
		).Description("For `s3://` and `s3a://`. A lifecycle rule for incomplete multipart uploads removes what a killed process leaves behind."),
		service.NewObjectField(fieldAzure,
			text(fieldAccount, "Storage account of `az://` URIs; others name it themselves. Empty: `AZURE_STORAGE_ACCOUNT`."),
			text(fieldEndpoint, "URL of the blob service, if it is another than that of the account.").Example("http://127.0.0.1:10000/devstoreaccount1"),
			text(fieldConnectionString, "Account, endpoint and key in one. It wins over the other fields. Empty: `AZURE_STORAGE_CONNECTION_STRING`.").Secret(),
			text(fieldAccountKey, "Shared key of the account. Empty: `AZURE_STORAGE_KEY`.").Secret(),
			text(fieldSASToken, "Shared access signature. Empty: `AZURE_STORAGE_SAS_TOKEN`. With none of the three, the default credentials are used: environment, workload identity, managed identity, Azure CLI.").Secret(),
		).Description("For `abfss://`, `abfs://`, `az://` and `https://account.blob.core.windows.net/`, and for OneLake."),
		service.NewObjectField(fieldGCS,
			text(fieldEndpoint, "URL of a server other than Google's. Empty: `STORAGE_EMULATOR_HOST`, which goes without credentials."),
			text(fieldCredentialsFile, "JSON file of a service account or another identity. Empty: the application default credentials."),
			text(fieldCredentialsJSON, "Content of such a file.").Secret(),
			service.NewBoolField(fieldAnonymous).Description("Whether requests carry no credentials.").Default(false),
		).Description("For `gs://`."),
	).Description("How object stores are reached. Empty fields are taken from the environment, so that many configurations need none of this.").Advanced()
}

func text(name, description string) *service.ConfigField {
	return service.NewStringField(name).Description(description).Default("")
}

// reader reads fields of a section and keeps the first error.
type reader struct {
	conf *service.ParsedConfig
	err  error
}

// text sets to to a field unless it is empty.
func (r *reader) text(to *string, path ...string) {
	value, err := r.conf.FieldString(path...)
	if err != nil && r.err == nil {
		r.err = err
	}
	if value != "" {
		*to = value
	}
}

// bool is a field that may be left out.
func (r *reader) bool(path ...string) *bool {
	if !r.conf.Contains(path...) {
		return nil
	}
	value, err := r.conf.FieldBool(path...)
	if err != nil && r.err == nil {
		r.err = err
	}
	return &value
}

// Registry is the registry of all stores, as the section of a config that has
// Field says. It makes no request.
func Registry(conf *service.ParsedConfig) (*store.Registry, error) {
	c, err := parse(conf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fieldStorage, err)
	}
	return cloud.NewRegistry(c), nil
}

func parse(conf *service.ParsedConfig) (cloud.Config, error) {
	c := cloud.FromEnvironment(os.Getenv)
	r := &reader{conf: conf.Namespace(fieldStorage)}
	r.text(&c.S3.Region, fieldS3, fieldRegion)
	r.text(&c.S3.Endpoint, fieldS3, fieldEndpoint)
	c.S3.PathStyle = r.bool(fieldS3, fieldPathStyle)
	r.text(&c.S3.AccessKeyID, fieldS3, fieldAccessKeyID)
	r.text(&c.S3.SecretAccessKey, fieldS3, fieldSecretAccessKey)
	r.text(&c.S3.SessionToken, fieldS3, fieldSessionToken)

	r.azure(&c)

	emulator := c.GCS.Endpoint
	r.text(&c.GCS.Endpoint, fieldGCS, fieldEndpoint)
	c.GCS.Anonymous = c.GCS.Anonymous && c.GCS.Endpoint == emulator
	r.text(&c.GCS.CredentialsFile, fieldGCS, fieldCredentialsFile)
	r.text(&c.GCS.CredentialsJSON, fieldGCS, fieldCredentialsJSON)
	if anonymous := r.bool(fieldGCS, fieldAnonymous); anonymous != nil && *anonymous {
		c.GCS.Anonymous = true
	}
	return c, r.err
}

// azure reads the section of Azure. Credentials in it stand against all of the
// environment: a connection string there must not win over a key here.
func (r *reader) azure(c *cloud.Config) {
	var connection, key, signature string
	r.text(&connection, fieldAzure, fieldConnectionString)
	r.text(&key, fieldAzure, fieldAccountKey)
	r.text(&signature, fieldAzure, fieldSASToken)
	if connection != "" || key != "" || signature != "" {
		c.Azure.ConnectionString, c.Azure.AccountKey, c.Azure.SASToken = connection, key, signature
	}
	r.text(&c.Azure.Account, fieldAzure, fieldAccount)
	r.text(&c.Azure.Endpoint, fieldAzure, fieldEndpoint)
}
