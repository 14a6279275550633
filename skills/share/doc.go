// Package share carries skills from one node to another.
//
// The one idea: a skill is what its manifest says, and its hash is the manifest's: the sorted paths of its
// files, whether each can be executed, its size and its SHA-256. A node that knows the hash can get the bytes from
// any other node.
//
// Guarantees: of what another node sends nothing is stored before all of it has been checked; what is too
// large, is not what the manifest says, or has a path that means something else on some system is refused
// with a typed error; a node that answers slowly or in crumbs is given up. What is stored lies by itself under
// its hash, whole or not at all, and is not written to again. A node hands out the skills that it was told to,
// at a bounded cost in memory and time.
//
// It trusts nothing: a stored skill is not in any catalog until a person trusts its hash (package trust), and
// even then what it asks for is a proposal. Hidden files are not shared. It knows no network: both sides are
// handed a way to call.
package share
