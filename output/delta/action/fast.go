package action

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Most lines of a log have one of a few plain forms. They are read here in one pass; every line of another form, and
// every line that is wrong, is left to encoding/json, which says what is wrong with it. So whatever is accepted here
// must mean exactly what it means there: FuzzFastLines compares.

// maxDepth is the nesting of a value that is passed over here.
const maxDepth = 32

// fast reads a line from the left. Methods report whether what they are named for was there; after a false the line is
// encoding/json's.
type fast struct {
	text []byte
	at   int
}

// fastFile reads a line with an add or a remove into l.
func fastFile(raw []byte, l *line) bool {
	f := fast{text: raw}
	switch f.action() {
	case "add":
		l.Add = &Add{}
		return f.add(l.Add) && f.end()
	case "remove":
		l.Remove = &Remove{}
		return f.remove(l.Remove) && f.end()
	}
	return false
}

// fastSummary reads the parts of a line that a summary needs into l.
func fastSummary(raw []byte, l *line) bool {
	f := fast{text: raw}
	switch f.action() {
	case "add":
		l.Add = &Add{}
		return f.fileRef(&l.Add.Path) && f.end()
	case "remove":
		l.Remove = &Remove{}
		return f.fileRef(&l.Remove.Path) && f.end()
	case "txn":
		l.Txn = &Txn{}
		return f.txn(l.Txn) && f.end()
	case "commitInfo":
		l.CommitInfo = &CommitInfo{}
		return f.commitInfo(l.CommitInfo) && f.end()
	}
	return false
}

// fastOther reports whether a line is one with a commitInfo or a txn and nothing else.
func fastOther(raw []byte) bool {
	f := fast{text: raw}
	switch f.action() {
	case "commitInfo", "txn":
		return f.peek() == '{' && f.skip(0) && f.end()
	}
	return false
}

// action begins the line and returns the action's name.
func (f *fast) action() string {
	if !f.token('{') {
		return ""
	}
	key, ok := f.plain()
	if !ok || !f.token(':') {
		return ""
	}
	return string(key)
}

// end is the end of the line.
func (f *fast) end() bool { return f.token('}') && f.peek() == 0 && f.at == len(f.text) }

// peek is the next character that is not white space, 0 at the end.
func (f *fast) peek() byte {
	for ; f.at < len(f.text); f.at++ {
		switch c := f.text[f.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (f *fast) token(c byte) bool {
	if f.peek() != c || f.at == len(f.text) {
		return false
	}
	f.at++
	return true
}

func (f *fast) word(w string) bool {
	f.peek()
	if f.at+len(w) > len(f.text) || string(f.text[f.at:f.at+len(w)]) != w {
		return false
	}
	f.at += len(w)
	return true
}

// plain is a string without escapes, as a part of the text.
func (f *fast) plain() ([]byte, bool) {
	if !f.token('"') {
		return nil, false
	}
	for i := f.at; i < len(f.text); i++ {
		switch c := f.text[i]; {
		case c == '"':
			s := f.text[f.at:i]
			f.at = i + 1
			return s, true
		case c < ' ' || c == '\\' || c >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// str is a string, with the escapes of one character.
func (f *fast) str(to *string) bool {
	if !f.token('"') {
		return false
	}
	escapes := 0
	for i := f.at; i < len(f.text); i++ {
		switch c := f.text[i]; {
		case c == '"':
			s := f.text[f.at:i]
			f.at = i + 1
			if !utf8.Valid(s) {
				return false // encoding/json replaces what is not valid
			}
			if escapes == 0 {
				*to = string(s)
				return true
			}
			return unescape(s, len(s)-escapes, to)
		case c == '\\':
			i++
			escapes++
		case c < ' ':
			return false
		}
	}
	return false
}

func unescape(s []byte, length int, to *string) bool {
	var b strings.Builder
	b.Grow(length)
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case '"', '\\', '/':
			b.WriteByte(s[i])
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		default:
			return false
		}
	}
	*to = b.String()
	return true
}

// integer is a number without fraction and exponent.
func (f *fast) integer(to *int64) bool {
	negative := f.peek() == '-'
	if negative {
		f.at++
	}
	begin, n := f.at, uint64(0)
	for ; f.at < len(f.text) && f.text[f.at]-'0' <= 9; f.at++ {
		n = n*10 + uint64(f.text[f.at]-'0')
	}
	digits := f.at - begin
	if digits == 0 || digits > 18 || digits > 1 && f.text[begin] == '0' || n > math.MaxInt64 {
		return false
	}
	if c := f.peek(); c != ',' && c != '}' {
		return false
	}
	*to = int64(n)
	if negative {
		*to = -*to
	}
	return true
}

func (f *fast) boolean(to *bool) bool {
	if f.peek() == 't' {
		*to = true
		return f.word("true")
	}
	*to = false
	return f.word("false")
}

// object reads an object: field is called behind each key. Keys with escapes are left to encoding/json.
func (f *fast) object(field func(key []byte) bool) bool {
	if !f.token('{') {
		return false
	}
	if f.token('}') {
		return true
	}
	for {
		key, ok := f.plain()
		if !ok || !f.token(':') || !field(key) {
			return false
		}
		if f.token('}') {
			return true
		}
		if !f.token(',') {
			return false
		}
	}
}

// once notes a field, by a bit of its own: a second one is not for us.
func (f *fast) once(seen *uint, bit int) bool {
	had := *seen&(1<<bit) != 0
	*seen |= 1 << bit
	return !had
}

func (f *fast) add(a *Add) bool {
	var seen uint
	return f.object(func(key []byte) bool {
		switch string(key) {
		case "path":
			return f.once(&seen, 0) && f.str(&a.Path)
		case "partitionValues":
			return f.once(&seen, 1) && f.values(&a.PartitionValues)
		case "size":
			return f.once(&seen, 2) && f.integer(&a.Size)
		case "modificationTime":
			return f.once(&seen, 3) && f.integer(&a.ModificationTime)
		case "dataChange":
			return f.once(&seen, 4) && f.boolean(&a.DataChange)
		case "stats":
			return f.once(&seen, 5) && f.str(&a.Stats)
		case "tags":
			return f.once(&seen, 6) && f.texts(&a.Tags)
		}
		return false
	})
}

func (f *fast) remove(r *Remove) bool {
	var seen uint
	return f.object(func(key []byte) bool {
		switch string(key) {
		case "path":
			return f.once(&seen, 0) && f.str(&r.Path)
		case "partitionValues":
			return f.once(&seen, 1) && f.values(&r.PartitionValues)
		case "size":
			r.Size = new(int64)
			return f.once(&seen, 2) && f.integer(r.Size)
		case "deletionTimestamp":
			return f.once(&seen, 3) && f.integer(&r.DeletionTimestamp)
		case "dataChange":
			return f.once(&seen, 4) && f.boolean(&r.DataChange)
		case "stats":
			return f.once(&seen, 5) && f.str(&r.Stats)
		case "tags":
			return f.once(&seen, 6) && f.texts(&r.Tags)
		case "extendedFileMetadata":
			return f.once(&seen, 7) && f.boolean(&r.ExtendedFileMetadata)
		}
		return false
	})
}

// fileRef reads the path of a file action without a deletion vector.
func (f *fast) fileRef(path *string) bool {
	var seen uint
	return f.object(func(key []byte) bool {
		switch string(key) {
		case "path":
			return f.once(&seen, 0) && f.str(path)
		case "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionTimestamp", "extendedFileMetadata":
			return f.skip(0)
		}
		return false // also names that encoding/json takes for those of ours
	})
}

func (f *fast) txn(t *Txn) bool {
	var seen uint
	return f.object(func(key []byte) bool {
		switch string(key) {
		case "appId":
			return f.once(&seen, 0) && f.str(&t.AppID)
		case "version":
			return f.once(&seen, 1) && f.integer(&t.Version)
		case "lastUpdated":
			t.LastUpdated = new(int64)
			return f.once(&seen, 2) && f.integer(t.LastUpdated)
		}
		return false
	})
}

// commitInfo reads what a summary needs of one.
func (f *fast) commitInfo(c *CommitInfo) bool {
	var seen uint
	return f.object(func(key []byte) bool {
		switch string(key) {
		case "txnId":
			return f.once(&seen, 0) && f.str(&c.TxnID)
		case "inCommitTimestamp":
			c.InCommitTimestamp = new(int64)
			return f.once(&seen, 1) && f.integer(c.InCommitTimestamp)
		}
		if strings.EqualFold(string(key), "txnId") || strings.EqualFold(string(key), "inCommitTimestamp") {
			return false // encoding/json takes it for ours
		}
		return f.skip(0)
	})
}

// values is a map of strings or null.
func (f *fast) values(to *map[string]*string) bool {
	out := map[string]*string{}
	*to = out
	return f.object(func(key []byte) bool {
		if f.peek() == 'n' {
			out[string(key)] = nil
			return f.word("null")
		}
		value := new(string)
		out[string(key)] = value
		return f.str(value)
	})
}

// texts is a map of strings.
func (f *fast) texts(to *map[string]string) bool {
	out := map[string]string{}
	*to = out
	return f.object(func(key []byte) bool {
		var value string
		ok := f.str(&value)
		out[string(key)] = value
		return ok
	})
}

// skip passes over a value.
func (f *fast) skip(depth int) bool {
	if depth == maxDepth {
		return false
	}
	switch f.peek() {
	case '"':
		return f.skipText()
	case '{':
		f.at++
		if f.token('}') {
			return true
		}
		for {
			if !f.skipText() || !f.token(':') || !f.skip(depth+1) {
				return false
			}
			if f.token('}') {
				return true
			}
			if !f.token(',') {
				return false
			}
		}
	case '[':
		f.at++
		if f.token(']') {
			return true
		}
		for {
			if !f.skip(depth + 1) {
				return false
			}
			if f.token(']') {
				return true
			}
			if !f.token(',') {
				return false
			}
		}
	case 't':
		return f.word("true")
	case 'f':
		return f.word("false")
	case 'n':
		return f.word("null")
	}
	return f.skipNumber()
}

func (f *fast) skipText() bool {
	if !f.token('"') {
		return false
	}
	for i := f.at; i < len(f.text); i++ {
		switch c := f.text[i]; {
		case c == '"':
			f.at = i + 1
			return true
		case c == '\\':
			if i++; i == len(f.text) || !strings.ContainsRune(`"\/bfnrt`, rune(f.text[i])) {
				return false
			}
		case c < ' ':
			return false
		}
	}
	return false
}

// skipNumber passes over a number without an exponent.
func (f *fast) skipNumber() bool {
	if f.peek() == '-' {
		f.at++
	}
	digits := func() int {
		begin := f.at
		for f.at < len(f.text) && f.text[f.at]-'0' <= 9 {
			f.at++
		}
		return f.at - begin
	}
	begin := f.at
	if n := digits(); n == 0 || n > 1 && f.text[begin] == '0' {
		return false
	}
	if f.at < len(f.text) && f.text[f.at] == '.' {
		f.at++
		if digits() == 0 {
			return false
		}
	}
	switch f.peek() { // whatever else may follow a number is not for us
	case ',', '}', ']':
		return true
	}
	return false
}
