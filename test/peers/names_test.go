package peers

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/sqlserversim"
)

// N-01, N-03, N-04, N-08: names with each character that tools stumble over, as database,
// schema, table, capture instance and column, through the whole pipeline, from the table
// itself (stream_snapshot) and from its changes.
func TestNastyNames(t *testing.T) {
	t.Parallel()
	for i, nasty := range []string{
		"product_catalog", "order details", "a]b", "a[b", "a#b", "sales$eu", "a.b", "a-b", "a'b", `a"b`, "a%20b", "100%", "a_b_CT", "é", "表", "İi", "select", "a@b", "a:b", "a&b", "a+b", "a`b", "a~b", "a^b|c", "1st",
	} {
		t.Run(nasty, func(t *testing.T) {
			t.Parallel()
			column := strings.ReplaceAll(nasty, " ", "_") // a space is a matter of its own
			l := newLab(t, sqlserversim.WithDatabase(nasty))
			table := mssqlcdc.TableID{Schema: "s " + nasty, Name: nasty}
			l.exec(t, "CREATE SCHEMA "+mssqlcdc.QuoteName(table.Schema),
				fmt.Sprintf("CREATE TABLE %s (id int NOT NULL, %s int NULL, CONSTRAINT %s PRIMARY KEY (id))", table.Quoted(), mssqlcdc.QuoteName("c"+column), mssqlcdc.QuoteName("pk "+nasty)),
				fmt.Sprintf("INSERT %s VALUES (0, 0)", table.Quoted()))
			l.track(t, table, "@capture_instance = "+literal("ci "+nasty))
			l.exec(t, fmt.Sprintf("INSERT %s VALUES (1, 10), (2, NULL)", table.Quoted()), fmt.Sprintf("UPDATE %s SET %s = 20 WHERE id = 2", table.Quoted(), mssqlcdc.QuoteName("c"+column)))
			l.capture(t)
			for _, name := range []string{table.String(), table.Quoted(), mssqlcdc.QuoteName(table.Schema) + ".*"} {
				p := l.pipeline(t, name)
				p.run(t)
				require.Equal(t, l.changes(t, "ci "+nasty, "id", "c"+column), p.bronze(t, nasty, "id", "c"+column), "tables: %s", name)
				require.FileExists(t, filepath.Join(p.dir, "lake", nasty, "_delta_log", "00000000000000000000.json"))
			}
			whole := l.pipeline(t, table.String()).with("stream_snapshot: true")
			whole.run(t)
			require.Equal(t, []string{"0", "1", "2"}, whole.column(t, nasty, "id"))
			require.Equal(t, []string{"0", "10", "20"}, whole.column(t, nasty, "c"+column))
			require.Empty(t, l.sim.Refused(), "case %d", i)
		})
	}
}

// N-10: a column whose name no Delta table can have without column mapping gives the table
// that. With column_mapping: none it is refused before anything is written, by name, and
// can be left out.
func TestColumnsThatDeltaCannotName(t *testing.T) {
	t.Parallel()
	for _, nasty := range []string{"a b", "a,b", "a;b", "a{b", "a}b", "a(b", "a)b", "a\nb", "a\tb", "a=b"} {
		t.Run(nasty, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.table(t, "t", fmt.Sprintf("id int NOT NULL PRIMARY KEY, %s int", mssqlcdc.QuoteName(nasty)))
			l.exec(t, "INSERT dbo.t VALUES (1, 1)")
			l.capture(t)
			mapped := l.pipeline(t, "dbo.t")
			mapped.run(t)
			require.Equal(t, []string{"1"}, mapped.column(t, "t", nasty))

			p := l.pipeline(t, "dbo.t")
			p.deltaLake = append(p.deltaLake, "column_mapping: none")
			err := p.fail(t)
			require.ErrorContains(t, err, fmt.Sprintf("%q", nasty))
			require.ErrorContains(t, err, "rename the column")
			require.Nil(t, p.open(t, "lake", "t"))
			p.with(fmt.Sprintf("table_overrides: [ { table: dbo.t, exclude_columns: [ %q ] } ]", nasty))
			p.run(t)
			require.Equal(t, []string{"1"}, p.column(t, "t", "id"))
		})
	}
}

// N-10: a column that is called like one of ours, in any case, is refused by name too.
func TestColumnsThatAreCalledLikeOurs(t *testing.T) {
	t.Parallel()
	for _, name := range mssqlcdc.ReservedColumns() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			column := strings.ToUpper(name)
			l := newLab(t)
			l.table(t, "t", fmt.Sprintf("id int NOT NULL PRIMARY KEY, %s int", column))
			l.exec(t, "INSERT dbo.t VALUES (1, 1)")
			l.capture(t)
			p := l.pipeline(t, "dbo.t")
			require.ErrorContains(t, p.fail(t), column)
			p.with(fmt.Sprintf("table_overrides: [ { table: dbo.t, exclude_columns: [ %s ] } ]", column))
			p.run(t)
			require.Equal(t, []string{"1"}, p.column(t, "t", "id"))
		})
	}
}

// N-06: databases whose collation tells i from I in another way, or case at all. The names
// of the catalogue are spelled in our statements as the server has them: in lower case,
// while keywords, which no collation touches, are in upper case.
func TestCatalogueNamesAreSpelledAsTheServerHasThem(t *testing.T) {
	t.Parallel()
	strip := regexp.MustCompile(`\[(?:[^\]]|\]\])*\]|N?'(?:[^']|'')*'|@+\w+`)
	word := regexp.MustCompile(`\w+`)
	for _, collation := range []string{"Turkish_CI_AS", "Latin1_General_CS_AS", "Latin1_General_BIN2", "SQL_Latin1_General_CP1_CI_AS"} {
		t.Run(collation, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.exec(t, "CREATE DATABASE shop COLLATE "+collation, "USE shop; EXEC sys.sp_cdc_enable_db",
				"USE shop; CREATE TABLE dbo.Items (Id int NOT NULL PRIMARY KEY, Info nvarchar(20))",
				"USE shop; EXEC sys.sp_cdc_enable_table N'dbo', N'Items', @role_name = NULL",
				"USE shop; INSERT dbo.Items VALUES (1, N'Iı'), (2, N'iİ')")
			l.capture(t)
			p := l.pipeline(t, "dbo.Items").facts()
			p.dsn = l.sim.DSNFor("sa", "shop")
			whole := l.pipeline(t, "dbo.Items").with("stream_snapshot: true")
			whole.dsn = p.dsn
			l.sim.ResetStatements()
			p.run(t)
			whole.run(t)
			require.Equal(t, []string{"Iı", "iİ"}, p.column(t, "Items", "Info"))
			require.Equal(t, []string{"Iı", "iİ"}, whole.column(t, "Items", "Info"))
			require.Greater(t, len(l.sim.Statements()), 20)
			for _, statement := range l.sim.Statements() {
				for _, w := range word.FindAllString(strip.ReplaceAllString(statement, " "), -1) {
					require.True(t, w == strings.ToLower(w) || w == strings.ToUpper(w), "%s in %s", w, statement)
				}
				for _, name := range regexp.MustCompile(`(?i)\b(sys|cdc|dbo)\.(\w+)`).FindAllString(strip.ReplaceAllString(statement, " "), -1) {
					require.Equal(t, strings.ToLower(name), name, "in %s", statement)
				}
			}
		})
	}
}

// N-09: an entry that matches nothing is an error that shows what there is, and a run that
// reads nothing is not a success.
func TestTableEntriesThatMatchNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.table(t, "orders", "id int NOT NULL PRIMARY KEY")
	l.exec(t, "INSERT dbo.orders VALUES (1)")
	l.capture(t)
	for name, tables := range map[string][]string{
		"name": {"dbo.ordes"}, "name beside another": {"dbo.orders", "dbo.ordes"}, "pattern": {"dbo.odr*"}, "schema": {"sales.*"}, "everything taken out": {"dbo.orders", "!dbo.*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := l.pipeline(t, tables...)
			require.ErrorContains(t, p.fail(t), "dbo.orders")
			require.Nil(t, p.open(t, "lake", "orders"))
		})
	}
}
