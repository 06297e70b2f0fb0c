// Package tds is the server side of the TDS wire protocol, versions 7.2 to 7.4 and the TLS-first form 8.0, as SQL
// Server speaks it. It knows no SQL and has no engine: it takes connections through PRELOGIN, TLS and LOGIN7, hands
// requests over as Go values and writes what a [Session] answers.
//
//	server := tds.NewServer(tds.Config{ServerName: "SIM", TLS: cert.Config}, handler)
//	err := server.Serve(ctx, listener)
//
// A [Handler] decides about a login and returns a [Session]; the session answers one [Request] at a time through a
// [Writer]:
//
//	func (s *session) Handle(ctx context.Context, req *tds.Request, w *tds.Writer) error {
//		w.Columns([]tds.Column{{Name: "n", Type: tds.TypeInt(4), Flags: tds.FlagNullable}})
//		for n := range int64(1000) {
//			row := w.Row()
//			row.Int(n)
//			if err := row.End(); err != nil {
//				return err // the client sent an attention, or went away
//			}
//		}
//		w.Done(tds.Done{Status: tds.DoneCount, Command: tds.CommandSelect, Count: 1000})
//		return nil
//	}
//
// What the package does on its own, so that a session need not:
//   - the more bit of DONE tokens: a Done is held back until the next token or the end of the message;
//   - ENVCHANGE 18 in front of the answer to a request that carries a reset bit (the session resets its own state);
//   - ATTENTION: it ends the request's context with [ErrAttention] while one runs, and is acknowledged with DONE 0x20 as
//     the last token of the answer, or by a message of its own when the session is idle;
//   - rows with NULLs are sent as NBCROW to clients that know it (TDS 7.3B and later);
//   - the connection is closed after an error of class 20 and above.
//
// Rows are built by typed methods of [Row] or by the Append functions, neither of which allocates once the buffers have
// grown. [Hooks] and [Fault] break the wire on purpose; [Proxy] breaks the TCP connection in front of any server.
//
// Numbers and layouts come from MS-TDS; what differs between real servers and the document is said where it matters.
package tds
