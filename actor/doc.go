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
// *PanicError, or the cause of the asker's context. A Tell that was accepted and then met the end of its
// actor is counted and logged as a dead letter.
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
package actor
