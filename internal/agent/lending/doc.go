// Package lending lends agents of one node to agents of other nodes. It has both sides of the
// capability agents.spawn: Lender and Borrower.
//
// A call of the capability is a lease. The spawned agent lives until the call ends, its time is
// over, or the calling node is gone; its own sub-agents end with it. To its parent it is one more
// sub-agent (design note 0026).
//
// A message of another node can only restrict. A Lender accepts no limits and no permissions beyond
// the rules of its own node; a Borrower accepts no spending beyond the share that it gave. Both are
// safe for concurrent use.
package lending
