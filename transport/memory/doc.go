// Package memory is a LAN without a network: a community.Network for tests and demonstrations, whose
// links are as slow, lossy or broken as one likes.
//
// The one idea: nodes are plugged into a Hub and behave like nodes of a real network that keep a
// stream open to each other. Each watches each other one: a snapshot of its catalog, changes, a
// heartbeat each second. Three missed heartbeats mean that it is lost; a broken stream means it at
// once; a goodbye means that it left.
//
// Guarantees. All that one node says to another arrives in order; what a lossy link drops of it
// arrives later, as with TCP, except heartbeats, which are not repeated. A call is carried at most
// once; one that is lost is ErrUnavailable when its deadline has passed or the peer is lost. Payloads
// are copied. All time is that of package time, so it runs in a testing/synctest bubble. What is
// delayed and lost is drawn, for each pair of nodes, from Config.Seed: the same sequence of calls
// meets the same fate.
//
// What it does not do: authenticate. The Hub knows who is who, and no message can say otherwise.
package memory
