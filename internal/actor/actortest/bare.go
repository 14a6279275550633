// Package actortest is Proto.Actor as it comes, for benchmarks to measure against: its speed
// without anything of ours is the floor of our speed.
package actortest

import (
	"log/slog"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"
)

// Bare returns a silent system of Proto.Actor, with none of ours around it.
func Bare() *proto.ActorSystem {
	return proto.NewActorSystem(proto.WithLoggerFactory(func(*proto.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}))
}

// ping and pong are what BareRequest sends there and back.
type (
	ping struct{}
	pong struct{}
)

// BareRequest returns a request to an actor of bare Proto.Actor that answers at once, by
// RequestFuture, and what ends it. Requests may be made by many goroutines.
func BareRequest() (request func() error, end func()) {
	system := Bare()
	answer := &pong{}
	pid := system.Root.Spawn(proto.PropsFromFunc(func(c proto.Context) {
		if _, ok := c.Message().(*ping); ok {
			c.Respond(answer)
		}
	}))
	return func() error {
		_, err := system.Root.RequestFuture(pid, &ping{}, 5*time.Second).Result()
		return err
	}, system.Shutdown
}

// BareSend returns a send to an actor of bare Proto.Actor that calls receive for each message, and
// what ends it.
func BareSend(receive func()) (send func(), end func()) {
	system := Bare()
	message := &ping{}
	pid := system.Root.Spawn(proto.PropsFromFunc(func(c proto.Context) {
		if _, ok := c.Message().(*ping); ok {
			receive()
		}
	}))
	return func() { system.Root.Send(pid, message) }, system.Shutdown
}
