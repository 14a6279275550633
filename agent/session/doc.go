// Package session keeps conversations over restarts. A session is the record of one conversation:
// what was said, what the model answered, which calls ran, what they cost. A Journal groups the
// writes of all sessions of a node into commits of a Store.
//
// The one idea: an entry is durable before its effect. A task is recorded before the model is asked,
// a call before it runs, its result before the model reads it, an answer before a person reads that
// it is done. After a crash the entries say exactly what is known: a call without a result may have
// run, and a call without its start did not.
//
// Guarantees: Commit returns when the entries are durable. The entries of one session keep their
// order. A failed write stops the task, because nothing may happen without a record: until the next
// task begins, the session accepts no entries.
//
// The package does not resume anything: agent/conversation builds a conversation from entries.
// Package sqlite has the stores: in a file, for nodes, and in memory.
package session
