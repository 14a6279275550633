// Package topcmd shows the whole community at a terminal, live: `symbio top`.
//
// A node sends all nodes and agents and then what changes (Control.WatchFleet). fleet.Overview keeps the latest of each;
// model draws it with bubbletea on the alternate screen, and sends what the person decides to the node: answers,
// steering, interrupts. Calls and streams run as commands of bubbletea, so one goroutine owns the model. Without a
// terminal the same is printed once.
package topcmd
