// Package actor runs actors on this machine: things with a name, a queue and a Behavior that handles
// one message at a time, supervised so that a panic in one costs its caller an error and nobody else
// anything. It is the only importer of Proto.Actor, which schedules, supervises and routes; this
// package adds what Proto.Actor lacks: requests that honour a context and fail fast, a bounded queue
// that refuses instead of blocking or dropping, and an orderly end.
//
// The one idea: what Proto.Actor carries is our own call, the asker's context and message and a channel
// for the answer. There is no reply address and no registry entry for a request, and whoever meets a
// call that cannot be served (a full mailbox, a stopped actor, the dead letters) answers it on the spot.
//
// # Guarantees
//
// Outcome. Every Ask ends in exactly one of: what Receive returned, ErrBusy, ErrStopped, ErrNoActor, a
// *PanicError, or the cause of the asker's context. A Post that was accepted ends in the same, once.
//
// Order. Messages that one goroutine sends to one actor are handled in the order they were sent, across
// restarts too; nothing is said about messages of different senders.
//
// Concurrency. A Behavior runs on one goroutine at a time and needs no locks for its own state. All
// methods of System and Ref may be called by any number of goroutines. Receive may block; it then holds
// up its own actor only.
//
// Failure. A Behavior that panics is thrown away, and after a back-off a new one takes over the same
// mailbox. An actor that fails more than Config.Restarts times within Config.Within is stopped.
//
// An actor that waits for its own answer, or two that wait for each other's, wait until the context
// ends: give such a context a deadline.
//
// # What it does not do
//
// It knows no other machine, persists nothing, and has no hierarchy: every actor is a child of the
// System. Goroutines that a Behavior starts are its own to wait for and to recover.
//
// # What it takes from Proto.Actor, and what not
//
// Mailboxes, the scheduling of messages, supervision, the count of failures, restarts and the life of an actor are
// Proto.Actor's. These parts are ours, for reasons that were measured:
//
//   - Ask: a request of Proto.Actor knows no context, and waits for its timeout when the actor stops or panics
//     meanwhile; it also takes 10 objects and twice as long.
//   - The gate of a mailbox: a full one of Proto.Actor's makes its sender spin, or drops the oldest message silently
//     and then spins for ever.
//   - Back-off: the strategy of Proto.Actor's never gives up and its pauses grow by a constant.
//   - The dispatcher and actor/term: the fresh stack of a goroutine for each message, and three contexts of package
//     context for each call, were a third of what a call between nodes cost. Shutdown can wait for our goroutines.
package actor
