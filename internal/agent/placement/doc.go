// Package placement chooses the node on which a task runs: this one, or another one that lends agents.
//
// A Chooser knows how many places this node has for sub-agents, asks the nodes that lend agents for
// their load when it needs to know, and gives a task the place that a strategy says. Tasks for which
// there is no place wait in one bounded queue, in the order in which they came; a task whose labels
// fit only busy nodes does not hold up the others.
//
// The package starts nothing on a node itself: its user does, and says when the place is free again.
// Reports of other nodes about themselves, labels and load, are a hint for the choice and nothing more.
package placement
