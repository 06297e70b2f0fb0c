package tds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// decoder reads little-endian numbers and counted strings from one message. The first failure sticks: later reads give
// zero values, so that callers check once at the end.
type decoder struct {
	b   []byte
	off int
	err error
}

// fail keeps the first error and where it happened.
func (d *decoder) fail(what string, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("decoding %s at byte %d: %w", what, d.off, err)
	}
}

// left gives the number of bytes not read yet.
func (d *decoder) left() int { return len(d.b) - d.off }

// take gives the next n bytes; they alias the message.
func (d *decoder) take(what string, n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > d.left() {
		d.fail(fmt.Sprintf("%s of %d bytes", what, n), io.ErrUnexpectedEOF)
		return nil
	}
	v := d.b[d.off : d.off+n : d.off+n]
	d.off += n
	return v
}

// u8, u16, u32 and u64 read a number.
func (d *decoder) u8(what string) uint8 {
	if v := d.take(what, 1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) u16(what string) uint16 {
	if v := d.take(what, 2); v != nil {
		return binary.LittleEndian.Uint16(v)
	}
	return 0
}

func (d *decoder) u32(what string) uint32 {
	if v := d.take(what, 4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (d *decoder) u64(what string) uint64 {
	if v := d.take(what, 8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// collation reads the five bytes.
func (d *decoder) collation() Collation {
	var c Collation
	copy(c[:], d.take("collation", 5))
	return c
}

// text reads n UTF-16 units.
func (d *decoder) text(what string, n int) string { return decodeUTF16(d.take(what, 2*n)) }

// bvarchar reads text with a length of one byte.
func (d *decoder) bvarchar(what string) string { return d.text(what, int(d.u8(what+" length"))) }

// usvarchar reads text with a length of two bytes.
func (d *decoder) usvarchar(what string) string { return d.text(what, int(d.u16(what+" length"))) }

// Reasons for refusing a TYPE_INFO or a value.
var (
	errType   = errors.New("a type that does not exist")
	errSize   = errors.New("a size the type does not have")
	errLength = errors.New("a length the type does not have")
	errOdd    = errors.New("an odd number of bytes of UTF-16")
	errTotal  = errors.New("chunks that do not add up to the total length")
)

// DecodeTypeInfo reads a TYPE_INFO as parameters carry it and gives the number of bytes it took. Types this package does not
// decode give an [UnsupportedError].
func DecodeTypeInfo(b []byte) (TypeInfo, int, error) {
	d := decoder{b: b}
	t := d.typeInfo()
	return t, d.off, d.err
}

// DecodeValue reads one value of a parameter of type t and gives the number of bytes it took. []byte values alias b.
func DecodeValue(b []byte, t *TypeInfo) (Value, int, error) {
	d := decoder{b: b}
	v := d.value(t)
	return v, d.off, d.err
}

// typeInfo reads a TYPE_INFO in its parameter form.
func (d *decoder) typeInfo() TypeInfo {
	t := TypeInfo{ID: TypeID(d.u8("type"))}
	if n := t.ID.fixedSize(); n >= 0 {
		t.Size = n
		return t
	}
	switch t.ID {
	case IDIntN, IDBitN, IDFloatN, IDMoneyN, IDDateTimeN, IDGUID:
		t.Size = int(d.u8("size"))
		if !sizeAllowed(t.ID, t.Size) {
			d.fail(t.ID.String(), errSize)
		}
	case IDDateN:
	case IDTimeN, IDDateTime2N, IDDateTimeOffsetN:
		if t.Scale = d.u8("scale"); t.Scale > 7 {
			d.fail(t.ID.String(), errSize)
		}
	case IDDecimalN, IDNumericN:
		t.Size, t.Precision, t.Scale = int(d.u8("size")), d.u8("precision"), d.u8("scale")
		if d.err == nil && (t.Precision < 1 || t.Precision > MaxPrecision || t.Scale > t.Precision || t.Size > 17 || t.Size < 2) {
			d.fail(t.ID.String(), errSize)
		}
	case IDBinary, IDVarBinary:
		t.Size = int(d.u16("size"))
	case IDChar, IDVarChar, IDNChar, IDNVarChar:
		t.Size, t.Collation = int(d.u16("size")), d.collation()
	case IDText, IDNText:
		t.Size, t.Collation = int(d.u32("size")), d.collation()
	case IDImage, IDVariant:
		t.Size = int(d.u32("size"))
	case IDXML:
		d.xmlSchema(&t)
	case IDUDT:
		t.Size = Max
		t.UDT = &UDTInfo{Database: d.bvarchar("CLR type's database"), Schema: d.bvarchar("CLR type's schema"), Type: d.bvarchar("CLR type")}
	default:
		d.unsupportedType(t.ID)
	}
	return t
}

// xmlSchema reads the optional schema collection of an xml type.
func (d *decoder) xmlSchema(t *TypeInfo) {
	switch d.u8("xml schema flag") {
	case 0:
	case 1:
		t.Schema = &XMLSchema{d.bvarchar("schema's database"), d.bvarchar("schema's owner"), d.usvarchar("schema collection")}
	default:
		d.fail("xml schema flag", errSize)
	}
}

// unsupportedType refuses a type by name if it has one.
func (d *decoder) unsupportedType(id TypeID) {
	if d.err != nil {
		return
	}
	switch id {
	case IDTVP:
		_, schema, name := d.bvarchar("database"), d.bvarchar("schema"), d.bvarchar("table type")
		if schema != "" {
			name = schema + "." + name
		}
		d.fail("type", &UnsupportedError{"table-valued parameter " + name})
	case 0x25, 0x27, 0x2D, 0x2F, 0x37, 0x3F:
		d.fail("type", &UnsupportedError{fmt.Sprintf("type 0x%02X of TDS 4.2", uint8(id))})
	case 0xF4:
		d.fail("type", &UnsupportedError{"type json"})
	case 0xF5:
		d.fail("type", &UnsupportedError{"type vector"})
	default:
		d.fail(id.String(), errType)
	}
}

// sizeAllowed reports whether an N type has the size.
func sizeAllowed(id TypeID, size int) bool {
	switch id {
	case IDIntN:
		return size == 1 || size == 2 || size == 4 || size == 8
	case IDBitN:
		return size == 1
	case IDGUID:
		return size == 16
	default:
		return size == 4 || size == 8
	}
}

// plp reads a value in chunks; false means NULL. The bytes alias the message when there is one chunk.
func (d *decoder) plp() ([]byte, bool) {
	total := d.u64("total length")
	if total == plpNull {
		return nil, false
	}
	var value []byte
	chunks := 0
	for d.err == nil {
		n := int(d.u32("chunk length"))
		if n == 0 {
			break
		}
		chunk := d.take("chunk", n)
		if chunks++; chunks == 1 {
			value = chunk
			continue
		}
		value = append(value, chunk...)
	}
	if d.err == nil && total != plpUnknown && total != uint64(len(value)) {
		d.fail("value in chunks", errTotal)
	}
	return value, d.err == nil
}
