package rowfilter

import "fmt"

// tokenLength is the length of a token that is neither a row nor COLMETADATA. need is 0 when it is wholly there, else how many
// bytes are wanted at least. What is inside is the driver's business.
func tokenLength(b []byte) (n, need int, err error) {
	switch b[0] {
	case tokenReturnStatus:
		n = 5
	case tokenDone, tokenDoneProc, tokenDoneInProc:
		n = lengthOfDone
	case tokenTabName, tokenColInfo, tokenOrder, tokenError, tokenInfo, tokenLoginAck, tokenEnvChange, tokenSSPI:
		if len(b) < 3 {
			return 0, 3, nil
		}
		n = 3 + le16(b[1:])
	case tokenSessionState, tokenFedAuthInfo:
		if len(b) < 5 {
			return 0, 5, nil
		}
		length := le32(b[1:])
		if length > longestToken {
			return 0, 0, malformed(fmt.Sprintf("token 0x%02X is %d bytes long", b[0], length))
		}
		n = 5 + int(length)
	case tokenReturnValue:
		return returnValueLength(b)
	default:
		return 0, 0, malformed(fmt.Sprintf("token 0x%02X is not known", b[0]))
	}
	if len(b) < n {
		return 0, n, nil
	}
	return n, 0, nil
}

// longestToken bounds what is kept of a token whose length has four bytes.
const longestToken = 1 << 24

// returnValueLength measures RETURNVALUE (MS-TDS 2.2.7.19), whose value has the form of its type.
func returnValueLength(b []byte) (n, need int, err error) {
	if len(b) < 4 {
		return 0, 4, nil
	}
	p := 4 + 2*int(b[3]) + 1 + 6 // ordinal, name, status, user type and flags
	if len(b) < p+1 {
		return 0, p + 1, nil
	}
	c := wireColumn{typ: b[p]}
	p++
	used, want, detail := c.parseType(b[p:])
	if detail != "" {
		return 0, 0, malformed("a returned value: " + detail)
	}
	if want > 0 {
		return 0, p + want, nil
	}
	p += used
	length, want, err := valueLength(&c, b[p:])
	if err != nil || want > 0 {
		return 0, p + want, err
	}
	return p + length, 0, nil
}

// valueLength is the length of a value with all that stands before it.
func valueLength(c *wireColumn, b []byte) (n, need int, err error) {
	switch c.form {
	case fixedForm:
		n = c.size
	case exactForm, byteForm:
		if len(b) < 1 {
			return 0, 1, nil
		}
		n = 1 + int(b[0])
	case shortForm:
		if len(b) < 2 {
			return 0, 2, nil
		}
		if n = 2; le16(b) != shortNull {
			n += le16(b)
		}
	case chunkedForm:
		return chunkedLength(b)
	case pointerForm:
		if len(b) < 1 {
			return 0, 1, nil
		}
		if b[0] == 0 {
			return 1, 0, nil
		}
		at := 1 + int(b[0]) + 8
		if len(b) < at+4 {
			return 0, at + 4, nil
		}
		n = at + 4
		if length := le32(b[at:]); length != 0xFFFFFFFF {
			if length > longestValue {
				return 0, 0, malformed("a value longer than any type allows")
			}
			n += int(length)
		}
	}
	if len(b) < n {
		return 0, n, nil
	}
	return n, 0, nil
}

// chunkedLength measures a value in chunks (MS-TDS 2.2.5.2.3).
func chunkedLength(b []byte) (n, need int, err error) {
	if len(b) < 8 {
		return 0, 8, nil
	}
	total := le64(b)
	n = 8
	if total == chunkedNull {
		return n, 0, nil
	}
	known := 0
	if total != chunkedUnknown {
		if total > longestValue {
			return 0, 0, malformed("a value longer than any type allows")
		}
		known = 8 + 4 + int(total) // and at least the chunk's length before it
	}
	sum := uint64(0)
	for {
		if len(b) < n+4 {
			return 0, max(n+4, known), nil
		}
		length := le32(b[n:])
		n += 4
		if length == 0 {
			break
		}
		if sum += uint64(length); sum > longestValue || total != chunkedUnknown && sum > total {
			return 0, 0, malformed("chunks that are longer than their value")
		}
		n += int(length)
	}
	if total != chunkedUnknown && sum != total {
		return 0, 0, malformed("chunks that are shorter than their value")
	}
	return n, 0, nil
}
