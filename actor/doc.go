// Package actor runs actors on this machine. An actor has a name, a bounded queue and a Behavior
// that handles one message at a time. Actors are supervised: a panic in one costs its caller an
// error and affects no other actor.
//
// Proto.Actor schedules, supervises and routes; no other package imports it. This package adds what
// Proto.Actor lacks: requests that honor a context and fail fast, a bounded queue that refuses
// messages instead of blocking or dropping them, and an orderly shutdown.
//
// A message travels as a call: the sender's context, the message, and a channel for the answer. A
// request has no reply address and no registry entry. Whatever finds that a call cannot be served
// (a full mailbox, a stopped actor, the dead letters) answers it at once.
//
// # Guarantees
//
// Outcome. Every Ask ends in exactly one of: what Receive returned, ErrBusy, ErrStopped,
// ErrNoActor, a *PanicError, or the cause of the sender's context. A Post that was accepted ends in
// the same, once.
//
// Order. Messages that one goroutine sends to one actor are handled in the order they were sent,
// also across restarts. There is no order between senders.
//
// Concurrency. A Behavior runs on one goroutine at a time and needs no locks for its own state. All
// methods of System and Ref may be called from any number of goroutines. Receive may block; it then
// delays its own actor only.
//
// Failure. A Behavior that panics is discarded. After a back-off a new one takes over the same
// mailbox. An actor that fails more than Config.Restarts times within Config.Within is stopped.
//
// An actor that waits for its own answer, or two actors that wait for each other's, wait until
// their context ends: give such a context a deadline.
//
// # Not done here
//
// This package knows no other machine, persists nothing, and has no hierarchy: every actor is a
// child of the System. A Behavior must wait for and recover the goroutines that it starts.
//
// # What is used of Proto.Actor, and what is not
//
// Proto.Actor has the mailboxes, the scheduling of messages, supervision, the count of failures,
// restarts and the life cycle of actors. These parts are written here, for measured reasons:
//
//   - Ask: a request of Proto.Actor knows no context, and waits for its timeout when the actor stops or panics
//     meanwhile; it also takes 10 objects and twice as long.
//   - The gate of a mailbox: a full one of Proto.Actor's makes its sender spin, or drops the oldest message silently
//     and then spins for ever.
//   - Back-off: the strategy of Proto.Actor's never gives up and its pauses grow by a constant.
//   - The dispatcher and internal/actor/term: the fresh stack of a goroutine for each message, and three contexts of package
//     context for each call, were a third of the cost of a call between nodes. Shutdown can wait for our goroutines.
package actor
