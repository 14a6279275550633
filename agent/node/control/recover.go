package control

import (
	"context"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// recoverUnary turns a panic of a control call into an error of that call.
// Without it, gRPC would let the panic end the node with all its agents.
func recoverUnary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicError(log, info.FullMethod, p)
			}
		}()
		return next(ctx, req)
	}
}

// recoverStream is recoverUnary for streaming calls. It covers only the goroutine of the handler: a
// panic in a goroutine that the handler starts still ends the node.
func recoverStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicError(log, info.FullMethod, p)
			}
		}()
		return next(srv, stream)
	}
}

// panicError logs a panic with its stack and returns a status with the code Internal for the
// caller. The caller does not get the stack or the value of the panic.
func panicError(log *slog.Logger, method string, p any) error {
	log.Error("control call panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the call failed because of a bug in the node; see the node's log")
}
