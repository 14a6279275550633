// Package state is the directory in which a user's nodes keep what lasts: keys
// and certificates, the cluster of this machine, the record of decisions, what
// people trust and allow, and the control sockets.
//
// The one idea: Dir is what all nodes of the user share, Node the part of one.
// Only the node that has claimed its name writes its part; what commands must
// not touch lies apart from what they may see.
package state
