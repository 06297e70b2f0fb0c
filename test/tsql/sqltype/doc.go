// Package sqltype is SQL Server's type system as values: types, NULL-able
// values, exact decimals, dates, collations, comparison, arithmetic and the
// conversion rules of CAST and CONVERT.
//
// It knows nothing of the language, the wire or storage. A [Value] is 40 bytes,
// immutable, holds no interface and is copied freely; text is UTF-8, binary is
// a Go string of bytes, so keeping a value never needs a copy of its content.
//
// Limits: text is UTF-8, so a lone surrogate (half of a UTF-16 pair) becomes
// U+FFFD. Linguistic order outside Latin scripts is code point order.
package sqltype
