package sqlserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/mssqlcdc/rpconnect-mssqlcdc/input/sqlserver/rowfilter"
)

// dialer opens the sockets of a client. It is a HostDialer of the driver, so that names come to it unresolved: the
// driver's own resolving does not end with the context. That the driver derives no service name then matters to Kerberos
// only, which is not built in.
type dialer struct {
	given    Dialer // nil for the network
	network  net.Dialer
	parallel bool // dial all addresses of a name at once, for listeners of availability groups
	sockets  *socketSet
	filter   *rowfilter.Security // nil for plain sockets, whose TLS is the driver's
}

func newDialer(given Dialer, params msdsn.Config, sockets *socketSet) *dialer {
	return &dialer{given: given, network: net.Dialer{KeepAlive: params.KeepAlive}, parallel: params.MultiSubnetFailover, sockets: sockets}
}

// HostName implements the driver's HostDialer; only that it is there matters.
func (d *dialer) HostName() string { return "" }

// DialContext dials and keeps the socket. SQL Server Browser is asked over UDP: that socket is the driver's alone.
func (d *dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	raw, err := d.dial(ctx, network, addr)
	if err != nil || network == "udp" {
		return raw, err
	}
	s := d.sockets.add(raw)
	var filter *rowfilter.Conn
	if d.filter != nil {
		host, _, err := net.SplitHostPort(addr)
		if err == nil {
			filter, err = rowfilter.New(s, host, *d.filter)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if holder, ok := ctx.Value(dialledKey{}).(*dialled); ok {
		holder.set(s, filter)
	}
	if filter == nil {
		return s, nil
	}
	return filter, nil
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.given != nil {
		return d.given.DialContext(ctx, network, addr)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || network == "udp" || !d.parallel || net.ParseIP(host) != nil {
		return d.network.DialContext(ctx, network, addr)
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", host, err)
	}
	return d.race(ctx, network, addresses, port)
}

// race dials all addresses and keeps the first connection. It returns when every attempt has ended.
func (d *dialer) race(ctx context.Context, network string, addresses []string, port string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu     sync.Mutex
		winner net.Conn
		failed []error
		group  sync.WaitGroup
	)
	for _, address := range addresses {
		group.Go(func() {
			conn, err := d.network.DialContext(ctx, network, net.JoinHostPort(address, port))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && winner == nil:
				failed = append(failed, err)
			case err == nil && winner == nil:
				winner = conn
				cancel()
			case err == nil:
				_ = conn.Close() // one too many, nobody used it
			}
		})
	}
	group.Wait()
	if winner == nil {
		return nil, errors.Join(failed...)
	}
	return winner, nil
}
