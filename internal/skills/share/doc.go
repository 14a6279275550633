// Package share carries skills from one node to another.
//
// A skill is identified by the hash of its manifest: the sorted paths of its files, whether each
// can be executed, its size and its SHA-256. A node that knows the hash can get the bytes from any
// other node.
//
// The receiving side checks everything before it stores anything. It refuses skills that are too
// large, that differ from their manifest, or that have a path which means something else on some
// system; each refusal has a typed error. It gives up on a node that answers slowly or in tiny
// pieces. A stored skill lies under its hash, complete or not at all, and is never written to
// again. The sending side shares only the configured skills, at a bounded cost in memory and time.
//
// A stored skill is in no catalog until a person trusts its hash (package trust), and even then the
// rules that it asks for are a proposal. Hidden files are not shared. The package knows no network:
// both sides get a function to call.
package share
