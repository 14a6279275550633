// Package memory is a community.Network inside one process, for tests and demonstrations: a
// simulated LAN whose delay, jitter, loss, partitions and crashes a test controls.
//
// A Hub is the LAN; Hub.Node returns the Network of one node. Nodes behave as on a real network
// (transport/grpcpeer): each watches every other one over a stream with a snapshot of the catalog
// and its changes. Silence means that the node is lost, as three missing heartbeats do there, a
// broken stream means it at once, and a goodbye means that the node left.
//
// # Guarantees
//
// What one node sends to another arrives in order. A lost message of a stream arrives later, as with
// TCP. A call is carried at most once; a lost one ends with ErrUnavailable at its deadline or when
// the node is lost. Payloads are copied.
//
// All time is that of package time, so tests run in a testing/synctest bubble. Delays and losses
// come from Config.Seed, separately for each direction, so a test with the same calls has the same
// outcome.
//
// The Hub knows which node is which; there is no authentication.
package memory
