// Package node is one node of the community: it puts the parts together that the other packages are.
//
// A program makes a Config, calls New, and runs the node; Run does both around a function that uses the node. The zero Config is what `symbio up` does without a configuration file.
// The order of life: name and workspace, identity, listener, community, agents, capabilities, network and discovery, control
// socket; the end is the reverse, listeners first, identity last. Nothing here decides anything that a part could decide for
// itself: the policies of a node are the packages below this one (approvals, control, exec, inbound, mcpservers, models, rules,
// state, steering), and each can be used without the node.
package node
