package control

import (
	"context"
	"sync"

	"google.golang.org/grpc/stats"

	symbiov1 "symbio/proto/symbio/v1"
)

// Users counts the commands that have the node work for them: those connections over which a
// conversation or a task has come, until they are closed. Its zero value counts none. Its methods may
// be called concurrently.
type Users struct {
	mu      sync.Mutex
	count   int
	changed chan struct{} // closed by each decrease; nil = nobody waits
}

// Alone returns nil if one command at most uses the node; else a channel that is closed when one has
// gone.
func (u *Users) Alone() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.count <= 1 {
		return nil
	}
	if u.changed == nil {
		u.changed = make(chan struct{})
	}
	return u.changed
}

// add changes the count. A nil Users counts nothing.
func (u *Users) add(n int) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count += n
	if n < 0 && u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
}

// connections tells Users what comes over the connections of a gRPC server.
type connections struct{ users *Users }

// connection is what is known of one connection. gRPC reports its calls and its end from several
// goroutines, in any order.
type connection struct {
	mu            sync.Mutex
	worked, ended bool
}

type connectionKey struct{}

// TagConn implements stats.Handler.
func (connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// HandleConn implements stats.Handler.
func (c connections) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, ends := s.(*stats.ConnEnd); !ends {
		return
	}
	one := ctx.Value(connectionKey{}).(*connection)
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.ended = true; one.worked {
		c.users.add(-1)
	}
}

// TagRPC implements stats.Handler.
func (c connections) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if info.FullMethodName != symbiov1.Control_Converse_FullMethodName && info.FullMethodName != symbiov1.Control_RunTask_FullMethodName {
		return ctx
	}
	one := ctx.Value(connectionKey{}).(*connection)
	one.mu.Lock()
	defer one.mu.Unlock()
	if !one.worked && !one.ended {
		one.worked = true
		c.users.add(1)
	}
	return ctx
}

// HandleRPC implements stats.Handler.
func (connections) HandleRPC(context.Context, stats.RPCStats) {}
