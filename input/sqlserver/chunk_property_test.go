package sqlserver_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	mssqlcdc "github.com/mssqlcdc/rpconnect-mssqlcdc"
)

// domain is a type with some of its values, as literals. Those of one class are equal to the server, and classes are in its
// order.
type domain struct {
	typ     string
	classes [][]string
}

func domains() []domain {
	return []domain{
		{"int", [][]string{{"-7"}, {"0"}, {"1"}, {"2"}, {"1000000"}}},
		{"bit", [][]string{{"0"}, {"1"}}},
		{"decimal(9,2)", [][]string{{"-0.01"}, {"0", "0.00"}, {"9999999.99"}}},
		{"float", [][]string{{"-1e300"}, {"0"}, {"0.1"}, {"0.30000000000000004"}}},
		{"date", [][]string{{"'1969-12-31'"}, {"'1970-01-01'"}, {"'9999-12-31'"}}},
		{"datetime", [][]string{{"'2024-01-01T00:00:00.000'"}, {"'2024-01-01T00:00:00.003'", "'2024-01-01T00:00:00.004'"}, {"'2024-01-01T00:00:00.007'"}}},
		{"datetime2(7)", [][]string{{"'2024-01-01T00:00:00.0000001'"}, {"'2024-01-01T00:00:00.0000002'"}, {"'2024-01-01T00:00:00.0000011'"}}},
		{"datetimeoffset(7)", [][]string{{"'2024-01-01T00:00:00.0000001+02:00'"}, {"'2024-01-01T00:00:00+00:00'", "'2024-01-01T01:00:00+01:00'"}, {"'2024-01-01T00:00:00-05:00'"}}},
		{"uniqueidentifier", [][]string{{"'FFFFFFFF-0000-0000-0000-000000000000'"}, {"'00000000-0000-0000-0000-000000000001'"}, {"'00000000-0000-0000-0000-010000000000'"}}},
		{"varbinary(4)", [][]string{{"0x00", "0x0000"}, {"0x01", "0x010000"}, {"0x0101"}, {"0xFF"}}},
		{"varchar(10) COLLATE SQL_Latin1_General_CP1_CI_AS", [][]string{{"''", "' '"}, {"'foo'", "'FOO'", "'Foo '"}, {"'fop'"}, {"'z'", "'Z'"}}},
		{"varchar(10) COLLATE Greek_CI_AS", [][]string{{"N'α'", "N'Α'"}, {"N'β'"}, {"N'ω'", "N'Ω'"}}},
		{"nvarchar(10) COLLATE Latin1_General_CI_AS", [][]string{{"N'a'", "N'A'"}, {"N'b]'"}, {"N'c''s'"}}},
		{"nvarchar(10) COLLATE Latin1_General_CS_AS", [][]string{{"N'a'"}, {"N'A'"}, {"N'b'"}}},
	}
}

// model is what a table must hold.
type model struct {
	rt      *rapid.T
	l       *lab
	table   string
	domains []domain
	unique  bool
	rows    map[int][]int // id → the class of each column, 0 for NULL
	moved   map[int]bool  // ids that came, or whose key changed
	gone    map[int]bool
	next    int
}

// newModel makes a captured table with some rows, cut on its unique index, or on columns that hold NULL and repeat.
func newModel(rt *rapid.T, l *lab, table string) *model {
	m := &model{rt: rt, l: l, table: table, rows: map[int][]int{}, moved: map[int]bool{}, gone: map[int]bool{}}
	m.unique = rapid.Bool().Draw(rt, "unique")
	var columns, names []string
	for i := range rapid.IntRange(1, 3).Draw(rt, "columns") {
		d := rapid.SampledFrom(domains()).Draw(rt, "domain")
		m.domains = append(m.domains, d)
		null := "NULL"
		if m.unique {
			null = "NOT NULL"
		}
		names = append(names, fmt.Sprintf("[k%d]", i))
		columns = append(columns, fmt.Sprintf("[k%d] %s %s", i, d.typ, null))
	}
	l.exec(fmt.Sprintf("CREATE TABLE dbo.%s (%s, id int NOT NULL, note int NULL)", table, strings.Join(columns, ", ")))
	if m.unique {
		l.exec(fmt.Sprintf("ALTER TABLE dbo.%s ADD PRIMARY KEY (%s)", table, strings.Join(names, ", ")))
	} else if rapid.Bool().Draw(rt, "indexed") {
		l.exec("CREATE INDEX i ON dbo." + table + " (" + strings.Join(names, ", ") + ")")
	}
	for range rapid.IntRange(0, 30).Draw(rt, "rows") {
		m.insert()
	}
	clear(m.moved)
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: table})
	l.exec("UPDATE dbo.other SET v = v + 1")
	l.capture()
	return m
}

// tuple draws a key: its classes and its literals. False if the table has it already and must not.
func (m *model) tuple() (classes []int, literals []string, free bool) {
	for _, d := range m.domains {
		low := 0
		if m.unique {
			low = 1
		}
		class := rapid.IntRange(low, len(d.classes)).Draw(m.rt, "class")
		literal := "NULL"
		if class > 0 {
			literal = rapid.SampledFrom(d.classes[class-1]).Draw(m.rt, "literal")
		}
		classes, literals = append(classes, class), append(literals, literal)
	}
	if m.unique {
		for _, row := range m.rows {
			if slices.Equal(row, classes) {
				return nil, nil, false
			}
		}
	}
	return classes, literals, true
}

func (m *model) insert() {
	classes, literals, free := m.tuple()
	if !free {
		return
	}
	m.l.exec(fmt.Sprintf("INSERT dbo.%s VALUES (%s, %d, 0)", m.table, strings.Join(literals, ", "), m.next))
	m.rows[m.next], m.moved[m.next] = classes, true
	m.next++
}

// change does what a writer does.
func (m *model) change() {
	ids := make([]int, 0, len(m.rows))
	for id := range m.rows {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	what := rapid.SampledFrom([]string{"insert", "delete", "note", "key"}).Draw(m.rt, "change")
	if what == "insert" || len(ids) == 0 {
		m.insert()
		return
	}
	id := rapid.SampledFrom(ids).Draw(m.rt, "id")
	switch what {
	case "delete":
		m.l.exec(fmt.Sprintf("DELETE dbo.%s WHERE id = %d", m.table, id))
		delete(m.rows, id)
		m.gone[id] = true
	case "note":
		m.l.exec(fmt.Sprintf("UPDATE dbo.%s SET note = note + 1 WHERE id = %d", m.table, id))
	case "key":
		classes, literals, free := m.tuple()
		if !free {
			return
		}
		var set []string
		for i, literal := range literals {
			set = append(set, fmt.Sprintf("k%d = %s", i, literal))
		}
		m.l.exec(fmt.Sprintf("UPDATE dbo.%s SET %s WHERE id = %d", m.table, strings.Join(set, ", "), id))
		m.rows[id], m.moved[id] = classes, true
	}
}

// ids are the rows of a chunk.
func (m *model) ids(one chunk) []int {
	var ids []int
	for _, text := range one.column(len(m.domains)) {
		id, err := strconv.Atoi(text)
		require.NoError(m.rt, err)
		ids = append(ids, id)
	}
	return ids
}

// TestEveryRowOnceWhateverTheChunks walks random tables in chunks of every size, quiet ones and such that are written to
// between any two questions.
func TestEveryRowOnceWhateverTheChunks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.exec("CREATE TABLE dbo.other (id int PRIMARY KEY, v int)")
	l.track(mssqlcdc.TableID{Schema: "dbo", Name: "other"})
	l.exec("INSERT dbo.other VALUES (1, 1)")
	client := l.client()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := newModel(rt, l, fmt.Sprintf("t%d", n))
		var names []string
		if !m.unique {
			for i := range m.domains {
				names = append(names, fmt.Sprintf("K%d", i)) // names match ignoring case
			}
		}
		cut := l.cutOf(client, "dbo_"+m.table, names...)
		require.Equal(rt, m.unique, cut.key.Unique)
		cut.limits.PartRows = rapid.Int64Range(1, 20).Draw(rt, "rows per part")
		rows := rapid.Int64Range(1, int64(len(m.rows))+1).Draw(rt, "rows per chunk")
		cut.helpers = make(chan struct{}, rapid.IntRange(0, 3).Draw(rt, "helpers"))
		busy := rapid.Bool().Draw(rt, "busy")
		before := len(m.rows)
		if busy {
			cut.between = func() {
				for range rapid.IntRange(0, 3).Draw(rt, "changes") {
					m.change()
				}
			}
		}
		// The classes of a row are known only until its key changes, so each chunk is judged when it was read.
		judge := &judge{model: m, seen: map[int]int{}}
		cut.judge = judge.take
		chunks := cut.walk(rt, t, rows)
		for id := range before {
			if !m.moved[id] && !m.gone[id] {
				require.Equal(rt, 1, judge.seen[id], "row %d", id)
			}
		}
		if !busy {
			judge.sizes(rows, chunks)
		}
		require.Empty(rt, l.sim.Refused())
	})
}

// judge looks at chunks one after the other.
type judge struct {
	*model

	seen map[int]int
	last []int // the greatest key so far
}

func (j *judge) take(one chunk) {
	var before []int
	for _, id := range j.ids(one) {
		classes := j.rows[id]
		require.NotNil(j.rt, classes, "row %d is not in the table", id)
		if before != nil {
			require.LessOrEqual(j.rt, slices.Compare(before, classes), 0, "rows out of order")
		}
		if j.last != nil {
			require.Negative(j.rt, slices.Compare(j.last, classes), "a chunk overlaps the one before")
		}
		before = classes
		j.seen[id]++
		if !j.moved[id] {
			require.Equal(j.rt, 1, j.seen[id], "row %d again", id)
		}
	}
	if before != nil {
		j.last = before
	}
}

// sizes checks that each chunk but the last holds as many rows as were asked for, and no more than the last value needs.
func (j *judge) sizes(rows int64, chunks []chunk) {
	for i, one := range chunks {
		ids := j.ids(one)
		if i < len(chunks)-1 {
			require.GreaterOrEqual(j.rt, int64(len(ids)), rows)
		}
		if len(ids) == 0 {
			continue
		}
		last, alike := j.rows[ids[len(ids)-1]], int64(0)
		for _, id := range ids {
			if slices.Equal(j.rows[id], last) {
				alike++
			}
		}
		require.Less(j.rt, int64(len(ids))-alike, rows)
	}
}
