// Package node wires one node together: it is the one place where the parts meet.
//
// The order of life: state directory and lock, identity, listener, community, agents, capabilities,
// network and discovery, control socket; the end is the reverse, listeners first, identity last.
// Nothing here decides anything that a part could decide for itself.
package node
