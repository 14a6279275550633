package grpcpeer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/discovery"
	"symbio/internal/security/visible"
	pb "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/transport/grpcpeer/internal/calls"
)

// joinTimeout is how long a join may take: a handshake, one call, and the pause before a refusal.
const joinTimeout = 10 * time.Second

// Enrol asks the node at addr to admit the machine with key k to the cluster of the token, and
// returns the certificate and the cluster's root. The node must hold the cluster's authority. name
// is the new node's display name. dial opens the connection; nil means TCP, and addr
// is then no URL.
//
// The other end must first prove that it belongs to the token's cluster; only then is the token's
// secret used. Errors wrap the errors of package identity (ErrTokenUsed, ErrTokenExpired, ErrSkew and so
// on) with a text for the user. Enrol blocks for at most joinTimeout.
func Enrol(ctx context.Context, addr string, token identity.Token, k *identity.Key, name string,
	dial func(ctx context.Context, addr string) (net.Conn, error),
) (*identity.Admission, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	raw, err := dial(ctx, addr)
	if err != nil && discovery.IsURL(addr) {
		return nil, fmt.Errorf("connect to %s: %w", addr, err) // it says what to do itself
	} else if err != nil {
		return nil, fmt.Errorf("connect to %s: %w; start the node there (symbio up), check the address, and let firewalls pass TCP to it", addr, err)
	}
	defer raw.Close()
	conn := tls.Client(raw, token.ClientTLS())
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("ask %s: %w", addr, token.Explain(err))
	}
	state := conn.ConnectionState()
	request, err := token.Request(state, k, name)
	if err != nil {
		return nil, err
	}
	l, err := newLink(conn, establishedCredentials{state}, "join", Limits{Header: 8 << 10, Message: maxJoinMessage})
	if err != nil {
		return nil, err
	}
	defer l.close()
	reply, err := pb.NewJoinClient(l.wire.grpc).Join(ctx, request, grpc.MaxCallRecvMsgSize(maxCatalog))
	if err != nil {
		return nil, fmt.Errorf("%s refused: %w", addr, joinError(err))
	}
	return token.Accept(reply, k)
}

// joinTable maps the errors of joining, renewing and entrusting to gRPC codes and to reasons on the
// wire. Both directions use it: joinStatus at the authority, joinError at the node that asked. The
// reasons are part of the protocol.
var joinTable = []struct {
	err    error
	code   codes.Code
	reason string
}{
	{identity.ErrTokenUsed, codes.PermissionDenied, "TOKEN_USED"},
	{identity.ErrTokenExpired, codes.PermissionDenied, "TOKEN_EXPIRED"},
	{identity.ErrTokenUnknown, codes.PermissionDenied, "TOKEN_UNKNOWN"},
	{identity.ErrNameTaken, codes.AlreadyExists, "NAME_TAKEN"},
	{identity.ErrSkew, codes.FailedPrecondition, "CLOCK_SKEW"},
	{identity.ErrRemoved, codes.PermissionDenied, "REMOVED"},
	{identity.ErrExpired, codes.PermissionDenied, "EXPIRED"},
	{identity.ErrNotYetValid, codes.FailedPrecondition, "NOT_YET_VALID"},
	{identity.ErrBadRequest, codes.InvalidArgument, "BAD_REQUEST"},
	{errJoinRate, codes.ResourceExhausted, "TOO_OFTEN"},
	{identity.ErrNoAuthority, codes.FailedPrecondition, "NO_AUTHORITY"},
	{identity.ErrLocked, codes.FailedPrecondition, "AUTHORITY_LOCKED"},
	{identity.ErrNotEntrusted, codes.PermissionDenied, "NOT_ENTRUSTED"},
	{identity.ErrClusterExists, codes.FailedPrecondition, "CLUSTER_EXISTS"},
	{errCannotHold, codes.FailedPrecondition, "TAKES_NONE"},
}

// joinStatus returns the gRPC status for err. Errors that are not in joinTable concern the
// authority's machine only; the other side gets a constant text for them, because it may be anyone.
func joinStatus(err error) error {
	for _, r := range joinTable {
		if !errors.Is(err, r.err) {
			continue
		}
		s, detailed := status.New(r.code, err.Error()).WithDetails(&errdetails.ErrorInfo{Reason: r.reason, Domain: calls.Domain})
		if detailed != nil {
			return status.Error(r.code, err.Error())
		}
		return s.Err()
	}
	// A failure at the authority itself is in its log; a stranger learns nothing of it.
	return status.Error(codes.Internal, "the authority could not answer; its log says why")
}

// joinError returns the error for a status of joinStatus. errors.Is finds the error of joinTable by
// its reason. The message is the other node's text, cleaned for terminals, since that node is not
// trusted yet.
func joinError(err error) error {
	s, _ := status.FromError(err)
	for _, d := range s.Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != calls.Domain {
			continue
		}
		for _, r := range joinTable {
			if r.reason == info.GetReason() {
				return &authorityError{r.err, visible.Line(s.Message(), 4*maxName)}
			}
		}
	}
	return errors.New(visible.Line(s.Message(), 4*maxName))
}

// authorityError is the refusal of a cluster authority: err for errors.Is, words as the authority wrote them.
type authorityError struct {
	err   error
	words string
}

func (t *authorityError) Error() string { return t.words }
func (t *authorityError) Unwrap() error { return t.err }
