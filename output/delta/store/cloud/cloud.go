// Package cloud is all stores in one place: it makes the registry of a program
// that is to open tables on local disks, in S3, in Azure and in Google Cloud
// Storage. A program that needs one of them links less with that provider alone.
package cloud

import (
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/azure"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/file"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/gcs"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/output/delta/store/s3"
)

// Config is how the services are reached.
type Config struct {
	S3    s3.Config
	Azure azure.Config
	GCS   gcs.Config
}

// FromEnvironment is the Config of the variables that no SDK reads by itself:
// AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY and
// AZURE_STORAGE_SAS_TOKEN as the Azure CLI has them, and STORAGE_EMULATOR_HOST of
// Google's libraries, which goes without credentials. The AWS_, AZURE_ and GOOGLE_
// variables of the default credentials count without it. getenv is os.Getenv.
func FromEnvironment(getenv func(string) string) Config {
	c := Config{Azure: azure.Config{
		Account:          getenv("AZURE_STORAGE_ACCOUNT"),
		ConnectionString: getenv("AZURE_STORAGE_CONNECTION_STRING"),
		AccountKey:       getenv("AZURE_STORAGE_KEY"),
		SASToken:         getenv("AZURE_STORAGE_SAS_TOKEN"),
	}}
	if host := getenv("STORAGE_EMULATOR_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		c.GCS = gcs.Config{Endpoint: host, Anonymous: true}
	}
	return c
}

// NewRegistry makes the registry of all stores. It makes no request.
func NewRegistry(c Config) *store.Registry {
	return store.NewRegistry(file.Provider(), s3.Provider(c.S3), azure.Provider(c.Azure), gcs.Provider(c.GCS))
}
