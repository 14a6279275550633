// Package node is one node of the community. It assembles the packages that the
// other directories provide into a running program.
//
// A program makes a Config, calls New, and runs the node; the function Run does
// both around a function that uses the node. The zero Config is what `symbio up`
// does without a configuration file.
//
// A node starts in this order: its name, telemetry, sessions and rules (New); then the parts that depend on its identity
// (openParts): its connections to other nodes, its community with what guards it, its skills, what its agents are made with,
// their tasks, and what shows the node to people. It stops in the order of parts.close, and makes new parts when it joins or
// leaves a cluster.
//
// The subjects of a node are the packages below this one. Each can be used and tested without a node; this package
// only connects them:
//
//   - peers, inbound, approvals, artifacts, fleet and steering: other nodes
//   - models, mcpservers, exec, tools, skillset and places: what agents have, and where they work
//   - tasks and sessions: what agents do, and what becomes of it after a restart
//   - control, dashboard, telemetry and nodelog: what shows the node
//   - config, rules, state, agentinfo, clusterinfo, doctor and proposal: what is configured and kept, with or without a running node
package node
