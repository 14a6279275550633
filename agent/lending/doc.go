// Package lending lends agents of one node to agents of others: it is both sides of the capability
// agents.spawn.
//
// The one idea: a call of the capability is a lease. The agent that it spawns lives until the call
// ends, its time is over, or the calling node is gone, and what it has spawned ends with it. To its
// parent it is one more sub-agent.
//
// Everything that another node says is a claim: it can only restrict. A Lender believes no limits
// and no permissions beyond what its own node gives; a Borrower believes no spending beyond the
// share that it gave. Both are safe for concurrent use.
package lending
