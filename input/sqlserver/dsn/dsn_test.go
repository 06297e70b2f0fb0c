package dsn_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/microsoft/go-mssqldb/msdsn"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/dsn"
)

// base is what every parsed connection starts from.
func base(change func(*dsn.Connection)) dsn.Connection {
	c := dsn.Connection{Host: "db.example.com", User: "sa", Password: "p", Encrypt: dsn.Mandatory, MultiSubnetFailover: true}
	change(&c)
	return c
}

func TestParse(t *testing.T) {
	t.Parallel()
	same := func(*dsn.Connection) {}
	cases := map[string]struct {
		text string
		want dsn.Connection
	}{
		"url":                         {"sqlserver://sa:p@db.example.com", base(same)},
		"url with port and database":  {"sqlserver://sa:p@db.example.com:1444?database=lab", base(func(c *dsn.Connection) { c.Port, c.Database = 1444, "lab" })},
		"url with instance":           {`sqlserver://sa:p@db.example.com/SQL2022`, base(func(c *dsn.Connection) { c.Instance = "SQL2022" })},
		"url, encoded password":       {"sqlserver://sa:p%40ss%2F%3A%25@db.example.com", base(func(c *dsn.Connection) { c.Password = "p@ss/:%" })},
		"url, user in the query":      {"sqlserver://db.example.com?user+id=sa&password=p", base(same)},
		"url, IPv6":                   {"sqlserver://sa:p@[::1]:1433", base(func(c *dsn.Connection) { c.Host, c.Port = "::1", 1433 })},
		"url, keys in any case":       {"sqlserver://sa:p@db.example.com?Encrypt=Optional&App+Name=x", base(func(c *dsn.Connection) { c.Encrypt, c.AppName = dsn.Optional, "x" })},
		"ado":                         {"Server=db.example.com;User Id=sa;Password=p", base(same)},
		"ado, other names":            {"Data Source=db.example.com;Initial Catalog=lab;UID=sa;PWD=p;", base(func(c *dsn.Connection) { c.Database = "lab" })},
		"ado, comma port":             {"Server=db.example.com,1444;User Id=sa;Password=p", base(func(c *dsn.Connection) { c.Port = 1444 })},
		"ado, tcp prefix":             {"Server=tcp:db.example.com,1444;User Id=sa;Password=p", base(func(c *dsn.Connection) { c.Port = 1444 })},
		"ado, instance":               {`Server=db.example.com\DEV;User Id=sa;Password=p`, base(func(c *dsn.Connection) { c.Instance = "DEV" })},
		"ado, instance and port":      {`Server=tcp:db.example.com\DEV,1444;User Id=sa;Password=p`, base(func(c *dsn.Connection) { c.Instance, c.Port = "DEV", 1444 })},
		"ado, local names":            {"Server=(local);User Id=sa;Password=p", base(func(c *dsn.Connection) { c.Host = "localhost" })},
		"ado, dot with instance":      {`Server=.\DEV;User Id=sa;Password=p`, base(func(c *dsn.Connection) { c.Host, c.Instance = "localhost", "DEV" })},
		"ado, IPv6":                   {"Server=::1,1444;User Id=sa;Password=p", base(func(c *dsn.Connection) { c.Host, c.Port = "::1", 1444 })},
		"ado, quoted password":        {`Server=db.example.com;User Id=sa;Password="a;b""c'd"`, base(func(c *dsn.Connection) { c.Password = `a;b"c'd` })},
		"ado, single quotes":          {`Server=db.example.com;User Id=sa;Password='a;b''c'`, base(func(c *dsn.Connection) { c.Password = `a;b'c` })},
		"ado, equals in the password": {"Server=db.example.com;User Id=sa;Password=a=b==", base(func(c *dsn.Connection) { c.Password = "a=b==" })},
		"ado, blanks everywhere":      {"  Server = db.example.com ;; User Id =sa; Password= p ;", base(same)},
		"odbc":                        {"DRIVER={ODBC Driver 18 for SQL Server};SERVER=db.example.com;UID=sa;PWD=p", base(same)},
		"odbc, braces":                {"DRIVER={ODBC Driver 18 for SQL Server};SERVER=tcp:db.example.com,1444;UID=sa;PWD={a;b}}c}", base(func(c *dsn.Connection) { c.Port, c.Password = 1444, "a;b}c" })},
		"odbc, quote is literal":      {`DRIVER=x;SERVER=db.example.com;UID=sa;PWD="p`, base(func(c *dsn.Connection) { c.Password = `"p` })},
		"odbc prefix":                 {`odbc:SERVER=db.example.com;UID=sa;PWD={'p}`, base(func(c *dsn.Connection) { c.Password = `'p` })},
		"braces without driver":       {"Server=db.example.com;UID=sa;PWD={a;b}", base(func(c *dsn.Connection) { c.Password = "a;b" })},
		"encrypt no":                  {"Server=db.example.com;UID=sa;PWD=p;Encrypt=no", base(func(c *dsn.Connection) { c.Encrypt = dsn.Optional })},
		"encrypt strict":              {"Server=db.example.com;UID=sa;PWD=p;Encrypt=Strict;HostNameInCertificate=x.y", base(func(c *dsn.Connection) { c.Encrypt, c.HostNameInCertificate = dsn.Strict, "x.y" })},
		"encrypt disable":             {"Server=db.example.com;UID=sa;PWD=p;Encrypt=disable", base(func(c *dsn.Connection) { c.Encrypt = dsn.Disabled })},
		"trust":                       {"Server=db.example.com;UID=sa;PWD=p;TrustServerCertificate=yes", base(func(c *dsn.Connection) { c.TrustServerCertificate = true })},
		"trust with blanks":           {"Server=db.example.com;UID=sa;PWD=p;Trust Server Certificate=True", base(func(c *dsn.Connection) { c.TrustServerCertificate = true })},
		"intent":                      {"Server=db.example.com;Database=lab;UID=sa;PWD=p;ApplicationIntent=ReadOnly", base(func(c *dsn.Connection) { c.Database, c.ReadOnlyIntent = "lab", true })},
		"timeout":                     {"Server=db.example.com;UID=sa;PWD=p;Connection Timeout=15", base(func(c *dsn.Connection) { c.ConnectTimeout = 15 * time.Second })},
		"numbers": {"Server=db.example.com;UID=sa;PWD=p;Packet Size=8192;KeepAlive=10;MultiSubnetFailover=No", base(func(c *dsn.Connection) {
			c.PacketSize, c.KeepAlive, c.MultiSubnetFailover = 8192, 10*time.Second, false
		})},
		"harmless keys":              {"Provider=SQLOLEDB;Server=db.example.com;UID=sa;PWD=p;MultipleActiveResultSets=True;Pooling=false;Persist Security Info=False;Trusted_Connection=no;Integrated Security=false;Authentication=SqlPassword;Column Encryption Setting=Disabled", base(same)},
		"same key twice, same value": {"Server=db.example.com;UID=sa;User Id=sa;PWD=p", base(same)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := dsn.Parse(c.text)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%#v", plain(c.want)), fmt.Sprintf("%#v", plain(got)))
			_, err = got.DriverConfig()
			require.NoError(t, err)
		})
	}
}

// plain is a Connection without its Format method, which hides the password from failure messages.
type plain dsn.Connection

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const server = "Server=h;UID=sa;PWD=Sup3rSecret;"
	cases := map[string]struct{ text, want string }{
		"nothing":                      {"", "no server given"},
		"no server":                    {"Database=lab", "no server given"},
		"unknown key":                  {"Sevrer=h;Server=h", "Sevrer: unknown key"},
		"no equals":                    {"Server=h;Database", "entry 2 has no ="},
		"tail of a password, no =":     {"Server=h;UID=sa;PWD=abc;Sup3rSecret", "entry 4 has no ="},
		"tail of a password with =":    {"Server=h;UID=sa;PWD=abc;Sup3rSecret=1", "entry 4, which follows the password"},
		"empty key":                    {"Server=h;=x", "entry 2 has no key"},
		"open brace":                   {"Server=h;PWD={Sup3rSecret", "closing } is missing"},
		"text after brace":             {"Server=h;PWD={a}Sup3rSecret", "text follows the closing }"},
		"open quote":                   {`Server=h;PWD="Sup3rSecret`, `closing " is missing`},
		"integrated":                   {server + "Integrated Security=SSPI", "Windows integrated login is not supported"},
		"trusted":                      {server + "Trusted_Connection=yes", "Windows integrated login is not supported"},
		"entra":                        {server + "Authentication=ActiveDirectoryMsi", "access token"},
		"fedauth":                      {"sqlserver://h?fedauth=ActiveDirectoryDefault", "access token"},
		"always encrypted":             {server + "Column Encryption Setting=Enabled", "Always Encrypted"},
		"named pipe":                   {`Server=np:\\h\pipe\sql;UID=sa`, "only TCP"},
		"shared memory":                {"Server=lpc:h", "only TCP"},
		"localdb":                      {`Server=(localdb)\MSSQLLocalDB`, "LocalDB"},
		"dsn":                          {"DSN=prod;UID=sa;PWD=x", "outside the connection string"},
		"attach":                       {server + "AttachDbFilename=x.mdf", "outside the connection string"},
		"bad port":                     {"Server=h,70000", "1 to 65535"},
		"port zero":                    {"Server=h,0", "1 to 65535"},
		"bad encrypt":                  {server + "Encrypt=maybe", "want yes, no"},
		"bad boolean":                  {server + "TrustServerCertificate=ture", "want yes or no"},
		"bad intent":                   {server + "ApplicationIntent=Read", "want ReadOnly"},
		"intent without database":      {server + "ApplicationIntent=ReadOnly", "needs a database"},
		"bad timeout":                  {server + "Connect Timeout=1m", "number of seconds"},
		"bad packet size":              {server + "Packet Size=100", "512 to 32767"},
		"contradiction":                {server + "User=other", "given twice"},
		"contradiction of two secrets": {server + "Password=Sup3rSecret2", "given twice"},
		"two pinned certificates":      {server + "ServerCertificate=a.pem;Certificate=b.pem", "excludes Certificate"},
		"url, bad escape":              {"sqlserver://sa:Sup3rSecret%@h", "percent-encoded"},
		"url, slash in the password":   {"sqlserver://sa:Sup3rSecret/x@h", ""},
		"url, bad port":                {"sqlserver://sa:Sup3rSecret@h:port", "percent-encoded"},
		"url, key twice":               {"sqlserver://sa:p@h?database=a&database=b", "more than once"},
		"jdbc":                         {"jdbc:sqlserver://h;user=sa;password=Sup3rSecret", "jdbc:sqlserver"},
		"other scheme":                 {"postgres://sa:Sup3rSecret@h/x", `"postgres"`},
		"host with a path":             {"Server=h/x", "not a host name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := dsn.Parse(c.text)
			if c.want == "" && err == nil {
				require.NotContains(t, got.String(), "Sup3rSecret")
				return
			}
			var typed *dsn.Error
			require.ErrorAs(t, err, &typed)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "Sup3rSecret")
		})
	}
}

func TestTLSIsVerifiedUnlessAskedOtherwise(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text       string
		encryption msdsn.Encryption
		insecure   bool
		name       string
	}{
		"default":                {"Server=db.example.com;UID=sa;PWD=p", msdsn.EncryptionRequired, false, "db.example.com"},
		"trusted":                {"Server=db.example.com;UID=sa;PWD=p;TrustServerCertificate=yes", msdsn.EncryptionRequired, true, "db.example.com"},
		"other name":             {"Server=db.example.com;UID=sa;PWD=p;HostNameInCertificate=x.y", msdsn.EncryptionRequired, false, "x.y"},
		"optional verifies, too": {"Server=db.example.com;UID=sa;PWD=p;Encrypt=no", msdsn.EncryptionOff, false, "db.example.com"},
		"strict never trusts":    {"Server=db.example.com;UID=sa;PWD=p;Encrypt=strict;TrustServerCertificate=yes", msdsn.EncryptionStrict, false, "db.example.com"},
		"url default":            {"sqlserver://sa:p@db.example.com", msdsn.EncryptionRequired, false, "db.example.com"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := dsn.Parse(c.text)
			require.NoError(t, err)
			config, err := connection.DriverConfig()
			require.NoError(t, err)
			require.Equal(t, c.encryption, config.Encryption)
			require.Equal(t, c.insecure, config.TLSConfig.InsecureSkipVerify)
			require.Equal(t, c.name, config.TLSConfig.ServerName)
		})
	}
}

// TestQuotedValuesRoundTrip writes values as each driver's users must and reads them back.
func TestQuotedValuesRoundTrip(t *testing.T) {
	t.Parallel()
	value := rapid.StringOf(rapid.OneOf(rapid.RuneFrom([]rune(`;={}"'\@:/?#%& ,+éß表`)), rapid.RuneFrom(nil, unicode.L, unicode.Nd)))
	rapid.Check(t, func(t *rapid.T) {
		password, user, database := value.Draw(t, "password"), value.Draw(t, "user"), value.Draw(t, "database")
		braces := func(s string) string { return "{" + strings.ReplaceAll(s, "}", "}}") + "}" }
		quotes := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		u := url.URL{Scheme: "sqlserver", User: url.UserPassword(user, password), Host: "h", RawQuery: url.Values{"database": {database}}.Encode()}
		for _, text := range []string{
			"DRIVER={x};SERVER=h;UID=" + braces(user) + ";PWD=" + braces(password) + ";DATABASE=" + braces(database),
			"Server=h;User Id=" + quotes(user) + ";Password=" + quotes(password) + ";Database=" + quotes(database),
			u.String(),
		} {
			got, err := dsn.Parse(text)
			if err != nil {
				t.Fatalf("%v", err)
			}
			if got.User != user || got.Password != password || got.Database != database {
				t.Fatalf("%q gave user %q password %q database %q", text, got.User, got.Password, got.Database)
			}
			config, err := got.DriverConfig()
			if err != nil {
				t.Fatalf("%v", err)
			}
			if config.User != user || config.Password != password || config.Database != database {
				t.Fatalf("the driver got user %q password %q database %q", config.User, config.Password, config.Database)
			}
		}
	})
}

// TestNoSecretInErrors breaks strings that hold a secret in many ways.
func TestNoSecretInErrors(t *testing.T) {
	t.Parallel()
	const secret = "Qz7kW9vX"
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.SampledFrom([]string{
			"Server=h;UID=sa;PWD=" + secret + ";Encrypt=yes",
			"DRIVER={x};SERVER=h,1433;UID=sa;PWD={" + secret + ";x}}y};Database=lab",
			`Server=h;User Id=sa;Password="a;` + secret + `";Timeout=3`,
			"sqlserver://sa:" + secret + "@h:1433/inst?database=lab&encrypt=true",
			"Server=h;PWD=a;" + secret + ";UID=sa",
			"Server=h;PWD=a;" + secret + "=b;UID=sa",
		}).Draw(t, "form")
		text := []rune(form)
		for range rapid.IntRange(0, 4).Draw(t, "edits") {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			text[at] = rapid.SampledFrom([]rune(`;={}"'\@:/?#% ,x`)).Draw(t, "rune")
		}
		connection, err := dsn.Parse(string(text))
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Fatalf("the error holds the secret: %v", err)
			}
			return
		}
		if connection.Password != "" && strings.Contains(connection.Password, secret) {
			for _, shown := range []string{connection.String(), fmt.Sprintf("%v %+v %#v %s", connection, connection, connection, connection)} {
				if strings.Contains(shown, secret) {
					t.Fatalf("shown: %s", shown)
				}
			}
		}
		if _, err := connection.DriverConfig(); err != nil && strings.Contains(err.Error(), secret) {
			t.Fatalf("the driver's error holds the secret: %v", err)
		}
	})
}

func TestMask(t *testing.T) {
	t.Parallel()
	c := dsn.Connection{Password: "a}b c!"}
	require.Equal(t, "x *** y *** z ***", c.Mask("x a}b c! y a}}b c! z "+url.QueryEscape("a}b c!")))
	require.Equal(t, "short", dsn.Connection{Password: "o"}.Mask("short"))
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"Server=h;UID=sa;PWD=p", "DRIVER={x};SERVER=tcp:h\\i,1;PWD={a;b}}c}", "sqlserver://sa:p@h:1/i?database=x", "odbc:server=h", `a="`, "{=};", "://", "x=\x00;",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		connection, err := dsn.Parse(text)
		if err != nil {
			var typed *dsn.Error
			require.ErrorAs(t, err, &typed)
			return
		}
		require.NotEmpty(t, connection.Host)
		config, err := connection.DriverConfig()
		if err != nil {
			return
		}
		// What we read is what the driver reads of what we write for it.
		require.Equal(t, connection.User, config.User)
		require.Equal(t, connection.Password, config.Password)
		require.Equal(t, connection.Database, config.Database)
		if connection.Encrypt == dsn.Mandatory {
			require.Equal(t, msdsn.Encryption(msdsn.EncryptionRequired), config.Encryption)
		}
	})
}
