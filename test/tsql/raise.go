package tsql

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/ast"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqlerr"
	"github.com/mssqlcdc/rpconnect-mssqlcdc/test/tsql/sqltype"
)

// raise is RAISERROR: information up to severity 10, an error that goes on
// behind it from 11 to 19.
func (r *runner) raise(ctx context.Context, x *ast.Raise) error {
	msg, msgType, err := r.value(ctx, x.Message)
	if err != nil {
		return err
	}
	severity, err := r.valueAs(ctx, x.Severity, sqltype.Type{Kind: sqltype.KindInt})
	if err != nil {
		return err
	}
	state, err := r.valueAs(ctx, x.State, sqltype.Type{Kind: sqltype.KindInt})
	if err != nil {
		return err
	}
	class := uint8(min(max(severity.Int64(), 0), 25))
	if class > 18 && !hasOption(x.Options, "LOG") {
		return sqlerr.Make(2754)
	}
	if msgType.Kind.IsInteger() {
		if n := msg.Int64(); n < 13000 || n == 50000 {
			return sqlerr.Make(2732, n)
		}
		return sqlerr.New(18054, 16, 1, "Error %d, severity %d, state %d was raised, but no message with that error number was found in sys.messages. If error is larger than 50000, make sure the user-defined message is added using sp_addmessage.",
			msg.Int64(), class, state.Int64())
	}
	args := make([]sqltype.Value, len(x.Args))
	for i, a := range x.Args {
		if args[i], _, err = r.value(ctx, a); err != nil {
			return err
		}
	}
	text, err := formatMessage(msg.Str(), args)
	if err != nil {
		return err
	}
	e := sqlerr.New(50000, class, uint8(min(max(state.Int64(), 0), 255)), "%s", text).At(x.Line).In(r.procedure)
	if class <= 10 {
		if class == 10 { // the server sends 10 as 0
			e.Class = 0
		}
		if !hasOption(x.Options, "SETERROR") {
			r.s.lastError = 0
		}
		return r.sink.Message(e)
	}
	return &raisedError{err: e}
}

func hasOption(list []string, name string) bool {
	for _, o := range list {
		if o == name {
			return true
		}
	}
	return false
}

// formatMessage fills the printf-like placeholders of RAISERROR: %d %i %u %o %x %X
// %s, with flags, width and precision, also as *.
func formatMessage(format string, args []sqltype.Value) (string, error) {
	var b strings.Builder
	next := 0
	take := func() (sqltype.Value, bool) {
		if next >= len(args) {
			return sqltype.Value{}, false
		}
		next++
		return args[next-1], true
	}
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		if i < len(format) && format[i] == '%' {
			b.WriteByte('%')
			continue
		}
		spec, end := scanSpec(format, i, take)
		if end >= len(format) {
			return "", sqlerr.Make(2787, format[start:])
		}
		i = end
		v, ok := take()
		text, err := formatOne(spec, format[i], v, ok, next, format[start:i+1])
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// scanSpec reads flags, width, precision and size in front of the conversion.
func scanSpec(format string, i int, take func() (sqltype.Value, bool)) (spec string, end int) {
	spec = "%"
	for ; i < len(format); i++ {
		switch c := format[i]; {
		case c == '-' || c == '+' || c == '0' || c == '#' || c == ' ' || c == '.' || c >= '1' && c <= '9':
			spec += string(c)
		case c == '*':
			if v, ok := take(); ok {
				spec += strconv.FormatInt(v.Int64(), 10)
			}
		case c == 'h' || c == 'l':
		case strings.HasPrefix(format[i:], "I64"):
			i += 2
		default:
			return spec, i
		}
	}
	return spec, i
}

func formatOne(spec string, verb byte, v sqltype.Value, given bool, ordinal int, whole string) (string, error) {
	switch verb {
	case 'd', 'i', 'u', 'o', 'x', 'X':
		if !given || v.IsNull() {
			return "(null)", nil
		}
		if !v.Kind().IsInteger() {
			return "", sqlerr.Make(2786, ordinal)
		}
		goVerb := string(verb)
		if verb == 'i' || verb == 'u' {
			goVerb = "d"
		}
		if verb == 'u' || verb == 'o' || verb == 'x' || verb == 'X' {
			return fmt.Sprintf(spec+goVerb, uint32(v.Int64())), nil
		}
		return fmt.Sprintf(spec+goVerb, v.Int64()), nil
	case 's':
		if !given || v.IsNull() {
			return fmt.Sprintf(spec+"s", "(null)"), nil
		}
		if !v.Kind().IsText() {
			return "", sqlerr.Make(2786, ordinal)
		}
		return fmt.Sprintf(spec+"s", v.Str()), nil
	}
	return "", sqlerr.Make(2787, whole)
}
