package tds

import "context"

// Handler decides about logins. It is used by many goroutines at once.
type Handler interface {
	// Login is called after LOGIN7 was read. An answer with a session accepts the client; the session is then closed by the
	// connection whatever happens. An error refuses it: a [*ServerError] (or several, joined) is sent to the client,
	// any other error just ends the connection. With [LoginAnswer.Routing] the session may be nil, since the client leaves.
	Login(ctx context.Context, c *Conn, login *Login) (*LoginAnswer, Session, error)
}

// Session answers the requests of one logged-in client. Its methods are called by one goroutine, one after the other.
type Session interface {
	// Handle answers one request. ctx ends, with its cause, on an attention ([ErrAttention]), when the client goes away
	// ([ErrDisconnected]) and when the server stops. The answer is complete when Handle returns nil; Handle need not
	// end it with a Done. After an attention whatever Handle returns is fine: the answer is cut and acknowledged.
	// Returning a [*ServerError] sends it, followed by a DONE with the error bit. Any other error ends the connection.
	Handle(ctx context.Context, req *Request, w *Writer) error
	// Close is called once, when the connection is over.
	Close() error
}

// LoginAnswer is what an accepted client is told (MS-TDS 3.3.5.6). Empty fields take the configuration's values.
type LoginAnswer struct {
	Database    string // the session's database; default what the client asked for, else master
	OldDatabase string // default master
	Language    string
	Collation   Collation
	PacketSize  int       // default: what was granted; other values are a lie to the client
	Features    []Feature // to acknowledge; default UTF-8 support if the client asked for it. An empty, non-nil list: none
	Mirror      string    // name of the mirror partner, ENVCHANGE 13
	Routing     *Routing  // send the client on, ENVCHANGE 20
}

// LoginMessage says that the database or the language has changed: INFO 5701 or 5703.
func databaseMessage(name string) *ServerError {
	return &ServerError{Number: 5701, State: 2, Text: "Changed database context to '" + name + "'.", Line: 1}
}

func languageMessage(name string) *ServerError {
	return &ServerError{Number: 5703, State: 1, Text: "Changed language setting to " + name + ".", Line: 1}
}
