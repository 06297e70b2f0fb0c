package rowfilter

import (
	"io"
	"net"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/fetch"
)

// Over is an open connection over a stream of bytes.
func Over(socket net.Conn, stream io.ReadWriter) *Conn { return &Conn{Conn: socket, stream: stream} }

// Reading is one armed statement.
type Reading struct{ r *reading }

// Arm filters the answer to the next request.
func (c *Conn) Arm(statement fetch.Statement) *Reading {
	r := newReading(statement)
	c.arm(r)
	return &Reading{r}
}

// Take gives the batches that are there and, when the answer has ended, the rest.
func (r *Reading) Take() (batches []fetch.Batch) {
	for {
		select {
		case b := <-r.r.batches:
			batches = append(batches, b)
			continue
		default:
		}
		break
	}
	if r.r.complete.Load() && r.r.failure() == nil {
		if b, ok := r.r.rest(); ok {
			batches = append(batches, b)
		}
	}
	return batches
}

// Batches is where records come out.
func (r *Reading) Batches() <-chan fetch.Batch { return r.r.batches }

// Discard stops taking rows.
func (r *Reading) Discard() { r.r.discard() }

// Complete tells whether the answer ended in good order, Refused whether the driver has its rows.
func (r *Reading) Complete() bool    { return r.r.complete.Load() }
func (r *Reading) Refused() *Refusal { return r.r.refusal() }

// Disarm ends the reading.
func (c *Conn) Disarm(r *Reading) bool { return c.disarm(r.r) }
