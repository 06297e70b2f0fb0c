package dsn

import (
	"fmt"
	"slices"
	"strings"
)

// pair is one entry of an ADO or ODBC string.
type pair struct{ key, value string }

// split cuts key=value entries at semicolons. A value in braces may hold anything, with } doubled (ODBC). A value in
// quotes may hold anything, with the quote doubled (ADO); a string that names a DRIVER is ODBC and has no quotes.
func split(text string, odbc bool) ([]pair, error) {
	asODBC, err := splitAs(text, true)
	if odbc {
		return asODBC, err
	}
	asADO, adoErr := splitAs(text, false)
	// What looks like a DRIVER may be part of a quoted value, so the ADO reading has the first word.
	if adoErr == nil && !namesDriver(asADO) {
		return asADO, nil
	}
	if err == nil && namesDriver(asODBC) {
		return asODBC, nil
	}
	return asADO, adoErr
}

func namesDriver(pairs []pair) bool {
	return slices.ContainsFunc(pairs, func(p pair) bool { return canonical(p.key) == "driver" })
}

func splitAs(text string, odbc bool) ([]pair, error) {
	var pairs []pair
	for rest := text; ; {
		rest = strings.TrimLeft(rest, "; \t\r\n")
		if rest == "" {
			return pairs, nil
		}
		end := strings.IndexAny(rest, "=;")
		if end < 0 || rest[end] == ';' {
			// What has no = may be the tail of an unquoted password: say where it stands, not what it is.
			return nil, &Error{Reason: fmt.Sprintf("entry %d has no =; a value with ; must be quoted: \"…\" (ADO) or {…} (ODBC)", len(pairs)+1)}
		}
		key := strings.TrimSpace(rest[:end])
		value, after, err := cutValue(strings.TrimLeft(rest[end+1:], " \t\r\n"), odbc)
		if err != nil {
			return nil, &Error{Key: fmt.Sprintf("entry %d", len(pairs)+1), Reason: err.Error()}
		}
		if key == "" {
			return nil, &Error{Reason: fmt.Sprintf("entry %d has no key", len(pairs)+1)}
		}
		pairs = append(pairs, pair{key, value})
		rest = after
	}
}

// cutValue takes one value and its semicolon off the front.
func cutValue(text string, odbc bool) (value, rest string, err error) {
	switch {
	case strings.HasPrefix(text, "{"):
		return cutQuoted(text, '}')
	case !odbc && (strings.HasPrefix(text, `"`) || strings.HasPrefix(text, "'")):
		return cutQuoted(text, text[0])
	}
	value, rest, _ = strings.Cut(text, ";")
	return strings.TrimSpace(value), rest, nil
}

// cutQuoted reads a value whose first byte opens it and whose closing byte is doubled inside.
func cutQuoted(text string, closing byte) (value, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		if text[i] != closing {
			b.WriteByte(text[i])
			continue
		}
		if i+1 < len(text) && text[i+1] == closing {
			b.WriteByte(closing)
			i++
			continue
		}
		rest = strings.TrimLeft(text[i+1:], " \t\r\n")
		if rest != "" && rest[0] != ';' {
			return "", "", fmt.Errorf("text follows the closing %c", closing)
		}
		return b.String(), strings.TrimPrefix(rest, ";"), nil
	}
	return "", "", fmt.Errorf("the closing %c is missing", closing)
}
