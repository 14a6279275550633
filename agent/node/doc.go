// Package node is one node of the community. It assembles the packages that the
// other directories provide into a running program.
//
// A program makes a Config, calls New, and runs the node; the function Run does
// both around a function that uses the node. The zero Config is what `symbio up`
// does without a configuration file.
//
// A node starts in this order: name and workspace, identity, listener,
// community, agents, capabilities, network and discovery, control socket. It
// stops in the reverse order.
//
// The policies of a node are the packages below this one: approvals, control,
// exec, fleet, inbound, mcpservers, models, rules, state and steering. Each can be used
// and tested without a node; this package only connects them.
package node
