package rowfilter

import (
	"fmt"
	"unicode/utf16"
)

// form is how a value lies in a row.
type form uint8

const (
	fixedForm   form = iota // size bytes, never NULL
	exactForm               // a byte of length: 0 is NULL, else it is size
	byteForm                // a byte of length up to size, 0 is NULL
	shortForm               // two bytes of length up to size, 0xFFFF is NULL
	chunkedForm             // eight bytes of length, then chunks (PARTLENTYPE)
	pointerForm             // a text pointer, then four bytes of length (text, ntext, image)
)

// wireColumn is one entry of COLMETADATA (MS-TDS 2.2.7.4).
type wireColumn struct {
	name             string
	flags            int
	typ              byte
	form             form
	size             int // largest length of a value as declared
	precision, scale int
	lcid             uint32 // of the collation, its flags in the bits above 20
	sortID           byte
}

// utf8Flag is fUTF8 of a collation (MS-TDS 2.2.5.1.2).
const utf8Flag = 1 << 26

// parseColumns reads the COLMETADATA token at the front of b. need is 0 when it is wholly there, else how many bytes are wanted
// at least. A type whose length cannot be told is a *Refusal, and so is one that is not decoded.
func parseColumns(b []byte) (columns []wireColumn, n, need int, refused *Refusal) {
	if len(b) < 3 {
		return nil, 0, 3, nil
	}
	count, p := le16(b[1:]), 3
	if count == noMetadata {
		return nil, p, 0, nil
	}
	for range count {
		if len(b) < p+7 {
			return nil, 0, p + 7, nil
		}
		c := wireColumn{flags: le16(b[p+4:]), typ: b[p+6]}
		p += 7
		used, want, detail := c.parseType(b[p:])
		if detail != "" {
			return nil, 0, 0, &Refusal{Reason: WantedType, Detail: fmt.Sprintf("column %d: %s", len(columns)+1, detail)}
		}
		if want > 0 {
			return nil, 0, p + want, nil
		}
		p += used
		if len(b) < p+1 || len(b) < p+1+2*int(b[p]) {
			return nil, 0, p + 1, nil
		}
		length := 2 * int(b[p])
		c.name = utf16Name(b[p+1 : p+1+length])
		p += 1 + length
		if c.flags&flagEncryptedValue != 0 {
			return nil, 0, 0, &Refusal{Reason: Encrypted, Detail: fmt.Sprintf("column %q is encrypted", c.name)}
		}
		columns = append(columns, c)
	}
	return columns, p, 0, nil
}

// parseType reads the TYPE_INFO behind the type's byte (MS-TDS 2.2.5.6). detail says why it is refused.
func (c *wireColumn) parseType(b []byte) (n, need int, detail string) {
	switch c.typ {
	case typeInt1, typeBit:
		c.size = 1
	case typeInt2:
		c.size = 2
	case typeInt4, typeSmallDateTime, typeReal, typeSmallMoney:
		c.size = 4
	case typeInt8, typeDateTime, typeMoney, typeFloat:
		c.size = 8
	case typeDate:
		c.form, c.size = exactForm, 3
	case typeTime, typeDateTime2, typeDateTimeOffset:
		return c.parseScale(b)
	case typeGUID, typeIntN, typeBitN, typeFloatN, typeMoneyN, typeDateTimeN:
		if len(b) < 1 {
			return 0, 1, ""
		}
		c.form, c.size = exactForm, int(b[0])
		return 1, 0, c.checkSize()
	case typeDecimal, typeNumeric, typeDecimalN, typeNumericN:
		return c.parseDecimal(b)
	case typeBigVarBinary, typeBigBinary:
		if len(b) < 2 {
			return 0, 2, ""
		}
		c.setSize(le16(b))
		return 2, 0, ""
	case typeBigVarChar, typeBigChar, typeNVarChar, typeNChar:
		if len(b) < 7 {
			return 0, 7, ""
		}
		c.setSize(le16(b))
		c.lcid, c.sortID = le32(b[2:]), b[6]
		return 7, 0, ""
	case typeXML:
		return c.parseXML(b)
	case typeText, typeNText, typeImage:
		return c.parseText(b)
	default:
		return 0, 0, fmt.Sprintf("type 0x%02X is left to the driver", c.typ)
	}
	return 0, 0, ""
}

func (c *wireColumn) setSize(size int) {
	c.form, c.size = shortForm, size
	if size == sizeMax {
		c.form, c.size = chunkedForm, longestValue
	}
}

// checkSize refuses sizes that the type does not have.
func (c *wireColumn) checkSize() string {
	ok := false
	switch c.typ {
	case typeGUID:
		ok = c.size == 16
	case typeIntN:
		ok = c.size == 1 || c.size == 2 || c.size == 4 || c.size == 8
	case typeBitN:
		ok = c.size == 1
	case typeFloatN, typeMoneyN, typeDateTimeN:
		ok = c.size == 4 || c.size == 8
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("type 0x%02X of %d bytes", c.typ, c.size)
}

func (c *wireColumn) parseScale(b []byte) (n, need int, detail string) {
	if len(b) < 1 {
		return 0, 1, ""
	}
	c.form, c.scale = exactForm, int(b[0])
	switch {
	case c.scale <= 2:
		c.size = 3
	case c.scale <= 4:
		c.size = 4
	case c.scale <= 7:
		c.size = 5
	default:
		return 0, 0, fmt.Sprintf("type 0x%02X of scale %d", c.typ, c.scale)
	}
	switch c.typ {
	case typeDateTime2:
		c.size += 3
	case typeDateTimeOffset:
		c.size += 5
	}
	return 1, 0, ""
}

func (c *wireColumn) parseDecimal(b []byte) (n, need int, detail string) {
	if len(b) < 3 {
		return 0, 3, ""
	}
	c.form, c.size, c.precision, c.scale = byteForm, int(b[0]), int(b[1]), int(b[2])
	if c.size > 17 || c.precision < 1 || c.precision > maxDigits || c.scale > c.precision {
		return 0, 0, fmt.Sprintf("a decimal(%d,%d) of %d bytes", c.precision, c.scale, c.size)
	}
	return 3, 0, ""
}

// parseXML passes over the names of a schema collection.
func (c *wireColumn) parseXML(b []byte) (n, need int, detail string) {
	c.form, c.size = chunkedForm, longestValue
	if len(b) < 1 {
		return 0, 1, ""
	}
	p := 1
	if b[0] == 0 {
		return p, 0, ""
	}
	for range 2 { // database and owning schema
		if len(b) < p+1 {
			return 0, p + 1, ""
		}
		p += 1 + 2*int(b[p])
	}
	if len(b) < p+2 {
		return 0, p + 2, ""
	}
	p += 2 + 2*le16(b[p:])
	if len(b) < p {
		return 0, p, ""
	}
	return p, 0, ""
}

// parseText passes over the name of the table, which these types come with.
func (c *wireColumn) parseText(b []byte) (n, need int, detail string) {
	c.form, c.size = pointerForm, longestValue
	p := 4
	if c.typ != typeImage {
		p += 5
	}
	if len(b) < p+1 {
		return 0, p + 1, ""
	}
	if c.typ != typeImage {
		c.lcid, c.sortID = le32(b[4:]), b[8]
	}
	parts := int(b[p])
	p++
	for range parts {
		if len(b) < p+2 {
			return 0, p + 2, ""
		}
		p += 2 + 2*le16(b[p:])
	}
	if len(b) < p {
		return 0, p, ""
	}
	return p, 0, ""
}

func utf16Name(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = uint16(le16(b[2*i:]))
	}
	return string(utf16.Decode(units))
}
