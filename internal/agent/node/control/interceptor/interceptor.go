// Package interceptor turns the errors of control calls into gRPC statuses, and a panic in a call into an
// error of that call.
package interceptor

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/node/dashboard"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/agent/placement"
	"symbio/skills"
)

// statusOf maps errors to gRPC codes; the first match wins. The command line
// maps the codes to exit codes, so the table is a contract with scripts.
var statusOf = []struct {
	err  error
	code codes.Code
}{
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
	{community.ErrInvalid, codes.InvalidArgument},
	{community.ErrNotFound, codes.NotFound},
	{skills.ErrNotFound, codes.NotFound},
	{placement.ErrNone, codes.NotFound},
	{session.ErrNotFound, codes.NotFound},
	{session.ErrInUse, codes.ResourceExhausted},
	{agent.ErrNoSessions, codes.FailedPrecondition},
	{community.ErrRemoteMember, codes.FailedPrecondition},
	{community.ErrLocalMember, codes.FailedPrecondition},
	{community.ErrNotAccepted, codes.NotFound},
	{community.ErrNotProvided, codes.NotFound},
	{community.ErrBusy, codes.ResourceExhausted},
	{conversation.ErrBusy, codes.ResourceExhausted},
	{content.ErrPinned, codes.FailedPrecondition},
	{fleet.ErrSlow, codes.ResourceExhausted},
	{dashboard.ErrListen, codes.FailedPrecondition},
	{community.ErrUnavailable, codes.Unavailable},
	{community.ErrStopped, codes.Unavailable},
	{community.ErrDenied, codes.PermissionDenied},
}

// toStatus returns err as a gRPC status with its code of statusOf. It returns
// nil for nil, and a status as it is.
func toStatus(err error) error {
	for _, s := range statusOf {
		if errors.Is(err, s.err) {
			return status.Error(s.code, err.Error())
		}
	}
	return status.Convert(err).Err()
}

// Unary turns the error of a control call into a status, and a panic into an error of that call.
// Without it, gRPC would let the panic end the node with all its agents.
func Unary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicError(log, info.FullMethod, p)
			}
		}()
		reply, err := next(ctx, req)
		return reply, toStatus(err)
	}
}

// Stream is Unary for streaming calls. It covers only the goroutine of the handler: a
// panic in a goroutine that the handler starts still ends the node.
func Stream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicError(log, info.FullMethod, p)
			}
		}()
		return toStatus(next(srv, stream))
	}
}

// panicError logs a panic with its stack and returns a status with the code Internal for the
// caller. The caller does not get the stack or the value of the panic.
func panicError(log *slog.Logger, method string, p any) error {
	log.Error("control call panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the call failed because of a bug in the node; see the node's log")
}
