// Package gossip keeps a node's view of all nodes of its authority without a connection to each of them.
//
// The engine is hashicorp/memberlist: SWIM with the extensions of Lifeguard. Each node probes one other node a second, and
// passes news on to three. Its verdicts are hints here:
//
//   - A node says where it is, and which its newest record is, by a mark that it has signed (Mark, at most 512 bytes). A
//     mark that the node has not signed, that is older than a known one, or that another address sent along, is ignored.
//   - A node is reported (Config.Seen) when its record was verified as well: its certificate, its signature, and the list of
//     removed nodes. So a node without a certificate is never a member, whoever speaks for it.
//   - A node that gossip calls dead is reported (Config.Gone), and the owner of the Group dials it before it believes that.
//
// Records travel by streams: a node that knows of newer records asks the owner of one of them for all that it misses. Their
// owners have signed them, so everybody can pass them on.
//
// Packets are encrypted with a key that all nodes have from each other by streams, which are mutual TLS (keys.go).
//
// A Group takes part in gossip only after another node has opened a stream to it: that proves that it can be reached, and at
// which address. A node that can only dial out is therefore never probed, nor called dead; it has connections instead.
package gossip
