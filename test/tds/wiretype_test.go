package tds_test

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tds"
)

// typeInfo reads a TYPE_INFO strictly.
func (r *wire) typeInfo(column bool) tds.TypeInfo {
	t := tds.TypeInfo{ID: tds.TypeID(r.u8())}
	if n, ok := fixedBytes[t.ID]; ok {
		t.Size = n
		return t
	}
	switch t.ID {
	case 0x26, 0x68, 0x6D, 0x6E, 0x6F, 0x24:
		t.Size = r.u8()
	case 0x28:
	case 0x29, 0x2A, 0x2B:
		t.Scale = uint8(r.u8())
	case 0x6A, 0x6C:
		t.Size, t.Precision, t.Scale = r.u8(), uint8(r.u8()), uint8(r.u8())
	case 0xA7, 0xAF, 0xE7, 0xEF:
		t.Size = r.u16()
		copy(t.Collation[:], r.n(5))
	case 0xA5, 0xAD:
		t.Size = r.u16()
	case 0x22, 0x23, 0x63:
		t.Size = r.u32()
		if t.ID != 0x22 {
			copy(t.Collation[:], r.n(5))
		}
		if column {
			parts := 1
			if !r.narrow {
				if parts = r.u8(); parts < 1 || parts > 4 { // as jdbc reads it
					panic(fault(fmt.Sprintf("a table of %d names", parts)))
				}
			}
			for range parts {
				t.Table = append(t.Table, r.usvar())
			}
		}
	case 0x62:
		t.Size = r.u32()
	case 0xF1:
		if r.u8() != 0 {
			t.Schema = &tds.XMLSchema{Database: r.bvar(), Owner: r.bvar(), Collection: r.usvar()}
		}
	case 0xF0:
		t.UDT = &tds.UDTInfo{}
		t.Size = 0xFFFF
		if column {
			t.Size = r.u16()
		}
		t.UDT.Database, t.UDT.Schema, t.UDT.Type = r.bvar(), r.bvar(), r.bvar()
		if column {
			t.UDT.Assembly = r.usvar()
		}
	default:
		panic(fault(fmt.Sprintf("type %02x", int(t.ID))))
	}
	return t
}

// fixedBytes are the types without a length.
var fixedBytes = map[tds.TypeID]int{
	0x1F: 0, 0x30: 1, 0x32: 1, 0x34: 2, 0x38: 4, 0x3A: 4, 0x3B: 4, 0x3C: 8, 0x3D: 8, 0x3E: 8, 0x7A: 4, 0x7F: 8,
}

// typeName names a type as tdscheck does.
func typeName(t *tds.TypeInfo) string {
	name := map[tds.TypeID]string{
		0x1F: "null", 0x26: "intn", 0x68: "bitn", 0x6A: "decimal", 0x6C: "numeric", 0x6D: "fltn", 0x6E: "moneyn", 0x6F: "datetimn",
		0x28: "date", 0x29: "time", 0x2A: "datetime2", 0x2B: "datetimeoffset", 0xA7: "varchar", 0xAF: "char", 0xE7: "nvarchar",
		0xEF: "nchar", 0xA5: "varbinary", 0xAD: "binary", 0x24: "guid", 0xF1: "xml", 0xF0: "udt", 0x22: "image", 0x23: "text",
		0x63: "ntext", 0x62: "sql_variant", 0x30: "tinyint", 0x32: "bit", 0x34: "smallint", 0x38: "int", 0x3A: "smalldatetime",
		0x3B: "real", 0x3C: "money", 0x3D: "datetime", 0x3E: "float", 0x7A: "smallmoney", 0x7F: "bigint",
	}[t.ID]
	switch t.ID {
	case 0x29, 0x2A, 0x2B:
		return fmt.Sprintf("%s(%d)", name, t.Scale)
	case 0x6A, 0x6C:
		return fmt.Sprintf("%s(%d,%d)", name, t.Precision, t.Scale)
	case 0xA7, 0xAF, 0xA5, 0xAD, 0xE7, 0xEF:
		if t.Size == 0xFFFF {
			return name + "(max)"
		}
		if t.ID >= 0xE7 {
			return fmt.Sprintf("%s(%d)", name, t.Size/2)
		}
		return fmt.Sprintf("%s(%d)", name, t.Size)
	case 0x26, 0x68, 0x6D, 0x6E, 0x6F:
		return fmt.Sprintf("%s%d", name, t.Size)
	default:
		return name
	}
}

// value reads the bytes of a value, nil for NULL.
func (r *wire) value(t *tds.TypeInfo) []byte {
	if n, ok := fixedBytes[t.ID]; ok {
		if n == 0 {
			return nil
		}
		return r.n(n)
	}
	switch {
	case t.ID == 0xF1 || t.ID == 0xF0 || t.Size == 0xFFFF && (t.ID == 0xA7 || t.ID == 0xE7 || t.ID == 0xA5):
		return r.plp()
	case t.ID == 0xA7 || t.ID == 0xAF || t.ID == 0xE7 || t.ID == 0xEF || t.ID == 0xA5 || t.ID == 0xAD:
		n := r.u16()
		if n == 0xFFFF {
			return nil
		}
		if n > t.Size {
			panic(fault(fmt.Sprintf("%d bytes in %s", n, typeName(t))))
		}
		return r.n(n)
	case t.ID == 0x22 || t.ID == 0x23 || t.ID == 0x63:
		n := r.u8()
		if n == 0 {
			return nil
		}
		r.n(n + 8)
		return r.n(r.u32())
	case t.ID == 0x62:
		n := r.u32()
		if n == 0 {
			return nil
		}
		return r.n(n)
	default:
		n := r.u8()
		if n == 0 {
			return nil
		}
		return r.n(n)
	}
}

// plp reads a value in chunks.
func (r *wire) plp() []byte {
	total := r.u64()
	if total == math.MaxUint64 {
		return nil
	}
	b := []byte{}
	for {
		n := r.u32()
		if n == 0 {
			break
		}
		b = append(b, r.n(n)...)
	}
	if total != math.MaxUint64-1 && total != uint64(len(b)) {
		panic(fault(fmt.Sprintf("PLP says %d bytes and has %d", total, len(b))))
	}
	return b
}

// goValue makes the Go value of a value's bytes.
func goValue(t *tds.TypeInfo, b []byte) tds.Value {
	if b == nil {
		return nil
	}
	le := binary.LittleEndian
	pad := func(n int) []byte { return append(append([]byte{}, b...), make([]byte, max(0, n-len(b)))...) }
	switch t.ID {
	case 0x26, 0x30, 0x34, 0x38, 0x7F:
		switch len(b) {
		case 1:
			return int64(b[0])
		case 2:
			return int64(int16(le.Uint16(b)))
		case 4:
			return int64(int32(le.Uint32(b)))
		}
		return int64(le.Uint64(b))
	case 0x32, 0x68:
		return b[0] == 1
	case 0x3B, 0x3E, 0x6D:
		if len(b) == 4 {
			return math.Float32frombits(le.Uint32(b))
		}
		return math.Float64frombits(le.Uint64(b))
	case 0x6A, 0x6C:
		m := pad(17)
		return tds.Decimal{Negative: b[0] == 0, Lo: le.Uint64(m[1:]), Hi: le.Uint64(m[9:]), Scale: t.Scale}
	case 0x3C, 0x6E, 0x7A:
		if len(b) == 4 {
			return tds.Money(int32(le.Uint32(b)))
		}
		return tds.Money(int64(int32(le.Uint32(b)))<<32 + int64(le.Uint32(b[4:])))
	case 0x3A, 0x3D, 0x6F:
		if len(b) == 4 {
			return tds.SmallDateTime{Days: le.Uint16(b), Minutes: le.Uint16(b[2:])}
		}
		return tds.DateTime{Days: int32(le.Uint32(b)), Ticks: le.Uint32(b[4:])}
	case 0x28, 0x29, 0x2A, 0x2B:
		return goTime(t, b)
	case 0xE7, 0xEF, 0x63, 0xF1:
		return wideText(b)
	case 0xA7, 0xAF, 0x23:
		return string(b) // tests of other characters look at the bytes
	case 0x24:
		return tds.UUID{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]}
	default:
		return b
	}
}

// goTime makes the Go value of the types of 2008.
func goTime(t *tds.TypeInfo, b []byte) tds.Value {
	number := func(b []byte) (v int64) {
		for i, x := range b {
			v |= int64(x) << (8 * i)
		}
		return v
	}
	unit := int64(math.Pow10(7 - int(t.Scale)))
	switch t.ID {
	case 0x28:
		return tds.Date(number(b))
	case 0x29:
		return tds.Time(number(b) * unit)
	case 0x2A:
		return tds.DateTime2{Date: tds.Date(number(b[len(b)-3:])), Time: tds.Time(number(b[:len(b)-3]) * unit)}
	default:
		n := len(b) - 5
		return tds.DateTimeOffset{Date: tds.Date(number(b[n : n+3])), Time: tds.Time(number(b[:n]) * unit), Offset: int16(number(b[n+3:]))}
	}
}
