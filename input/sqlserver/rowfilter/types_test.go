package rowfilter_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// encoding is a way in which a server sends a column, and what is asked for.
type encoding struct {
	name  string
	typ   tds.TypeInfo
	want  fetch.Column
	value func(*rand.Rand) tds.Value
	left  bool // to the driver
}

func (e encoding) nullable() bool { return !e.typ.IsFixed() }

func letters(r *rand.Rand, most int) string {
	alphabet := []rune("abcdefghij XYZ0123456789äöüßé€œ")
	n := r.IntN(most + 1)
	if r.IntN(2) == 0 {
		alphabet = alphabet[:24]
	}
	var b strings.Builder
	for range n {
		b.WriteRune(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

// wideText has characters of all planes, and surrogates without their other half.
func wideText(r *rand.Rand, most int) string {
	alphabet := []string{"a", "b", "Z", " ", "ä", "€", "日", "本", "\U0001F600", "\xED\xA0\xBD", "\xED\xB8\x80", "\x00"}
	if r.IntN(2) == 0 {
		alphabet = alphabet[:4]
	}
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

func blob(r *rand.Rand, most int) []byte {
	b := make([]byte, r.IntN(most+1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func integer(low, high int64) func(*rand.Rand) tds.Value {
	return func(r *rand.Rand) tds.Value {
		switch r.IntN(4) {
		case 0:
			return low
		case 1:
			return high
		}
		return max(low, min(high, r.Int64()>>r.IntN(64)))
	}
}

func decimal(precision, scale uint8) func(*rand.Rand) tds.Value {
	return func(r *rand.Rand) tds.Value {
		digits := strings.Repeat("9", int(precision))
		if r.IntN(3) > 0 {
			digits = fmt.Sprint(r.Uint64() >> r.IntN(64))
			digits = digits[max(0, len(digits)-int(precision)):]
		}
		for len(digits) <= int(scale) {
			digits = "0" + digits
		}
		text := digits[:len(digits)-int(scale)]
		if scale > 0 {
			text += "." + digits[len(digits)-int(scale):]
		}
		if r.IntN(2) == 0 {
			text = "-" + text
		}
		d, err := tds.ParseDecimal(text)
		if err != nil {
			panic(err)
		}
		return d
	}
}

func clock(r *rand.Rand) tds.Time {
	switch r.IntN(4) {
	case 0:
		return 0
	case 1:
		return tds.NewTime(23, 59, 59, 999_999_900)
	}
	return tds.NewTime(r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(10_000_000)*100)
}

func day(r *rand.Rand) tds.Date {
	switch r.IntN(4) {
	case 0:
		return tds.NewDate(1, 1, 1)
	case 1:
		return tds.NewDate(9999, 12, 31)
	}
	return tds.NewDate(1+r.IntN(9999), 1, 1+r.IntN(365))
}

// encodings are all that the filter decodes, and some that it leaves to the driver.
func encodings() []encoding {
	text, bin2 := tds.CollationDefault(), tds.CollationLatin1BIN2()
	kind := func(k fetch.Kind) fetch.Column { return fetch.Column{Kind: k} }
	dec := func(p, s int32) fetch.Column { return fetch.Column{Kind: fetch.Decimal, Precision: p, Scale: s} }
	bit := func(r *rand.Rand) tds.Value { return r.IntN(2) == 0 }
	money := func(r *rand.Rand) tds.Value { return tds.Money(int64(r.Uint64()) >> r.IntN(64)) }
	small := func(r *rand.Rand) tds.Value { return tds.Money(int32(r.Uint32()) >> r.IntN(32)) }
	narrow := func(most int) func(*rand.Rand) tds.Value {
		return func(r *rand.Rand) tds.Value { return letters(r, most) }
	}
	wide := func(most int) func(*rand.Rand) tds.Value {
		return func(r *rand.Rand) tds.Value { return wideText(r, most) }
	}
	bytes := func(most int) func(*rand.Rand) tds.Value {
		return func(r *rand.Rand) tds.Value { return blob(r, most) }
	}
	long := func(r *rand.Rand) int { return []int{0, 3, 200, 20_000}[r.IntN(4)] }
	all := []encoding{
		{name: "bit", typ: tds.TypeBit(), want: kind(fetch.Bool), value: bit},
		{name: "bit not null", typ: tds.TypeFixed(tds.IDBit), want: kind(fetch.Bool), value: bit},
		{name: "real", typ: tds.TypeFloat(4), want: kind(fetch.Float32), value: func(r *rand.Rand) tds.Value { return math.Float32frombits(r.Uint32() & 0xBF7FFFFF) }},
		{name: "real as float", typ: tds.TypeFloat(4), want: kind(fetch.Float64), value: func(r *rand.Rand) tds.Value { return float32(r.Float64()) }},
		{name: "real not null", typ: tds.TypeFixed(tds.IDFloat4), want: kind(fetch.Float32), value: func(r *rand.Rand) tds.Value { return float32(r.NormFloat64()) }},
		{name: "float", typ: tds.TypeFloat(8), want: kind(fetch.Float64), value: func(r *rand.Rand) tds.Value { return r.NormFloat64() * 1e300 }},
		{name: "float not null", typ: tds.TypeFixed(tds.IDFloat8), want: kind(fetch.Float64), value: func(r *rand.Rand) tds.Value { return r.NormFloat64() }},
		{name: "decimal(38,10)", typ: tds.TypeDecimal(38, 10), want: dec(38, 10), value: decimal(38, 10)},
		{name: "decimal(38,38)", typ: tds.TypeDecimal(38, 38), want: dec(38, 38), value: decimal(38, 38)},
		{name: "decimal(28,0)", typ: tds.TypeDecimal(28, 0), want: dec(28, 0), value: decimal(28, 0)},
		{name: "decimal(18,2)", typ: tds.TypeDecimal(18, 2), want: dec(18, 2), value: decimal(18, 2)},
		{name: "numeric(9,2)", typ: tds.TypeNumeric(9, 2), want: dec(9, 2), value: decimal(9, 2)},
		{name: "decimal(9,2) as decimal(12,4)", typ: tds.TypeDecimal(9, 2), want: dec(12, 4), value: decimal(9, 2), left: true},
		{name: "money", typ: tds.TypeMoney(8), want: dec(19, 4), value: money},
		{name: "money not null", typ: tds.TypeFixed(tds.IDMoney), want: dec(19, 4), value: money},
		{name: "smallmoney", typ: tds.TypeMoney(4), want: dec(10, 4), value: small},
		{name: "smallmoney not null", typ: tds.TypeFixed(tds.IDMoney4), want: dec(10, 4), value: small},
		{name: "date", typ: tds.TypeDate(), want: kind(fetch.Date), value: func(r *rand.Rand) tds.Value { return day(r) }},
		{name: "datetime", typ: tds.TypeDateTime(8), want: kind(fetch.Timestamp), value: dateTime},
		{name: "datetime not null", typ: tds.TypeFixed(tds.IDDateTime), want: kind(fetch.Timestamp), value: dateTime},
		{name: "smalldatetime", typ: tds.TypeDateTime(4), want: kind(fetch.Timestamp), value: smallDateTime},
		{name: "smalldatetime not null", typ: tds.TypeFixed(tds.IDDateTime4), want: kind(fetch.Timestamp), value: smallDateTime},
		{name: "uniqueidentifier", typ: tds.TypeUUID(), want: kind(fetch.GUID), value: func(r *rand.Rand) tds.Value { return tds.UUID([16]byte(append(blob(r, 16), make([]byte, 16)...))) }},
		{name: "char(10)", typ: tds.TypeChar(10, text), want: kind(fetch.Text), value: narrow(10)},
		{name: "varchar(8000)", typ: tds.TypeVarChar(8000, text), want: kind(fetch.Text), value: narrow(300)},
		{name: "varchar(20) bin2", typ: tds.TypeVarChar(20, bin2), want: kind(fetch.Text), value: narrow(20)},
		{name: "varchar(max)", typ: tds.TypeVarChar(tds.Max, text), want: kind(fetch.Text), value: func(r *rand.Rand) tds.Value { return letters(r, long(r)) }},
		{name: "nchar(4)", typ: tds.TypeNChar(4, text), want: kind(fetch.Text), value: wide(2)},
		{name: "nvarchar(200)", typ: tds.TypeNVarChar(200, text), want: kind(fetch.Text), value: wide(100)},
		{name: "nvarchar(max)", typ: tds.TypeNVarChar(tds.Max, text), want: kind(fetch.Text), value: func(r *rand.Rand) tds.Value { return wideText(r, long(r)) }},
		{name: "binary(10)", typ: tds.TypeBinary(10), want: kind(fetch.LSN), value: func(r *rand.Rand) tds.Value { return append(blob(r, 0), make([]byte, 10)...) }},
		{name: "rowversion", typ: tds.TypeRowVersion(), want: kind(fetch.Binary), value: func(r *rand.Rand) tds.Value { return []byte{0, 0, 0, 0, 0, 0, 7, byte(r.Uint32())} }},
		{name: "varbinary(8000)", typ: tds.TypeVarBinary(8000), want: kind(fetch.Binary), value: bytes(100)},
		{name: "varbinary(max)", typ: tds.TypeVarBinary(tds.Max), want: kind(fetch.Binary), value: func(r *rand.Rand) tds.Value { return blob(r, long(r)) }},
		{name: "xml", typ: tds.TypeXML(), want: kind(fetch.XML), value: wide(300)},
		{name: "xml with a schema", typ: tds.TypeInfo{ID: tds.IDXML, Schema: &tds.XMLSchema{Database: "d", Owner: "dbo", Collection: "c"}}, want: kind(fetch.XML), value: wide(3)},
		{name: "text", typ: tds.TypeText(text, "dbo", "t"), want: kind(fetch.Text), value: narrow(300)},
		{name: "ntext", typ: tds.TypeNText(text, "t"), want: kind(fetch.Text), value: wide(300)},
		{name: "image", typ: tds.TypeImage("s", "d", "o", "t"), want: kind(fetch.Binary), value: bytes(300)},
		{name: "varchar 932", typ: tds.TypeVarChar(20, tds.CollationJapanese()), want: kind(fetch.Text), value: func(r *rand.Rand) tds.Value { return []string{"日本語", "ascii", "ｱｲｳ表"}[r.IntN(3)] }, left: true},
		{name: "varchar 936", typ: tds.TypeVarChar(20, tds.CollationChinese()), want: kind(fetch.Text), value: func(r *rand.Rand) tds.Value { return []string{"中文", "ascii"}[r.IntN(2)] }, left: true},
		{name: "varchar utf8", typ: tds.TypeVarChar(20, tds.CollationUTF8()), want: kind(fetch.Text), value: func(r *rand.Rand) tds.Value { return "ascii" }, left: true},
		{name: "hierarchyid", typ: tds.TypeUDT("d", "sys", "hierarchyid", "Microsoft.SqlServer.Types"), want: kind(fetch.Binary), value: bytes(5), left: true},
		{name: "sql_variant of text", typ: tds.TypeVariant(), want: kind(fetch.Text), value: func(r *rand.Rand) tds.Value {
			return tds.Variant{Type: tds.TypeNVarChar(10, text), Value: wideText(r, 3)}
		}, left: true},
		{name: "date as timestamp", typ: tds.TypeDate(), want: kind(fetch.Timestamp), value: func(r *rand.Rand) tds.Value { return day(r) }, left: true},
		{name: "a bare NULL", typ: tds.TypeInt(4), want: kind(fetch.Text), value: func(*rand.Rand) tds.Value { return nil }},
		{name: "a bare NULL for bit", typ: tds.TypeInt(4), want: kind(fetch.Bool), value: func(*rand.Rand) tds.Value { return nil }},
		{name: "a bare NULL for decimal", typ: tds.TypeInt(4), want: dec(10, 2), value: func(*rand.Rand) tds.Value { return nil }},
	}
	return append(append(all, integerEncodings()...), timeEncodings()...)
}

func integerEncodings() []encoding {
	var all []encoding
	for _, c := range []struct {
		name      string
		size      int
		fixed     tds.TypeID
		low, high int64
		kinds     []fetch.Kind
	}{
		{"tinyint", 1, tds.IDInt1, 0, 255, []fetch.Kind{fetch.Int16, fetch.Int32, fetch.Int64}},
		{"smallint", 2, tds.IDInt2, math.MinInt16, math.MaxInt16, []fetch.Kind{fetch.Int16, fetch.Int32, fetch.Int64}},
		{"int", 4, tds.IDInt4, math.MinInt32, math.MaxInt32, []fetch.Kind{fetch.Int32, fetch.Int64}},
		{"bigint", 8, tds.IDInt8, math.MinInt64, math.MaxInt64, []fetch.Kind{fetch.Int64}},
	} {
		for _, k := range c.kinds {
			all = append(all,
				encoding{name: fmt.Sprintf("%s as kind %d", c.name, k), typ: tds.TypeInt(c.size), want: fetch.Column{Kind: k}, value: integer(c.low, c.high)},
				encoding{name: fmt.Sprintf("%s not null as kind %d", c.name, k), typ: tds.TypeFixed(c.fixed), want: fetch.Column{Kind: k}, value: integer(c.low, c.high)})
		}
	}
	return append(all, encoding{name: "bigint as int", typ: tds.TypeInt(8), want: fetch.Column{Kind: fetch.Int32}, value: integer(-5, 5), left: true})
}

func timeEncodings() []encoding {
	var all []encoding
	for scale := range uint8(8) {
		all = append(all,
			encoding{name: fmt.Sprintf("time(%d)", scale), typ: tds.TypeTime(scale), want: fetch.Column{Kind: fetch.TimeOfDay}, value: func(r *rand.Rand) tds.Value { return clock(r) }},
			encoding{name: fmt.Sprintf("datetime2(%d)", scale), typ: tds.TypeDateTime2(scale), want: fetch.Column{Kind: fetch.Timestamp}, value: func(r *rand.Rand) tds.Value { return tds.DateTime2{Date: day(r), Time: clock(r)} }},
			encoding{name: fmt.Sprintf("datetimeoffset(%d)", scale), typ: tds.TypeDateTimeOffset(scale), want: fetch.Column{Kind: fetch.Instant}, value: func(r *rand.Rand) tds.Value {
				return tds.DateTimeOffset{Date: day(r), Time: clock(r), Offset: int16(r.IntN(1681) - 840)}
			}})
	}
	return all
}

func dateTime(r *rand.Rand) tds.Value {
	return tds.DateTime{Days: int32(r.IntN(2958463+53690+1) - 53690), Ticks: uint32(r.IntN(tds.TicksPerDayDateTime))}
}

func smallDateTime(r *rand.Rand) tds.Value {
	return tds.SmallDateTime{Days: uint16(r.IntN(65536)), Minutes: uint16(r.IntN(1440))}
}

// rowset answers with columns of the encodings and random rows, a quarter of whose values are NULL.
func rowset(seed uint64, rows int, chosen ...encoding) answer {
	return func(_ context.Context, w *tds.Writer) error {
		r := rand.New(rand.NewPCG(seed, 0))
		columns := make([]tds.Column, len(chosen))
		for i, e := range chosen {
			columns[i] = tds.Column{Name: fmt.Sprintf("c%d", i), Type: e.typ, Flags: tds.FlagsNotNullOfTable}
			if e.nullable() {
				columns[i].Flags = tds.FlagsNullableOfTable
			}
		}
		w.Columns(columns)
		values := make([]tds.Value, len(chosen))
		for range rows {
			for i, e := range chosen {
				if values[i] = e.value(r); e.nullable() && r.IntN(4) == 0 {
					values[i] = nil
				}
			}
			if err := w.WriteRow(values...); err != nil {
				return err
			}
		}
		return nil
	}
}

func asked(chosen []encoding) []fetch.Column {
	columns := make([]fetch.Column, len(chosen))
	for i, e := range chosen {
		columns[i] = e.want
	}
	return columns
}

// TestEveryEncoding reads each encoding by both readers.
func TestEveryEncoding(t *testing.T) {
	t.Parallel()
	for name, nbc := range map[string]tds.NBCPolicy{"row": tds.NBCNever, "nbcrow": tds.NBCAlways} {
		h := newHost(t, tds.Config{NBC: nbc})
		plain, filter := h.open(t, false), h.open(t, true)
		for _, e := range encodings() {
			h.says(rowset(1, 300, e))
			statement := wants(100, 1<<20, e.want)
			want, got := read(t.Context(), plain, statement), read(t.Context(), filter, statement)
			require.NoError(t, want.err, "%s, %s", e.name, name)
			require.NoError(t, got.err, "%s, %s", e.name, name)
			requireRecords(t, want, got)
			require.EqualValues(t, 300, got.rows(), "%s, %s", e.name, name)
			require.Equal(t, map[bool]string{true: "driver", false: "filter"}[e.left], got.choice.Reader, "%s, %s: %s", e.name, name, got.choice.Detail)
		}
	}
}

// cutter cuts packets at random places while it has a seed.
type cutter struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (c *cutter) set(r *rand.Rand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.r = r
}

func (c *cutter) size(*tds.Conn, int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.r == nil || c.r.IntN(3) == 0 {
		return tds.DefaultPacketSize
	}
	return tds.HeaderSize + 1 + c.r.IntN(600)
}

// TestRandomRowsets reads random rowsets over connections that cut packets at random places.
func TestRandomRowsets(t *testing.T) {
	t.Parallel()
	var cut cutter
	h := newHost(t, tds.Config{Hooks: tds.Hooks{PacketSize: cut.size}})
	plain, filter := h.open(t, false), h.open(t, true)
	taken := slices.DeleteFunc(encodings(), func(e encoding) bool { return e.left })
	rapid.Check(t, func(t *rapid.T) {
		from := taken
		if rapid.IntRange(0, 4).Draw(t, "leave some to the driver") == 0 {
			from = encodings()
		}
		chosen := rapid.SliceOfN(rapid.SampledFrom(from), 1, 20).Draw(t, "columns")
		seed := rapid.Uint64().Draw(t, "seed")
		rows := rapid.IntRange(0, 400).Draw(t, "rows")
		statement := wants(rapid.Int64Range(1, 200).Draw(t, "rows of a record"), rapid.Int64Range(1, 1<<16).Draw(t, "bytes of a record"), asked(chosen)...)
		h.says(rowset(seed, rows, chosen...))
		want := read(context.Background(), plain, statement)
		cut.set(rand.New(rand.NewPCG(seed, 1)))
		got := read(context.Background(), filter, statement)
		cut.set(nil)
		require.NoError(t, want.err)
		require.NoError(t, got.err)
		requireRecords(t, want, got)
		left := slices.ContainsFunc(chosen, func(e encoding) bool { return e.left })
		require.Equal(t, map[bool]string{true: "driver", false: "filter"}[left], got.choice.Reader, got.choice.Detail)
		ping(t, context.Background(), filter)
	})
}
