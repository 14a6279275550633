package grpcpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"symbio/community"
	"symbio/internal/actor/backoff"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/introduced"
)

// local is the state that all parts of a Network share: this node's identity and the tables. The
// parts embed it. The fields are set by New and not changed afterwards; the tables lock themselves.
type local struct {
	cfg        Config
	run        *identity.Run
	listener   *limitListener
	links      *links
	introduced *introduced.Source
	records    *records
	refusals   *refusals
	life       *lifetime
}

// lifetime has the two ends of a Network. search ends when Run is asked to: no node is dialed any more. conns ends
// when the goodbyes are said, and with it every connection.
type lifetime struct {
	search, conns       context.Context
	endSearch, endConns context.CancelFunc
}

func newLifetime() *lifetime {
	var t lifetime
	t.search, t.endSearch = context.WithCancel(context.Background())
	t.conns, t.endConns = context.WithCancel(context.Background())
	return &t
}

// self returns the id of this node.
func (n *local) self() community.NodeID { return n.links.self }

// refuseConnection counts and reports a refused incoming connection. It is safe for concurrent use.
func (n *local) refuseConnection(from net.Addr, why error) {
	var tooMany tooManyConns
	errors.As(why, &tooMany)
	n.refusals.add(reasonOf(why), tooMany.node)
	// Without the port: each try has one of its own.
	n.records.reportUnproven(hostOf(from), fmt.Sprintf("it connected here and was refused: %v", why))
}

// backOff returns the pause after so many failures in a row: first, doubled with each further failure up to max,
// and up to a fifth less by chance so that nodes do not dial in step.
func backOff(first, max time.Duration, failures int) time.Duration {
	return jitter(backoff.Delay(failures, first, max))
}

// jitter returns d less up to a fifth, so that nodes that lost each other at the same moment do not
// dial at the same moment.
func jitter(d time.Duration) time.Duration { return backoff.Jitter(d, 5) }
